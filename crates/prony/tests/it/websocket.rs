//! WebSocket: to prony's own target server, and with the Python package `websockets` as server and
//! as client, whose counts are prony's.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::http2_peers::lines;
use crate::pictures::browser;
use crate::rig::{
    Other, Report, Running, Serve, alone, descriptors, have, measure, prony, served, sockets,
    wait_until, waiting,
};
use crate::tls::Certificates;

fn tally(report: &Report) -> &Value {
    &report.0["measurement"]["tally"]["stream_messages"]
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

/// The URL of a server with another scheme.
fn ws(url: &str) -> String {
    url.replacen("http", "ws", 1)
}

/// Counts of both sides are equal. A machine that is busy makes times longer, not shorter.
#[test]
fn measures_echoes_of_the_target_server() {
    let _alone = alone();
    let certificates = Certificates::new();
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let (ca, secure) = (certificates.path("ca.pem"), ["--tls", "--cert", &cert, "--key", &key]);
    for tls in [false, true] {
        let more = if tls { &secure[..] } else { &[] };
        let server = Serve::start(&[&["--ws", "echo", "--latency", "fixed:2ms"], more].concat());
        let url = ws(&server.url("/chat")).replace("127.0.0.1", "localhost");
        assert!(url.starts_with(if tls { "wss://" } else { "ws://" }), "{url}");
        let load = ["-n", "30", "-c", "3", "--cacert", &ca, "--subprotocol", "chat", &url];
        let load = if tls { &load[..] } else { &[&load[..4], &load[6..]].concat() };
        let messages = ["--messages", "200/s", "--messages-count", "20", "-b", "hello"];
        let report = measure(&[load, &messages].concat());
        report.check_sums();
        assert_eq!((report.status(1000), report.count("failed")), (30, 0));
        let counts = tally(&report);
        let names = ["sent", "awaited", "answered", "received", "unmatched"];
        assert_eq!(names.map(|name| count(counts, name)), [600, 600, 600, 600, 0]);
        assert!(report.ms("message", "min") >= 2.0, "{:#}", report.0["measurement"]["times"]);
        assert!(report.ms("message_service", "min") >= 2.0);
        let counters = server.stop();
        assert_eq!((served(&counters, "sockets"), served(&counters, "violations")), (30, 0));
        assert_eq!(served(&counters, "socket_messages_received"), 600);
        assert_eq!(served(&counters, "socket_messages_sent"), 600);
    }
}

/// The first Ctrl-C ends the schedules of messages: connections wait for the replies to what they
/// have sent, and close.
#[test]
fn a_signal_ends_the_schedules_of_messages() {
    let _alone = alone();
    let server = Serve::start(&["--ws", "echo", "--latency", "fixed:50ms"]);
    let url = ws(&server.url("/chat"));
    let load = ["-c", "5", "-n", "5", "-b", "hello", "--timeout", "5m"];
    let messages = ["--messages", "20/s", "--messages-time", "4m", "--json", "--quiet", &url];
    let client = Running::start(&[&load[..], &messages].concat());
    wait_until("its connections", || sockets(client.pid()) >= 5);
    std::thread::sleep(Duration::from_secs(2));
    client.signal(Signal::INT);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!(
        (report.status(1000), report.count("failed"), report.count("unfinished")),
        (5, 0, 0)
    );
    let counts = tally(&report);
    let sent = count(counts, "sent");
    assert!(sent > 0);
    assert_eq!(["awaited", "answered"].map(|name| count(counts, name)), [sent; 2]);
    assert_eq!(served(&server.stop(), "socket_messages_received"), sent);
}

/// A server that pushes: bounds end connections, and a threshold decides about their times.
#[test]
fn reads_what_a_server_pushes() {
    let _alone = alone();
    let server = Serve::start(&["--ws", "push:100", "--size", "40"]);
    let url = ws(&server.url("/"));
    let load = ["-n", "10", "-c", "5", "--stream", "messages", &url];
    let report = measure(&[&load[..], &["--stream-events", "20", "-b", "subscribe"]].concat());
    assert_eq!((report.status(1000), count(tally(&report), "received")), (10, 200));
    assert_eq!(count(tally(&report), "sent"), 10);
    // Late reads make gaps shorter: the last message is due at its own time.
    let last = report.ms("first_message", "mean") + 19.0 * report.ms("message_gap", "mean");
    assert!(last >= 19.0 * 10.0 - 0.1, "{last}");
    let limits = ["--stream-time", "300ms", "--threshold", "message-gap.max < 1ms"];
    let missed = prony(&[&load[..], &limits, &["--accept-invalid"]].concat());
    assert_eq!(missed.code, 99, "{}", missed.stdout);
    let until = measure(&[&load[..], &["--until-event", "3 "]].concat());
    assert_eq!((until.status(1000), count(tally(&until), "received")), (10, 30));
    let counters = server.stop();
    assert_eq!((served(&counters, "sockets"), served(&counters, "violations")), (30, 0));
}

/// Fields of a template are filled in once per connection: the bytes of all echoes are those of 12
/// numbers, each twice.
#[test]
fn messages_are_templates() {
    let _alone = alone();
    let server = Serve::start(&["--ws", "echo"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.toml");
    let url = ws(&server.url("/"));
    let text = format!(
        "url = {url:?}\nconnections = 2\nrequests = 12\n[[request]]\n\
         body = \"hello {{{{counter}}}}\"\n[websocket]\nmessages = \"100/s\"\nmessages-count = 2\n"
    );
    std::fs::write(&path, text).expect("a plan");
    let report = measure(&["run", path.to_str().expect("a path")]);
    assert_eq!((report.status(1000), report.count("failed")), (12, 0));
    let bytes = 2 * (1..=12).map(|n| format!("hello {n}").len()).sum::<usize>() as u64;
    assert_eq!(count(&report.0["measurement"]["tally"], "bytes_body"), bytes);
}

/// Pings have pongs, and replies their messages by the stamps in them, with templates, too.
#[test]
fn measures_pings_and_matches_replies_by_their_stamps() {
    let _alone = alone();
    let server = Serve::start(&["--ws", "echo", "--latency", "uniform:1ms:3ms"]);
    let url = ws(&server.url("/"));
    let load = ["-n", "6", "-c", "3", "--messages", "100/s", "--messages-count", "51"];
    let more =
        ["--ping-every", "100ms", "--messages-reply", "token", "-b", "{\"id\":\"{{stamp}}\"}"];
    let report = measure(&[&load[..], &more, &["--threshold", "ping.max < 10s", &url]].concat());
    report.check_sums();
    assert_eq!((report.status(1000), report.count("failed")), (6, 0));
    let names = ["sent", "awaited", "answered", "received", "unmatched"];
    assert_eq!(names.map(|name| count(tally(&report), name)), [306, 306, 306, 306, 0]);
    assert!(report.ms("message", "min") >= 1.0);
    // Messages are due over 500 ms.
    let pings = &report.0["measurement"]["tally"]["pings"];
    let (sent, answered) = (count(pings, "sent"), count(pings, "answered"));
    assert!(sent >= 6 && answered == sent, "{sent} {answered}");
    assert!(report.ms("ping", "max") > 0.0);
    let counters = server.stop();
    assert_eq!(served(&counters, "violations"), 0);
}

/// The resident memory of a client with this many idle connections, in bytes, after each has had
/// the reply to a message.
fn resident(url: &str, connections: usize) -> u64 {
    let count = connections.to_string();
    let load = ["-t", "1", "-c", &count, "-n", &count, "--timeout", "1h", "-b", "hello"];
    let load = [&load[..], &["--connect-timeout", "1h"]].concat();
    let more = ["--messages", "0.001/s", "--messages-count", "2", "--quiet", url];
    let client = Running::start(&[&load[..], &more].concat());
    let open = || descriptors(client.pid()).is_some_and(|open| open > connections);
    wait_until("the connections", open);
    let mut seen = Vec::new();
    wait_until("the memory to stay the same", || {
        std::thread::sleep(Duration::from_millis(300));
        let status = std::fs::read_to_string(format!("/proc/{}/status", client.pid()));
        let status = status.expect("the client runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        let kib = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
        seen.push(kib << 10);
        seen.len() > 5 && seen[seen.len() - 4..].iter().all(|size| *size == seen[seen.len() - 1])
    });
    client.signal(Signal::KILL);
    seen[seen.len() - 1]
}

#[test]
fn an_idle_connection_needs_less_than_2_kib() {
    let _alone = alone();
    // Of the descriptors that both processes may have; 6,000 if possible.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let many = limit.map_or(6_000, |limit| limit.saturating_sub(500).min(6_000)) as usize;
    assert!(many > 1_000, "the limit of descriptors is too low for this test: {limit:?}");
    let server = Serve::start(&["--ws", "echo"]);
    let url = ws(&server.url("/"));
    let (one, all) = (resident(&url, 1), resident(&url, many));
    let each = all.saturating_sub(one) / (many as u64 - 1);
    assert!(each < 2 << 10, "{each} bytes per connection: {one} with 1, {all} with {many}");
    println!("{each} bytes per connection");
}

/// A server without WebSocket replies as HTTP does.
#[test]
fn other_statuses_are_failures_that_can_be_expected() {
    let server = Serve::start(&[]);
    let url = ws(&server.url("/status/403"));
    let report = prony(&["-n", "5", "-c", "1", "--json", &url]).report();
    assert_eq!((report.status(403), report.errors("unexpected-status")), (5, 5));
    let report = measure(&["-n", "5", "-c", "1", "--expect", "403,1000-1001", &url]);
    assert_eq!((report.status(403), report.count("failed")), (5, 0));
}

/// Without an end of its own, a schedule of messages lasts as long as the load: three connections,
/// each with 5 messages per second for 4 s. It sent one on each of thousands of connections.
#[test]
fn a_schedule_ends_with_the_duration_of_the_load() {
    let load = ["ws://h/chat", "-b", "hello", "--messages", "5/s", "--simulate", "1", "--json"];
    let report = prony(&[&load[..], &["-c", "3", "-d", "4s"]].concat()).report();
    let messages = &report.0["measurement"]["tally"]["stream_messages"];
    assert_eq!((messages["sent"].as_u64(), report.count("replies")), (Some(60), 3));
    for (more, why) in [
        (&["-r", "10", "-n", "20"][..], "a schedule of messages needs an end"),
        (&["-c", "3", "-n", "20"], "a schedule of messages needs an end"),
        (&["-c", "3", "-d", "60s"], "not below the timeout of 30"),
        (&["-c", "3", "-d", "4s", "--warmup", "1s"], "as long as the load has no warm-up"),
    ] {
        let refused = prony(&[&load[..], more].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
}

/// `--explain` writes a plan file that gives the same run, in virtual time, too; with any rate and
/// any times between messages.
#[test]
fn plans_are_explained_and_simulated() {
    for (schedule, least, most) in [
        (
            &["--messages", "50/s", "--messages-time", "1s", "--messages-arrivals", "poisson"][..],
            800,
            1_200,
        ),
        (&["--messages", "10@500ms,0..100@1s"], 20 * 55, 20 * 55),
        (
            &["--messages", "50", "--messages-arrivals", "gamma:0.5", "--messages-time", "1s"],
            700,
            1_300,
        ),
        (&["--messages-arrivals", "uniform:10ms:30ms", "--messages-count", "40"], 800, 800),
    ] {
        is_explained_and_simulated(schedule, least..=most);
    }
}

fn is_explained_and_simulated(schedule: &[&str], expected: std::ops::RangeInclusive<u64>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let file = file.to_str().expect("UTF-8");
    let url = ["ws://127.0.0.1/chat", "-r", "10", "-n", "20", "-b", "hi", "--binary"];
    let load = [&url[..], schedule, &["--subprotocol", "a", "--simulate", "7"]].concat();
    let explained = prony(&[&load[..], &["--explain"]].concat());
    assert_eq!(explained.code, 0, "{}", explained.stderr);
    assert!(explained.stdout.contains("url = \"ws://127.0.0.1\""), "{}", explained.stdout);
    assert!(explained.stdout.contains("[websocket]"), "{}", explained.stdout);
    std::fs::write(file, &explained.stdout).expect("written");
    let direct = prony(&[&load[..], &["--json"]].concat());
    let read = prony(&["run", file, "--simulate", "7", "--json"]);
    let [direct, read] = [direct, read].map(|ended| ended.report());
    assert_eq!(direct.0["measurement"], read.0["measurement"]);
    assert_eq!((direct.status(1000), direct.count("failed")), (20, 0));
    let sent = count(tally(&direct), "sent");
    assert!(expected.contains(&sent), "{schedule:?}: {sent}");
    assert_eq!(count(tally(&direct), "answered"), sent);
}

/// A ramp over all connections, and uniform times on each, against a real server.
#[test]
fn messages_follow_any_schedule() {
    let _alone = alone();
    let server = Serve::start(&["--ws", "echo"]);
    let url = ws(&server.url("/"));
    let load = ["-n", "5", "-c", "5", "-b", "hello"];
    let ramp = ["--messages", "20..180@1s", "--messages-over", "all", &url];
    let report = measure(&[&load[..], &ramp].concat());
    assert_eq!((report.status(1000), report.count("failed")), (5, 0));
    assert_eq!(count(tally(&report), "answered"), 100);
    let uniform = ["--messages-arrivals", "uniform:5ms:15ms", "--messages-time", "1s", &url];
    let report = measure(&[&load[..], &uniform].concat());
    assert_eq!((report.status(1000), report.count("failed")), (5, 0));
    let sent = count(tally(&report), "answered");
    assert!((5 * 85..5 * 115).contains(&sent), "{sent}");
    let counters = server.stop();
    assert_eq!(served(&counters, "socket_messages_received"), 100 + sent);
}

/// A Python with the package `websockets`.
pub(crate) fn python() -> Option<String> {
    let path = std::env::var("PRONY_TEST_WEBSOCKETS").ok();
    if path.is_none() {
        eprintln!("skipped: PRONY_TEST_WEBSOCKETS names no Python");
    }
    path
}

/// A server that echoes, in fragments if wanted, closes after three messages, or pushes.
const SERVER: &str = "
import asyncio
from websockets.asyncio.server import serve

log = open('@DIR@/served', 'w', buffering=1)

async def app(ws):
    try:
        await talk(ws)
    finally:
        print('close', ws.close_code, ws.subprotocol, file=log)

async def talk(ws):
    kind, messages = ws.request.path, 0
    held = []
    async for message in ws:
        messages += 1
        if kind == '/backwards':
            held.append(message)
            if len(held) == 5:
                for message in reversed(held):
                    await ws.send('{\"reply\":\"' + message + '\"}')
                held = []
            continue
        print('message', type(message).__name__, len(message), file=log)
        if kind == '/fragments':
            await ws.send([message[:1], message[1:]])
        elif kind == '/push':
            for i in range(5):
                await ws.send('message ' + str(i))
        else:
            await ws.send(message)
        if kind == '/leave' and messages == 3:
            await ws.close(4001, 'enough')

async def main():
    async with serve(app, '127.0.0.1', @PORT@, subprotocols=['chat'], ping_interval=0.05,
                     compression=@COMPRESSION@):
        await asyncio.Future()

asyncio.run(main())
";

#[test]
fn counters_agree_with_a_server_in_python() {
    let Some(python) = python() else { return };
    let _alone = alone();
    let server = Other::start(&python, &[], &SERVER.replace("@COMPRESSION@", "None"));
    let ended = |text: &str, n: u64| {
        wait_until("the server's log", || lines(&server, "served", text) >= n);
        assert_eq!(lines(&server, "served", text), n, "{text}");
    };
    let chat = ["-c", "2", "--subprotocol", "chat"];
    let load = [&chat[..], &["-n", "20", "--messages", "100/s", "--messages-count", "10"]].concat();
    let url = |path: &str| ws(&server.url(path));
    let mut sent = 0;
    let binary = ["-b", "hello", "--binary"];
    for (path, more) in [("/", &binary[..2]), ("/fragments", &binary)] {
        let report = measure(&[&load[..], more, &[&url(path)]].concat());
        report.check_sums();
        assert_eq!((report.status(1000), report.count("failed")), (20, 0), "{path}");
        assert_eq!(count(tally(&report), "answered"), 200, "{path}");
        sent += 20;
        ended("close 1000 chat", sent);
    }
    ended("message str 5", 200);
    ended("message bytes 5", 200);
    // A message over 64 KiB, without a schedule.
    let long = "x".repeat(100_000);
    let report = measure(&[&chat[..], &["-n", "8", "-b", &long, &url("/")]].concat());
    assert_eq!((report.status(1000), count(tally(&report), "answered")), (8, 8));
    ended("message str 100000", 8);
    // A server that closes: its code is the outcome, and all of its closes are answered.
    let leave = ["-b", "hello", "--json", &url("/leave")];
    let report = prony(&[&load[..], &leave].concat()).report();
    assert_eq!((report.status(4001), report.errors("unexpected-status")), (20, 20));
    ended("close 4001", 20);
    ended("close ", 68);
    // The fifth of five messages is answered first: the first one has waited 40 ms.
    let backwards = ["-b", "{{stamp}}", "--messages-reply", "token", &url("/backwards")];
    let report = measure(&[&load[..], &backwards].concat());
    assert_eq!((report.status(1000), count(tally(&report), "answered")), (20, 200));
    assert!(report.ms("message", "p90") >= 30.0, "{:#}", report.0["measurement"]["times"]);
    // The reply to the first comes after that to the fifth, which was due 40 ms later.
    assert!(report.ms("message", "max") - report.ms("message", "min") >= 40.0 * 0.99);
    let push = ["-n", "6", "-b", "hello", "--stream", "messages", "--stream-events", "5"];
    let report = measure(&[&chat[..], &push, &[&url("/push")]].concat());
    assert_eq!((report.status(1000), count(tally(&report), "received")), (6, 30));
}

/// A server in Python compresses with a window over all messages of a connection, and in fragments.
#[test]
fn compressed_messages_are_exchanged_with_a_server_in_python() {
    let Some(python) = python() else { return };
    let _alone = alone();
    let server = Other::start(&python, &[], &SERVER.replace("@COMPRESSION@", "'deflate'"));
    let text = "a message that repeats itself, ".repeat(200);
    let load = ["-c", "2", "-n", "8", "--subprotocol", "chat", "-b", &text];
    let load = [&load[..], &["--messages", "100/s", "--messages-count", "10"]].concat();
    let mut bytes = [0; 2];
    for (sent, more) in bytes.iter_mut().zip([&[][..], &["--ws-compress"]]) {
        for path in ["/", "/fragments"] {
            let report = measure(&[&load[..], more, &[&ws(&server.url(path))]].concat());
            report.check_sums();
            assert_eq!((report.status(1000), report.count("failed")), (8, 0), "{path} {more:?}");
            assert_eq!(count(tally(&report), "answered"), 80);
            *sent += report.count("bytes_sent") + report.count("bytes_received");
        }
    }
    assert_eq!(lines(&server, "served", &format!("message str {}", text.len())), 320);
    assert!(bytes[1] * 20 < bytes[0], "{bytes:?}");
    // A server that does not compress.
    let server = Other::start(&python, &[], &SERVER.replace("@COMPRESSION@", "None"));
    let report = prony(&[&load[..], &["--ws-compress", "--json", &ws(&server.url("/"))]].concat());
    assert_eq!(report.report().errors("bad-upgrade"), 8);
}

/// A client in Python is answered by `prony serve`, which compresses if the client does.
#[test]
fn a_client_in_python_is_answered() {
    let Some(python) = python() else { return };
    let script = "
import asyncio, sys
from websockets.asyncio.client import connect

async def main():
    compression = sys.argv[2] if len(sys.argv) > 2 else None
    async with connect(sys.argv[1], subprotocols=['chat', 'other'], compression=compression) as ws:
        assert (len(ws.protocol.extensions) == 1) == (compression is not None)
        assert ws.subprotocol == 'chat'
        for message in ['', 'x' * 200, '\\u00fc' * 70000, bytes([0, 255]), b'z' * 200000]:
            await ws.send(message)
            assert await ws.recv() == message
        await (await ws.ping(b'are you there'))
        await ws.send(['a', 'b', 'c'])
        assert await ws.recv() == 'abc'
        await ws.close(3000, 'done')
    assert ws.close_code == 3000, ws.close_code

asyncio.run(main())
";
    for more in [&[][..], &["deflate"]] {
        let server = Serve::start(&["--ws", "echo", "--ws-compress"]);
        let url = ws(&server.url("/"));
        let output = Command::new(&python).args(["-c", script, &url]).args(more).output();
        let output = output.expect("it is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let counters = server.stop();
        let names = ["sockets", "socket_messages_received", "socket_messages_sent", "violations"];
        assert_eq!(names.map(|name| served(&counters, name)), [1, 6, 6, 0]);
    }
}

/// Chromium's own `WebSocket` and `EventSource`, with what they have seen.
#[test]
fn a_browser_speaks_with_the_target_server() {
    let Some(browser) = browser() else { return };
    if !have("python3") {
        return;
    }
    let _waiting = waiting();
    let folder = tempfile::tempdir().expect("a folder");
    let echo = Serve::start(&["--ws", "echo", "--ws-compress"]);
    let push = Serve::start(&["--ws", "push:100"]);
    let events =
        Serve::start(&["--sse", "ttft=fixed:5ms,gap=fixed:5ms,count=100,cut=8,retry=100ms"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/websocket_browser.py");
    let pages = [&echo, &push, &events].map(|server| server.url("/bytes/10"));
    let out = Command::new("python3")
        .arg(script)
        .arg(&browser)
        .arg(folder.path().join("profile"))
        .args(&pages)
        .output()
        .expect("a Python");
    assert!(out.status.success(), "{out:?}");
    let seen: Value = serde_json::from_slice(&out.stdout).expect("what it has seen");
    let extensions = seen["echo"]["extensions"].as_str().expect("extensions");
    assert!(extensions.starts_with("permessage-deflate"), "{seen}");
    let names = ["texts", "bytes", "code"].map(|name| count(&seen["echo"], name));
    assert_eq!((names, &seen["echo"]["protocol"]), ([4, 1, 3456], &Value::from("chat")), "{seen}");
    // Messages may arrive before the close is answered.
    let numbers = seen["push"]["numbers"].as_array().expect("numbers");
    assert!(numbers.iter().zip(1..).all(|(n, k)| *n == k) && numbers.len() >= 5, "{seen}");
    for kind in ["echo", "push"] {
        assert_eq!(seen[kind]["clean"], true, "{seen}");
    }
    // The browser opens the stream again twice, as its connections end after 8 events.
    let names = ["opened", "events", "errors"].map(|name| count(&seen["events"], name));
    assert_eq!(names, [3, 20, 2], "{seen}");
    for server in [echo, push, events] {
        assert_eq!(served(&server.stop(), "violations"), 0);
    }
}
