//! Sessions that decide which steps they make, against servers with known statuses and values.

use std::collections::BTreeMap;

use prony_base::fault::Fault;
use prony_base::units::{ConnId, Span};
use prony_plan::plan::{
    Alternative, AtLimit, Burst, CallSpec, Control, Cookies, Expect, Gate, OnFailure, Plan, Retry,
    RetryOn, SessionKind, Sessions, Switch, Think, Until,
};
use prony_plan::schedule::Arrivals;
use prony_plan::script::{Extract, Place};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Connections, Server, ServerModel};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::plans::{assert_invariants, get, ms, open};

/// The one-way latency; the server takes no time.
const WAY: Span = Span::from_micros(500);
/// A session connects, then each request takes a round trip.
const ROUND_TRIP: Span = Span::from_millis(1);

/// Replies to `/status/N` with this status, and to `/poll/SESSION/N` with `ready` from the N-th
/// request of the session on, `busy` before. Counts the requests of each path.
#[derive(Clone, Default)]
struct Scripted {
    requests: BTreeMap<String, u64>,
    /// The first N requests of `/flaky/SESSION/N` get the status 503, all others 200.
    tries: BTreeMap<String, u64>,
}

impl ServerModel for Scripted {
    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let head = std::str::from_utf8(head).expect("text");
        let path = head.split(' ').nth(1).expect("a path");
        *self.requests.entry(path.to_owned()).or_default() += 1;
        let parts: Vec<&str> = path.split('/').collect();
        let (status, state) = match parts[1..] {
            ["status", status] => (status.parse().expect("a status"), "ready"),
            ["poll", _, n] => {
                let seen = self.requests[path];
                (200, if seen >= n.parse().expect("a number") { "ready" } else { "busy" })
            }
            ["flaky", _, n] => {
                let tries = self.tries.entry(path.to_owned()).or_default();
                *tries += 1;
                (if *tries > n.parse().expect("a number") { 200 } else { 503 }, "ready")
            }
            _ => (200, "ready"),
        };
        let reply = format!("HTTP/1.1 {status} X\r\nX-State: {state}\r\nContent-Length: 0\r\n\r\n");
        conns.send(id, reply.as_bytes());
    }
}

impl Scripted {
    /// The requests of each path up to its second `/`.
    fn by_kind(&self) -> BTreeMap<&str, u64> {
        let mut all = BTreeMap::new();
        for (path, n) in &self.requests {
            let kind = path[1..].split('/').next().expect("a part");
            *all.entry(kind).or_default() += n;
        }
        all
    }
}

fn template(path: &str) -> CallSpec {
    let place = Place::Header { name: "X-State".into(), regex: None };
    let extract = vec![Extract { variable: "state".into(), place, default: None }];
    CallSpec { template: true, extract, ..get(path) }
}

fn step(call: u32, control: Control) -> Burst {
    let control = (!control.is_empty()).then(|| Box::new(control));
    Burst { control, ..Burst::of(vec![call], Think::None) }
}

fn when(text: &str) -> Control {
    let gate = Gate { when: Some(text.into()), unless: None };
    Control { gate, ..Control::default() }
}

fn unless(text: &str) -> Control {
    let gate = Gate { when: None, unless: Some(text.into()) };
    Control { gate, ..Control::default() }
}

fn until(text: &str, at_limit: AtLimit) -> Control {
    Control { until: Some(Until { condition: text.into(), at_limit }), ..Control::default() }
}

/// An open loop of `count` sessions, a thousand a second, of these bursts.
fn sessions(calls: &[&str], bursts: Vec<Burst>, count: u64) -> Plan {
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
    let sessions = Sessions { cookies: Cookies::Off, ..Sessions::plain(kinds) };
    let mut plan = open(1_000.0, Arrivals::Fixed, 0);
    (plan.stop.requests, plan.stop.sessions) = (None, Some(count));
    plan.calls = calls.iter().map(|path| template(path)).collect();
    plan.sessions = Some(sessions);
    plan.check().expect("a valid plan");
    plan
}

fn run(plan: &Plan, shares: u32) -> (Tally, Scripted) {
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(WAY), 5) };
    let mut server = Server::new(Scripted::default());
    let outcome = load(plan, shares, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "scenarios");
    (outcome.main(), server.model().clone())
}

/// How long a session takes with this number of requests and these pauses: it connects first.
fn lifetime(requests: u64, pauses: Span) -> Option<Span> {
    Some(ROUND_TRIP * (requests + 1) + pauses)
}

/// The sessions that make each step are those of the arithmetic, and `until` combines, too.
#[test]
fn conditions_are_combined_with_and_and_or() {
    let again = Burst {
        repeat: 9,
        ..step(4, until("{{state}} == ready and {{status}} == 200", AtLimit::Fail))
    };
    let bursts = vec![
        step(0, Control::default()),
        step(1, when("{{session}} > 10 and {{session}} <= 40")),
        step(2, when("{{session}} <= 10 or {{session}} > 95 and {{status}} == 200")),
        step(3, unless("{{session}} == 7 or {{none}} == 1 or {{session}} == 8")),
        again,
    ];
    let paths = ["/all", "/middle", "/ends", "/most", "/poll/{{session}}/3"];
    let mut plan = sessions(&paths, vec![step(0, Control::default())], 100);
    plan.data.variables = vec![("none".into(), "{{env UNSET | append session}}".into())];
    plan.data.environment = vec![("UNSET".into(), "".into())];
    plan.sessions.as_mut().expect("sessions").kinds[0].bursts = bursts;
    plan.check().expect("a valid plan");
    for shares in [1, 3] {
        let (tally, server) = run(&plan, shares);
        let made = BTreeMap::from([
            ("all", 100),
            ("middle", 30),
            ("ends", 10 + 5),
            // Session 1 has the value 1, too.
            ("most", 100 - 3),
            ("poll", 300),
        ]);
        assert_eq!(server.by_kind(), made, "{shares} shares");
        assert_eq!((tally.failed, tally.replies), (0, 542));
    }
}

#[test]
fn a_step_is_made_only_if_its_condition_holds() {
    let bursts = vec![
        step(0, Control::default()),
        step(1, when("{{status}} == 201")),
        step(2, unless("{{status}} == 201")),
        step(3, when("{{session}} <= 100")),
        step(4, when("{{state}} == ready")),
        step(5, when("{{never}} != 1")),
        step(6, when("{{state}} == never")),
    ];
    let paths =
        ["/status/201", "/created", "/other", "/first", "/extracted", "/missing", "/status/404"];
    let mut plan = sessions(&paths, vec![step(0, Control::default())], 300);
    // Only the last step, which is never made, extracts this value.
    plan.calls[6].extract[0].variable = "never".into();
    plan.sessions.as_mut().expect("sessions").kinds[0].bursts = bursts;
    let (tally, server) = run(&plan, 1);
    // After `/created`, the status is 200: `/other` is made.
    let made =
        [("status", 300), ("created", 300), ("other", 300), ("first", 100), ("extracted", 300)];
    assert_eq!(server.by_kind(), made.into());
    let sessions = tally.sessions.expect("sessions");
    let steps = sessions.steps.expect("decisions");
    assert_eq!((sessions.completed, steps.skipped), (300, 200 + 300 + 300));
    assert_eq!((steps.limited, steps.retried, steps.exhausted), (0, 0, 0));
    assert_eq!(sessions.lengths, [(5, 100), (4, 200)].into());
}

/// A step that is skipped takes no time: the pause after it is not made.
#[test]
fn a_skipped_step_has_no_pause() {
    let mut bursts = vec![
        step(0, Control::default()),
        step(1, when("{{status}} == 500")),
        step(2, Control::default()),
        step(1, when("{{status}} == 500")),
    ];
    for (burst, pause) in bursts.iter_mut().zip([10, 1_000, 2_000, 4_000]) {
        burst.think = Think::Fixed(ms(pause));
    }
    let (tally, _) = run(&sessions(&["/a", "/b", "/c"], bursts, 50), 1);
    let sessions = tally.sessions.expect("sessions");
    // The last step that is made has no pause after it.
    assert_eq!(sessions.lifetime.min(), lifetime(2, ms(10)));
    assert_eq!(sessions.lifetime.max(), lifetime(2, ms(10)));
    assert_eq!((sessions.completed, sessions.steps.expect("decisions").skipped), (50, 100));
}

/// A session without a step that it makes is complete, and no busy loop of a user.
#[test]
fn sessions_may_make_nothing() {
    let bursts = vec![step(0, when("{{status}}"))];
    let plan = sessions(&["/a"], bursts, 50);
    let (tally, server) = run(&plan, 1);
    let counted = tally.sessions.expect("sessions");
    assert_eq!((counted.completed, counted.steps.expect("decisions").skipped), (50, 50));
    assert_eq!((tally.started, server.requests.len()), (0, 0));
    let closed = crate::plans::closed(2, Think::None, ms(100));
    let plan = Plan { load: closed.load, stop: closed.stop, ..plan };
    let (tally, _) = run(&plan, 1);
    assert_eq!(tally.sessions.expect("sessions").completed, 2 * 100);
}

fn switch(weights: &[u32]) -> Switch {
    let alternatives = weights.iter().map(|&weight| Alternative { weight, bursts: 1 });
    Switch { gate: Gate::default(), alternatives: alternatives.collect() }
}

#[test]
fn the_shares_of_a_switch_are_its_weights() {
    let choice = Control { switches: vec![switch(&[1, 2, 5])], ..Control::default() };
    let steps = |n: u32| (0..n).map(|call| step(call, Control::default()));
    let bursts = [step(0, choice)].into_iter().chain(steps(4).skip(1)).collect();
    let count = 4_000;
    let mut plan = sessions(&["/a", "/b", "/c", "/end"], bursts, count);
    for seed in 0..10 {
        plan.seed = seed;
        let (tally, server) = run(&plan, 1);
        let made = server.by_kind();
        assert_eq!((made["end"], made["a"] + made["b"] + made["c"]), (count, count));
        for (path, weight) in [("a", 1.0), ("b", 2.0), ("c", 5.0)] {
            let p = weight / 8.0;
            let (mean, sigma) = (count as f64 * p, (count as f64 * p * (1.0 - p)).sqrt());
            let off = (made[path] as f64 - mean).abs();
            assert!(off < 4.5 * sigma, "seed {seed}: {} of {path}, {mean} expected", made[path]);
        }
        assert_eq!(tally.sessions.expect("sessions").completed, count);
    }
}

/// Every session makes the same requests, and all figures are the same, on any number of shares.
#[test]
fn decisions_do_not_depend_on_the_number_of_shares() {
    let choice = Control { switches: vec![switch(&[3, 1])], ..Control::default() };
    let retry = Control { retry: Some(retry(3, 200)), ..Control::default() };
    let bursts = vec![
        step(0, choice),
        step(1, Control::default()),
        step(2, when("{{random.int 1 10}} <= 3")),
        Burst { repeat: 5, ..step(3, until("{{state}} == ready", AtLimit::Fail)) },
        step(4, retry),
    ];
    let paths = ["/a", "/b", "/c", "/poll/{{session}}/3", "/flaky/{{session}}/2"];
    let mut plan = sessions(&paths, bursts, 400);
    plan.expect = Expect { statuses: vec![(200, 299)], ..Expect::default() };
    let merged = |shares| {
        let (mut t, server) = run(&plan, shares);
        (t.in_flight_max, t.connections.open_max, t.connections.opening_max) = (0, 0, 0);
        (serde_json::to_string(&t).expect("serializable"), server.requests)
    };
    let whole = merged(1);
    for shares in 2..5 {
        let part = merged(shares);
        assert!(part.0 == whole.0, "{shares} shares");
        assert_eq!(part.1, whole.1, "{shares} shares");
    }
    let steps = run(&plan, 1).0.sessions.expect("sessions").steps.expect("decisions");
    assert_eq!((steps.retried, steps.exhausted, steps.recovered.count()), (800, 0, 400));
}

#[test]
fn a_step_is_repeated_until_its_condition_holds() {
    let poll = |at_limit| {
        let control = until("{{state}} == ready", at_limit);
        let poll = Burst { repeat: 6, think: Think::Fixed(ms(7)), ..step(0, control) };
        vec![poll, step(1, Control::default())]
    };
    for n in 1..=6 {
        let path = format!("/poll/{{{{session}}}}/{n}");
        let (tally, server) = run(&sessions(&[&path, "/end"], poll(AtLimit::Fail), 40), 1);
        assert_eq!(server.by_kind(), [("poll", 40 * n), ("end", 40)].into());
        let sessions = tally.sessions.expect("sessions");
        assert_eq!((sessions.completed, sessions.steps), (40, None));
        assert_eq!(sessions.lifetime.min(), lifetime(n + 1, ms(7) * n));
        assert_eq!(sessions.lifetime.max(), lifetime(n + 1, ms(7) * n));
    }
    // The seventh would be ready: the limit is reached.
    let limited = |at_limit, on_failure| {
        let path = "/poll/{{session}}/7";
        let mut plan = sessions(&[path, "/end"], poll(at_limit), 40);
        plan.sessions.as_mut().expect("sessions").on_failure = on_failure;
        let (tally, server) = run(&plan, 1);
        let sessions = tally.sessions.expect("sessions");
        let limited = sessions.steps.expect("decisions").limited;
        let end = server.by_kind().get("end").copied().unwrap_or(0);
        assert_eq!((server.by_kind()["poll"], tally.failed), (240, 0));
        (sessions.completed, sessions.failed, limited, end)
    };
    assert_eq!(limited(AtLimit::Fail, OnFailure::End), (0, 40, 40, 0));
    assert_eq!(limited(AtLimit::Fail, OnFailure::Continue), (0, 40, 40, 40));
    assert_eq!(limited(AtLimit::Continue, OnFailure::End), (40, 0, 40, 40));
}

fn retry(times: u32, jitter: u32) -> Retry {
    let on = vec![RetryOn::Status];
    Retry { times, wait: ms(100), factor: 2_000, max: Some(ms(300)), jitter, on }
}

/// Each retry is a request of its own, after exactly the wait; the whole counts from the intended
/// start of the first try.
#[test]
fn a_request_is_made_again_after_its_waits() {
    let plan = |fails: u64, retry: Retry| {
        let path = format!("/flaky/{{{{session}}}}/{fails}");
        let control = Control { retry: Some(retry), ..Control::default() };
        let mut plan =
            sessions(&[&path, "/end"], vec![step(0, control), step(1, Control::default())], 30);
        plan.expect = Expect { statuses: vec![(200, 299)], ..Expect::default() };
        plan
    };
    // 100 ms, 200 ms, then the longest.
    for (fails, waits) in [(0, 0), (1, 100), (2, 300), (3, 600), (4, 900)] {
        let (tally, server) = run(&plan(fails, retry(4, 0)), 1);
        assert_eq!(server.by_kind(), [("flaky", 30 * (fails + 1)), ("end", 30)].into());
        let unexpected = tally.faults[Fault::UnexpectedStatus as usize];
        assert_eq!((tally.started, tally.failed), (30 * (fails + 2), 30 * fails));
        assert_eq!((tally.replies, unexpected, tally.retries), (60, 30 * fails, 0));
        assert_eq!(tally.times.lag.max(), Some(Span::ZERO), "a wait is no send lag");
        assert_eq!(tally.times.response.min(), Some(ROUND_TRIP), "each from its own start");
        let sessions = tally.sessions.expect("sessions");
        assert_eq!((sessions.completed, sessions.failed), (30, 0));
        assert_eq!(sessions.lifetime.min(), lifetime(fails + 2, ms(waits)));
        assert_eq!(sessions.lifetime.max(), lifetime(fails + 2, ms(waits)));
        let steps = sessions.steps.unwrap_or_default();
        assert_eq!((steps.retried, steps.exhausted), (30 * fails, 0));
        if fails > 0 {
            // The first try of a session waits for its connection.
            let whole = lifetime(fails + 1, ms(waits));
            assert_eq!((steps.recovered.min(), steps.recovered.max()), (whole, whole));
            assert_eq!(steps.recovered.count(), 30);
        }
    }
    // The last retry fails, too.
    let (tally, server) = run(&plan(5, retry(4, 0)), 1);
    assert_eq!(server.by_kind(), [("flaky", 30 * 5)].into());
    let sessions = tally.sessions.expect("sessions");
    let steps = sessions.steps.expect("decisions");
    assert_eq!((sessions.completed, sessions.failed), (0, 30));
    assert_eq!((steps.retried, steps.exhausted, steps.recovered.count()), (120, 30, 0));
    // A failure that is not in its list is not retried.
    let other = Retry { on: vec![RetryOn::Timeout, RetryOn::Lost], ..retry(4, 0) };
    let (tally, _) = run(&plan(1, other), 1);
    let sessions = tally.sessions.expect("sessions");
    assert_eq!((tally.failed, sessions.failed, sessions.steps), (30, 30, None));
}

#[test]
fn jitter_spreads_the_waits() {
    let control = Control { retry: Some(retry(1, 200)), ..Control::default() };
    let mut plan = sessions(&["/flaky/{{session}}/1"], vec![step(0, control)], 2_000);
    plan.expect = Expect { statuses: vec![(200, 299)], ..Expect::default() };
    let (tally, _) = run(&plan, 1);
    let recovered = tally.sessions.expect("sessions").steps.expect("decisions").recovered;
    let (least, most) = (lifetime(2, ms(80)), lifetime(2, ms(120)));
    assert!(recovered.min() >= least && recovered.max() <= most, "{recovered:?}");
    // Uniform: the mean has a standard error of 0.26 ms.
    let mean = recovered.sum_ns() as f64 / recovered.count() as f64;
    let expected = lifetime(2, ms(100)).expect("a time").0 as f64;
    assert!((mean - expected).abs() < 1.3e6, "{mean}, expected {expected}");
    assert!(recovered.min() < lifetime(2, ms(82)) && recovered.max() > lifetime(2, ms(118)));
}
