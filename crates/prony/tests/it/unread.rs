//! Clients of `prony serve` that send much and read nothing, or ask for streams without end: the
//! server's memory is bounded, it serves others, and it ends when a signal asks for that.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use prony_base::http2::PREFACE;
use prony_base::http2::frame::{self, Settings, flag, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::websocket::{Frame, Opcode};

use crate::rig::{Serve, alone, drivers, side_by_side};

/// How many clients attack at once, and for how long.
const CLIENTS: usize = 50;
const ATTACK: Duration = Duration::from_secs(3);
/// The memory that the server may use, in KiB.
const MEMORY: u64 = 220 << 10;
/// How long another client waits, and the time from a signal to the end of the server, on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A kind of attack.
struct Attack {
    name: &'static str,
    server: &'static [&'static str],
    start: Vec<u8>,
    again: Vec<u8>,
    /// Whether the clients read what comes.
    reads: bool,
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Version: 13\r\n\r\n";

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    (head + body).into_bytes()
}

fn messages(n: usize, size: usize) -> Vec<u8> {
    let mut one = Vec::new();
    let frame = Frame { opcode: Opcode::Binary, is_final: true, mask: Some(0x0102_0304) };
    frame.write(&vec![7; size], &mut one);
    one.repeat(n)
}

/// 100 requests over HTTP/2 from a client with this window.
fn streams(window: u32) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    frame::settings(&mut out, &[(Settings::WINDOW, window)]);
    let mut block = Vec::new();
    for (name, value) in
        [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")]
    {
        encode_static(&mut block, name.as_bytes(), value.as_bytes());
    }
    for k in 0..100 {
        let flags = flag::END_HEADERS | flag::END_STREAM;
        frame::head(&mut out, block.len(), kind::HEADERS, flags, 2 * k + 1);
        out.extend_from_slice(&block);
    }
    out
}

fn attacks() -> Vec<Attack> {
    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let endless: &[&str] = &["--sse", "count=1000000000,gap=fixed:1us"];
    let no_gap: &[&str] = &["--sse", "ttft=1ms"];
    let tokens = r#"{"stream":true,"max_tokens":4000000000,"ignore_eos":true,"messages":[]}"#;
    let all = [
        ("unread echoes", &["--ws", "echo"][..], UPGRADE.into(), messages(1, 100_000)),
        ("short unread echoes", &["--ws", "echo"], UPGRADE.into(), messages(5_000, 1)),
        ("an unread broadcast", &["--ws", "broadcast"], UPGRADE.into(), messages(1, 10_000)),
        ("short broadcasts", &["--ws", "broadcast"], UPGRADE.into(), messages(5_000, 1)),
        ("pushes", &["--ws", "push:100000", "--size", "10k"], UPGRADE.into(), Vec::new()),
        ("echoes of bodies", &[], Vec::new(), post("/echo", &"x".repeat(10_000_000))),
        ("pipelined requests", &["--latency", "fixed:1h"], Vec::new(), GET.repeat(1_000)),
        ("unread streams", endless, GET.to_vec(), Vec::new()),
        ("streams without a window", endless, streams(0), Vec::new()),
        ("endless replies", no_gap, post("/v1/chat/completions", tokens), Vec::new()),
    ];
    let reading = [
        ("streams that are read", endless, GET.to_vec(), Vec::new()),
        ("endless replies that are read", no_gap, post("/v1/messages", tokens), Vec::new()),
        (
            "long bodies",
            &[],
            b"GET /bytes/1000000000000 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            vec![],
        ),
    ];
    let with =
        |reads| {
            move |(name, server, start, again): (&'static str, &'static [&'static str], _, _)| {
                Attack { name, server, start, again, reads }
            }
        };
    all.into_iter().map(with(false)).chain(reading.into_iter().map(with(true))).collect()
}

/// The memory of a process, in KiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A client that has connected, and what of its output is not sent.
struct Client {
    stream: TcpStream,
    rest: Vec<u8>,
    is_open: bool,
}

impl Client {
    /// Send and read what is possible.
    fn step(&mut self, attack: &Attack, buffer: &mut [u8]) {
        if self.rest.is_empty() {
            self.rest.extend_from_slice(&attack.again);
        }
        if self.is_open && !self.rest.is_empty() {
            match self.stream.write(&self.rest) {
                Ok(n) => _ = self.rest.drain(..n),
                Err(why) => self.is_open = why.kind() == ErrorKind::WouldBlock,
            }
        }
        if attack.reads && self.is_open {
            // The end, or nothing: both are fine.
            let _ = self.stream.read(buffer);
        }
    }
}

/// Attack for a while; return the clients, so that they stay connected, and the largest memory.
fn run(server: &Serve, port: u16, attack: &Attack) -> (Vec<Client>, u64) {
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            stream.set_nonblocking(true).expect("a socket");
            Client { stream, rest: attack.start.clone(), is_open: true }
        })
        .collect();
    let (mut buffer, mut most) = (vec![0; 64 << 10], 0);
    let end = Instant::now() + ATTACK;
    let mut round = 0_u32;
    while Instant::now() < end {
        clients.iter_mut().for_each(|client| client.step(attack, &mut buffer));
        round += 1;
        if round.is_multiple_of(20) {
            most = most.max(memory(server.pid()));
            thread::sleep(Duration::from_millis(1));
        }
    }
    let most = most.max(memory(server.pid()));
    (clients, most)
}

/// Another client gets a reply.
fn is_served(port: u16, what: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let request = "GET /delay/1ms HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it takes a request");
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).unwrap_or_else(|why| panic!("{what}: no reply: {why}"));
    assert_eq!(&reply, b"HTTP/1.1 200", "{what}");
}

#[test]
fn clients_that_do_not_read_cost_little_and_keep_nobody_waiting() {
    let _alone = alone();
    for attack in &attacks() {
        side_by_side(drivers(), |driver| {
            let server = Serve::start(&[attack.server, &["--driver", driver]].concat());
            let url = server.url("");
            let port = url.rsplit_once(':').expect("a port").1.parse().expect("a number");
            let what = format!("{}, {driver}", attack.name);
            let (clients, most) = run(&server, port, attack);
            assert!(most < MEMORY, "{what}: {most} KiB");
            is_served(port, &what);
            // With the clients still there.
            let begun = Instant::now();
            let counters = server.stop();
            let took = begun.elapsed();
            assert!(took < PATIENCE, "{what}: it took {took:?} to stop");
            assert_eq!(crate::rig::served(&counters, "open"), 0, "{what}: {counters:#}");
            eprintln!("{what}: {} MiB, stopped after {took:?}", most >> 10);
            drop(clients);
        });
    }
}

/// A client that reads late gets everything, although the server had stopped to read from it.
#[test]
fn clients_that_read_late_get_all_echoes() {
    const MESSAGES: usize = 2_000;
    let (sent, expected) = (messages(MESSAGES, 10_000), MESSAGES * (10_000 + 4));
    side_by_side(drivers(), |driver| {
        let server = Serve::start(&["--ws", "echo", "--driver", driver]);
        let url = server.url("");
        let port: u16 = url.rsplit_once(':').expect("a port").1.parse().expect("a number");
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(UPGRADE.as_bytes()).expect("it takes a request");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a reply");
            head.extend_from_slice(&byte);
        }
        let mut writer = stream.try_clone().expect("a descriptor");
        thread::scope(|scope| {
            scope.spawn(|| writer.write_all(&sent).expect("it reads on"));
            thread::sleep(Duration::from_secs(1));
            let mut echoes = vec![0; expected];
            stream.read_exact(&mut echoes).expect("all echoes");
            let payload = [&[0x82, 126, 39, 16], &[7; 10_000][..]].concat();
            assert!(echoes.chunks(payload.len()).all(|echo| echo == payload), "{driver}");
        });
        drop((stream, writer));
        let counters = server.stop();
        assert!(crate::rig::served(&counters, "pauses") > 0, "{driver}: {counters:#}");
        assert_eq!(crate::rig::served(&counters, "overloads"), 0, "{driver}: {counters:#}");
    });
}
