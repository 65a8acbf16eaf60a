//! What servers do, and what happens to the requests (RFC 9113).

use super::*;
use prony_base::http2::FRAME_SIZE;
use prony_base::units::Span;

/// The requests of every row: three GETs, on the streams 1, 3 and 5.
const REQUESTS: u32 = 3;

#[track_caller]
fn row(name: &str, server: Server, expected: Result<&str, (Fault, Code)>) {
    for piece in [usize::MAX, 1, 2, 7, 1000] {
        let mut client = Client::with_requests(REQUESTS);
        let result = client.receive(&server.0, piece);
        let shown = format!("{name}, in pieces of {piece}: {:?}", client.seen.all());
        match expected {
            Ok(ends) => {
                assert_eq!(result, Ok(()), "{shown}");
                assert_eq!(client.seen.all(), ends, "{shown}");
                assert!(client.stash.is_empty(), "{shown}");
            }
            Err((fault, code)) => {
                assert_eq!(result, Err(fault), "{shown}");
                assert_eq!(client.close(), Some(code), "{shown}");
            }
        }
    }
}

const PROTOCOL: (Fault, Code) = (Fault::BadHttp2, Code::PROTOCOL_ERROR);
const SIZE: (Fault, Code) = (Fault::BadHttp2, Code::FRAME_SIZE_ERROR);
const CALM: (Fault, Code) = (Fault::BadHttp2, Code::ENHANCE_YOUR_CALM);
const FLOW: (Fault, Code) = (Fault::FlowControl, Code::FLOW_CONTROL_ERROR);
const HPACK: (Fault, Code) = (Fault::BadHpack, Code::COMPRESSION_ERROR);
const CLOSED: (Fault, Code) = (Fault::BadHttp2, Code::STREAM_CLOSED);

#[test]
fn replies() {
    let s = Server::new;
    row("nothing", s(), Ok("-, -, -"));
    row("in order", s().ok(1, 1).ok(3, 1).ok(5, 1), Ok("200 0, 200 0, 200 0"));
    row("in another order", s().ok(5, 1).ok(1, 1), Ok("200 0, -, 200 0"));
    let mixed = s().ok(1, 0).ok(3, 0).data(1, 0, 10).data(3, 0, 1).data(1, 1, 5).data(3, 1, 0);
    row("interleaved", mixed, Ok("200 15, 200 1, -"));
    let status = |status| s().headers(1, 1, &[(":status", status)]);
    row("404", status("404"), Ok("404 0, -, -"));
    let interim = s().headers(1, 0, &[(":status", "103")]).headers(1, 0, &[(":status", "100")]);
    row("interim replies", interim.ok(1, 1), Ok("200(2) 0, -, -"));
    let trailers = s().ok(1, 0).data(1, 0, 3).headers(1, 1, &[("grpc-status", "0")]);
    row("trailers", trailers, Ok("200 3, -, -"));
    let padded = s().ok(1, 0).frame(kind::DATA, 9, 1, b"\x03abcdePAD");
    row("padded data", padded, Ok("200 5, -, -"));
    let padding = s().ok(1, 0).frame(kind::DATA, 9, 1, b"\x03PAD");
    row("only padding", padding, Ok("200 0, -, -"));
    let mut padded = vec![2, 0, 0, 0, 0, 7];
    padded.extend(block(&[(":status", "200")]));
    padded.extend(b"..");
    row("padded head with priority", s().frame(1, 0x2d, 1, &padded), Ok("200 0, -, -"));
    let fields = [(":status", "200"), ("content-length", "7")];
    row("its length", s().headers(1, 0, &fields).data(1, 1, 7), Ok("200 7, -, -"));
    let not_modified = [(":status", "304"), ("content-length", "7")];
    row("304 with a length", s().headers(1, 1, &not_modified), Ok("304 0, -, -"));
    row("unknown frames", s().frame(99, 255, 7, b"abc").ok(1, 1), Ok("200 0, -, -"));
    row("priority", s().frame(kind::PRIORITY, 0, 9, &[0; 5]).ok(1, 1), Ok("200 0, -, -"));
    let whole = block(&[(":status", "200"), ("a", "b")]);
    let split = s().frame(1, 1, 1, &whole[..1]).frame(9, 0, 1, &[]).frame(9, 4, 1, &whole[1..]);
    row("continued head", split, Ok("200 0, -, -"));
}

#[test]
fn replies_that_fail_alone() {
    let s = Server::new;
    let bad = |fields: &[(&str, &str)]| s().headers(1, 1, fields).ok(3, 1);
    row("no status", bad(&[("a", "b")]), Ok("BadHeader, 200 0, -"));
    row("upper case", bad(&[(":status", "200"), ("A", "b")]), Ok("BadHeader, 200 0, -"));
    row("empty name", bad(&[(":status", "200"), ("", "b")]), Ok("BadHeader, 200 0, -"));
    let hop = [(":status", "200"), ("connection", "close")];
    row("header of the connection", bad(&hop), Ok("BadHeader, 200 0, -"));
    row("status 101", s().headers(1, 0, &[(":status", "101")]), Ok("BadHeader, -, -"));
    row("status 600", s().headers(1, 1, &[(":status", "600")]), Ok("BadHeader, -, -"));
    row("interim reply at the end", bad(&[(":status", "100")]), Ok("BadHeader, 200 0, -"));
    let trailers = s().ok(1, 0).headers(1, 0, &[("a", "b")]);
    row("trailers without an end", trailers, Ok("BadHeader, -, -"));
    row("two heads", s().ok(1, 0).ok(1, 1), Ok("BadHeader, -, -"));
    row("a body without a head", s().data(1, 1, 3).ok(3, 1), Ok("BadHeader, 200 0, -"));
    let mut many = s();
    for _ in 0..33 {
        many = many.headers(1, 0, &[(":status", "103")]);
    }
    row("33 interim replies", many, Ok("BadHeader, -, -"));
    let length = [(":status", "200"), ("content-length", "7")];
    let short = s().headers(1, 0, &length).data(1, 1, 6);
    row("short body", short, Ok("ShortBody, -, -"));
    row("long body", s().headers(1, 0, &length).data(1, 1, 8), Ok("Surplus, -, -"));
    row("no body", s().headers(1, 1, &length), Ok("ShortBody, -, -"));
    row(
        "204 with a body",
        s().headers(1, 0, &[(":status", "204")]).data(1, 1, 1),
        Ok("Surplus, -, -"),
    );
    let window = s().frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4]).ok(3, 1);
    row("a window update of 0", window, Ok("BadHttp2, 200 0, -"));
    let window = s().window(1, (1 << 31) - 1).ok(3, 1);
    row("a window over 2^31 - 1", window, Ok("FlowControl, 200 0, -"));
    let value = "0".repeat(40_000);
    let large = block(&[(":status", "200"), ("a", &value), ("b", &value)]);
    let mut split = s();
    let pieces = large.chunks(FRAME_SIZE as usize).enumerate();
    let last = large.len().div_ceil(FRAME_SIZE as usize) - 1;
    for (n, piece) in pieces {
        let flags = if n == 0 { 1 } else { 0 } | if n == last { 4 } else { 0 };
        split = split.frame(if n == 0 { 1 } else { 9 }, flags, 1, piece);
    }
    row("a head of 80 kB", split.ok(3, 1), Ok("HeaderTooLarge, 200 0, -"));
}

#[test]
fn streams_that_end_early() {
    let s = Server::new;
    row("refused", s().rst(3, Code::REFUSED_STREAM), Ok("-, Refused, -"));
    row("cancelled", s().ok(1, 0).rst(1, Code::CANCEL), Ok("StreamReset, -, -"));
    row("unknown code", s().rst(1, Code(99)), Ok("StreamReset, -, -"));
    row("reset after the reply", s().ok(1, 1).rst(1, Code::NO_ERROR), Ok("200 0, -, -"));
    let two_steps = s().goaway((1 << 31) - 1, Code::NO_ERROR).ok(1, 1).goaway(3, Code::NO_ERROR);
    row("goaway in two steps", two_steps.ok(3, 1), Ok("200 0, 200 0, moved"));
    row("goaway", s().goaway(1, Code::NO_ERROR), Ok("-, moved, moved"));
    row("goaway with an error", s().goaway(0, Code::INTERNAL_ERROR), Ok("moved, moved, moved"));
    // Frames of moved streams may still arrive.
    row("frames after goaway", s().goaway(1, Code::NO_ERROR).ok(5, 1), Ok("-, moved, moved"));
}

#[test]
fn goaways_drain_and_are_counted() {
    let mut client = Client::with_requests(3);
    let server = Server::new().goaway(3, Code::NO_ERROR).goaway(1, Code::ENHANCE_YOUR_CALM);
    client.receive(&server.rst(1, Code::REFUSED_STREAM).0, usize::MAX).unwrap();
    assert!(client.seen.drains);
    assert_eq!(client.h2.capacity(&client.conn, 0, 100), 0);
    let counts = &client.h2.counts;
    assert_eq!(
        counts.goaways,
        BTreeMap::from([("ENHANCE_YOUR_CALM".into(), 1), ("NO_ERROR".into(), 1)])
    );
    assert_eq!((counts.moved, counts.refused), (2, 1));
    assert_eq!(counts.resets, BTreeMap::from([("REFUSED_STREAM".into(), 1)]));
}

#[test]
fn errors_of_the_connection() {
    let s = Server::new;
    let e = Server::default;
    row("no settings first", e().ok(1, 1), Err(PROTOCOL));
    row("a ping before settings", e().frame(kind::PING, 0, 0, &[0; 8]), Err(PROTOCOL));
    row("an acknowledgement first", e().frame(kind::SETTINGS, 1, 0, &[]), Err(PROTOCOL));
    row("push", s().frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2]), Err(PROTOCOL));
    row("an idle stream", s().ok(7, 1), Err(PROTOCOL));
    row("an even stream", s().ok(2, 1), Err(PROTOCOL));
    row("headers of stream 0", s().ok(0, 1), Err(PROTOCOL));
    row("data of stream 0", s().data(0, 1, 1), Err(PROTOCOL));
    row("data of an idle stream", s().data(9, 1, 1), Err(PROTOCOL));
    row("reset of an idle stream", s().rst(9, Code::CANCEL), Err(PROTOCOL));
    row("reset of stream 0", s().rst(0, Code::CANCEL), Err(PROTOCOL));
    row("window of an idle stream", s().window(9, 1), Err(PROTOCOL));
    row("settings of a stream", s().frame(kind::SETTINGS, 0, 1, &[]), Err(PROTOCOL));
    row("a ping of a stream", s().frame(kind::PING, 0, 1, &[0; 8]), Err(PROTOCOL));
    row("goaway of a stream", s().frame(kind::GOAWAY, 0, 1, &[0; 8]), Err(PROTOCOL));
    row("priority of stream 0", s().frame(kind::PRIORITY, 0, 0, &[0; 5]), Err(PROTOCOL));
    row("a window of 0", s().frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]), Err(PROTOCOL));
    row("a continuation alone", s().frame(9, 4, 1, &[]), Err(PROTOCOL));
    let open = || s().frame(1, 0, 1, &block(&[(":status", "200")]));
    row("a frame within a head", open().frame(kind::PING, 0, 0, &[0; 8]), Err(PROTOCOL));
    row("data within a head", open().data(1, 0, 1), Err(PROTOCOL));
    row("another stream's continuation", open().frame(9, 4, 3, &[]), Err(PROTOCOL));
    row(
        "padding as long as the frame",
        s().ok(1, 0).frame(0, 8, 1, b"\x03abc").ok(3, 1),
        Ok("-, 200 0, -"),
    );
    row("padding over the frame", s().ok(1, 0).frame(0, 8, 1, b"\x04abc"), Err(PROTOCOL));
    row("padding over the head", s().frame(1, 0xc, 1, b"\x04abc"), Err(PROTOCOL));
    row("data after the end", s().ok(1, 1).data(1, 1, 1), Err(CLOSED));
    row("a head after the end", s().ok(1, 1).ok(1, 1), Err(CLOSED));
    row("a push setting", e().settings(&[(Settings::PUSH, 1)]), Err(PROTOCOL));
    let corrected = e().settings(&[(Settings::PUSH, 1), (Settings::PUSH, 0)]);
    row("a push setting that is taken back", corrected, Err(PROTOCOL));
    row("no pushes", e().settings(&[(Settings::PUSH, 0)]), Ok("-, -, -"));
    row("an invalid push setting", e().settings(&[(Settings::PUSH, 2)]), Err(PROTOCOL));
}

#[test]
fn errors_of_sizes() {
    let s = Server::new;
    let too_long = s().frame(99, 0, 0, &[0; FRAME_SIZE as usize + 1]);
    row("a long frame", too_long, Err(SIZE));
    row("a long ping", s().frame(kind::PING, 0, 0, &[0; 9]), Err(SIZE));
    row("a short reset", s().frame(kind::RST_STREAM, 0, 1, &[0; 3]), Err(SIZE));
    row("a short window", s().frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), Err(SIZE));
    row("a short goaway", s().frame(kind::GOAWAY, 0, 0, &[0; 7]), Err(SIZE));
    row("a part of a setting", s().frame(kind::SETTINGS, 0, 0, &[0; 7]), Err(SIZE));
    row("a full acknowledgement", s().frame(kind::SETTINGS, 1, 0, &[0; 6]), Err(SIZE));
    row("a short priority", s().frame(kind::PRIORITY, 0, 1, &[0; 4]), Err(SIZE));
    let padded = s().ok(1, 0).frame(kind::DATA, 8, 1, &[]);
    row("padding without its length", padded, Err(SIZE));
}

#[test]
fn errors_of_heads() {
    let s = Server::new;
    row("index 0", s().frame(1, 5, 1, &[0x80]), Err(HPACK));
    row("an index beyond", s().frame(1, 5, 1, &[0xbe]), Err(HPACK));
    row("a cut field", s().frame(1, 5, 1, &[0x40, 5, b'a']), Err(HPACK));
    let late = [&block(&[(":status", "200")])[..], &[0x20]].concat();
    row("a late size update", s().frame(1, 5, 1, &late), Err(HPACK));
}

#[test]
fn errors_of_flow_control() {
    let s = Server::new;
    row("a window over 2^31 - 1", s().window(0, (1 << 31) - 1), Err(FLOW));
    let settings = |n| Server::default().settings(&[(Settings::WINDOW, n)]);
    row("an initial window over 2^31 - 1", settings(1 << 31), Err(FLOW));
    let grown = settings(WINDOW_MOST).window(1, 1);
    row("a window that settings enlarge", grown, Ok("FlowControl, -, -"));
    let late = s().window(1, 1 << 20).settings(&[(Settings::WINDOW, WINDOW_MOST)]);
    row("settings over a window", late, Err(FLOW));
}

const WINDOW_MOST: u32 = (1 << 31) - 1;

#[test]
fn floods_end_the_connection() {
    let many = |one: &dyn Fn(Server) -> Server, n: usize| (0..n).fold(Server::new(), |s, _| one(s));
    row("empty data", many(&|s| s.data(1, 0, 0), 1), Ok("BadHeader, -, -"));
    let data = |n| (0..n).fold(Server::new().ok(1, 0), |s, _| s.data(1, 0, 0));
    row("1,000 empty frames", data(1000), Ok("-, -, -"));
    row("1,001 empty frames", data(1001), Err(CALM));
    row("settings", many(&|s| s.settings(&[]), 1000), Err(CALM));
    let ping = |s: Server| s.frame(kind::PING, 0, 0, &[0; 8]);
    row("pings", many(&ping, 1001), Err(CALM));
    row("priorities", many(&|s| s.frame(kind::PRIORITY, 0, 1, &[0; 5]), 1001), Err(CALM));
    row("unknown frames", many(&|s| s.frame(42, 0, 0, &[]), 1001), Err(CALM));
    let goaway = |s: Server| s.goaway(5, Code::NO_ERROR);
    row("goaways", many(&goaway, 1001), Ok("-, -, -"));
    row("goaways without news", many(&goaway, 1002), Err(CALM));
    let head = Server::new().frame(1, 0, 1, &[]);
    let continued = (0..64).fold(head.clone(), |s, _| s.frame(9, 0, 1, &[]));
    row("continuations", continued, Err(CALM));
    let large = (0..5).fold(head, |s, _| s.frame(9, 0, 1, &[0; FRAME_SIZE as usize]));
    row("a long head", large, Err(CALM));
}

#[test]
fn a_reply_in_text_is_recognized() {
    for piece in [usize::MAX, 1] {
        for reply in ["HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.0 400", "<html>"] {
            let mut client = Client::with_requests(1);
            assert_eq!(client.receive(reply.as_bytes(), piece), Err(Fault::NotHttp2));
        }
    }
}

/// A stream that was reset here, or moved, may go on until the peer has ended it, and no longer.
#[test]
fn streams_that_are_gone_end_once() {
    let s = Server::new;
    let bad = || s().headers(1, 0, &[("a", "b")]);
    row("the rest", bad().data(1, 0, 3).data(1, 1, 3), Ok("BadHeader, -, -"));
    row("data after its end", bad().data(1, 1, 3).data(1, 0, 3), Err(CLOSED));
    row("a head after its end", bad().ok(1, 1).ok(1, 1), Err(CLOSED));
    row("data after its reset", bad().rst(1, Code::CANCEL).data(1, 1, 1), Err(CLOSED));
    let moved = || s().goaway(1, Code::NO_ERROR).ok(5, 0).data(5, 1, 3);
    row("a moved stream", moved(), Ok("-, moved, moved"));
    row("data after its end", moved().data(5, 0, 1), Err(CLOSED));
    let answered = s().ok(1, 1).goaway(1, Code::NO_ERROR).data(1, 1, 1);
    row("an answered one before the end of the connection", answered, Err(CLOSED));
}

/// The end of the peer's stream.
#[test]
fn closes_before_and_within_a_reply_differ() {
    let close = |server: Server, n| {
        let mut client = Client::with_requests(n);
        client.receive(&server.0, usize::MAX).unwrap();
        let stash = std::mem::take(&mut client.stash);
        client.h2.end(&mut client.conn, &stash, &mut client.seen)
    };
    let s = Server::new;
    assert_eq!(close(s(), 0), Ok(()));
    assert_eq!(close(s(), 1), Err(Fault::ClosedEarly));
    assert_eq!(close(s().ok(1, 0), 1), Err(Fault::Truncated));
    let mut cut = s().ok(1, 1);
    cut.0.pop();
    assert_eq!(close(cut, 1), Err(Fault::Truncated));
    assert_eq!(close(s().ok(1, 1), 1), Ok(()));
}

/// Pings at intervals: the first one an interval after the start. One without an answer ends the
/// connection at the next.
#[test]
fn checks_the_connection_with_pings() {
    let mut plan = plan(vec![get()]);
    let interval = Span::from_secs(1);
    plan.http2 = Some(Box::new(Http2Spec { keepalive: Some(interval), ..Http2Spec::default() }));
    let mut client = Client::new(&plan);
    client.send(0, 1);
    client.receive(&Server::new().0, usize::MAX).unwrap();
    client.owed();
    for round in 1..4 {
        let at = client.h2.deadline(&client.conn).expect("a deadline");
        assert_eq!(at, Nanos(1) + interval * round);
        client.h2.on_deadline(&mut client.conn, at).expect("the last was answered");
        let owed = client.owed();
        assert_eq!((owed.len(), owed[0].head.kind), (1, kind::PING));
        let mut pong = Vec::new();
        frame::ping(&mut pong, owed[0].payload[..].try_into().unwrap(), true);
        if round < 3 {
            client.receive(&pong, usize::MAX).unwrap();
        }
    }
    let at = client.h2.deadline(&client.conn).expect("a deadline");
    assert_eq!(client.h2.on_deadline(&mut client.conn, at), Err(Fault::NoPong));
    assert_eq!(Client::with_requests(1).h2.deadline(&Conn::default()), None);
}
