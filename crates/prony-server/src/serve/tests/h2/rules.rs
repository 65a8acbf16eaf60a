//! Violations of the PROTOCOL, each with the code that the standard gives it.

use prony_base::http2::frame::Settings;

use super::*;

/// Send frames on a new connection, each in a read of its own; return the codes of a GOAWAY and of
/// resets.
fn codes(make: impl Fn(&mut Frames)) -> (Option<Code>, Vec<(u32, Code)>) {
    let mut frames = Frames::start();
    make(&mut frames);
    let mut rig = Rig::new(ServerBehavior::default());
    rig.connect();
    let bytes = frames.take();
    let (preface, mut rest) = bytes.split_at(PREFACE.len());
    rig.send(0, preface);
    while let Some(head) = Head::read(rest) {
        let (frame, after) = rest.split_at(HEADER + head.length as usize);
        rig.send(0, frame);
        rest = after;
    }
    let goaway = rig.goaways(0).last().map(|&(_, code)| code);
    let resets = rig.frames(0).into_iter().filter(|frame| frame.kind == kind::RST_STREAM);
    let resets = resets.map(|frame| (frame.stream, code(&frame.payload))).collect();
    assert_eq!(rig.served().violations, u64::from(goaway.is_some()));
    // The server goes on, here or on another connection.
    let link = if goaway.is_some() { rig.connect() } else { 0 };
    let mut more = if link == 0 { Frames::default() } else { Frames::start() };
    rig.send(link, more.get(101, "/").take());
    assert_eq!(rig.statuses_h2(link, &[101]), ["200"]);
    if goaway.is_some() {
        rig.run_until(at(2_000));
        assert!(rig.links[0].closed.is_some(), "closed");
    }
    (goaway, resets)
}

type Make = fn(&mut Frames);
const PROTOCOL: Code = Code::PROTOCOL_ERROR;

#[test]
fn frames_on_wrong_streams_close_the_connection() {
    let rows: [(&str, Code, Make); 13] = [
        ("DATA on stream 0", PROTOCOL, |f| {
            f.data(0, b"", true);
        }),
        ("DATA on an idle stream", PROTOCOL, |f| {
            f.data(1, b"", true);
        }),
        ("HEADERS on stream 0", PROTOCOL, |f| {
            f.get(0, "/");
        }),
        ("HEADERS on an even stream", PROTOCOL, |f| {
            f.get(2, "/");
        }),
        ("a lower stream", PROTOCOL, |f| {
            f.get(5, "/").get(3, "/");
        }),
        ("a closed stream", Code::STREAM_CLOSED, |f| {
            f.get(1, "/").get(1, "/");
        }),
        ("PUSH_PROMISE", PROTOCOL, |f| {
            f.frame(kind::PUSH_PROMISE, 4, 1, &[0; 4]);
        }),
        ("CONTINUATION alone", PROTOCOL, |f| {
            f.frame(kind::CONTINUATION, 4, 1, b"");
        }),
        ("a PING in a header block", PROTOCOL, |f| {
            f.frame(kind::HEADERS, 1, 1, b"").ping(b"12345678");
        }),
        ("CONTINUATION of another stream", PROTOCOL, |f| {
            f.frame(kind::HEADERS, 1, 1, b"").frame(kind::CONTINUATION, 4, 3, b"");
        }),
        ("an unknown frame in a header block", PROTOCOL, |f| {
            f.frame(kind::HEADERS, 1, 1, b"").frame(99, 0, 1, b"");
        }),
        ("RST_STREAM on an idle stream", PROTOCOL, |f| {
            f.reset(1);
        }),
        ("RST_STREAM on stream 0", PROTOCOL, |f| {
            f.reset(0);
        }),
    ];
    for (what, code, make) in rows {
        assert_eq!(codes(make), (Some(code), vec![]), "{what}");
    }
}

#[test]
fn malformed_frames_close_the_connection() {
    let rows: [(&str, Code, Make); 15] = [
        ("an idle stream that depends on itself", PROTOCOL, |f| {
            f.frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 9]);
        }),
        ("RST_STREAM of 3 bytes", Code::FRAME_SIZE_ERROR, |f| {
            f.get(1, "/").frame(kind::RST_STREAM, 0, 1, &[0; 3]);
        }),
        ("SETTINGS on a stream", PROTOCOL, |f| {
            f.frame(kind::SETTINGS, 0, 1, b"");
        }),
        ("SETTINGS of 5 bytes", Code::FRAME_SIZE_ERROR, |f| {
            f.frame(kind::SETTINGS, 0, 0, &[0; 5]);
        }),
        ("an acknowledgement with a payload", Code::FRAME_SIZE_ERROR, |f| {
            f.frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]);
        }),
        ("a window of 2^31", Code::FLOW_CONTROL_ERROR, |f| {
            frame::settings(&mut f.out, &[(Settings::WINDOW, 1 << 31)]);
        }),
        ("PING of 7 bytes", Code::FRAME_SIZE_ERROR, |f| {
            f.frame(kind::PING, 0, 0, &[0; 7]);
        }),
        ("PING on a stream", PROTOCOL, |f| {
            f.frame(kind::PING, 0, 1, &[0; 8]);
        }),
        ("GOAWAY on a stream", PROTOCOL, |f| {
            f.frame(kind::GOAWAY, 0, 1, &[0; 8]);
        }),
        ("WINDOW_UPDATE by 0", PROTOCOL, |f| {
            f.window(0, 0);
        }),
        ("WINDOW_UPDATE on an idle stream", PROTOCOL, |f| {
            f.window(1, 1);
        }),
        ("a connection's window over 2^31-1", Code::FLOW_CONTROL_ERROR, |f| {
            f.window(0, (1 << 31) - 1);
        }),
        ("a frame over the limit", Code::FRAME_SIZE_ERROR, |f| {
            f.data(1, &[0; 16_385], true);
        }),
        ("padding over the payload", PROTOCOL, |f| {
            f.post(1, "/", &[]).frame(kind::DATA, flag::PADDED, 1, b"\x05abcd");
        }),
        ("an invalid header block", Code::COMPRESSION_ERROR, |f| {
            f.frame(kind::HEADERS, 5, 1, &[0x80]);
        }),
    ];
    for (what, code, make) in rows {
        assert_eq!(codes(make), (Some(code), vec![]), "{what}");
    }
}

#[test]
fn the_first_frame_must_be_settings() {
    for ack in [false, true] {
        let mut frames = Frames::default();
        frames.out.extend_from_slice(PREFACE);
        match ack {
            true => {
                frames.frame(kind::SETTINGS, flag::ACK, 0, b"");
            }
            false => {
                frames.get(1, "/");
            }
        }
        let rig = rig(ServerBehavior::default(), &mut frames);
        assert_eq!(rig.goaways(0), [(0, Code::PROTOCOL_ERROR)]);
        assert_eq!(rig.frames(0)[0].kind, kind::SETTINGS, "the server's preface");
    }
}

#[test]
fn stream_errors() {
    let closed = Code::STREAM_CLOSED;
    let rows: [(&str, Code, Make); 15] = [
        ("DATA after the end", closed, |f| {
            f.get(1, "/delay/9s").data(1, b"", true);
        }),
        ("DATA after the reply", closed, |f| {
            f.get(1, "/").data(1, b"", true);
        }),
        ("DATA after RST_STREAM", closed, |f| {
            f.get(1, "/delay/9s").reset(1).data(1, b"", true);
        }),
        ("HEADERS after the end", closed, |f| {
            f.get(1, "/delay/9s").get(1, "/");
        }),
        ("trailers without the end", PROTOCOL, |f| {
            f.post(1, "/", &[]);
            let block = f.block(&[("x", "y")]);
            f.frame(kind::HEADERS, flag::END_HEADERS, 1, &block);
        }),
        ("trailers with a pseudo-header", PROTOCOL, |f| {
            f.post(1, "/", &[]).get(1, "/");
        }),
        ("a window over 2^31-1", Code::FLOW_CONTROL_ERROR, |f| {
            f.get(1, "/delay/9s").window(1, (1 << 31) - 1);
        }),
        ("WINDOW_UPDATE by 0", PROTOCOL, |f| {
            f.get(1, "/delay/9s").window(1, 0);
        }),
        ("a stream that depends on itself", PROTOCOL, |f| {
            f.get(1, "/delay/9s").frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 9]);
        }),
        ("a request that depends on itself", PROTOCOL, |f| {
            let block = f.block(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]);
            f.frame(kind::HEADERS, 0x25, 1, &[&[0x80, 0, 0, 1, 9], &block[..]].concat());
        }),
        ("PRIORITY of 4 bytes", Code::FRAME_SIZE_ERROR, |f| {
            f.get(1, "/delay/9s").frame(kind::PRIORITY, 0, 1, &[0; 4]);
        }),
        ("a malformed request", PROTOCOL, |f| f.request(1, "GET", "/", &[("Upper", "1")])),
        ("less than announced", PROTOCOL, |f| {
            f.post(1, "/", &[("content-length", "3")]).data(1, b"ab", true);
        }),
        ("more than announced", PROTOCOL, |f| {
            f.post(1, "/", &[("content-length", "3")]).data(1, b"abcd", false);
        }),
        ("an announced body that is missing", PROTOCOL, |f| {
            let at = f.out.len();
            f.post(1, "/", &[("content-length", "3")]);
            f.out[at + 4] |= flag::END_STREAM;
        }),
    ];
    for (what, code, make) in rows {
        assert_eq!(codes(make), (None, vec![(1, code)]), "{what}");
    }
}

#[test]
fn what_is_allowed_has_no_consequences() {
    let rows: [(&str, Make); 7] = [
        ("an unknown frame", |f| {
            f.frame(99, 0xff, 7, b"whatever");
        }),
        ("GOAWAY", |f| {
            f.frame(kind::GOAWAY, 0, 0, &[0; 12]);
        }),
        ("PRIORITY of an idle stream", |f| {
            f.frame(kind::PRIORITY, 0, 9, &[0; 5]);
        }),
        ("WINDOW_UPDATE on a closed stream", |f| {
            f.get(1, "/").window(1, 5);
        }),
        ("RST_STREAM on a closed stream", |f| {
            f.get(1, "/").reset(1);
        }),
        ("an unknown setting", |f| frame::settings(&mut f.out, &[(0x99, 1)])),
        ("an empty PING acknowledgement", |f| {
            f.frame(kind::PING, 1, 0, &[0; 8]);
        }),
    ];
    for (what, make) in rows {
        assert_eq!(codes(make), (None, vec![]), "{what}");
    }
}

#[test]
fn settings_must_be_acknowledged_in_time() {
    let server = |acknowledges: bool| {
        let mut frames = Frames::start();
        if acknowledges {
            frames.frame(kind::SETTINGS, flag::ACK, 0, b"");
        }
        frames.get(1, "/");
        let delay = Some(ms(500));
        let mut rig =
            rig(ServerBehavior { settings_delay: delay, ..ServerBehavior::default() }, &mut frames);
        rig.run_until(at(10_499));
        assert!(rig.reply(0, 1).ended && rig.goaways(0).is_empty());
        rig.run_until(at(30_000));
        (rig.goaways(0), rig.served().violations)
    };
    assert_eq!(server(true), (vec![], 0));
    assert_eq!(server(false), (vec![(1, Code::SETTINGS_TIMEOUT)], 1));
}
