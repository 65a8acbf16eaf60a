//! WebSocket over HTTP/2: to prony's own target server, with the Python package `hypercorn` as
//! server, and with the packages `h2` and `wsproto`, on which it is built, as client.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::http2_peers::lines;
use crate::rig::{Other, Report, Serve, alone, measure, prony, served, wait_until};
use crate::tls::Certificates;

fn ws(url: &str) -> String {
    url.replacen("http", "ws", 1)
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn messages(report: &Report) -> [u64; 5] {
    let tally = &report.0["measurement"]["tally"]["stream_messages"];
    ["sent", "awaited", "answered", "received", "unmatched"].map(|name| count(tally, name))
}

fn http2(report: &Report, name: &str) -> u64 {
    count(&report.0["measurement"]["tally"]["http2"], name)
}

/// Counts of both sides are equal, with and without TLS, compressed and with pings.
#[test]
fn measures_echoes_of_the_target_server() {
    let _alone = alone();
    let certificates = Certificates::new();
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let (ca, secure) = (certificates.path("ca.pem"), ["--tls", "--cert", &cert, "--key", &key]);
    for tls in [false, true] {
        let serve = ["--ws", "echo", "--ws-compress", "--latency", "fixed:2ms"];
        let server = Serve::start(&[&serve[..], if tls { &secure } else { &[] }].concat());
        let url = ws(&server.url("/chat")).replace("127.0.0.1", "localhost");
        let how = if tls { &["--http2", "--cacert", &ca][..] } else { &["--h2c"] };
        let load = ["-n", "60", "-c", "2", "--streams", "10", "--subprotocol", "chat", &url];
        let more = ["--messages", "100/s", "--messages-count", "20", "-b", "hello"];
        let extra = if tls { &["--ws-compress", "--ping-every", "50ms"][..] } else { &[] };
        let report = measure(&[how, &load, &more, extra].concat());
        report.check_sums();
        assert_eq!((report.status(1000), report.count("failed")), (60, 0));
        assert_eq!(messages(&report), [1_200, 1_200, 1_200, 1_200, 0]);
        assert!(report.ms("message", "min") >= 2.0, "{:#}", report.0["measurement"]["times"]);
        assert_eq!((http2(&report, "connections"), http2(&report, "cancelled")), (2, 0));
        let pings = &report.0["measurement"]["tally"]["pings"];
        assert_eq!(count(pings, "sent") > 100, tls, "{pings}");
        assert_eq!(count(pings, "sent"), count(pings, "answered"));
        let counters = server.stop();
        assert_eq!((served(&counters, "sockets"), served(&counters, "violations")), (60, 0));
        assert_eq!((served(&counters, "connections"), served(&counters, "streams")), (2, 60));
        assert_eq!(served(&counters, "socket_messages_received"), 1_200);
        assert_eq!(served(&counters, "socket_messages_sent"), 1_200);
        assert_eq!((served(&counters, "malformed"), served(&counters, "cancelled")), (0, 0));
    }
}

/// What a server pushes to many streams, and a broadcast to all of them.
#[test]
fn reads_what_a_server_pushes_and_broadcasts() {
    let _alone = alone();
    let server = Serve::start(&["--ws", "push:100", "--size", "40"]);
    let url = ws(&server.url("/"));
    let load = ["--h2c", "-n", "20", "-c", "2", "--streams", "5", "--stream", "messages", &url];
    let report = measure(&[&load[..], &["--stream-events", "20", "-b", "subscribe"]].concat());
    assert_eq!((report.status(1000), messages(&report)[3]), (20, 400));
    // Late reads make gaps shorter: the last message is due at its own time.
    let last = report.ms("first_message", "mean") + 19.0 * report.ms("message_gap", "mean");
    assert!(last >= 19.0 * 10.0 - 0.1, "{last}");
    let counters = server.stop();
    assert_eq!((served(&counters, "sockets"), served(&counters, "violations")), (20, 0));

    let server = Serve::start(&["--ws", "broadcast"]);
    let url = ws(&server.url("/"));
    let load = ["--h2c", "-c", "3", "--streams", "10", "--publishers", "2", "-b", "hello", &url];
    let more = ["--messages", "50/s", "--messages-count", "20", "-t", "2"];
    let report = measure(&[&load[..], &more, &["--threshold", "reach >= 100%"]].concat());
    let all = &report.0["measurement"]["tally"]["broadcast"];
    assert_eq!((report.status(1000), count(all, "subscribers")), (30, 28));
    assert_eq!([count(all, "published"), count(all, "delivered")], [40, 40 * 28], "{all:#}");
    assert_eq!(served(&server.stop(), "h2_connections"), 3);
}

/// A server without the setting, and one that resets streams: one sentence each.
#[test]
fn servers_without_it_are_named() {
    let server = Serve::start(&[]);
    let url = ws(&server.url("/"));
    let load = ["--h2c", "-n", "4", "-c", "1", "--messages", "10/s", "-b", "x", &url];
    let report = prony(&[&load[..], &["--messages-count", "2", "--json"]].concat()).report();
    assert_eq!(report.errors("no-extended-connect"), 4, "{:#}", report.0["measurement"]["tally"]);
    let text = prony(&[&load[..], &["--messages-count", "2"]].concat());
    let sentence = "the server allows no WebSocket over HTTP/2";
    assert!(text.stdout.contains(sentence), "{}", text.stdout);
    assert_eq!(served(&server.stop(), "streams"), 0);
    let server = Serve::start(&["--ws", "echo", "--rst", "1"]);
    let url = ws(&server.url("/"));
    let report = prony(&["--h2c", "-n", "4", "-c", "1", "--json", &url]).report();
    assert_eq!(report.errors("stream-reset"), 4);
    assert_eq!(served(&server.stop(), "stream_resets"), 4);
}

/// `--explain` writes a plan file that gives the same run, in virtual time, too.
#[test]
fn plans_are_explained_and_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let file = file.to_str().expect("UTF-8");
    let load = ["ws://127.0.0.1/chat", "--h2c", "-r", "10", "-n", "20", "-b", "hi"];
    let more = ["--messages", "50/s", "--messages-time", "1s", "--simulate", "7"];
    let load = [&load[..], &more].concat();
    let explained = prony(&[&load[..], &["--explain"]].concat());
    assert_eq!(explained.code, 0, "{}", explained.stderr);
    for line in ["url = \"ws://127.0.0.1\"", "http = \"2-only\"", "streams = 100", "[websocket]"] {
        assert!(explained.stdout.contains(line), "{line}: {}", explained.stdout);
    }
    std::fs::write(file, &explained.stdout).expect("written");
    let direct = prony(&[&load[..], &["--json"]].concat());
    let read = prony(&["run", file, "--simulate", "7", "--json"]);
    let [direct, read] = [direct, read].map(|ended| ended.report());
    assert_eq!(direct.0["measurement"], read.0["measurement"]);
    assert_eq!((direct.status(1000), direct.count("failed")), (20, 0));
    assert_eq!((messages(&direct)[2], http2(&direct, "fallbacks")), (1_000, 0));
    let text = prony(&[&load[..], &["-v"]].concat());
    assert!(
        text.stdout.contains("WebSocket over HTTP/2 only, up to 100 streams"),
        "{}",
        text.stdout
    );
}

/// A Python with this package, whose variable has the same name.
fn python(package: &str) -> Option<String> {
    let variable = format!("PRONY_TEST_{package}");
    let path = std::env::var(&variable).ok();
    if path.is_none() {
        eprintln!("skipped: {variable} names no Python");
    }
    path
}

/// Echoes, closes after three messages, refuses, or returns without a close, by its path.
const SERVER: &str = "
import asyncio
from hypercorn.asyncio import serve
from hypercorn.config import Config

log = open('@DIR@/served', 'w', buffering=1)

async def app(scope, receive, send):
    if scope['type'] != 'websocket':
        return
    kind, messages = scope['path'], 0
    assert (await receive())['type'] == 'websocket.connect'
    print('open', scope['http_version'], scope['subprotocols'], file=log)
    if kind == '/refused':
        await send({'type': 'websocket.close'})
        return
    await send({'type': 'websocket.accept', 'subprotocol': 'chat'})
    while True:
        message = await receive()
        if message['type'] == 'websocket.disconnect':
            print('close', message['code'], file=log)
            return
        messages += 1
        # Hypercorn fails if an answer to its close comes when the app has returned.
        if kind == '/leave' and messages > 3:
            continue
        kind_of = 'text' if message.get('text') is not None else 'bytes'
        print('message', kind_of, len(message[kind_of]), file=log)
        await send({'type': 'websocket.send', kind_of: message[kind_of]})
        if kind == '/leave' and messages == 3:
            await send({'type': 'websocket.close', 'code': 4001, 'reason': 'enough'})

config = Config()
config.bind = ['127.0.0.1:@PORT@']
config.h2_max_concurrent_streams = 20
config.websocket_ping_interval = 0.05
asyncio.run(serve(app, config))
";

#[test]
fn counters_agree_with_hypercorn() {
    let Some(python) = python("HYPERCORN") else { return };
    let _alone = alone();
    let server = Other::start(&python, &[], SERVER);
    let ended = |text: &str, n: u64| {
        wait_until("the server's log", || lines(&server, "served", text) >= n);
        assert_eq!(lines(&server, "served", text), n, "{text}");
    };
    let chat = ["--h2c", "-c", "2", "--streams", "4", "--subprotocol", "chat"];
    let load = ["-n", "40", "--messages", "100/s", "--messages-count", "10", "-b", "hello"];
    let load = [&chat[..], &load].concat();
    let url = |path: &str| ws(&server.url(path));
    for (path, more) in [("/", &[][..]), ("/binary", &["--binary"])] {
        let report = measure(&[&load[..], more, &[&url(path)]].concat());
        report.check_sums();
        assert_eq!((report.status(1000), report.count("failed")), (40, 0), "{path}");
        assert_eq!(messages(&report), [400, 400, 400, 400, 0], "{path}");
        assert_eq!(http2(&report, "connections"), 2);
    }
    ended("open 2 ['chat']", 80);
    ended("message text 5", 400);
    ended("message bytes 5", 400);
    // A message that is longer than the server's window.
    let long = "x".repeat(100_000);
    let report = measure(&[&chat[..], &["-n", "8", "-b", &long, &url("/")]].concat());
    assert_eq!((report.status(1000), messages(&report)[2]), (8, 8));
    ended("message text 100000", 8);
    // A server that closes: its code is the outcome.
    let report = prony(&[&load[..], &["--json", &url("/leave")]].concat()).report();
    assert_eq!((report.status(4001), report.errors("unexpected-status")), (40, 40));
    let report = prony(&[&load[..], &["--json", &url("/refused")]].concat()).report();
    assert_eq!(report.status(403), 40);
}

/// Steps of sessions on two streams of a connection: a message that is longer than the server's
/// window on one, a close by the server on the other.
#[test]
fn sessions_make_steps_on_streams_to_hypercorn() {
    let Some(python) = python("HYPERCORN") else { return };
    let _alone = alone();
    let server = Other::start(&python, &[], SERVER);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let text = format!(
        "url = '{}'\nhttp = '2-only'\nusers = 3\nsessions = 12\n[[session]]\nrequest = [
  {{ open = '/leave', subprotocols = 'chat', socket = 'a' }},
  {{ open = '/', subprotocols = 'chat', socket = 'b' }},
  {{ send = 'hello', wait-for = 'hello', socket = 'a', repeat = 3 }},
  {{ send = '{}', wait-for = 'xxx', socket = 'b', within = '20s' }},
  {{ wait-for = 'never', socket = 'a', expect = 4001 }},
  {{ send = 'still', wait-for = 'still', socket = 'b', within = '20s' }},
  {{ close = 1000, socket = 'b' }},
]\n",
        server.url(""),
        "x".repeat(100_000)
    );
    std::fs::write(&file, text).expect("a file");
    let report = prony(&["run", file.to_str().expect("UTF-8"), "--json"]).report();
    assert_eq!(report.count("failed"), 0, "{:#}", report.0["measurement"]["errors"]);
    let statuses = [200, 1000, 4001].map(|status| report.status(status));
    assert_eq!((statuses, report.count("connects")), ([24 + 60, 12, 12], 12));
    let logged = |text: &str| lines(&server, "served", text);
    wait_until("the server's log", || logged("close 1000") >= 12);
    assert_eq!([logged("message text 100000"), logged("message text 5")], [12, 48]);
}

/// A client that is built on `h2` and `wsproto` is answered by `prony serve`: messages over windows
/// and in fragments, pings, a close by each side, and what is refused.
#[test]
fn a_client_in_python_is_answered() {
    let Some(python) = python("HYPERCORN") else { return };
    let _alone = alone();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/websocket_http2.py");
    let server = Serve::start(&["--ws", "echo", "--window", "9000"]);
    let output = Command::new(&python).arg(script).arg(server.url("/")).output();
    let output = output.expect("it is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counters = server.stop();
    let names = ["sockets", "socket_messages_received", "socket_messages_sent", "bad_requests"];
    assert_eq!(names.map(|name| served(&counters, name)), [3, 9, 9, 2]);
    assert_eq!((served(&counters, "violations"), served(&counters, "h2_connections")), (1, 1));
}

/// A server that offers HTTP/1.1 alone gets WebSocket over that.
#[test]
fn falls_back_to_http1_over_tls() {
    let Some(python) = python("WEBSOCKETS") else { return };
    let _alone = alone();
    let certificates = Certificates::new();
    let script = "
import asyncio, ssl
from websockets.asyncio.server import serve

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('@CERT@', '@KEY@')
context.set_alpn_protocols(['http/1.1'])

async def app(ws):
    async for message in ws:
        await ws.send(message)

async def main():
    async with serve(app, '127.0.0.1', @PORT@, ssl=context):
        await asyncio.Future()

asyncio.run(main())
";
    let script = script.replace("@CERT@", &certificates.path("server.pem"));
    let script = script.replace("@KEY@", &certificates.path("server.key"));
    let server = Other::start(&python, &[], &script);
    let url = server.url("/").replacen("http", "wss", 1).replace("127.0.0.1", "localhost");
    let ca = certificates.path("ca.pem");
    let load = ["--http2", "--cacert", &ca, "-n", "12", "-c", "3", "--streams", "2", &url];
    let more = ["--messages", "100/s", "--messages-count", "5", "-b", "hello"];
    let report = measure(&[&load[..], &more].concat());
    report.check_sums();
    assert_eq!((report.status(1000), report.count("failed")), (12, 0));
    assert_eq!((messages(&report)[2], http2(&report, "fallbacks")), (60, 12));
    let only = ["--http", "2-only", "--cacert", &ca, "-n", "4", "-c", "1", "--json", &url];
    let report = prony(&only).report();
    assert_eq!(report.count("replies"), 0);
}
