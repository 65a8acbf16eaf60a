//! Steps of sessions on WebSockets: to prony's own target server, and to a server in Python.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::http2_peers::lines;
use crate::rig::{Other, Report, Serve, alone, prony, served, wait_until};
use crate::tls::Certificates;
use crate::websocket::python;

/// The report of a plan, which is explained first: the explained plan explains as itself.
fn run(folder: &Path, plan: &str, more: &[&str]) -> Report {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let once = prony(&[&["run", &file("plan.toml", plan), "--explain"], more].concat());
    assert_eq!(once.code, 0, "{}", once.stderr);
    let again = file("again.toml", &once.stdout);
    let twice = prony(&["run", &again, "--explain"]);
    let plain = |text: &str| {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(plain(&once.stdout), plain(&twice.stdout));
    prony(&["run", &again, "--json"]).report()
}

/// A plan of sessions on this server.
fn plan(url: &str, sessions: u32, more: &str) -> String {
    format!(
        "url = '{url}'\nusers = 5\nsessions = {sessions}\n{more}\n[[session]]\nrequest = [
  {{ path = '/status/204', expect = 204, name = 'page' }},
  {{ open = '/chat', subprotocols = 'chat', name = 'open' }},
  {{ send = '{{\"id\":\"{{{{session}}}}\"}}', wait-for = {{ json = '/id', equals = '{{{{session}}}}' }},
     within = '20s', extract = {{ id = {{ json = '/id' }} }}, name = 'ask', think = '5ms' }},
  {{ send = 'I am {{{{id}}}}', repeat = 2, name = 'say' }},
  '/status/200',
  {{ wait-for = {{ regex = '^I am (.*)$', equals = '{{{{id}}}}' }}, repeat = 2, name = 'hear' }},
  {{ close = 1000, reason = 'done', name = 'close' }},
]\n"
    )
}

fn of_name(report: &Report, name: &str, figure: &str) -> u64 {
    let names = report.0["measurement"]["names"].as_array().expect("names");
    let one = names.iter().find(|one| one["name"] == name).expect("a name");
    one[figure].as_u64().unwrap_or(0)
}

/// Runs 40 sessions of the plan with these lines, with and without TLS, on the target server.
/// Counts of both sides are equal. Passes the report and the counters of the server on.
fn talked(lines: &str, check: impl Fn(&Report, &Value)) {
    let folder = tempfile::tempdir().expect("a folder");
    let certificates = Certificates::new();
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let secure = ["--tls", "--cert", &cert, "--key", &key];
    for tls in [false, true] {
        let more = if tls { &secure[..] } else { &[] };
        let server = Serve::start(&[&["--ws", "echo", "--latency", "fixed:2ms"], more].concat());
        let url = server.url("").replace("127.0.0.1", "localhost");
        let table = format!("[tls]\ncacert = '{}'\n", certificates.path("ca.pem"));
        let text = plan(&url, 40, lines) + if tls { &table } else { "" };
        let report = run(folder.path(), &text, &[]);
        report.check_sums();
        assert_eq!(report.count("failed"), 0, "{:#}", report.0["measurement"]["errors"]);
        // Extended CONNECT is answered with 200.
        let (switched, ok) = if lines.is_empty() { (40, 40 * 6) } else { (0, 40 * 7) };
        let statuses = [101, 200, 204, 1000].map(|status| report.status(status));
        assert_eq!(statuses, [switched, ok, 40, 40]);
        let counters = server.stop();
        let names = ["sockets", "violations", "socket_messages_received", "socket_messages_sent"];
        assert_eq!(names.map(|name| served(&counters, name)), [40, 0, 120, 120]);
        check(&report, &counters);
    }
}

#[test]
fn sessions_talk_with_the_target_server() {
    let _alone = alone();
    talked("", |report, _| {
        // What is in flight is counted, though a send ends without an event of its own.
        let reasons = report.0["verdict"]["reasons"].as_array().expect("reasons");
        let mismatch = |reason: &&Value| reason["kind"] == "littles-law-mismatch";
        assert_eq!(reasons.iter().find(mismatch), None);
        assert_eq!(report.count("connects"), 80);
        for (name, replies) in [("open", 40), ("ask", 40), ("say", 80), ("hear", 80)] {
            assert_eq!(of_name(report, name, "replies"), replies, "{name}");
        }
    });
}

/// Over HTTP/2: one connection for each session.
#[test]
fn sessions_talk_with_the_target_server_over_http2() {
    let _alone = alone();
    talked("http = '2-only'\n", |report, counters| {
        assert_eq!(report.count("connects"), 40);
        let names = ["h2_connections", "streams", "malformed", "cancelled"];
        assert_eq!(names.map(|name| served(counters, name)), [40, 120, 0, 0]);
    });
}

/// A session with two sockets, on the target server and on one in Python, which has got what was
/// sent to it.
#[test]
fn sessions_hold_sockets_to_two_servers() {
    let Some(python) = python() else { return };
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Serve::start(&["--ws", "echo", "--latency", "fixed:2ms"]);
    let theirs = Other::start(&python, &[], SERVER);
    let text = format!(
        "url = '{}'\nusers = 4\nsessions = 20\n[[session]]\nrequest = [
  {{ open = '/chat', socket = 'chat' }},
  {{ open = '{}', socket = 'news', subprotocols = 'chat' }},
  {{ send = 'a {{{{session}}}}', socket = 'chat' }},
  {{ send = 'b {{{{session}}}}', socket = 'news', wait-for = {{ regex = '^b (.*)$', equals = '{{{{session}}}}' }} }},
  '/status/200',
  {{ close = 1000, reason = 'read', socket = 'news', name = 'close news' }},
  {{ wait-for = {{ regex = '^a (.*)$', equals = '{{{{session}}}}' }}, socket = 'chat', within = '20s' }},
  {{ close = 1001, socket = 'chat' }},
]\n",
        ours.url(""),
        theirs.url("/news").replacen("http", "ws", 1)
    );
    let report = run(folder.path(), &text, &[]);
    report.check_sums();
    assert_eq!(report.count("failed"), 0, "{:#}", report.0["measurement"]["errors"]);
    assert_eq!([101, 1000, 1001].map(|status| report.status(status)), [40, 20, 20]);
    assert_eq!(report.count("connects"), 60);
    let counters = ours.stop();
    let names = ["sockets", "violations", "socket_messages_received"];
    assert_eq!(names.map(|name| served(&counters, name)), [20, 0, 20]);
    let logged = |text: &str| lines(&theirs, "served", text);
    wait_until("the server's log", || logged("close 1000 read chat") >= 20);
    assert_eq!((logged("close 1000 read chat"), logged("message str")), (20, 20));
}

/// Waits that are too short fail alone; sessions without a socket open no connection.
#[test]
fn waits_and_refused_handshakes_fail() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let server = Serve::start(&["--ws", "echo"]);
    let steps = |url: &str, first: &str| {
        format!(
            "url = '{url}'\nusers = 2\nsessions = 10\non-failure = 'continue'\n[[session]]\nrequest = [
  {{ open = '{first}' }},
  {{ send = 'a', wait-for = 'b', within = '20ms' }},
  {{ send = 'c', wait-for = 'c' }},
]\n"
        )
    };
    let report = run(folder.path(), &steps(&server.url(""), "/"), &[]);
    assert_eq!((report.errors("wait-timeout"), report.count("failed")), (10, 10));
    assert_eq!((report.status(101), report.status(200), report.count("connects")), (10, 10, 10));
    server.stop();
    let server = Serve::start(&[]);
    let text = steps(&server.url(""), "/status/403");
    let report = run(folder.path(), &text, &[]);
    assert_eq!((report.status(403), report.errors("unexpected-status")), (10, 10));
    assert_eq!((report.errors("no-socket"), report.count("connects")), (20, 10));
}

/// A file of sessions, too, can have such steps; what cannot be made is refused before a load.
#[test]
fn files_of_sessions_have_steps() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sessions.toml");
    let path = file.to_str().expect("UTF-8");
    let write = |steps: &str| {
        fs::write(&file, format!("[[session]]\nrequest = [{steps}]\n")).expect("a file");
    };
    let load = ["--session", path, "-c", "1", "-d", "1s", "--simulate", "1"];
    let run = |url: &str, more: &[&str]| prony(&[&load[..], more, &[url]].concat());
    write("'/', { open = '/chat' }, { send = 'a', wait-for = 'a' }");
    let report = run("http://127.0.0.1:1", &["--json"]).report();
    assert!(report.status(101) > 100 && report.count("failed") == 0);
    let report = run("http://127.0.0.1:1", &["--h2c", "--json"]).report();
    assert_eq!((report.status(101), report.count("failed")), (0, 0));
    assert!(report.status(200) > 100);
    let second = run("https://127.0.0.1:1", &["--http2"]);
    assert_eq!(second.code, 2, "{}", second.stdout);
    assert!(second.stderr.contains("need to know the version of HTTP"), "{}", second.stderr);
    write("{ open = '/chat' }, { close = 1000 }, { send = 'a' }");
    let refused = run("http://127.0.0.1:1", &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    let why = "session 1: burst 3: `send` needs a WebSocket; `open` it before";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
}

/// The same times as in virtual time, on one thread or several.
#[test]
fn plans_are_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = plan("http://127.0.0.1:1", 50, "");
    let file = folder.path().join("plan.toml");
    fs::write(&file, &text).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let simulated = |threads: &str| {
        let more = ["run", file, "--simulate", "7", "--json", "-t", threads];
        let report = prony(&more).report();
        assert_eq!((report.count("failed"), report.status(1000)), (0, 50));
        report.0["measurement"]["times"].clone()
    };
    assert_eq!(simulated("1")["response"], simulated("1")["response"]);
    simulated("3");
}

/// A server that closes by itself, answers late, and logs what it has got.
const SERVER: &str = "
import asyncio
from websockets.asyncio.server import serve

log = open('@DIR@/served', 'w', buffering=1)

async def app(ws):
    try:
        await talk(ws)
    finally:
        print('close', ws.close_code, ws.close_reason, ws.subprotocol, file=log)

async def talk(ws):
    kind = ws.request.path
    if kind == '/leave':
        await ws.close(4001, 'enough')
        return
    async for message in ws:
        print('message', type(message).__name__, file=log)
        if kind == '/noise':
            for i in range(100):
                await ws.send('noise ' + str(i))
        await ws.send([message[:1], message[1:]])
        if kind == '/kick':
            await ws.close(4002, 'kicked')
            return

async def main():
    async with serve(app, '127.0.0.1', @PORT@, subprotocols=['chat'], ping_interval=0.02,
                     compression=None):
        await asyncio.Future()

asyncio.run(main())
";

#[test]
fn sessions_talk_with_a_server_in_python() {
    let Some(python) = python() else { return };
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let server = Other::start(&python, &[], SERVER);
    let ended = |text: &str, n: u64| {
        wait_until("the server's log", || lines(&server, "served", text) >= n);
        assert_eq!(lines(&server, "served", text), n, "{text}");
    };
    let head = |on_failure: &str| {
        format!(
            "url = '{}'\nusers = 3\nsessions = 12\non-failure = '{on_failure}'\n[[session]]\n",
            server.url("").replacen("http", "ws", 1)
        )
    };
    let ask = "{ send = 'hello', wait-for = 'hello', within = '20s', name = 'ask' }";
    // Among other messages, in fragments, with pings in a pause; closed with a reason.
    let text = head("end")
        + &format!(
            "request = [{{ open = '/noise', subprotocols = 'chat' }}, {ask}, \
             {{ send = {{ base64 = '/wA=' }}, binary = true, think = '100ms' }}, \
             {{ wait-for = 'noise 99' }}, {{ close = 1000, reason = 'bye' }}]\n"
        );
    let report = run(folder.path(), &text, &[]);
    assert_eq!((report.count("failed"), report.status(1000)), (0, 12));
    ended("close 1000 bye chat", 12);
    ended("message str", 12);
    ended("message bytes", 12);
    // A session that ends with an open socket.
    let text =
        head("end") + &format!("request = [{{ open = '/', subprotocols = 'chat' }}, {ask}]\n");
    assert_eq!(run(folder.path(), &text, &[]).count("failed"), 0);
    ended("close 1001", 12);
    // The server closes during a step, and between two.
    let during = "{ send = 'hello', wait-for = 'never', name = 'ask' }";
    let text = head("end")
        + &format!("request = [{{ open = '/kick', subprotocols = 'chat' }}, {during}]\n");
    let report = run(folder.path(), &text, &[]);
    assert_eq!((report.status(4002), report.errors("unexpected-status")), (12, 12));
    let text = head("end")
        + "request = [{ open = '/leave', subprotocols = 'chat', think = '200ms' }, \
           { close = 1000, expect = 4001 }]\n";
    let report = run(folder.path(), &text, &[]);
    assert_eq!((report.status(4001), report.count("failed")), (12, 0));
    ended("close 4001", 12);
    ended("close 4002", 12);
}
