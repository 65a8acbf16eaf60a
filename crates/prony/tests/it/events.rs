//! Streams of server-sent events, lines and chunks: to prony's own target server, and to one of
//! Node.js, whose counts are prony's.

use serde_json::Value;

use crate::http2_peers::find;
use crate::rig::{Other, Report, Serve, alone, measure, prony, served};

fn tally(report: &Report) -> &Value {
    &report.0["measurement"]["tally"]["stream_messages"]
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn mean_ms(report: &Report, name: &str) -> f64 {
    report.0["measurement"]["times"][name]["mean_ns"].as_f64().expect("a mean") / 1e6
}

/// Times and counts of a known distribution. A machine that is busy makes times longer, not
/// shorter.
#[test]
fn measures_the_events_of_the_target_server() {
    let _alone = alone();
    let server = Serve::start(&["--sse", "ttft=50ms,gap=5ms,count=20,empty=2,pings"]);
    let stream = ["--stream", "sse", "--content-pointer", "/choices/0/delta/content"];
    for version in [&[][..], &["--h2c", "--streams", "10"]] {
        let load = ["-n", "60", "-c", "3", &server.url("/")];
        let report = measure(&[&load[..], &stream, version].concat());
        report.check_sums();
        assert_eq!((report.status(200), report.count("failed")), (60, 0));
        let messages = tally(&report);
        assert_eq!(count(messages, "received"), 60 * 20);
        let bodies = &messages["bodies"];
        let ends = ["begun", "ended_by_server", "empty", "incomplete", "failed"];
        assert_eq!(ends.map(|name| count(bodies, name)), [60, 60, 0, 0, 0]);
        for (name, least) in [("first_message", 50.0), ("first_content", 60.0)] {
            assert!(report.ms(name, "min") >= least * 0.999, "{name}");
        }
        // A late first event makes the gaps after it shorter: the last is due at its own time.
        let last = report.ms("first_message", "mean") + 19.0 * report.ms("message_gap", "mean");
        assert!(last >= 50.0 + 19.0 * 5.0 - 0.1, "{last}");
    }
}

/// The CPU time of all threads of the load, in seconds.
fn cpu(report: &Report) -> f64 {
    let workers = report.0["workers"].as_array().expect("threads");
    let time = |worker: &Value, name: &str| worker[name].as_f64().expect("a time");
    workers.iter().map(|w| time(w, "cpu_user") + time(w, "cpu_system")).sum::<f64>() / 1e9
}

/// 100,000 events per second for one thread: 1,000 streams with an event each 10 ms over either
/// version, then a server that writes as fast as it can. Every event that was served is received,
/// and a second of CPU time is enough for 100,000 of them. The rates are printed.
#[test]
fn receives_100_000_events_per_second_on_one_core_without_loss() {
    const RATE: f64 = 100_000.0;
    let _alone = alone();
    let paced = "gap=fixed:10ms,count=400";
    for (what, behavior, load, version) in [
        ("paced, HTTP/1.1", paced, ["-c", "1000", "-n", "1000"], &[][..]),
        ("paced, HTTP/2", paced, ["-c", "10", "-n", "1000"], &["--h2c", "--streams", "100"]),
        ("at once", "gap=none,count=20000", ["-c", "10", "-n", "50"], &[]),
    ] {
        let server = Serve::start(&["--sse", behavior]);
        let url = server.url("/");
        let stream = ["-t", "1", "--stream", "sse", "--timeout", "80s", &url];
        let report = measure(&[&load[..], version, &stream].concat());
        report.check_sums();
        let streams = load[3].parse::<u64>().expect("a number");
        assert_eq!((report.count("replies"), report.count("failed")), (streams, 0), "{what}");
        let received = count(tally(&report), "received");
        let counters = server.stop();
        assert_eq!(served(&counters, "events"), received, "{what}");
        assert!(received >= 400_000, "{what}: {received}");
        let each = received as f64 / streams as f64;
        let per_second = report.0["rps"].as_f64().expect("a rate") * each;
        let per_cpu = received as f64 / cpu(&report);
        println!("{what}: {per_second:.0} events per second, {per_cpu:.0} per second of CPU time");
        assert!(per_cpu >= RATE, "{what}: {per_cpu:.0} events per second of CPU time");
    }
}

/// A bound ends streams that would never end, and a threshold decides about their times.
#[test]
fn ends_streams_and_decides_thresholds() {
    let server = Serve::start(&["--sse", "ttft=5ms,gap=5ms,count=1000000"]);
    let url = server.url("/");
    let load = ["-n", "20", "-c", "2", "--stream", "sse", &url];
    let count_of = |report: &Report, name| count(&tally(report)["bodies"], name);
    for version in [&[][..], &["--h2c"]] {
        let report = measure(&[&load[..], &["--stream-events", "4"], version].concat());
        assert_eq!((report.status(200), count(tally(&report), "received")), (20, 80));
        assert_eq!(count_of(&report, "ended_by_count"), 20);
        let report = measure(&[&load[..], &["--stream-time", "30ms"], version].concat());
        assert_eq!((report.status(200), count_of(&report, "ended_by_time")), (20, 20));
        let report = measure(&[&load[..], &["--until-event", "w3 "], version].concat());
        assert_eq!((report.status(200), count(tally(&report), "received")), (20, 60));
        assert_eq!(count_of(&report, "ended_by_text"), 20);
    }
    let bound = ["--stream-events", "4", "--accept-invalid"];
    for (threshold, code) in [("first-message.max < 1us", 99), ("message-gap.max < 100s", 0)] {
        let run = prony(&[&load[..], &bound, &["--threshold", threshold]].concat());
        assert_eq!(run.code, code, "{threshold} {run:?}");
    }
}

/// A stream that the server ends without its last message fails, and says so in each report.
#[test]
fn streams_without_their_last_message_fail() {
    let server = Serve::start(&["--sse", "ttft=1ms,gap=1ms,count=4"]);
    let url = server.url("/");
    let load = ["-n", "10", "-c", "1", "--stream", "sse", "--accept-invalid", &url];
    for (option, text, failed) in [
        ("--until-event", "w3 ", 0),
        ("--until-event", "w9 ", 10),
        ("--require-end", "w4 ", 0),
        ("--require-end", "w3 ", 10),
    ] {
        for version in [&[][..], &["--h2c"]] {
            let run = prony(&[&load[..], &[option, text, "--json"], version].concat());
            let report = run.report();
            let errors = report.errors("truncated-stream");
            assert_eq!((report.count("failed"), errors), (failed, failed), "{option} {text}");
        }
    }
    let limits = ["--require-end", "w3 ", "--threshold", "error.truncated-stream = 0"];
    let run = prony(&[&load[..], &limits].concat());
    // No request had a reply.
    assert_eq!(run.code, 1, "{run:?}");
    let sentence = "the server ended the stream without its last message";
    for text in [sentence, "missed: error.truncated-stream = 0 (10)"] {
        assert!(run.stdout.contains(text), "{}", run.stdout);
    }
}

/// Node.js writes events, lines and chunks with timers of its own, and counts them.
#[test]
fn counts_equal_those_of_node() {
    if !find("node") {
        return;
    }
    let _alone = alone();
    let script = "
const fs = require('fs');
const types = {'/sse': 'text/event-stream', '/lines': 'application/x-ndjson'};
require('http').createServer((request, response) => {
    response.writeHead(200, {'Content-Type': types[request.url] || 'text/plain'});
    let n = 0;
    const timer = setInterval(() => {
        n += 1;
        const data = JSON.stringify({n, text: n > 2 ? 'word\\n' : ''});
        if (request.url === '/sse') {
            response.write(': ping\\r\\n\\r\\nid: ' + n + '\\r\\ndata: ' + data + '\\r\\n\\r\\n');
        } else {
            response.write(data + '\\n');
        }
        fs.appendFileSync('@DIR@/served', request.url + '\\n');
        if (n === 10) {
            clearInterval(timer);
            response.end(request.url === '/sse' ? 'data: [DONE]\\n\\n' : '');
        }
    }, 4);
    request.on('close', () => clearInterval(timer));
}).listen(@PORT@, '127.0.0.1');
";
    let server = Other::start("node", &[], script);
    for (path, format, done) in
        [("/sse", "sse", 1), ("/lines", "ndjson", 0), ("/chunks", "chunks", 0)]
    {
        let pointer = ["--content-pointer", "/text"];
        let pointer = if format == "chunks" { &[][..] } else { &pointer };
        let url = server.url(path);
        let load = ["-n", "30", "-c", "3", "--stream", format, &url];
        let report = measure(&[&load[..], pointer].concat());
        assert_eq!((report.status(200), report.count("failed")), (30, 0), "{format}");
        let log = std::fs::read_to_string(server.file("served")).expect("a log");
        let served = log.lines().filter(|line| *line == path).count() as u64;
        assert_eq!(served, 300, "{format}");
        assert_eq!(count(tally(&report), "received"), served + 30 * done, "{format}");
        // The tenth event is written 40 ms after the request, the third, with the first content, 12
        // ms after it; timers of Node.js may be a millisecond early. Late reads make gaps shorter.
        let gaps = (9 + done) as f64 * mean_ms(&report, "message_gap");
        let last = mean_ms(&report, "first_message") + gaps;
        assert!(last >= 30.0, "{format} {last}");
        if format != "chunks" {
            assert!(report.ms("first_content", "min") >= 9.0, "{format}");
        }
    }
}

/// The server ends each reply after 10 events. Over HTTP/1.1, HTTP/2 and TLS, each stream of 35
/// events has 4 of them.
#[test]
fn opens_streams_of_the_target_server_again() {
    let server = Serve::start(&["--sse", "gap=2ms,count=1000,cut=10,retry=50ms"]);
    let url = server.url("/");
    let load =
        ["-n", "20", "-c", "4", "--stream", "sse", "--stream-events", "35", "--reconnect", &url];
    for version in [&[][..], &["--h2c"]] {
        let report = measure(&[&load[..], version].concat());
        assert_eq!((report.count("replies"), report.count("failed")), (20, 0));
        assert_eq!((report.status(200), count(tally(&report), "received")), (80, 20 * 35));
        let bodies = &tally(&report)["bodies"];
        assert_eq!((count(bodies, "begun"), count(bodies, "ended_by_count")), (20, 20));
        let counts = ["made", "resumed", "ended", "broken", "repeated", "missed"];
        let counts = counts.map(|name| count(&bodies["reconnects"], name));
        assert_eq!(counts, [60, 60, 60, 0, 0, 0]);
        let outage = mean_ms(&report, "reconnect");
        assert!(outage >= 50.0, "{outage}");
    }
    // On a busy machine, the run is not valid.
    let late = ["--threshold", "reconnect.max < 1us", "--accept-invalid"];
    let run = prony(&[&load[..], &late].concat());
    assert_eq!(run.code, 99, "{run:?}");
    assert!(run.stdout.contains("60, 60 after an end by the server"), "{run:?}");
}

/// Node.js breaks the connection of each stream after 5 events, and continues after the event that
/// the client names; of a path, it repeats the last event, or leaves out two.
#[test]
fn opens_streams_of_node_again() {
    if !find("node") {
        return;
    }
    let _alone = alone();
    let script = "
const fs = require('fs');
const skips = {'/again': -1, '/missed': 2};
require('http').createServer((request, response) => {
    const last = request.headers['last-event-id'];
    fs.appendFileSync('@DIR@/last', request.url + ' ' + last + '\\n');
    let n = last === undefined ? 100 : Number(last) + (skips[request.url] || 0);
    let left = 5;
    response.writeHead(200, {'Content-Type': 'text/event-stream; charset=utf-8'});
    response.write('retry: 30\\n\\n');
    const timer = setInterval(() => {
        n += 1;
        response.write('event: tick\\nid: ' + n + '\\ndata: ' + n + '\\n\\n');
        left -= 1;
        if (left === 0) {
            clearInterval(timer);
            if (request.url === '/end') response.end(); else request.socket.destroySoon();
        }
    }, 2);
    request.on('close', () => clearInterval(timer));
}).listen(@PORT@, '127.0.0.1');
";
    let server = Other::start("node", &[], script);
    for (path, [ended, broken, repeated, missed]) in [
        ("/end", [20, 0, 0, 0]),
        ("/break", [0, 20, 0, 0]),
        ("/again", [0, 20, 20, 0]),
        ("/missed", [0, 20, 0, 40]),
    ] {
        let url = server.url(path);
        let load =
            ["-n", "10", "-c", "2", "--stream", "sse", "--stream-events", "13", "--reconnect"];
        let report = measure(&[&load[..], &[&url]].concat());
        assert_eq!((report.count("replies"), report.count("failed")), (10, 0), "{path}");
        assert_eq!(count(tally(&report), "received"), 130, "{path}");
        let counts = ["made", "resumed", "ended", "broken", "repeated", "missed"];
        let counts = counts.map(|name| count(&tally(&report)["bodies"]["reconnects"], name));
        assert_eq!(counts, [20, 20, ended, broken, repeated, missed], "{path}");
        let log = std::fs::read_to_string(server.file("last")).expect("a log");
        let second = if path == "/again" {
            109
        } else if path == "/missed" {
            112
        } else {
            110
        };
        for (id, n) in
            [("undefined".to_owned(), 10), ("105".to_owned(), 10), (second.to_string(), 10)]
        {
            let line = format!("{path} {id}");
            assert_eq!(log.lines().filter(|other| **other == line).count(), n, "{line}");
        }
    }
}
