//! The world itself, run with a client that is too simple to be wrong: bytes arrive as they were
//! sent, in time, and the oracle sees what is there.

use std::collections::VecDeque;

use prony_core::fault::Fault;
use prony_core::machine::{Action, CloseHow, Machine, StopRequest};
use prony_core::units::{ConnId, Nanos, Span};
use prony_sim::dice::Dice;
use prony_sim::link::{ConnectOdds, Link};
use prony_sim::plant::{Hostile, Law, Scripted, Server, Station, Step};
use prony_sim::world::{Ran, Setup};

/// Opens some connections, sends a number of requests on each, one after the other, and keeps what
/// comes back.
#[derive(Debug)]
struct Pinger {
    lines: Vec<Line>,
    actions: VecDeque<Action>,
    rounds: u32,
    patience: Nanos,
}

#[derive(Debug, Default)]
struct Line {
    left: u32,
    out: Vec<u8>,
    heard: Vec<u8>,
    /// Where the awaited reply begins.
    since: usize,
    /// Where it ends, once that is known.
    needs: usize,
    faults: Vec<Option<Fault>>,
    over: bool,
    opened: Option<Nanos>,
    answers: Vec<Nanos>,
}

impl Pinger {
    fn new(connections: u32, rounds: u32) -> Self {
        let mut actions = VecDeque::new();
        let mut lines = Vec::new();
        for slot in 0..connections {
            actions.push_back(Action::Connect { id: Self::id(slot), endpoint: 0 });
            lines.push(Line { left: rounds, ..Line::default() });
        }
        Self { lines, actions, rounds, patience: Nanos(60_000_000_000) }
    }

    fn id(slot: u32) -> ConnId {
        ConnId { slot, generation: 7 }
    }

    fn ask(&mut self, id: ConnId) {
        let k = id.slot * self.rounds + self.rounds - self.lines[id.slot as usize].left;
        let line = &mut self.lines[id.slot as usize];
        line.left -= 1;
        line.out.extend_from_slice(format!("GET /{k} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
        self.actions.push_back(Action::Transmit { id });
    }

    fn over(&mut self, id: ConnId) {
        let line = &mut self.lines[id.slot as usize];
        if !std::mem::replace(&mut line.over, true) {
            self.actions.push_back(Action::Close { id, how: CloseHow::Orderly });
        }
        if self.lines.iter().all(|l| l.over) {
            self.actions.push_back(Action::Finished);
        }
    }

    /// Whether the reply that began at `since` is whole, `new` bytes of it having just come.
    fn is_whole(line: &mut Line, new: usize) -> bool {
        if line.needs == 0 {
            let from = (line.heard.len() - new).saturating_sub(3).max(line.since);
            let blank = line.heard[from..].windows(4).position(|w| w == b"\r\n\r\n");
            let Some(end) = blank.map(|at| from + at + 4) else { return false };
            let text = String::from_utf8_lossy(&line.heard[line.since..end]).to_lowercase();
            let length = text.split("content-length: ").nth(1);
            let length = length.and_then(|t| t.split("\r\n").next()).and_then(|t| t.parse().ok());
            line.needs = end + length.unwrap_or(0_usize);
        }
        line.heard.len() >= line.needs
    }
}

impl Machine for Pinger {
    fn on_connected(&mut self, id: ConnId, now: Nanos) {
        self.lines[id.slot as usize].opened = Some(now);
        self.ask(id);
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let line = &mut self.lines[id.slot as usize];
        assert!(!line.over && !data.is_empty());
        line.heard.extend_from_slice(data);
        if Self::is_whole(line, data.len()) {
            line.since = line.heard.len();
            line.needs = 0;
            line.answers.push(now);
            if line.left > 0 {
                self.ask(id);
            } else {
                self.over(id);
            }
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, _: Nanos) {
        self.lines[id.slot as usize].faults.push(why);
        self.over(id);
    }

    fn on_tick(&mut self, now: Nanos) {
        assert!(now >= self.patience);
        for slot in 0..self.lines.len() as u32 {
            self.over(Self::id(slot));
        }
        self.patience = Nanos::MAX;
    }

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {}

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(&mut self, id: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let out = &mut self.lines[id.slot as usize].out;
        let n = send(out);
        out.drain(..n);
        out.is_empty()
    }

    fn deadline(&self) -> Option<Nanos> {
        (self.patience < Nanos::MAX).then_some(self.patience)
    }
}

fn ping(setup: &Setup, pinger: &mut Pinger, server: &mut dyn Machine) -> Ran {
    let ran = setup.run(&mut [pinger], &mut [server]);
    assert_eq!((ran.left_open, ran.dangling), (0, 0));
    ran
}

#[test]
fn time_on_the_wire_adds_up() {
    let ms = Span::from_millis;
    let setup = Setup::new(Link::with_latency(ms(5)), 1);
    let mut pinger = Pinger::new(2, 3);
    let mut server = Server::new(Station::new(Law::Fixed(ms(2)), 1));
    let ran = ping(&setup, &mut pinger, &mut server);
    for line in &pinger.lines {
        // Connect 10 ms, then 5 + 2 + 5 a request.
        assert_eq!(line.opened, Some(Nanos(10_000_000)));
        let answers: Vec<u64> = line.answers.iter().map(|n| n.0 / 1_000_000).collect();
        assert_eq!(answers, [22, 34, 46]);
    }
    assert_eq!(server.yard().requests, 6);
    assert_eq!(ran.oracle.seen().len(), 6);
    for seen in ran.oracle.seen() {
        let (sent, arrived, first, done) =
            (seen.sent, seen.arrived.unwrap(), seen.first.unwrap(), seen.done.unwrap());
        assert_eq!((arrived.since(sent), done.since(sent), first), (ms(5), ms(12), done));
        assert_eq!((seen.status, seen.body_bytes), (200, 16));
    }
    assert_eq!(ran.oracle.clients()[0].opened, [ms(10), ms(10)]);
}

#[test]
fn a_slow_line_takes_its_time() {
    // 1,000 bytes a second: 27 bytes of request and 40 + 16 of reply.
    let link = Link { rate: Some(1_000), ..Link::default() };
    let mut pinger = Pinger::new(1, 1);
    let mut server = Server::new(Station::new(Law::Fixed(Span::ZERO), 1));
    let ran = ping(&Setup::new(link, 1), &mut pinger, &mut server);
    let seen = ran.oracle.seen()[0];
    let request = "GET /0 HTTP/1.1\r\nHost: h\r\n\r\n".len() as u64;
    assert_eq!(seen.arrived, Some(Nanos(request * 1_000_000)));
    let reply = pinger.lines[0].heard.len() as u64;
    assert_eq!(seen.done, Some(Nanos((request + reply) * 1_000_000)));
}

#[test]
fn a_frozen_station_answers_when_it_thaws() {
    let ms = |n: u64| Nanos(n * 1_000_000);
    let station = Station::new(Law::Fixed(Span::from_millis(4)), 1)
        .freezes(vec![(ms(2), Span::from_millis(100)), (ms(110), Span::from_millis(5))]);
    let mut pinger = Pinger::new(1, 3);
    ping(&Setup::default(), &mut pinger, &mut Server::new(station));
    // 0..2 and 102..104; then 104..108; then 108..110 and 115..117.
    assert_eq!(pinger.lines[0].answers, [ms(104), ms(108), ms(117)]);
}

#[test]
fn bytes_survive_every_rough_link() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed, 1);
        let setup = Setup::new(Link::rough(&mut dice), seed);
        let mut pinger = Pinger::new(3, 5);
        let law = Law::Exponential(Span::from_millis(1));
        let mut server = Server::new(Station::new(law, seed).body(0, 500).servers(2));
        let ran = ping(&setup, &mut pinger, &mut server);
        assert_eq!(server.yard().requests, 15, "seed {seed}");
        assert_eq!(server.yard().bytes_in, ran.oracle.clients()[0].bytes_sent);
        for line in &pinger.lines {
            assert_eq!((line.answers.len(), line.faults.len()), (5, 0), "seed {seed}");
            let bad = line.heard.iter().any(|b| !b.is_ascii());
            assert!(!bad && line.heard.starts_with(b"HTTP/1.1 200 Any\r\n"));
        }
        let numbers: Vec<u64> = {
            let mut n: Vec<_> = ran.oracle.seen().iter().map(|s| s.number.unwrap()).collect();
            n.sort_unstable();
            n
        };
        assert_eq!(numbers, (0..15).collect::<Vec<_>>(), "seed {seed}");
        for seen in ran.oracle.seen() {
            let (arrived, first, done) =
                (seen.arrived.unwrap(), seen.first.unwrap(), seen.done.unwrap());
            assert!(seen.sent <= arrived && arrived <= first && first <= done);
        }
    }
}

#[test]
fn everything_ends_whatever_breaks() {
    let mut faults = std::collections::BTreeSet::new();
    for seed in 0..500 {
        let mut dice = Dice::new(seed, 2);
        let setup = Setup::new(Link::broken(&mut dice), seed);
        let mut pinger = Pinger::new(4, 6);
        let ran = ping(&setup, &mut pinger, &mut Server::new(Hostile::new(seed, 0.6)));
        assert!(ran.finished[0] <= pinger.patience.min(Nanos(60_000_000_000)));
        faults.extend(pinger.lines.iter().flat_map(|l| l.faults.clone()));
    }
    // The world is as bad as it claims to be.
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
fn same_seed_same_world() {
    let run = |seed| {
        let mut dice = Dice::new(seed, 3);
        let setup = Setup::new(Link::broken(&mut dice), seed);
        let mut pinger = Pinger::new(4, 6);
        let ran = ping(&setup, &mut pinger, &mut Server::new(Hostile::new(seed, 0.8)));
        (ran.trace, ran.steps, format!("{pinger:?}"))
    };
    let mut traces = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (one, other) = (run(seed), run(seed));
        assert_eq!(one, other, "seed {seed}");
        traces.insert(one.0);
    }
    assert!(traces.len() > 40, "only {} different worlds in 50 seeds", traces.len());
}

#[test]
fn a_script_is_played_to_the_byte_and_the_nanosecond() {
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
    let ran = ping(&Setup::default(), &mut pinger, &mut Server::new(Scripted::one(script)));
    assert_eq!(pinger.lines[0].answers, [Nanos(7_000_000)]);
    assert_eq!(pinger.lines[0].faults, [None]);
    assert_eq!(ran.oracle.seen()[0].first, Some(Nanos(3_000_000)));
    assert_eq!(pinger.lines[0].heard, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1");
}

#[test]
fn a_connect_that_is_never_answered_is_never_answered() {
    let connect = ConnectOdds { unanswered: 1.0, ..ConnectOdds::default() };
    let mut pinger = Pinger::new(2, 1);
    let setup = Setup::new(Link { connect, ..Link::default() }, 1);
    let mut server = Server::new(Station::new(Law::Fixed(Span::ZERO), 1));
    let ran = ping(&setup, &mut pinger, &mut server);
    assert_eq!(ran.finished, [Nanos(60_000_000_000)]);
    assert_eq!(server.yard().accepted, 0);
}

#[test]
#[should_panic(expected = "nothing will ever happen again")]
fn a_client_that_waits_for_nothing_is_found_out() {
    let mut pinger = Pinger::new(1, 1);
    pinger.patience = Nanos::MAX;
    let mut server = Server::new(Scripted::one(vec![]));
    Setup::default().run(&mut [&mut pinger], &mut [&mut server]);
}
