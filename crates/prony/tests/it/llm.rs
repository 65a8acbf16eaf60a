//! `prony llm`: against prony's own target server, a server that shows what it was sent, and
//! GuideLLM's server of a model, whose times are known.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::Value;

use crate::rig::{Other, Report, Serve, alone, command, measure, prony};

fn tally(report: &Report) -> &Value {
    &report.0["measurement"]["tally"]["tokens"]
}

fn count(report: &Report, name: &str) -> u64 {
    tally(report)[name].as_u64().unwrap_or(0)
}

fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("a path").to_owned();
    (folder, path)
}

/// Times and counts of a known distribution, in all dialects and over both versions. A machine
/// that is busy makes times longer, not shorter.
#[test]
fn measures_the_tokens_of_the_target_server() {
    let _alone = alone();
    let server = Serve::start(&["--sse", "ttft=50ms,gap=8ms,count=15,tokens=4"]);
    for (dialect, version) in
        [("chat", &[][..]), ("completions", &["--h2c", "--streams", "10"]), ("anthropic", &[])]
    {
        let load = ["llm", "--model", "m", "--dialect", dialect, "-n", "60", "-c", "3"];
        let prompts = ["--input-tokens", "33", "--output-tokens", "1000"];
        let url = server.url("");
        let slo = ["--slo", "ttft < 10s, itl < 10s", url.trim_end_matches('/')];
        let report = measure(&[&load[..], version, &prompts, &slo].concat());
        report.check_sums();
        assert_eq!((report.status(200), report.count("failed")), (60, 0), "{dialect}");
        let names = ["replies", "counted", "chunks", "output_tokens", "input_tokens", "good"];
        let counts = names.map(|name| count(&report, name));
        assert_eq!(counts, [60, 60, 60 * 15, 60 * 60, 60 * 33, 60], "{dialect}");
        assert_eq!(tally(&report)["finished"]["stop"], 60);
        for name in ["ttft", "ttft_service"] {
            assert!(report.ms(name, "min") >= 50.0 * 0.999, "{dialect} {name}");
        }
        // A late first chunk makes the gaps after it shorter: the last is due at its own time. The
        // same time has 14 chunks and 59 tokens.
        let itl = report.ms("itl", "mean");
        let by_chunks = 14.0 * report.ms("chunk_gap", "mean") / 59.0;
        assert!((itl / by_chunks - 1.0).abs() < 0.01, "{dialect} {itl} {by_chunks}");
        let first = report.ms("ttft_service", "mean");
        for last in [first + 14.0 * report.ms("chunk_gap", "mean"), first + 59.0 * itl] {
            assert!(last >= 50.0 + 14.0 * 8.0 - 0.1, "{dialect} {last}");
        }
        let figures = &report.0["measurement"]["tokens"];
        assert_eq!(figures["tokens_per_chunk"], 4.0);
        let one = figures["token_rate_of_one"].as_f64().expect("a rate");
        assert!((one * itl / 1e3 - 1.0).abs() < 1e-6, "{one} {itl}");
    }
}

/// Replies in one piece have tokens and a response time, and no times between tokens.
#[test]
fn measures_replies_in_one_piece() {
    let server = Serve::start(&["--sse", "ttft=10ms,gap=2ms,count=50"]);
    for dialect in ["chat", "anthropic"] {
        let url = server.url("");
        let load = ["llm", "--model", "m", "--dialect", dialect, "--no-streaming", "-n", "20"];
        let report = measure(&[&load[..], &["--output-tokens", "20", &url]].concat());
        let names = ["replies", "output_tokens", "input_tokens"];
        assert_eq!(names.map(|name| count(&report, name)), [20, 400, 20 * 128]);
        assert_eq!(tally(&report)["finished"]["length"], 20);
        assert!(report.0["measurement"]["times"]["ttft"].is_null());
        assert!(report.ms("response", "min") >= 10.0 + 19.0 * 2.0);
    }
}

/// A server that answers one request with a stream, and returns the request.
fn one_request() -> (String, thread::JoinHandle<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let reply = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
                     data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n";
        stream.write_all(reply.as_bytes()).expect("it is read");
        (head, serde_json::from_slice(&body).expect("JSON"))
    });
    (url, thread)
}

/// A vocabulary without words: each word is one token that is not known.
pub(crate) const WORDS: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null,
    "decoder": null, "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}}}"#;

/// The target server says how many tokens there are only if it is asked. It sends four words in
/// each chunk: a tokenizer counts them, also in virtual time, and ITL follows.
#[cfg(feature = "tokenizer")]
#[test]
fn a_tokenizer_counts_the_tokens_of_replies_without_usage() {
    let _alone = alone();
    let server = Serve::start(&["--sse", "ttft=50ms,gap=8ms,count=15,tokens=4"]);
    let (_folder, words) = file("tokenizer.json", WORDS);
    let load = ["llm", "--model", "m", "-n", "60", "-c", "3", "--output-tokens", "1000"];
    let silent = ["--body-fields", "{\"stream_options\": {\"include_usage\": false}}"];
    let url = server.url("");
    let limits = ["--slo", "itl < 10s", "--threshold", "output-tokens = 3600", &url];
    let names = ["replies", "counted", "chunks", "output_tokens", "good", "tokenized"];
    let with = [&load[..], &silent, &["--tokenizer", &words], &limits].concat();
    let report = measure(&with);
    report.check_sums();
    assert_eq!(names.map(|name| count(&report, name)), [60, 60, 60 * 15, 60 * 60, 60, 60]);
    let itl = report.ms("itl", "mean");
    let last = report.ms("ttft_service", "mean") + 59.0 * itl;
    assert!(last >= 50.0 + 14.0 * 8.0 - 0.1, "{last}");
    let by_chunks = 14.0 * report.ms("chunk_gap", "mean") / 59.0;
    assert!((itl / by_chunks - 1.0).abs() < 0.01, "{itl} {by_chunks}");
    let text = prony(&[&with[..], &["--accept-invalid"]].concat()).stdout;
    assert!(text.contains(", those of 60 replies counted by the tokenizer"), "{text}");
    // Its numbers come first, and without both there are none.
    let said = measure(&[&load[..], &["--tokenizer", &words], &limits].concat());
    assert_eq!(names.map(|name| count(&said, name)), [60, 60, 60 * 15, 60 * 60, 60, 0]);
    let unknown = measure(&[&load[..], &silent, &[&url[..]]].concat());
    assert_eq!(names.map(|name| count(&unknown, name)), [60, 0, 60 * 15, 0, 60, 0]);
    assert!(unknown.0["measurement"]["times"]["itl"].is_null());
    // The simulated model has a token each 10 ms, and one word in each chunk.
    let virtual_time = ["--simulate", "1", "--tokenizer", &words, "--json", &url];
    let simulated = prony(&[&load[..], &silent, &virtual_time].concat()).report();
    assert_eq!(count(&simulated, "tokenized"), 60);
    assert_eq!(count(&simulated, "output_tokens"), count(&simulated, "chunks"));
    let itl = simulated.ms("itl", "mean");
    assert!((itl / 10.0 - 1.0).abs() < 1e-3, "{itl}");
}

/// A plan file names the tokenizer, and another file is refused before the load.
#[test]
fn tokenizers_that_cannot_be_used_are_refused_before_the_load() {
    let (folder, words) = file("tokenizer.json", WORDS);
    let missing = folder.path().join("missing.json");
    let (_other, wrong) = file("wrong.json", "[]");
    let url = "http://127.0.0.1:1/v1";
    let cases = if cfg!(feature = "tokenizer") {
        [
            (missing.to_str().expect("UTF-8"), "--tokenizer"),
            (&wrong, "wrong.json: this is no tokenizer.json: "),
        ]
    } else {
        [
            (&words[..], "this build of prony has no tokenizers"),
            (&wrong, "build it with --features"),
        ]
    };
    for (path, why) in cases {
        let load = ["llm", "--model", "m", "-n", "1", "--tokenizer", path, url];
        let explained = prony(&[&load[..], &["--explain"]].concat()).stdout;
        assert!(explained.contains(&format!("tokenizer = \"{path}\"")), "{explained}");
        let (_folder, plan) = file("plan.toml", &explained);
        let simulated = [&load[..], &["--simulate", "1"]].concat();
        for line in [&load[..], &simulated, &["run", &plan], &["run", &plan, "--simulate", "1"]] {
            let ended = prony(line);
            assert_eq!((ended.code, &ended.stdout[..]), (2, ""), "{line:?} {ended:?}");
            assert!(ended.stderr.contains(why), "{line:?} {ended:?}");
        }
    }
    let ended = prony(&["--tokenizer", &words, url]);
    assert_eq!(ended.code, 2, "{ended:?}");
}

/// What is sent is what was asked for; the key is sent, and stands nowhere else.
#[test]
fn sends_what_was_asked_for_and_keeps_the_key_secret() {
    const KEY: &str = "sk-very-secret";
    let (_folder, prompts) = file("p.jsonl", "{\"prompt\": \"one two\", \"output_tokens\": 9}\n");
    let (folder, report) = file("r.json", "");
    let (url, server) = one_request();
    let line = [
        "llm",
        "--model",
        "big",
        "--prompts",
        &prompts,
        "--api-key-env",
        "PRONY_TEST_KEY",
        "--body-fields",
        "{\"temperature\": 0}",
        "-n",
        "1",
        "-o",
        &report,
        "--accept-invalid",
        &url,
    ];
    let out = command(&line).env("PRONY_TEST_KEY", KEY).output().expect("prony starts");
    let (head, body) = server.join().expect("a request");
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("Authorization: Bearer {KEY}\r\n")), "{head}");
    assert!(head.contains("Content-Type: application/json\r\n"), "{head}");
    let expected = serde_json::json!({"model": "big", "max_tokens": 9, "stream": true,
        "messages": [{"role": "user", "content": "one two"}], "temperature": 0,
        "stream_options": {"include_usage": true}});
    assert_eq!(body, expected);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("the tokens of 1 reply are not known, so it has no ITL"), "{text}");
    let mut explained = command(&[&line[..], &["--explain"]].concat());
    let explained = explained.env("PRONY_TEST_KEY", KEY).output().expect("prony starts");
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("tokens = \"openai\""), "{explained}");
    assert!(explained.contains("does not have the API key of PRONY_TEST_KEY"), "{explained}");
    let saved = std::fs::read_to_string(&report).expect("a report");
    for shown in [&text, &explained[..], &saved, &String::from_utf8_lossy(&out.stderr)] {
        assert!(!shown.contains(KEY), "{shown}");
    }
    drop(folder);
}

/// A trace gives the times and lengths of the requests.
#[test]
fn follows_a_trace() {
    let server = Serve::start(&["--sse", "count=1000"]);
    let rows: String =
        (0..20).map(|k| format!("{}.{},{},{}\n", k / 10, k % 10, 10 + k, 1 + k)).collect();
    let (_folder, trace) = file("t.csv", &format!("time,input_tokens,output_tokens\n{rows}"));
    let report = measure(&["llm", "--model", "m", "--trace-file", &trace, &server.url("")]);
    assert_eq!((report.count("started"), report.count("replies")), (20, 20));
    let total = |first: u64| (0..20).map(|k| first + k).sum::<u64>();
    let counts = ["input_tokens", "output_tokens"].map(|name| count(&report, name));
    assert_eq!(counts, [total(10), total(1)]);
}

/// Conversations are sessions, whose turns have the turns before them.
#[test]
fn sends_all_turns_of_conversations() {
    let server = Serve::start(&["--sse", "count=3"]);
    let turn = |from: &str, text: &str| format!("{{\"from\":\"{from}\",\"value\":\"{text}\"}}");
    let turns = [turn("human", "a b"), turn("gpt", "c"), turn("human", "d e f")].join(",");
    let list = format!("[{{\"conversations\":[{turns}]}},{{\"prompt\":\"g\"}}]");
    let (_folder, prompts) = file("share.json", &list);
    let load = ["llm", "--model", "m", "--prompts", &prompts, "--output-tokens", "9", "-c", "1"];
    let url = server.url("");
    let report = measure(&[&load[..], &["--all-turns", "-n", "6", &url]].concat());
    // Twice two words, six words, and one.
    assert_eq!(["replies", "input_tokens"].map(|name| count(&report, name)), [6, 2 * (2 + 6 + 1)]);
    let report = measure(&[&load[..], &["-n", "6", &url]].concat());
    assert_eq!(["replies", "input_tokens"].map(|name| count(&report, name)), [6, 3 * (2 + 1)]);
}

/// A plan file that was printed gives the same requests.
#[test]
fn a_printed_plan_is_the_same_load() {
    let server = Serve::start(&["--sse", "count=5..9,gap=1ms"]);
    let url = server.url("");
    let load =
        ["llm", "--model", "m", "-n", "30", "-c", "1", "--seed", "3", "--input-tokens", "1..50"];
    let slo = ["--slo", "itl < 10s", &url];
    let line = [&load[..], &slo].concat();
    let explained = prony(&[&line[..], &["--explain"]].concat());
    let (_folder, plan) = file("plan.toml", &explained.stdout);
    let (direct, read) = (measure(&line), measure(&["run", &plan]));
    for name in ["input_tokens", "replies", "good"] {
        assert_eq!(count(&direct, name), count(&read, name), "{name}");
        assert!(count(&read, name) >= 30);
    }
}

#[test]
fn what_cannot_be_sent_is_refused_before_the_load() {
    let (_a, lines) = file("bad.jsonl", "{\"prompt\":\"a\"}\n{\"text\":\"b\"}\n");
    let (_b, chats) =
        file("chat.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n");
    let (_c, text) = file("text.jsonl", "{\"prompt\":\"a\"}\n");
    let (_d, trace) = file("t.csv", "time,tokens\n1,2\n");
    let url = "http://127.0.0.1:1";
    for (args, why) in [
        (&[url][..], "prony llm needs --model NAME"),
        (&["--model", "m", "--prompts", &lines, url], "line 2: is no prompt"),
        (
            &["--model", "m", "--prompts", &chats, "--dialect", "completions", url],
            "use --dialect chat",
        ),
        (
            &["--model", "m", "--prompts", &text, "--dialect", "anthropic", url],
            "give --output-tokens",
        ),
        (&["--model", "m", "--trace-file", &trace, url], "no column has the input tokens"),
        (&["--model", "m", "--input-tokens", "0", url], "must be a number of tokens"),
        (&["--model", "m", "--slo", "p99 < 3ms", url], "is not a limit"),
        (&["--model", "m", "--body-fields", "[1]", url], "must be a JSON object"),
        (&["--model", "m", "--api-key-env", "PRONY_NO_SUCH_KEY", url], "is not set"),
        (&["--model", "m", "--body", "x", url], "exclude each other"),
        (&["--model", "m", "--no-streaming", "--slo", "itl < 1s", url], "in one piece"),
        (&["--model", "m", "http://127.0.0.1:1/v1/messages", "http://127.0.0.1:1/v1"], "--dialect"),
    ] {
        let ended = prony(&[&["llm"], args].concat());
        assert_eq!(ended.code, 2, "{args:?} {ended:?}");
        assert!(ended.stderr.contains(why), "{args:?} {ended:?}");
    }
}

/// A search for a capacity by a limit of TTFT, in virtual time: that of M/M/4, by Erlang's formula.
#[test]
fn a_capacity_has_limits_of_tokens() {
    let load = ["capacity", "--model", "m", "--output-tokens", "2", "--budget", "1h", "--json"];
    let world = ["--simulate", "1", "--simulate-latency", "exp:100ms", "--simulate-workers", "4"];
    let limit = ["--threshold", "ttft.p90 < 500ms", "http://127.0.0.1:1/"];
    let ended = prony(&[&load[..], &world, &limit].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let found: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let number = |value: &Value| value.as_f64().expect("a rate");
    let (finding, truth) = (&found["finding"], 34.57);
    let (lo, hi) = (&finding["interval"]["lo"], &finding["interval"]["hi"]);
    assert!(number(lo) < truth && truth < number(hi), "{finding}");
    assert!((number(&finding["rate"]) / truth - 1.0).abs() < 0.05, "{finding}");
}

/// A Python with GuideLLM.
fn python() -> Option<String> {
    let path = std::env::var("PRONY_TEST_GUIDELLM").ok();
    if path.is_none() {
        eprintln!("skipped: PRONY_TEST_GUIDELLM names no Python");
    }
    path
}

/// GuideLLM's server of a model, with a log of the times at which requests arrived and chunks were
/// written: on a machine that others use, it sleeps longer than it was asked to.
const MODEL: &str = "
import time
import guidellm.mock_server.server as server
from guidellm.schemas.mock_server import MockServerConfig
from sanic.response import ResponseStream

log = open('@DIR@/written', 'w', buffering=1)
write = ResponseStream.write

async def logged(self, data):
    await write(self, data)
    if '\"content\": ' in data:
        print(self.request.id, self.request.ctx.start, time.monotonic_ns(), file=log)

ResponseStream.write = logged
config = MockServerConfig(host='127.0.0.1', port=@PORT@, output_tokens=30, ttft_ms=150,
                          ttft_ms_std=30, itl_ms=20, itl_ms_std=4)
mock = server.MockServer(config)

@mock.app.on_request
async def start(request):
    request.ctx.start = time.monotonic_ns()

mock.run()
";

/// What that server has done for one request, in milliseconds of its clock.
struct Written {
    /// When the request arrived.
    start: f64,
    /// When it had written each chunk with a token.
    chunks: Vec<f64>,
}

impl Written {
    fn ttft(&self) -> f64 {
        self.chunks[0] - self.start
    }

    fn latency(&self) -> f64 {
        self.chunks[self.chunks.len() - 1] - self.start
    }
}

/// The last `requests` in such a log.
fn written(log: &str, requests: usize) -> Vec<Written> {
    let mut replies: Vec<(&str, Written)> = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (id, ms) = (words[0], |i: usize| words[i].parse::<f64>().expect("a time") / 1e6);
        match replies.iter_mut().find(|(known, ..)| *known == id) {
            Some((_, reply)) => reply.chunks.push(ms(2)),
            None => replies.push((id, Written { start: ms(1), chunks: vec![ms(2)] })),
        }
    }
    replies.drain(..replies.len() - requests);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

/// Mean, median and 90th percentile of the report are at least these times, within the width of a
/// bin. What the server writes is read later, and its request was sent earlier, so no time is
/// shorter than by the stamps of the server, whatever else the machine does.
fn assert_at_least(report: &Report, name: &str, mut truth: Vec<f64>) {
    truth.sort_by(f64::total_cmp);
    let n = truth.len();
    let quantile = |q: f64| truth[(q * n as f64).ceil() as usize - 1];
    let mean = truth.iter().sum::<f64>() / n as f64;
    for (figure, truth) in [("mean", mean), ("p50", quantile(0.5)), ("p90", quantile(0.9))] {
        let measured = report.ms(name, figure);
        println!("{name} {figure}: {measured:.2} ms, and {truth:.2} ms by the log of the server");
        assert!(measured >= truth * 0.999, "{name} {figure}: {measured}, and {truth} at least");
    }
}

/// Times are at least what that server has done, the times between tokens are what is left of each
/// reply after its first, and tokens are those of the server's own count. (How close they are is
/// tested in virtual time.)
#[test]
fn figures_are_those_of_the_model_of_guidellm() {
    const LENGTH: f64 = 12.0;
    const RATE: usize = 9;
    const REQUESTS: usize = RATE * LENGTH as usize;
    let Some(python) = python() else { return };
    let _alone = alone();
    let server = Other::start(&python, &["-W", "ignore"], MODEL);
    let url = server.url("/v1");
    let load = ["llm", "--model", "m", "-r", "9", "-d", "12s", "--output-tokens", "30"];
    let slo = ["--slo", "ttft < 160ms, itl < 20.5ms", &url];
    let report = measure(&[&load[..], &slo].concat());
    assert_eq!((report.status(200), report.count("failed")), (REQUESTS as u64, 0));
    let tokens = 30 * REQUESTS as u64;
    let counts = ["replies", "output_tokens", "chunks"].map(|name| count(&report, name));
    assert_eq!(counts, [REQUESTS as u64, tokens, tokens]);
    let log = std::fs::read_to_string(server.file("written")).expect("a log");
    let all = written(&log, REQUESTS);
    let of = |figure: &dyn Fn(&Written) -> f64| all.iter().map(figure).collect::<Vec<_>>();
    assert_at_least(&report, "ttft_service", of(&Written::ttft));
    assert_at_least(&report, "service", of(&Written::latency));
    // From the intended start, a request is late by what the client has needed to send it.
    assert!(report.ms("ttft", "mean") >= report.ms("ttft_service", "mean"));
    // 29 gaps follow the first chunk of each reply, and end with it.
    let rest = (report.ms("service", "mean") - report.ms("ttft_service", "mean")) / 29.0;
    for name in ["itl", "chunk_gap"] {
        let mean = report.ms(name, "mean");
        assert!((mean / rest - 1.0).abs() < 0.01, "{name}: {mean}, and {rest} by the whole");
    }
    let figure = |name: &str| report.0["measurement"]["tokens"][name].as_f64().expect("a figure");
    let of_one = 1e3 / report.ms("itl", "mean");
    let found = figure("token_rate_of_one");
    assert!((found / of_one - 1.0).abs() < 0.01, "{found} per second, and {of_one} by the gaps");
    // The window of the load starts before its first request: what the client has counted in it,
    // the server had written by then.
    let start = all.iter().map(|reply| reply.start).fold(f64::MAX, f64::min);
    let end = start + LENGTH * 1e3;
    let inside = all.iter().flat_map(|reply| &reply.chunks).filter(|at| **at < end).count();
    let (found, most) = (figure("token_rate"), inside as f64 / LENGTH);
    assert!(found > 0.0 && found <= most * 1.001, "{found} per second, and {most} at most");
    // A reply that keeps its limits here keeps that of its first token there.
    let good = all.iter().filter(|reply| reply.ttft() < 160.0).count() as u64;
    let found = count(&report, "good");
    assert!(found <= good, "{found} are good, and {good} by their first tokens at the server");
}
