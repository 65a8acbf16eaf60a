//! Violations that end the connection: all requests on it fail, and the load goes on on another.

use prony_base::http2::frame::{self, Settings};
use prony_base::http2::{FRAME_SIZE, WINDOW_MAX};
use prony_plan::plan::{Http2Spec, Load};

use super::*;

/// The connections on which a server does something wrong. All others are served.
const BROKEN: u64 = 3;

/// Once four requests are in flight, the server does `wrong`, on three connections. Each ends with
/// this code, and its four requests with this fault.
#[track_caller]
fn row(name: &str, expected: (Fault, Code), wrong: Script) {
    row_of(&plan(), name, expected, 0, |turn| {
        match turn.event {
            Event::Request(0..=2) => turn,
            Event::Request(3) => wrong(turn),
            _ => turn.usual(),
        };
    });
}

/// The same before the server has sent its settings.
#[track_caller]
fn first(name: &str, expected: (Fault, Code), wrong: Script) {
    row_of(&plan(), name, expected, 0, |turn| {
        if turn.event == Event::Request(3) {
            wrong(turn);
        }
    });
}

/// The same once `answered` requests have a reply, with requests that may not be sent again.
#[track_caller]
fn late(name: &str, expected: (Fault, Code), answered: u64, wrong: Script) {
    let mut plan = posts(1);
    // Without think time, users would wait until half of them are free.
    plan.load = Load::Closed { connections: 1, think: Think::Fixed(Span(1)) };
    row_of(&plan, name, expected, answered, |turn| {
        match turn.event {
            Event::Request(n) if n < answered => turn.ok(),
            Event::Request(n) if n + 1 < answered + u64::from(STREAMS) => turn,
            Event::Request(_) => wrong(turn),
            _ => turn.usual(),
        };
    });
}

/// A script for three connections, on each of which it answers this many requests and fails with
/// four in flight.
#[track_caller]
fn row_of(
    plan: &Plan,
    name: &str,
    (fault, code): (Fault, Code),
    answered: u64,
    script: impl Fn(&mut Turn<'_>),
) {
    for setup in links() {
        let what = format!("{name}, seed {}", setup.seed);
        let (t, seen) = run(plan, &setup, &what, |turn| match turn.conn < BROKEN {
            true => script(turn),
            false => {
                turn.usual();
            }
        });
        let lost = BROKEN * u64::from(STREAMS);
        assert_eq!((t.failed, t.fault(fault)), (lost, lost), "{what}: {:?}", t.faults);
        assert_eq!(t.replies, REQUESTS - lost, "{what}");
        assert_eq!((t.connects, seen.connections), (BROKEN + 1, BROKEN + 1), "{what}");
        assert_eq!(t.connections.faults[fault as usize], BROKEN, "{what}");
        assert_eq!(goaways(&seen), [(code, BROKEN)], "{what}: the reason is on the wire");
        assert_eq!(seen.requests, REQUESTS, "{what}: each is sent once");
        assert!(t.replies >= BROKEN * answered, "{what}");
    }
}

const PROTOCOL: (Fault, Code) = (Fault::BadHttp2, Code::PROTOCOL_ERROR);
const SIZE: (Fault, Code) = (Fault::BadHttp2, Code::FRAME_SIZE_ERROR);
const CALM: (Fault, Code) = (Fault::BadHttp2, Code::ENHANCE_YOUR_CALM);
const CLOSED: (Fault, Code) = (Fault::BadHttp2, Code::STREAM_CLOSED);
const FLOW: (Fault, Code) = (Fault::FlowControl, Code::FLOW_CONTROL_ERROR);
const HPACK: (Fault, Code) = (Fault::BadHpack, Code::COMPRESSION_ERROR);

#[test]
fn frames_where_they_may_not_be() {
    row("data of the connection", PROTOCOL, |t| t.on(0).data(false, b"abc"));
    row("data of an idle stream", PROTOCOL, |t| t.on(99).data(false, b"abc"));
    row("a head of the connection", PROTOCOL, |t| t.on(0).ok());
    row("a head of an idle stream", PROTOCOL, |t| t.on(99).ok());
    row("a head of an even stream", PROTOCOL, |t| t.on(2).ok());
    row("a reset of the connection", PROTOCOL, |t| t.on(0).reset(Code::CANCEL));
    row("a reset of an idle stream", PROTOCOL, |t| t.on(99).reset(Code::CANCEL));
    row("a window of an idle stream", PROTOCOL, |t| t.window(99, 1));
    row("settings of a stream", PROTOCOL, |t| t.frame(kind::SETTINGS, 0, 1, &[]));
    row("a ping of a stream", PROTOCOL, |t| t.frame(kind::PING, 0, 1, &[0; 8]));
    row("a goaway of a stream", PROTOCOL, |t| t.frame(kind::GOAWAY, 0, 1, &[0; 8]));
    row("a priority of the connection", PROTOCOL, |t| t.frame(kind::PRIORITY, 0, 0, &[0; 5]));
    row("a push", PROTOCOL, |t| t.frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82]));
    row("a continuation alone", PROTOCOL, |t| t.frame(kind::CONTINUATION, 4, 1, &[0x88]));
    row("a ping within a head", PROTOCOL, |t| {
        t.frame(kind::HEADERS, 0, 1, &[0x88]).frame(kind::PING, 0, 0, &[0; 8])
    });
    row("data within a head", PROTOCOL, |t| {
        t.frame(kind::HEADERS, 0, 1, &[0x88]).on(1).data(true, b"abc")
    });
    row("another head within a head", PROTOCOL, |t| {
        t.frame(kind::HEADERS, 0, 1, &[0x88]).on(3).ok()
    });
    row("the continuation of another stream", PROTOCOL, |t| {
        t.frame(kind::HEADERS, 0, 1, &[0x88]).frame(kind::CONTINUATION, 4, 3, &[])
    });
}

#[test]
fn other_frames_before_the_settings() {
    first("a head", PROTOCOL, |t| t.on(1).ok());
    first("data", PROTOCOL, |t| t.on(1).data(true, b"abc"));
    first("a ping", PROTOCOL, |t| t.frame(kind::PING, 0, 0, &[0; 8]));
    first("an acknowledgement", PROTOCOL, |t| t.frame(kind::SETTINGS, flag::ACK, 0, &[]));
    first("a window", PROTOCOL, |t| t.window(0, 1));
    first("a goaway", PROTOCOL, |t| t.goaway(7, Code::NO_ERROR, ""));
}

/// The first bytes of a server that speaks HTTP/1, or something else.
#[test]
fn servers_that_do_not_speak_http2() {
    for text in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-x\r\n"] {
        for setup in links() {
            let (t, seen) = run(&plan(), &setup, "text", |turn| match turn.event {
                Event::Request(3) if turn.conn < BROKEN => turn.out.extend_from_slice(text),
                _ if turn.conn < BROKEN => {}
                _ => {
                    turn.usual();
                }
            });
            let lost = BROKEN * u64::from(STREAMS);
            assert_eq!((t.failed, t.fault(Fault::NotHttp2)), (lost, lost), "{:?}", t.faults);
            assert_eq!((t.replies, seen.connections), (REQUESTS - lost, BROKEN + 1));
            assert_eq!(goaways(&seen), []);
        }
    }
}

#[test]
fn frames_of_a_wrong_size() {
    row("a long frame", SIZE, |t| t.frame(99, 0, 0, &[0; FRAME_SIZE as usize + 1]));
    row("a long ping", SIZE, |t| t.frame(kind::PING, 0, 0, &[0; 9]));
    row("a short reset", SIZE, |t| t.frame(kind::RST_STREAM, 0, 1, &[0; 3]));
    row("a short window", SIZE, |t| t.frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]));
    row("a short goaway", SIZE, |t| t.frame(kind::GOAWAY, 0, 0, &[0; 7]));
    row("a part of a setting", SIZE, |t| t.frame(kind::SETTINGS, 0, 0, &[0; 7]));
    row("a full acknowledgement", SIZE, |t| t.frame(kind::SETTINGS, 1, 0, &[0; 6]));
    row("a short priority", SIZE, |t| t.frame(kind::PRIORITY, 0, 1, &[0; 4]));
    row("padding without a length", SIZE, |t| {
        t.headers(false, &[(":status", "200")]).frame(kind::DATA, 8, 7, &[])
    });
    row("padding over the frame", PROTOCOL, |t| {
        t.headers(false, &[(":status", "200")]).frame(kind::DATA, 8, 7, b"\x04abc")
    });
    row("padding over the head", PROTOCOL, |t| t.frame(kind::HEADERS, 0xc, 1, b"\x04abc"));
}

#[test]
fn settings_that_are_not_allowed() {
    row("a client that may push", PROTOCOL, |t| t.settings(&[(Settings::PUSH, 1)]));
    row("an unknown kind of push", PROTOCOL, |t| t.settings(&[(Settings::PUSH, 2)]));
    row("small frames", PROTOCOL, |t| t.settings(&[(Settings::FRAME_SIZE, FRAME_SIZE - 1)]));
    row("huge frames", PROTOCOL, |t| t.settings(&[(Settings::FRAME_SIZE, 1 << 24)]));
    row("a huge window", FLOW, |t| t.settings(&[(Settings::WINDOW, WINDOW_MAX + 1)]));
}

#[test]
fn blocks_that_cannot_be_decoded() {
    let block: [(&str, Script); 9] = [
        ("index 0", |t| t.block(true, &[0x80])),
        ("an index beyond the tables", |t| t.block(true, &[0xbe])),
        ("an index over 2^31", |t| t.block(true, &[0xff, 0x80, 0x80, 0x80, 0x80, 0x0f])),
        ("an index without an end", |t| t.block(true, &[0xff; 12])),
        ("a cut field", |t| t.block(true, &[0x40, 5, b'a'])),
        ("a table over the setting", |t| t.block(true, &[0x3f, 0xe2, 0x1f, 0x88])),
        ("a size within the block", |t| t.block(true, &[0x88, 0x20])),
        // `0` is 00000, then more than 7 bits of padding, or zeros.
        ("padding of more than 7 bits", |t| {
            t.block(true, &[0x88, 0x40, 1, b'a', 0x82, 0x07, 0xff])
        }),
        ("padding that is not ones", |t| t.block(true, &[0x88, 0x40, 1, b'a', 0x81, 0x00])),
    ];
    for (name, wrong) in block {
        row(name, HPACK, wrong);
    }
    row("the end of a string within it", HPACK, |t| {
        t.block(true, &[0x88, 0x40, 1, b'a', 0x84, 0xff, 0xff, 0xff, 0xff])
    });
}

#[test]
fn windows_that_overflow() {
    row("of the connection", FLOW, |t| t.window(0, WINDOW_MAX));
    row("of a stream by settings", FLOW, |t| {
        t.window(1, 1 << 20).settings(&[(Settings::WINDOW, WINDOW_MAX)])
    });
    row("by nothing", PROTOCOL, |t| t.window(0, 0));
}

/// More than the client's windows allow, of a stream or of the connection.
#[test]
fn data_over_the_windows() {
    let own = |window| {
        let mut plan = plan();
        plan.http2 = Some(Box::new(Http2Spec { window, ..Http2Spec::default() }));
        plan
    };
    row_of(&own(1_000), "of a stream", FLOW, 0, |turn| {
        match turn.event {
            Event::Request(0..=2) => turn,
            Event::Request(3) => turn.headers(false, &[(":status", "200")]).data(true, &[0; 1_001]),
            _ => turn.usual(),
        };
    });
    // The connection's window is 65,535 bytes at least. In smaller pieces, the client would enlarge
    // it in time. Padding counts.
    let setup = links().next().expect("a fast link");
    let (t, seen) = run(&own(40_000), &setup, "of the connection", |turn| {
        match turn.event {
            Event::Request(3) if turn.conn < BROKEN => {
                for stream in [5, 7] {
                    turn.on(stream).headers(false, &[(":status", "200")]);
                    (0..3).for_each(|_| _ = turn.frame(kind::DATA, 8, stream, &[255; 13_000]));
                }
                turn
            }
            Event::Request(_) if turn.conn < BROKEN => turn,
            _ => turn.usual(),
        };
    });
    assert_eq!((t.failed, t.fault(Fault::FlowControl)), (12, 12), "{:?}", t.faults);
    assert_eq!(goaways(&seen), [(Code::FLOW_CONTROL_ERROR, BROKEN)]);
}

#[test]
fn frames_of_streams_that_have_ended() {
    late("data", CLOSED, 3, |t| t.on(1).data(true, b"abc"));
    late("a head", CLOSED, 3, |t| t.on(1).headers(true, &[(":status", "200")]));
    late("data after a goaway", CLOSED, 1, |t| {
        t.goaway(99, Code::NO_ERROR, "").on(1).data(false, b"abc")
    });
}

/// More frames without any use than a server that works would send.
#[test]
fn floods() {
    fn many<'a, 'b>(
        t: &'a mut Turn<'b>,
        n: u32,
        one: impl Fn(&mut Turn<'b>, u32),
    ) -> &'a mut Turn<'b> {
        (0..n).for_each(|n| one(t, n));
        t
    }
    row("settings", CALM, |t| many(t, 1_001, |t, _| frame::settings(&mut t.out, &[])));
    row("pings", CALM, |t| many(t, 1_001, |t, _| frame::ping(&mut t.out, [0; 8], false)));
    row("pongs", CALM, |t| many(t, 1_001, |t, _| frame::ping(&mut t.out, [0; 8], true)));
    row("priorities", CALM, |t| {
        many(t, 1_001, |t, _| _ = t.frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 9]))
    });
    row("unknown frames", CALM, |t| many(t, 1_001, |t, n| _ = t.frame(0xfa, 7, n, b"grease")));
    row("empty data", CALM, |t| {
        t.headers(false, &[(":status", "200")]);
        many(t, 1_001, |t, _| _ = t.data(false, b""))
    });
    row("continuations", CALM, |t| {
        t.frame(kind::HEADERS, 0, 1, &[0x88]);
        many(t, 64, |t, _| _ = t.frame(kind::CONTINUATION, 0, 1, &[]))
    });
    row("a head over 64 KiB", CALM, |t| {
        t.frame(kind::HEADERS, 0, 1, &[0x88]);
        many(t, 5, |t, _| _ = t.frame(kind::CONTINUATION, 0, 1, &[0; FRAME_SIZE as usize]))
    });
    late("resets of a stream that has ended", CALM, 1, |t| {
        many(t, 1_001, |t, _| frame::rst_stream(&mut t.out, 1, Code::CANCEL))
    });
    late("windows of a stream that has ended", CALM, 1, |t| {
        many(t, 1_001, |t, _| frame::window_update(&mut t.out, 1, 1))
    });
}

/// The same, a few at a time, so that the client acknowledges them in between.
#[test]
fn floods_that_take_their_time() {
    let floods: [(&str, Script); 3] = [
        ("settings", |t| t.settings(&[])),
        ("pings", |t| t.frame(kind::PING, 0, 0, &[0; 8])),
        ("goaways", |t| t.goaway(7, Code::NO_ERROR, "")),
    ];
    for (name, one) in floods {
        row_of(&plan(), name, CALM, 0, |turn| {
            match turn.event {
                Event::Request(0..=2) => turn,
                Event::Request(3) | Event::Timer(_) => {
                    (0..10).for_each(|_| _ = one(turn));
                    turn.after(ms(1), 0)
                }
                _ => turn.usual(),
            };
        });
    }
}
