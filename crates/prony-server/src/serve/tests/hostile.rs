//! Clients that ask for much and read nothing, or all of it: each call of the machine does a
//! bounded amount of work, and others are served in between.

use prony_base::http2::PREFACE;
use prony_base::http2::frame::{self, Settings, flag, kind};
use prony_base::http2::hpack::encode_static;

use super::*;

/// What one call may give to the driver, in bytes.
const MOST: usize = 512 << 10;
/// How many calls of the driver another client may have to wait for.
const PATIENCE: usize = 2_000;

/// A stream that never ends, as far as a test can tell.
fn stream(gap: &str) -> ServerBehavior {
    let sse = format!("{gap}count=1000000000").parse().expect("a stream");
    ServerBehavior { sse: Some(sse), ..ServerBehavior::default() }
}

fn push(rate: &str) -> ServerBehavior {
    ServerBehavior { ws: Some(rate.parse().expect("pushes")), ..ServerBehavior::default() }
}

pub(super) const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\
                       Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Version: 13\r\n\r\n";

/// The start of a connection of HTTP/2 with this initial window.
pub(super) fn start_h2(window: u32) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    frame::settings(&mut out, &[(Settings::WINDOW, window)]);
    out
}

/// The head of a request of HTTP/2.
pub(super) fn headers(
    stream: u32,
    method: &str,
    path: &str,
    more: &[(&str, &str)],
    ends: bool,
) -> Vec<u8> {
    let (mut out, mut block) = (Vec::new(), Vec::new());
    let fields = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)];
    for (name, value) in fields.iter().chain(more) {
        encode_static(&mut block, name.as_bytes(), value.as_bytes());
    }
    let flags = flag::END_HEADERS | if ends { flag::END_STREAM } else { 0 };
    frame::head(&mut out, block.len(), kind::HEADERS, flags, stream);
    out.extend_from_slice(&block);
    out
}

fn get_h2(window: u32) -> Vec<u8> {
    [start_h2(window), headers(1, "GET", "/", &[], true)].concat()
}

pub(super) fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// 50 clients that send this and read nothing, or whatever comes.
fn crowd(behavior: ServerBehavior, bytes: &[u8], reads: bool) -> Rig {
    let mut rig = Rig::new(behavior);
    rig.drains = false;
    for _ in 0..50 {
        let link = rig.connect();
        rig.links[link].window = if reads { usize::MAX } else { 0 };
        rig.send(link, bytes);
    }
    rig
}

impl Rig {
    /// One turn of a driver: a tick if one is due, then more output of the clients that read.
    /// Asserts that no call gives more than its share.
    pub(super) fn turn(&mut self) {
        self.now = self.now + Span::from_micros(200);
        if std::mem::take(&mut self.yielded) {
            self.serve.on_turn(self.now);
            self.act();
        }
        if self.serve.deadline().is_some_and(|at| at <= self.now) {
            self.serve.on_tick(self.now);
            self.act();
        }
        for link in 0..self.links.len() {
            let before = self.received(link);
            if self.links[link].has_more() {
                self.fetch(link);
                self.act();
            }
            let got = self.received(link) - before;
            assert!(got <= MOST, "{got} bytes in one call");
        }
        if self.deliver_unread() {
            self.act();
        }
    }

    pub(super) fn received(&self, link: usize) -> usize {
        self.links[link].got.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Assert that a new client with requests of each kind is served.
    pub(super) fn assert_serves_others(&mut self, what: &str) {
        let link = self.connect();
        self.send(link, get("/delay/0s") + &get("/delay/1ms"));
        let mut turns = 0;
        loop {
            self.turn();
            turns += 1;
            assert!(turns < PATIENCE, "{what}: {turns} turns, {:?}", self.text(link));
            if self.text(link).matches("HTTP/1.1 ").count() == 2 {
                break;
            }
        }
        assert!(self.text(link).starts_with("HTTP/1.1 200"), "{what}: {:?}", self.text(link));
    }
}

#[test]
fn streams_that_are_not_read_have_no_timer() {
    let window_0 = get_h2(0);
    let model = post(
        "/v1/chat/completions",
        r#"{"stream":true,"max_tokens":4000000000,"ignore_eos":true,"messages":[]}"#,
    );
    for gap in ["", "gap=fixed:1us,", "gap=fixed:1ns,", "ttft=1ms,gap=exp:1us,"] {
        for bytes in [get("/").as_bytes(), &window_0, model.as_bytes()] {
            let mut rig = crowd(stream(gap), bytes, false);
            for _ in 0..1_000 {
                rig.turn();
            }
            rig.assert_serves_others(gap);
            let what = format!("{gap} {:?}", String::from_utf8_lossy(bytes));
            assert_eq!(rig.serve.deadline().filter(|&at| at <= rig.now), None, "{what}");
            let written = rig.served().events;
            assert!(written <= 50 * 2_000, "{what}: {written} events");
        }
    }
}

#[test]
fn streams_that_are_read_leave_time_for_others() {
    let wide = get_h2(1 << 30);
    for gap in ["", "gap=fixed:1us,", "gap=fixed:1ns,"] {
        for bytes in [get("/").as_bytes(), &wide] {
            let mut rig = crowd(stream(gap), bytes, true);
            for _ in 0..100 {
                rig.turn();
            }
            rig.assert_serves_others(gap);
        }
    }
}

/// A client that has paused gets every event, in order.
#[test]
fn a_stream_goes_on_where_its_client_stopped_to_read() {
    let sse = "gap=fixed:1us,count=20000".parse().expect("a stream");
    let behavior = ServerBehavior { sse: Some(sse), ..ServerBehavior::default() };
    let mut rig = crowd(behavior, get("/").as_bytes(), false);
    for _ in 0..5_000 {
        rig.turn();
    }
    rig.drains = true;
    for link in 0..50 {
        rig.open_window(link, usize::MAX);
    }
    rig.run_until(rig.now + Span::from_secs(1));
    for link in 0..50 {
        let text = rig.text(link);
        let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
        let ids: Vec<u64> = ids.map(|id| id.parse().expect("a number")).collect();
        assert_eq!(ids, (1..=20_000).collect::<Vec<_>>(), "client {link}");
    }
    assert_eq!((rig.served().replies, rig.served().events), (50, 50 * 20_000));
}

/// What lags behind by more than the allowed lateness is not made up for.
#[test]
fn a_server_that_is_late_delays_the_rest_of_its_streams() {
    let sse = "gap=fixed:1ms,count=1000".parse().expect("a stream");
    let mut rig = Rig::new(ServerBehavior { sse: Some(sse), ..ServerBehavior::default() });
    let link = rig.connect();
    rig.send(link, get("/"));
    rig.now = at(500);
    rig.serve.on_tick(rig.now);
    rig.act();
    rig.run_until(at(500));
    let events = rig.text(link).matches("id: ").count();
    assert!((100..=103).contains(&events), "those of the last 100 ms: {events}");
    rig.run_until(at(600));
    assert_eq!(rig.text(link).matches("id: ").count(), events + 100);
}

#[test]
fn pushed_messages_that_are_not_read_have_no_timer() {
    for rate in ["push:1000000", "push:exp:1ns"] {
        for size in [1, 1_000, 100_000] {
            let behavior = ServerBehavior { size, ..push(rate) };
            let mut rig = crowd(behavior, UPGRADE.as_bytes(), false);
            for _ in 0..2_000 {
                rig.turn();
            }
            rig.run_until(rig.now + ms(100));
            assert_eq!(rig.serve.deadline(), None, "{rate} {size}");
        }
    }
}

#[test]
fn pushed_messages_go_on_when_they_are_read() {
    let mut rig = crowd(push("push:100000"), UPGRADE.as_bytes(), false);
    for _ in 0..2_000 {
        rig.turn();
    }
    assert_eq!(rig.serve.deadline().filter(|&at| at <= rig.now), None);
    for link in 0..50 {
        rig.open_window(link, usize::MAX);
    }
    for _ in 0..100 {
        rig.turn();
    }
    let sent = rig.served().socket_messages_sent;
    // What waited, what was due in the last 100 ms, and in these turns.
    let bound = 50 * (((1 << 20) / 256) + 10_000 + 2_000);
    assert!((50 * 2_000..bound).contains(&sent), "{sent}");
    // The messages of each are numbered without a gap.
    let text = rig.bytes(7);
    let start = text.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let (mut rest, mut k) = (&text[start..], 0_u64);
    while let [0x81, length, more @ ..] = rest {
        k += 1;
        let (length, payload) = match length {
            126 => (usize::from(more[0]) << 8 | usize::from(more[1]), &more[2..]),
            length => (usize::from(*length), more),
        };
        let text = String::from_utf8_lossy(&payload[..length]);
        assert_eq!(text.trim_end().parse(), Ok(k));
        rest = &payload[length..];
    }
    assert!(rest.is_empty() && k > 2_000, "{k}");
}

#[test]
fn long_bodies_are_sent_in_turns() {
    let path = get("/bytes/1000000000000");
    let mut rig = crowd(ServerBehavior::default(), path.as_bytes(), true);
    rig.turn();
    rig.assert_serves_others("a long body");
}

#[test]
fn replies_in_one_piece_have_a_bounded_length() {
    let mut rig = Rig::new(stream(""));
    let link = rig.connect();
    let body = r#"{"max_tokens":4000000000,"ignore_eos":true,"messages":[]}"#;
    rig.send(link, post("/v1/chat/completions", body));
    assert_eq!(rig.statuses(link), [400]);
    assert!(rig.text(link).contains("max_tokens over 131072"), "{}", rig.text(link));
    let body = r#"{"max_tokens":18446744073709551615,"ignore_eos":true,"stream":true}"#;
    let streamed = rig.connect();
    rig.links[streamed].window = 1_000;
    rig.send(streamed, post("/v1/chat/completions", body));
    assert!(rig.text(streamed).starts_with("HTTP/1.1 200"), "{}", rig.text(streamed));
}
