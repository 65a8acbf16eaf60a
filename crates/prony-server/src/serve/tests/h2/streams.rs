//! Requests and replies.

use super::*;
use crate::serve::{CloseAfter, Latency, Stalls};

fn fixed(n: u64) -> ServerBehavior {
    ServerBehavior { latency: Latency::Fixed(ms(n)), ..ServerBehavior::default() }
}

#[test]
fn serves_every_path() {
    let mut frames = Frames::start();
    frames.get(1, "/").get(3, "/bytes/0").get(5, "/status/204").get(7, "/bytes/nine?x=1");
    frames.request(9, "HEAD", "/bytes/77", &[]);
    let block = frames.block(&[(":method", "BREW"), (":scheme", "http"), (":path", "/")]);
    frames.frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 11, &block);
    frames.data(9, b"", true);
    let rig = rig(ServerBehavior::default(), &mut frames);
    let statuses = rig.statuses_h2(0, &[1, 3, 5, 7, 9, 11]);
    assert_eq!(statuses, ["200", "200", "204", "404", "200", "501"]);
    let field = |stream, name: &str| {
        let fields = rig.reply(0, stream).fields;
        fields.into_iter().find(|(n, _)| n == name).map(|(_, value)| value)
    };
    assert_eq!(rig.reply(0, 1).body.len(), 128);
    assert_eq!(field(1, "content-length").as_deref(), Some("128"));
    assert_eq!(field(1, "content-type").as_deref(), Some("text/plain"));
    assert_eq!(field(1, "server").as_deref(), Some("prony"));
    assert_eq!(field(9, "content-length").as_deref(), Some("77"), "HEAD");
    assert_eq!((field(5, "content-length"), rig.reply(0, 9).body.len()), (None, 0));
    let served = rig.served();
    assert_eq!((served.requests, served.bad_requests, served.replies), (5, 1, 6));
    assert_eq!((served.h2_connections, served.h2_requests, served.streams), (1, 5, 6));
    assert_eq!(served.bytes_out, rig.bytes(0).len() as u64);
}

#[test]
fn starts_with_its_settings_and_acknowledges_those_of_the_client() {
    let behavior = ServerBehavior { max_streams: 7, window: 9, ..ServerBehavior::default() };
    let rig = rig(behavior, &mut Frames::start());
    let frames = rig.frames(0);
    assert_eq!((frames[0].kind, frames[0].flags), (kind::SETTINGS, 0));
    let mut settings = frame::Settings::default();
    assert_eq!(settings.apply(&frames[0].payload, |_, _| {}), Ok(()));
    assert_eq!((settings.streams, settings.window), (Some(7), 9));
    assert_eq!((frames[1].kind, frames[1].flags), (kind::SETTINGS, flag::ACK));
    assert_eq!((frames[2].kind, frames[2].stream), (kind::WINDOW_UPDATE, 0));
    assert_eq!(rig.links[0].got.len(), 1, "one write");
}

#[test]
fn the_split_of_the_bytes_does_not_matter() {
    let mut frames = Frames::start();
    frames.get(1, "/bytes/40000").post(3, "/echo", &[("content-length", "11")]);
    frames.data(3, b"hello ", false).ping(b"12345678").data(3, b"world", true);
    frames.window(0, 1 << 20).window(1, 1 << 20).get(5, "/status/503");
    let bytes = frames.take();
    let run = |cut: usize| {
        let mut rig = Rig::new(ServerBehavior::default());
        rig.connect();
        for piece in bytes.chunks(cut) {
            rig.send(0, piece);
        }
        let replies = [1, 3, 5].map(|stream| rig.reply(0, stream));
        (replies, rig.served().clone(), rig.count(0, kind::PING))
    };
    let whole = run(bytes.len());
    assert_eq!(whole.0[0].body.len(), 40_000);
    assert_eq!(whole.0[1].body, b"hello world");
    for cut in [1, 2, 3, 7, 9, 24, 25, 33, 100] {
        assert_eq!(run(cut), whole, "pieces of {cut}");
    }
}

#[test]
fn http_1_is_still_served() {
    let mut rig = Rig::new(ServerBehavior::default());
    let link = rig.connect();
    for byte in "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi".bytes() {
        rig.send(link, [byte]);
    }
    rig.send(link, get("/status/404"));
    assert_eq!(rig.statuses(link), [200, 404]);
    let other = rig.connect();
    rig.send(other, "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
    assert!(rig.text(other).starts_with("HTTP/1.1 505 "), "{}", rig.text(other));
    assert_eq!((rig.served().h2_connections, rig.served().streams), (0, 0));
    // No HTTP at all: no reply.
    let odd = rig.connect();
    rig.send(odd, "INVALID CONNECTION PREFACE\r\n\r\n");
    assert!(rig.bytes(odd).is_empty() && rig.links[odd].closed.is_some());
    assert_eq!((rig.served().bad_requests, rig.served().unanswered), (2, 1));
}

#[test]
fn replies_are_sent_as_they_become_ready() {
    let mut frames = Frames::start();
    frames.get(1, "/delay/5ms").get(3, "/").get(5, "/delay/3ms");
    let mut rig = rig(fixed(1), &mut frames);
    let done = |rig: &Rig| [1, 3, 5].map(|stream| rig.reply(0, stream).ended);
    rig.run_until(at(1));
    assert_eq!(done(&rig), [false, true, false]);
    rig.run_until(at(3));
    assert_eq!(done(&rig), [false, true, true]);
    rig.run_until(at(5));
    assert_eq!(done(&rig), [true; 3]);
    assert_eq!(rig.served().in_server_max, 3);
}

#[test]
fn streams_share_the_workers_with_http_1() {
    let workers = std::num::NonZeroU32::new(1);
    let mut frames = Frames::start();
    frames.get(1, "/").get(3, "/");
    let mut rig = rig(ServerBehavior { workers, ..fixed(2) }, &mut frames);
    let other = rig.connect();
    rig.send(other, get("/"));
    rig.send(0, frames.get(5, "/").take());
    // The cancelled request no longer waits.
    rig.send(0, frames.reset(3).take());
    rig.run_until(at(2));
    assert!(rig.reply(0, 1).ended && rig.bytes(other).is_empty());
    rig.run_until(at(4));
    assert!(!rig.bytes(other).is_empty() && !rig.reply(0, 5).ended);
    rig.run_until(at(6));
    assert!(rig.reply(0, 5).ended);
    let served = rig.served();
    assert_eq!((served.requests, served.replies, served.cancelled), (4, 3, 1));
}

#[test]
fn a_frozen_server_sends_nothing() {
    let stalls: Stalls = "10ms@+5ms".parse().expect("a freeze");
    let mut frames = Frames::start();
    frames.get(1, "/");
    let mut rig = rig(ServerBehavior { stalls, ..fixed(0) }, &mut frames);
    assert!(rig.reply(0, 1).ended);
    rig.run_until(at(7));
    let before = rig.bytes(0).len();
    rig.send(0, frames.get(3, "/").ping(b"frozen??").take());
    rig.run_until(at(14));
    assert_eq!(rig.bytes(0).len(), before);
    rig.run_until(at(15));
    assert!(rig.reply(0, 3).ended);
    assert_eq!(rig.count(0, kind::PING), 1);
    assert_eq!(rig.served().frozen, 1);
}

#[test]
fn reads_bodies_and_trailers() {
    let mut frames = Frames::start();
    frames.post(1, "/echo", &[("expect", "100-continue")]).post(3, "/echo", &[]);
    let mut rig = rig(ServerBehavior::default(), &mut frames);
    assert_eq!(rig.reply(0, 1).statuses, ["100"]);
    frames.frame(kind::DATA, flag::PADDED, 1, b"\x03abcxyz").data(3, b"12", false);
    let block = frames.block(&[("x-sum", "6")]);
    frames.frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block);
    frames.data(3, b"", true);
    rig.send(0, frames.take());
    let reply = rig.reply(0, 1);
    assert_eq!((reply.status(), &reply.body[..]), ("200", &b"abc"[..]));
    assert_eq!(rig.reply(0, 3).body, b"12");
    assert_eq!((rig.served().continues, rig.served().replies), (1, 2));
}

#[test]
fn a_header_block_can_be_split_into_frames() {
    let mut frames = Frames::start();
    let long = "x".repeat(30_000);
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":path", "/bytes/5"), ("x-long", &long)];
    let block = frames.block(&fields);
    let mut pieces = block.chunks(1_000);
    let first = pieces.next().expect("a piece");
    let priority = [&[0, 0, 0, 9, 7][..], first].concat();
    frames.frame(kind::HEADERS, flag::END_STREAM | flag::PRIORITY, 1, &priority);
    let pieces: Vec<_> = pieces.collect();
    for (i, piece) in pieces.iter().enumerate() {
        let is_last = i + 1 == pieces.len();
        frames.frame(kind::CONTINUATION, if is_last { flag::END_HEADERS } else { 0 }, 1, piece);
    }
    let rig = rig(ServerBehavior::default(), &mut frames);
    assert_eq!(rig.reply(0, 1).body.len(), 5);
}

#[test]
fn a_body_over_the_limit_gets_413() {
    let mut frames = Frames::start();
    frames.post(1, "/echo", &[("content-length", "11")]).post(3, "/echo", &[]);
    frames.data(3, b"12345678901", false);
    let mut rig = rig(ServerBehavior { max_body: 10, ..ServerBehavior::default() }, &mut frames);
    assert_eq!([1, 3].map(|s| rig.reply(0, s).statuses), [["413"], ["413"]]);
    // Both were answered early, and reset; what comes late is ignored.
    let resets: Vec<_> =
        rig.frames(0).iter().filter(|f| f.kind == kind::RST_STREAM).map(|f| f.stream).collect();
    assert_eq!(resets, [1, 3]);
    rig.send(0, frames.data(1, b"12345678901", true).data(3, b"1", true).get(5, "/").take());
    assert!(rig.reply(0, 5).ended);
    assert_eq!((rig.served().bad_requests, rig.served().violations), (2, 0));
}

#[test]
fn equal_requests_are_decoded_once_and_served_alike() {
    let mut frames = Frames::start();
    for stream in 0..200 {
        frames.get(2 * stream + 1, if stream % 3 == 0 { "/bytes/1" } else { "/bytes/2" });
    }
    let rig = rig(ServerBehavior::default(), &mut frames);
    for stream in 0..200 {
        let length = if stream % 3 == 0 { 1 } else { 2 };
        assert_eq!(rig.reply(0, 2 * stream + 1).body.len(), length, "stream {stream}");
    }
}

#[test]
fn closes_after_a_number_of_requests() {
    for silent in [false, true] {
        let close_after = Some(CloseAfter { requests: 2, silent });
        let mut frames = Frames::start();
        frames.get(1, "/").get(3, "/").get(5, "/").get(7, "/");
        let mut rig = rig(ServerBehavior { close_after, ..fixed(1) }, &mut frames);
        let announced = if silent { vec![] } else { vec![(3, Code::NO_ERROR)] };
        assert_eq!(rig.goaways(0), announced, "at once");
        rig.run_until(at(1));
        assert_eq!(rig.statuses_h2(0, &[1, 3]), ["200", "200"]);
        assert_eq!([5, 7].map(|s| rig.reply(0, s)), [Reply::default(), Reply::default()]);
        rig.run_until(at(2_000));
        assert_eq!(rig.links[0].closed.map(|(_, how)| how), Some(CloseHow::Orderly));
        let served = rig.served();
        assert_eq!((served.requests, served.replies, served.ignored), (2, 2, 2));
    }
}

#[test]
fn stops_after_the_open_streams() {
    let mut frames = Frames::start();
    frames.get(1, "/").get(3, "/delay/20ms");
    let mut rig = rig(fixed(1), &mut frames);
    let idle = rig.connect();
    rig.send(idle, Frames::start().take());
    rig.run_until(at(5));
    rig.stop(StopRequest::Drain);
    assert_eq!(rig.goaways(idle), [(0, Code::NO_ERROR)]);
    assert!(rig.links[idle].closed.is_some() && rig.links[0].closed.is_none());
    rig.send(0, frames.get(5, "/").take());
    rig.run_until(at(21));
    assert_eq!(rig.goaways(0), [(3, Code::NO_ERROR)]);
    assert!(rig.reply(0, 3).ended && rig.links[0].closed.is_some() && rig.finished);
    assert_eq!((rig.served().ignored, rig.served().replies), (1, 2));
}

#[test]
fn answers_a_client_that_has_closed_its_side() {
    let mut frames = Frames::start();
    frames.get(1, "/").post(3, "/", &[]);
    let mut rig = rig(fixed(5), &mut frames);
    rig.half_close(0);
    rig.run_until(at(5));
    assert!(rig.reply(0, 1).ended && rig.links[0].closed.is_some());
    assert_eq!(rig.served().cut_requests, 1);
}
