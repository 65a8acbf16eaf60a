//! Floods of HTTP/2 against `prony serve`, from a client with raw sockets: each connection ends
//! with the right code, the server's memory is bounded, and a client beside it is served as usual.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use prony_base::http2::PREFACE;
use prony_base::http2::frame::{self, Code, HEADER, Head, Settings, flag, kind};
use prony_base::http2::hpack::encode_static;

use crate::rig::{Running, Serve, alone, drivers, served, side_by_side};

/// Connections of each flood.
const EACH: u64 = 5;
/// Pieces that a flood has at most.
const PIECES: u32 = 40_000;
/// How many of them are written at once.
const AT_ONCE: u32 = 100;
/// What the server's memory may grow by, in KiB.
const GROWTH: u64 = 64 << 10;

/// What a client sends first, after its preface and settings, and then again and again. Tiny
/// windows are no row: a server that reads several updates at once sees no tiny ones.
struct Flood {
    name: &'static str,
    before: fn(&mut Vec<u8>),
    piece: fn(&mut Vec<u8>, u32),
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    frame::head(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// A request with these flags.
fn request(out: &mut Vec<u8>, stream: u32, path: &str, flags: u8) {
    let mut block = Vec::new();
    let method = if flags & flag::END_STREAM == 0 { "POST" } else { "GET" };
    for (name, value) in
        [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)]
    {
        encode_static(&mut block, name.as_bytes(), value.as_bytes());
    }
    frame(out, kind::HEADERS, flags | flag::END_HEADERS, stream, &block);
}

/// A request that takes long.
fn slow(out: &mut Vec<u8>, n: u32) {
    request(out, 2 * n + 1, "/delay/9s", flag::END_STREAM);
}

const FLOODS: [Flood; 11] = [
    Flood {
        name: "rapid resets",
        before: |_| {},
        piece: |out, n| {
            slow(out, n);
            frame::rst_stream(out, 2 * n + 1, Code::CANCEL);
        },
    },
    Flood {
        name: "requests that the server resets",
        before: |_| {},
        piece: |out, n| {
            slow(out, n);
            frame(out, kind::WINDOW_UPDATE, 0, 2 * n + 1, &[0; 4]);
        },
    },
    Flood { name: "requests over the limit", before: |_| {}, piece: slow },
    Flood { name: "pings", before: |_| {}, piece: |out, _| frame::ping(out, [7; 8], false) },
    Flood {
        name: "settings",
        before: |_| {},
        piece: |out, n| frame::settings(out, &[(Settings::WINDOW, n), (Settings::TABLE_SIZE, n)]),
    },
    Flood {
        name: "priorities",
        before: |_| {},
        piece: |out, _| frame(out, kind::PRIORITY, 0, 3, &[0; 5]),
    },
    Flood {
        name: "unknown frames",
        before: |_| {},
        piece: |out, _| frame(out, 0xfa, 0xff, 0, b"grease"),
    },
    Flood {
        name: "empty data",
        before: |out| request(out, 1, "/echo", 0),
        piece: |out, _| frame(out, kind::DATA, 0, 1, b""),
    },
    Flood {
        name: "resets of a stream that has ended",
        before: |out| request(out, 1, "/", flag::END_STREAM),
        piece: |out, _| frame::rst_stream(out, 1, Code::CANCEL),
    },
    Flood {
        name: "continuations",
        before: |out| frame(out, kind::HEADERS, 0, 1, b""),
        piece: |out, _| frame(out, kind::CONTINUATION, 0, 1, b""),
    },
    Flood {
        name: "a head without an end",
        before: |out| frame(out, kind::HEADERS, 0, 1, b""),
        piece: |out, _| frame(out, kind::CONTINUATION, 0, 1, &[0; 9_999]),
    },
];

/// Sends a flood until the server ends the connection, which has to have a reason.
fn attack(port: u16, flood: &Flood) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let limit = Some(Duration::from_secs(20));
    stream.set_read_timeout(limit).expect("a socket");
    stream.set_write_timeout(limit).expect("a socket");
    let mut reader = stream.try_clone().expect("a descriptor");
    let has_ended = AtomicBool::new(false);
    let (received, end) = thread::scope(|scope| {
        let received = scope.spawn(|| {
            let mut received = Vec::new();
            // What came before a reset counts.
            let end = reader.read_to_end(&mut received);
            has_ended.store(true, Ordering::Relaxed);
            (received, end)
        });
        let mut out = PREFACE.to_vec();
        frame::settings(&mut out, &[]);
        (flood.before)(&mut out);
        for n in 0..PIECES {
            (flood.piece)(&mut out, n);
            if (n + 1) % AT_ONCE == 0 {
                if stream.write_all(&out).is_err() || has_ended.load(Ordering::Relaxed) {
                    break;
                }
                out.clear();
            }
        }
        _ = stream.shutdown(Shutdown::Write);
        received.join().expect("it does not panic")
    });
    let code = goaway(&received);
    assert_eq!(code, Some(Code::ENHANCE_YOUR_CALM), "{}: {end:?}, {received:?}", flood.name);
}

/// The code of the last GOAWAY.
fn goaway(mut bytes: &[u8]) -> Option<Code> {
    let mut code = None;
    while let Some(head) = Head::read(bytes) {
        let payload = bytes.get(HEADER..HEADER + head.length as usize)?;
        if head.kind == kind::GOAWAY {
            code = Some(Code(u32::from_be_bytes(payload[4..8].try_into().expect("four bytes"))));
        }
        bytes = &bytes[HEADER + payload.len()..];
    }
    code
}

/// Whether a reply on this stream is complete.
fn has_reply(mut bytes: &[u8], stream: u32) -> bool {
    while let Some(head) = Head::read(bytes) {
        let may_end = matches!(head.kind, kind::HEADERS | kind::DATA);
        if may_end && head.stream == stream && head.has(flag::END_STREAM) {
            return true;
        }
        bytes = bytes.get(HEADER + head.length as usize..).unwrap_or_default();
    }
    false
}

/// The memory of a process, in KiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn floods_end_their_connection_only() {
    let _alone = alone();
    side_by_side(drivers(), |driver| {
        let server = Serve::start(&["--driver", driver, "--latency", "2ms"]);
        let url = server.url("/");
        let port = url.rsplit_once(':').expect("a port").1.trim_matches('/');
        let port = port.parse().expect("a number");
        let load = ["--h2c", "-r", "300", "-c", "2", "-n", "900", "--timeout", "20s", "--json"];
        let client = Running::start(&[&load[..], &["--quiet", "--accept-invalid", &url]].concat());
        // One of each, to see what the server needs anyway.
        for flood in &FLOODS {
            attack(port, flood);
        }
        let before = memory(server.pid());
        for flood in &FLOODS {
            for _ in 1..EACH {
                attack(port, flood);
            }
            let grown = memory(server.pid()).saturating_sub(before);
            assert!(grown < GROWTH, "{driver}, {}: {grown} KiB more", flood.name);
        }
        let ended = client.wait();
        assert_eq!(ended.code, 0, "{driver}: {ended:?}");
        let report = ended.report();
        report.check_sums();
        assert_eq!((report.count("replies"), report.count("failed")), (900, 0), "{driver}");
        let there = server.stop();
        assert_eq!(served(&there, "violations"), EACH * FLOODS.len() as u64, "{there:#}");
        assert_eq!((served(&there, "open"), served(&there, "outstanding")), (0, 0), "{there:#}");
    });
}

/// Small header blocks whose fields would have 40 MB: each is refused with 431, and the connection
/// and its table are as before.
#[test]
fn blocks_that_grow_are_refused() {
    let server = Serve::start(&[]);
    let url = server.url("/");
    let port: u16 = url.rsplit_once(':').expect("a port").1.trim_matches('/').parse().expect("it");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let mut out = PREFACE.to_vec();
    frame::settings(&mut out, &[]);
    const BOMBS: u32 = 300;
    for n in 0..BOMBS {
        let mut block = Vec::new();
        for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", "/")] {
            encode_static(&mut block, name.as_bytes(), value.as_bytes());
        }
        if n == 0 {
            // A new entry: a name of 4,000 bytes, an empty value.
            block.extend_from_slice(&[0x40, 0x7f, 0xa1, 0x1e]);
            block.resize(block.len() + 4_000, b'x');
            block.push(0);
        }
        block.resize(block.len() + 9_999, 0xbe);
        let flags = flag::END_HEADERS | flag::END_STREAM;
        frame(&mut out, kind::HEADERS, flags, 2 * n + 1, &block);
    }
    request(&mut out, 2 * BOMBS + 1, "/", flag::END_STREAM);
    let before = memory(server.pid());
    // Most of its replies are written while it reads.
    let mut writer = stream.try_clone().expect("a descriptor");
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&out).expect("it reads"));
        let mut piece = [0; 4_096];
        while !has_reply(&received, 2 * BOMBS + 1) {
            let n = stream.read(&mut piece).expect("a reply in time");
            assert!(n > 0, "the connection goes on");
            received.extend_from_slice(&piece[..n]);
        }
    });
    let grown = memory(server.pid()).saturating_sub(before);
    assert!(grown < GROWTH, "{grown} KiB more");
    assert_eq!(goaway(&received), None);
    let there = server.stop();
    assert_eq!(served(&there, "bad_requests"), u64::from(BOMBS), "{there:#}");
    assert_eq!(
        (served(&there, "replies"), served(&there, "violations")),
        (u64::from(BOMBS) + 1, 0)
    );
}
