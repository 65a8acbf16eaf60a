//! The field `{{now}}` in virtual time: a fixed start, and the time at which a request is sent.

use prony_base::units::{ConnId, Nanos, Span};
use prony_plan::plan::{Burst, CallSpec, Control, Gate, Plan, SessionKind, Sessions, Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_plan::script::VIRTUAL_EPOCH;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Connections, Server, ServerAction, ServerModel};
use prony_sim::world::Setup;

use crate::plans::{assert_invariants, get, ms, open};

const LATENCY: Span = Span::from_micros(150);

/// Replies after 7 ms, and keeps each path with the time at which its request arrived.
#[derive(Default)]
struct Times(Vec<(String, Nanos)>);

impl ServerModel for Times {
    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let head = std::str::from_utf8(head).expect("text");
        let path = head.split(' ').nth(1).expect("a path").to_owned();
        self.0.push((path, conns.now()));
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
        conns.at(conns.now() + ms(7), id, ServerAction::Send(reply));
    }
}

/// Sessions of these paths, 10 a second, with pauses of 40 ms.
fn sessions(paths: &[&str], count: u64) -> Plan {
    let calls = paths.iter().map(|path| CallSpec { template: true, ..get(path) });
    let bursts = (0..paths.len() as u32).map(|call| Burst::of(vec![call], Think::Fixed(ms(40))));
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts: bursts.collect() }];
    Plan {
        calls: calls.collect::<Vec<_>>().into(),
        sessions: Some(Sessions::plain(kinds)),
        stop: Stop { requests: None, sessions: Some(count), duration: None },
        ..open(10.0, Arrivals::Fixed, 0)
    }
}

fn run(plan: &Plan, shares: u32) -> Vec<(String, Nanos)> {
    plan.check().expect("a valid plan");
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(LATENCY), 5) };
    let mut server = Server::new(Times::default());
    let outcome = load(plan, shares, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "times");
    server.model().0.clone()
}

/// Each request has the time at which it was sent, to the nanosecond, and the same in every run.
#[test]
fn requests_have_the_time_at_which_they_are_sent() {
    let plan = sessions(&["/{{now unix-ns}}", "/{{now -5s unix-us}}/{{now '%H.%M.%S'}}"], 30);
    let first = run(&plan, 1);
    assert_eq!(first.len(), 60);
    for shares in [1, 2, 3] {
        let mut seen = run(&plan, shares);
        seen.sort_by_key(|(_, at)| *at);
        assert_eq!(seen, first, "{shares} shares");
    }
    for (path, arrived) in first {
        let sent = VIRTUAL_EPOCH + arrived.0 - LATENCY.0;
        let text = path[1..].to_owned();
        match text.split_once('/') {
            None => assert_eq!(text, sent.to_string()),
            Some((us, clock)) => {
                assert_eq!(us, (sent / 1_000 - 5_000_000).to_string());
                let seconds = (sent - VIRTUAL_EPOCH) / 1_000_000_000;
                assert_eq!(clock, format!("00.00.{seconds:02}"));
            }
        }
    }
}

/// A variable keeps the start of its session; a condition is decided at the time of its step.
#[test]
fn variables_and_conditions_have_their_own_times() {
    let mut plan = sessions(&["/{{start}}", "/{{start}}"], 20);
    plan.data.variables = vec![("start".into(), "{{now unix-ms}}".into())];
    let sessions = plan.sessions.as_mut().expect("sessions");
    let mut kinds = sessions.kinds.to_vec();
    // Only sessions that come to their second step within the first second make it.
    let end = (VIRTUAL_EPOCH / 1_000_000 + 1_000).to_string();
    let gate = Gate { when: Some(format!("{{{{now unix-ms}}}} < {end}")), unless: None };
    kinds[0].bursts[1].control = Some(Box::new(Control { gate, ..Control::default() }));
    sessions.kinds = kinds.into();
    let seen = run(&plan, 1);
    // Session k starts after 100 k ms, and its second step about 48 ms later.
    assert_eq!(seen.len(), 20 + 10);
    let start = |k: u64| format!("/{}", VIRTUAL_EPOCH / 1_000_000 + 100 * k);
    for k in 0..20 {
        let count = seen.iter().filter(|(path, _)| *path == start(k)).count();
        assert_eq!(count, if k < 10 { 2 } else { 1 }, "session {k}");
    }
}
