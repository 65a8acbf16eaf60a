//! Tests of the world itself, with a very simple client: bytes arrive as they were sent and in
//! time, and the oracle records them correctly.

use std::collections::VecDeque;

use prony_base::fault::Fault;
use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};
use prony_sim::link::{ConnectFaults, Link};
use prony_sim::rng::Rng;
use prony_sim::server::{Hostile, Scripted, Server, ServiceTime, Station, Step};
use prony_sim::world::{Setup, WorldOutcome};

/// Opens some connections, sends a number of requests on each, one after the other, and keeps the
/// replies.
#[derive(Debug)]
struct Pinger {
    conns: Vec<Conn>,
    actions: VecDeque<Action>,
    rounds: u32,
    timeout: Nanos,
}

#[derive(Debug, Default)]
struct Conn {
    left: u32,
    out: Vec<u8>,
    received: Vec<u8>,
    /// Where the current reply starts.
    since: usize,
    /// Where it ends; 0 while that is unknown.
    needs: usize,
    faults: Vec<Option<Fault>>,
    over: bool,
    opened: Option<Nanos>,
    answers: Vec<Nanos>,
}

impl Pinger {
    fn new(connections: u32, rounds: u32) -> Self {
        let mut actions = VecDeque::new();
        let mut conns = Vec::new();
        for slot in 0..connections {
            actions.push_back(Action::Connect { id: Self::id(slot), endpoint: 0 });
            conns.push(Conn { left: rounds, ..Conn::default() });
        }
        Self { conns, actions, rounds, timeout: Nanos(60_000_000_000) }
    }

    fn id(slot: u32) -> ConnId {
        ConnId { slot, generation: 7 }
    }

    fn ask(&mut self, id: ConnId) {
        let k = id.slot * self.rounds + self.rounds - self.conns[id.slot as usize].left;
        let conn = &mut self.conns[id.slot as usize];
        conn.left -= 1;
        conn.out.extend_from_slice(format!("GET /{k} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
        self.actions.push_back(Action::Transmit { id });
    }

    fn over(&mut self, id: ConnId) {
        let conn = &mut self.conns[id.slot as usize];
        if !std::mem::replace(&mut conn.over, true) {
            self.actions.push_back(Action::Close { id, how: CloseHow::Orderly });
        }
        if self.conns.iter().all(|l| l.over) {
            self.actions.push_back(Action::Finished);
        }
    }

    /// Whether the reply that starts at `since` is complete, after `new` more bytes.
    fn is_whole(conn: &mut Conn, new: usize) -> bool {
        if conn.needs == 0 {
            let from = (conn.received.len() - new).saturating_sub(3).max(conn.since);
            let blank = conn.received[from..].windows(4).position(|w| w == b"\r\n\r\n");
            let Some(end) = blank.map(|at| from + at + 4) else { return false };
            let text = String::from_utf8_lossy(&conn.received[conn.since..end]).to_lowercase();
            let length = text.split("content-length: ").nth(1);
            let length = length.and_then(|t| t.split("\r\n").next()).and_then(|t| t.parse().ok());
            conn.needs = end + length.unwrap_or(0_usize);
        }
        conn.received.len() >= conn.needs
    }
}

impl Machine for Pinger {
    fn on_connected(&mut self, id: ConnId, now: Nanos) {
        self.conns[id.slot as usize].opened = Some(now);
        self.ask(id);
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let conn = &mut self.conns[id.slot as usize];
        assert!(!conn.over && !data.is_empty());
        conn.received.extend_from_slice(data);
        if Self::is_whole(conn, data.len()) {
            conn.since = conn.received.len();
            conn.needs = 0;
            conn.answers.push(now);
            if conn.left > 0 {
                self.ask(id);
            } else {
                self.over(id);
            }
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, _: Nanos) {
        self.conns[id.slot as usize].faults.push(why);
        self.over(id);
    }

    fn on_tick(&mut self, now: Nanos) {
        assert!(now >= self.timeout);
        for slot in 0..self.conns.len() as u32 {
            self.over(Self::id(slot));
        }
        self.timeout = Nanos::MAX;
    }

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {}

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(&mut self, id: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let out = &mut self.conns[id.slot as usize].out;
        let n = send(out);
        out.drain(..n);
        out.is_empty()
    }

    fn deadline(&self) -> Option<Nanos> {
        (self.timeout < Nanos::MAX).then_some(self.timeout)
    }
}

fn ping(setup: &Setup, pinger: &mut Pinger, server: &mut dyn Machine) -> WorldOutcome {
    let outcome = setup.run(&mut [pinger], &mut [server]);
    assert_eq!((outcome.client_connections_left, outcome.server_connections_left), (0, 0));
    outcome
}

#[test]
fn latencies_and_service_times_add_up() {
    let ms = Span::from_millis;
    let setup = Setup::new(Link::with_latency(ms(5)), 1);
    let mut pinger = Pinger::new(2, 3);
    let mut server = Server::new(Station::new(ServiceTime::Fixed(ms(2)), 1));
    let outcome = ping(&setup, &mut pinger, &mut server);
    for conn in &pinger.conns {
        // Connect 10 ms, then 5 + 2 + 5 ms for each request.
        assert_eq!(conn.opened, Some(Nanos(10_000_000)));
        let answers: Vec<u64> = conn.answers.iter().map(|n| n.0 / 1_000_000).collect();
        assert_eq!(answers, [22, 34, 46]);
    }
    assert_eq!(server.connections().requests, 6);
    assert_eq!(outcome.oracle.requests().len(), 6);
    for seen in outcome.oracle.requests() {
        let (sent, arrived, first, done) =
            (seen.sent, seen.arrived.unwrap(), seen.first.unwrap(), seen.done.unwrap());
        assert_eq!((arrived.since(sent), done.since(sent), first), (ms(5), ms(12), done));
        assert_eq!((seen.status, seen.body_bytes), (200, 16));
    }
    assert_eq!(outcome.oracle.clients()[0].opened, [ms(10), ms(10)]);
}

#[test]
fn transmission_takes_time_at_a_limited_rate() {
    // 1,000 bytes a second: 27 bytes of request and 40 + 16 of reply.
    let link = Link { rate: Some(1_000), ..Link::default() };
    let mut pinger = Pinger::new(1, 1);
    let mut server = Server::new(Station::new(ServiceTime::Fixed(Span::ZERO), 1));
    let outcome = ping(&Setup::new(link, 1), &mut pinger, &mut server);
    let seen = outcome.oracle.requests()[0];
    let request = "GET /0 HTTP/1.1\r\nHost: h\r\n\r\n".len() as u64;
    assert_eq!(seen.arrived, Some(Nanos(request * 1_000_000)));
    let reply = pinger.conns[0].received.len() as u64;
    assert_eq!(seen.done, Some(Nanos((request + reply) * 1_000_000)));
}

#[test]
fn a_frozen_station_replies_after_the_freeze() {
    let ms = |n: u64| Nanos(n * 1_000_000);
    let station = Station::new(ServiceTime::Fixed(Span::from_millis(4)), 1)
        .freezes(vec![(ms(2), Span::from_millis(100)), (ms(110), Span::from_millis(5))]);
    let mut pinger = Pinger::new(1, 3);
    ping(&Setup::default(), &mut pinger, &mut Server::new(station));
    // 0..2 and 102..104; then 104..108; then 108..110 and 115..117.
    assert_eq!(pinger.conns[0].answers, [ms(104), ms(108), ms(117)]);
}

#[test]
fn rough_links_deliver_every_byte() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed, 1);
        let setup = Setup::new(Link::rough(&mut rng), seed);
        let mut pinger = Pinger::new(3, 5);
        let service_time = ServiceTime::Exponential(Span::from_millis(1));
        let mut server = Server::new(Station::new(service_time, seed).body(0, 500).servers(2));
        let outcome = ping(&setup, &mut pinger, &mut server);
        assert_eq!(server.connections().requests, 15, "seed {seed}");
        assert_eq!(server.connections().bytes_in, outcome.oracle.clients()[0].bytes_sent);
        for conn in &pinger.conns {
            assert_eq!((conn.answers.len(), conn.faults.len()), (5, 0), "seed {seed}");
            let bad = conn.received.iter().any(|b| !b.is_ascii());
            assert!(!bad && conn.received.starts_with(b"HTTP/1.1 200 Any\r\n"));
        }
        let numbers: Vec<u64> = {
            let mut n: Vec<_> =
                outcome.oracle.requests().iter().map(|s| s.number.unwrap()).collect();
            n.sort_unstable();
            n
        };
        assert_eq!(numbers, (0..15).collect::<Vec<_>>(), "seed {seed}");
        for seen in outcome.oracle.requests() {
            let (arrived, first, done) =
                (seen.arrived.unwrap(), seen.first.unwrap(), seen.done.unwrap());
            assert!(seen.sent <= arrived && arrived <= first && first <= done);
        }
    }
}

#[test]
fn runs_end_on_broken_links() {
    let mut faults = std::collections::BTreeSet::new();
    for seed in 0..500 {
        let mut rng = Rng::new(seed, 2);
        let setup = Setup::new(Link::broken(&mut rng), seed);
        let mut pinger = Pinger::new(4, 6);
        let outcome = ping(&setup, &mut pinger, &mut Server::new(Hostile::new(seed, 0.6)));
        assert!(outcome.finished[0] <= pinger.timeout.min(Nanos(60_000_000_000)));
        faults.extend(pinger.conns.iter().flat_map(|l| l.faults.clone()));
    }
    // Every fault that the link can cause has occurred.
    let expected = [
        None,
        Some(Fault::ConnectRefused),
        Some(Fault::ConnectUnreachable),
        Some(Fault::ConnectReset),
        Some(Fault::Reset),
        Some(Fault::NoDescriptors),
        Some(Fault::NoPorts),
    ];
    assert_eq!(faults, expected.into_iter().collect());
}

#[test]
fn same_seed_gives_the_same_world() {
    let run = |seed| {
        let mut rng = Rng::new(seed, 3);
        let setup = Setup::new(Link::broken(&mut rng), seed);
        let mut pinger = Pinger::new(4, 6);
        let outcome = ping(&setup, &mut pinger, &mut Server::new(Hostile::new(seed, 0.8)));
        (outcome.digest, outcome.events, format!("{pinger:?}"))
    };
    let mut digests = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (one, other) = (run(seed), run(seed));
        assert_eq!(one, other, "seed {seed}");
        digests.insert(one.0);
    }
    assert!(digests.len() > 40, "only {} different worlds in 50 seeds", digests.len());
}

#[test]
fn scripts_are_exact_to_the_byte_and_the_nanosecond() {
    let ms = Span::from_millis;
    let script = vec![
        Step::Await(1),
        Step::Wait(ms(3)),
        Step::Send(b"HTTP/1.1 200 OK\r\nContent-".to_vec()),
        Step::Wait(ms(4)),
        Step::Send(b"Length: 2\r\n\r\nok".to_vec()),
        Step::Await(2),
        Step::Send(b"HTTP/1.1".to_vec()),
        Step::Close,
    ];
    let mut pinger = Pinger::new(1, 3);
    let outcome = ping(&Setup::default(), &mut pinger, &mut Server::new(Scripted::one(script)));
    assert_eq!(pinger.conns[0].answers, [Nanos(7_000_000)]);
    assert_eq!(pinger.conns[0].faults, [None]);
    assert_eq!(outcome.oracle.requests()[0].first, Some(Nanos(3_000_000)));
    assert_eq!(pinger.conns[0].received, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1");
}

#[test]
fn an_unanswered_connect_never_opens() {
    let connect = ConnectFaults { unanswered: 1.0, ..ConnectFaults::default() };
    let mut pinger = Pinger::new(2, 1);
    let setup = Setup::new(Link { connect, ..Link::default() }, 1);
    let mut server = Server::new(Station::new(ServiceTime::Fixed(Span::ZERO), 1));
    let outcome = ping(&setup, &mut pinger, &mut server);
    assert_eq!(outcome.finished, [Nanos(60_000_000_000)]);
    assert_eq!(server.connections().accepted, 0);
}

#[test]
#[should_panic(expected = "but there are no more events")]
fn a_client_without_deadline_or_events_panics() {
    let mut pinger = Pinger::new(1, 1);
    pinger.timeout = Nanos::MAX;
    let mut server = Server::new(Scripted::one(vec![]));
    Setup::default().run(&mut [&mut pinger], &mut [&mut server]);
}
