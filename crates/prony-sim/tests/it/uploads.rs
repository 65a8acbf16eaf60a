//! Bodies that are sent from files. The files are virtual, each of their bytes is known, and the
//! servers check what they get.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prony_base::fault::Fault;
use prony_base::units::{ConnId, Span};
use prony_plan::plan::{
    BodyFile, CallSpec, Follow, Group, HttpVersion, Load, Plan, ReadAt, Redirects, Think,
};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Connections, Event, FrameServer, Server, ServerModel, Turn};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::http2::http2;
use crate::plans::{Seed, assert_invariants, assert_matches_oracle, closed, get, ms, open, seeds};
use crate::recorded::Recorded;

/// The byte of the file at this position.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn bytes(length: u64) -> Vec<u8> {
    (0..length).map(byte).collect()
}

/// A file whose reads return parts of what is asked for, and that ends after a number of reads.
struct Virtual {
    length: u64,
    /// The most bytes of a read.
    most: u64,
    reads: Arc<AtomicU64>,
    /// How many reads there are before the file has only half of its bytes.
    shrinks_after: u64,
}

impl ReadAt for Virtual {
    fn read_at(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        let shrunk = self.reads.fetch_add(1, Ordering::Relaxed) >= self.shrinks_after;
        let length = if shrunk { self.length / 2 } else { self.length };
        let n = length.saturating_sub(at).min(into.len() as u64).min(1 + at % self.most);
        for (i, into) in into[..n as usize].iter_mut().enumerate() {
            *into = byte(at + i as u64);
        }
        Some(n as usize)
    }
}

fn upload(path: &str, length: u64, shrinks_after: u64) -> CallSpec {
    let reads = Arc::default();
    let file = Virtual { length, most: 50_000, reads, shrinks_after };
    let file = Some(Box::new(BodyFile::new("virtual".into(), length, file)));
    CallSpec { method: "PUT".into(), file, ..get(path) }
}

/// A closed loop of this many requests.
fn plan(connections: u32, requests: u64, calls: Vec<CallSpec>) -> Plan {
    let mut plan = closed(connections, Think::None, ms(0));
    (plan.stop.requests, plan.stop.duration) = (Some(requests), None);
    plan.timeout = Span::from_secs(10_000);
    plan.calls = calls.into();
    plan
}

/// Lengths around the pieces in which files are read, and any.
fn length(rng: &mut Rng) -> u64 {
    const PIECE: u64 = 64 << 10;
    match rng.below(6) {
        0 => 1,
        1 => PIECE,
        2 => PIECE + 1,
        3 => 2 * PIECE,
        _ => rng.between(1, 200_000),
    }
}

/// A link that splits bytes anywhere, and accepts only parts of writes.
fn link(rng: &mut Rng) -> Link {
    Link {
        rate: None,
        segment: rng.chance(0.5).then(|| rng.between(1, 5_000) as usize),
        window: rng.chance(0.5).then(|| rng.between(1_000, 60_000) as usize),
        write: rng.chance(0.5).then(|| rng.between(1, 9_000) as usize),
        ..Link::rough(rng)
    }
}

/// A server that takes bodies of up to this length, and records what it receives.
fn recorded(max_body: u64) -> Recorded<Serve> {
    Recorded::new(Serve::new(ServerBehavior { max_body, ..ServerBehavior::default() }, 1))
}

/// A request of HTTP/1.1: its path, the length that it states, and its body.
type Request = (String, u64, Vec<u8>);

/// The requests in these bytes of a connection. The body of the last one may be incomplete.
fn requests(mut rest: &[u8]) -> Vec<Request> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") else { break };
        let head = std::str::from_utf8(&rest[..end]).expect("a head");
        let path = head.split(' ').nth(1).expect("a path").to_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let chunked = head.lines().any(|line| line == "Transfer-Encoding: chunked");
        rest = &rest[end + 4..];
        let mut length = length.map_or(0, |text| text.parse().expect("a length"));
        if chunked {
            let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { break };
            let size = std::str::from_utf8(&rest[..end]).expect("a size");
            length = u64::from_str_radix(size, 16).expect("a size");
            rest = &rest[end + 2..];
        }
        let (body, after) = rest.split_at(rest.len().min(length as usize));
        all.push((path, length, body.to_vec()));
        rest = after;
        if chunked && body.len() as u64 == length {
            rest = rest.strip_prefix(b"\r\n0\r\n\r\n").expect("the last chunk");
        }
    }
    all
}

/// Any split of the bytes, any short read, and several connections: the server gets the file.
#[test]
fn a_server_gets_the_bytes_of_the_file() {
    for seed in 0..40 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 210);
        let (one, two) = (length(&mut rng), length(&mut rng));
        let mut chunked = upload("/two", two, u64::MAX);
        chunked.headers = vec![("Transfer-Encoding".to_owned(), "chunked".to_owned())].into();
        let small = CallSpec { method: "POST".into(), body: bytes(100), ..get("/small") };
        let calls = vec![upload("/one", one, u64::MAX), get("/get"), chunked, small];
        let mut plan = Plan { seed, ..plan(rng.between(1, 3) as u32, 8, calls) };
        plan.requests_per_connection = rng.chance(0.3).then_some(2);
        plan.pipeline =
            if plan.requests_per_connection.is_none() && rng.chance(0.4) { 3 } else { 1 };
        let setup = Setup::new(link(&mut rng), seed);
        let mut server = recorded(1 << 40);
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_invariants(&outcome, "uploads");
        let all = outcome.main();
        assert_eq!((all.replies, all.failed), (8, 0), "{:?}", all.faults);
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        for (path, stated, body) in server.streams.values().flat_map(|bytes| requests(bytes)) {
            let length = match &*path {
                "/one" => one,
                "/two" => two,
                "/small" => 100,
                _ => 0,
            };
            assert_eq!(stated, length, "{path}");
            assert!(body == bytes(length), "{path}: {} bytes", body.len());
            *seen.entry(path).or_default() += 1;
        }
        let two_of_each = ["/get", "/one", "/small", "/two"].map(|path| (path.to_owned(), 2));
        assert_eq!(seen, BTreeMap::from(two_of_each));
    }
}

/// All times of requests with such bodies are the oracle's, which follows the bytes of the network.
#[test]
fn figures_are_those_of_the_oracle() {
    for seed in 0..30 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 211);
        let call = |k| match k % 2 {
            0 => upload(&format!("/{k}"), length(&mut rng), u64::MAX),
            _ => get(&format!("/{k}")),
        };
        let calls: Vec<CallSpec> = (0..10).map(call).collect();
        let mut plan = open(50.0 + rng.unit() * 500.0, Arrivals::Poisson, 10);
        (plan.seed, plan.calls, plan.timeout) = (seed, calls.into(), Span::from_secs(10_000));
        let Load::Open { connections, .. } = &mut plan.load else { panic!("it is open") };
        *connections = rng.between(1, 4) as u32;
        let setup = Setup::new(link(&mut rng), seed);
        let behavior = ServerBehavior { max_body: 1 << 40, ..ServerBehavior::default() };
        let mut server = Serve::new(behavior, seed);
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_matches_oracle(&plan, &outcome, "uploads");
        assert_eq!((outcome.main().replies, outcome.main().failed), (10, 0));
    }
}

/// Over HTTP/2, the server's windows decide how much is sent; it checks that none is exceeded.
#[test]
fn windows_are_respected() {
    for seed in 0..30 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 212);
        let one = length(&mut rng);
        let calls = vec![upload("/one", one, u64::MAX), get("/get")];
        let plan = Plan { seed, ..http2(plan(1, 12, calls), 1, rng.between(1, 5) as u32) };
        let setup = Setup::new(link(&mut rng), seed);
        let mut bodies = Vec::new();
        let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| {
            match turn.event {
                // The windows are used up only by what was received.
                Event::Data(n) if n > 0 => {
                    let stream = turn.stream;
                    turn.window(stream, n).on(0).window(0, n);
                }
                Event::Request(_) => {
                    let length = turn.request.field("content-length").map(str::to_owned);
                    bodies.push((length, std::mem::take(&mut turn.request.body)));
                    turn.ok();
                }
                _ => {
                    turn.usual();
                }
            }
        }));
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_invariants(&outcome, "windows");
        let all = outcome.main();
        assert_eq!((all.replies, all.failed), (12, 0), "{:?}", all.faults);
        assert_eq!(server.model().seen().connections, 1);
        drop(server);
        let sent = bodies.iter().filter(|(length, _)| length.is_some());
        for (length, body) in sent.clone() {
            assert_eq!(*length, Some(one.to_string()));
            assert!(*body == bytes(one), "{} of {one} bytes", body.len());
        }
        assert_eq!((sent.count(), bodies.len()), (6, 12));
    }
}

/// The streams of a connection take turns, however many they are: while all of them have more to
/// send, none is more than two frames before another.
#[test]
fn streams_take_turns() {
    const STREAMS: u64 = 9;
    const FRAME: u64 = 16 << 10;
    let calls = vec![upload("/one", 40 * FRAME, u64::MAX)];
    let plan = http2(plan(1, STREAMS, calls), 1, STREAMS as u32);
    let mut received = BTreeMap::new();
    let (mut most, mut checks) = (0, 0);
    let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| match turn.event {
        Event::Opened => {
            turn.settings(&[(4, 1 << 30)]).window(0, 1 << 30);
        }
        Event::Data(n) => {
            *received.entry(turn.stream).or_insert(0) += u64::from(n);
            let (least, largest) = (received.values().min(), received.values().max());
            // The windows are the usual ones until the settings have arrived.
            if received.len() as u64 == STREAMS && *least.expect("one") > 8 * FRAME {
                checks += 1;
                most = most.max(largest.expect("one") - least.expect("one"));
            }
        }
        Event::Request(_) => {
            received.insert(turn.stream, u64::MAX);
            received.retain(|_, n| *n != u64::MAX);
            turn.ok();
        }
        _ => {}
    }));
    let outcome = load(&plan, 1, &Setup::new(Link::with_latency(ms(1)), 1), &mut [&mut server]);
    assert_eq!((outcome.main().replies, outcome.main().failed), (STREAMS, 0));
    drop(server);
    assert!(checks > 100 && most <= 2 * FRAME, "{most} bytes apart in {checks} frames");
}

/// A server that replies before it has the body: the same happens as with a body in memory.
#[test]
fn early_replies_end_requests_as_those_with_bodies_in_memory() {
    let statuses = |t: &Tally| (t.statuses.clone(), t.replies, t.failed, t.connects);
    for seed in 0..20 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 213);
        let length = rng.between(150_000, 300_000);
        let file = upload("/one", length, u64::MAX);
        let memory = CallSpec { file: None, body: bytes(length), ..file.clone() };
        let link = Link { window: Some(20_000), ..Link::with_latency(Span::from_micros(50)) };
        let mut both = [file, memory].map(|call| {
            let mut plan = Plan { seed, ..plan(2, 10, vec![call, get("/get")]) };
            if seed % 2 == 1 {
                plan = http2(plan, 2, 1);
            }
            let mut server = recorded(1_000);
            let outcome = load(&plan, 1, &Setup::new(link.clone(), seed), &mut [&mut server]);
            assert_invariants(&outcome, "early replies");
            outcome.main()
        });
        let [file, memory] = &mut both;
        assert_eq!(file.statuses.get(&413), Some(&5), "{:?} {:?}", file.statuses, file.faults);
        assert_eq!(statuses(file), statuses(memory));
    }
}

/// A file that becomes shorter is an error of its requests, and of no other. The server gets
/// nothing but bytes of the file.
#[test]
fn a_file_that_shrinks_fails_its_requests() {
    for seed in 0..20 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 214);
        let length = rng.between(70_000, 300_000);
        let calls = vec![upload("/one", length, rng.below(12)), get("/get")];
        let plan = Plan { seed, ..plan(1, 10, calls) };
        let mut server = recorded(1 << 40);
        let outcome = load(&plan, 1, &Setup::new(link(&mut rng), seed), &mut [&mut server]);
        assert_invariants(&outcome, "a file that shrinks");
        let all = outcome.main();
        let failed = all.fault(Fault::BodyFile);
        assert!(failed >= 1 && all.failed == failed, "{:?}", all.faults);
        assert_eq!((all.started, all.replies + failed), (10, 10));
        let (mut complete, mut cut) = (0, 0);
        for (path, stated, body) in server.streams.values().flat_map(|bytes| requests(bytes)) {
            if path == "/one" {
                assert!(stated == length && bytes(length).starts_with(&body));
                let is_complete = body.len() as u64 == length;
                (complete, cut) =
                    (complete + u64::from(is_complete), cut + u64::from(!is_complete));
            }
        }
        assert_eq!(complete, 5 - failed, "{cut} were cut");
    }
}

/// Over HTTP/2, such a request ends alone: the others of its connection go on.
#[test]
fn a_file_that_shrinks_resets_its_stream_only() {
    for seed in seeds(20) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 215);
        let length = rng.between(70_000, 300_000);
        let calls = vec![upload("/one", length, rng.below(30)), upload("/two", 90_000, u64::MAX)];
        let plan = Plan { seed, ..http2(plan(1, 20, calls), 1, 4) };
        let mut whole = 0;
        let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| {
            match turn.event {
                Event::Opened => {
                    // Windows are not what this is about.
                    turn.settings(&[(4, 1 << 30)]).window(0, 1 << 30);
                }
                Event::Request(_) => {
                    let is_one = turn.request.field(":path") == Some("/one");
                    let body = std::mem::take(&mut turn.request.body);
                    assert!(body == bytes(if is_one { length } else { 90_000 }));
                    whole += u64::from(is_one);
                    turn.ok();
                }
                _ => {}
            }
        }));
        let outcome = load(&plan, 1, &Setup::new(link(&mut rng), seed), &mut [&mut server]);
        assert_invariants(&outcome, "a file that shrinks");
        let all = outcome.main();
        let failed = all.fault(Fault::BodyFile);
        assert!(failed >= 1 && all.failed == failed, "{:?}", all.faults);
        let seen = server.model().seen().clone();
        assert_eq!((all.replies, seen.connections), (20 - failed, 1));
        assert_eq!(seen.resets.values().sum::<u64>(), failed);
        drop(server);
        assert_eq!(whole, 10 - failed);
    }
}

/// A request that is sent again, as its connection was closed, is read from the start of its file.
#[test]
fn what_is_sent_again_is_read_again() {
    let mut retried = 0;
    for seed in 0..40 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 216);
        let length = rng.between(70_000, 200_000);
        let plan = Plan { seed, ..plan(2, 20, vec![upload("/one", length, u64::MAX)]) };
        assert_eq!(plan.http, HttpVersion::Http11);
        let reset = 0.002 * rng.unit();
        let link = Link { segment: Some(4_000), reset, ..Link::with_latency(ms(1)) };
        let mut server = recorded(1 << 40);
        let outcome = load(&plan, 1, &Setup::new(link, seed), &mut [&mut server]);
        assert_invariants(&outcome, "resets");
        let all = outcome.main();
        retried += all.retries;
        let all_bytes = bytes(length);
        let mut complete = 0;
        for (_, stated, body) in server.streams.values().flat_map(|bytes| requests(bytes)) {
            assert!(stated == length && all_bytes.starts_with(&body), "{} bytes", body.len());
            complete += u64::from(body.len() as u64 == length);
        }
        assert!(complete >= all.replies, "{complete} of {}", all.replies);
        assert_eq!(all.replies + all.failed, 20);
    }
    assert!(retried > 10, "{retried} requests were sent again");
}

/// Moves `/307` and `/303` to `/end`.
struct Moves;

impl ServerModel for Moves {
    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let path = String::from_utf8_lossy(head).split(' ').nth(1).expect("a path").to_owned();
        let (status, to) = match &*path {
            "/307" | "/303" => (&path[1..], "Location: /end\r\n"),
            _ => ("200", ""),
        };
        let reply = format!("HTTP/1.1 {status} X\r\n{to}Content-Length: 0\r\n\r\n");
        conns.send(id, reply.as_bytes());
    }
}

/// A redirect that keeps the method sends the file again, and one that becomes GET does not.
#[test]
fn redirects_send_the_file_again_unless_they_become_get() {
    const LENGTH: u64 = 150_000;
    let calls = ["/307", "/303"].map(|path| upload(path, LENGTH, u64::MAX));
    let mut plan = plan(1, 4, calls.into());
    let parts = Vec::new();
    plan.groups.push(Group { name: Follow::GROUP.into(), parts });
    let (redirects, servers) = (Redirects::Most(3), Vec::new());
    plan.follow = Some(Box::new(Follow { redirects, servers, group: 0 }));
    plan.check().expect("a valid plan");
    let link = Link { window: Some(20_000), ..Link::with_latency(Span::from_micros(50)) };
    let setup = Setup { watch: false, ..Setup::new(link, 1) };
    let expected = ["PUT /307", "PUT /end", "PUT /303", "GET /end"];
    let expected = expected.into_iter().cycle().take(8).map(|line| {
        let length = if line.starts_with("PUT") { LENGTH } else { 0 };
        (line.to_owned(), length)
    });
    let expected: Vec<(String, u64)> = expected.collect();

    let mut server = Recorded::new(Server::new(Moves));
    let all = load(&plan, 1, &setup, &mut [&mut server]).main();
    assert_eq!((all.replies, all.failed), (8, 0), "{:?}", all.faults);
    let received: Vec<Request> = server.streams.values().flat_map(|b| requests(b)).collect();
    assert!(received.iter().all(|(_, _, body)| *body == bytes(body.len() as u64)));
    let stated = received.iter().map(|(path, stated, body)| {
        assert_eq!(*stated, body.len() as u64, "{path}");
        let method = if *stated > 0 { "PUT" } else { "GET" };
        (format!("{method} {path}"), *stated)
    });
    assert_eq!(stated.collect::<Vec<_>>(), expected);

    let plan = http2(plan, 1, 1);
    let mut seen = Vec::new();
    let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| match turn.event {
        Event::Data(n) if n > 0 => {
            let stream = turn.stream;
            turn.window(stream, n).on(0).window(0, n);
        }
        Event::Request(_) => {
            let body = std::mem::take(&mut turn.request.body);
            assert!(body == bytes(body.len() as u64));
            let field = |name: &str| turn.request.field(name).unwrap_or("none").to_owned();
            seen.push((format!("{} {}", field(":method"), field(":path")), body.len() as u64));
            match &*field(":path") {
                "/end" => turn.ok(),
                path => turn.headers(true, &[(":status", &path[1..]), ("location", "/end")]),
            };
        }
        _ => {
            turn.usual();
        }
    }));
    let all = load(&plan, 1, &setup, &mut [&mut server]).main();
    assert_eq!((all.replies, all.failed), (8, 0), "{:?}", all.faults);
    drop(server);
    assert_eq!(seen, expected);
}
