//! The report in third-party parsers: all their 50 fields, with the values of the lines.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::program::{Run, Which, have};
use crate::server::Server;
use crate::text::Printed;

/// Their names of the numbers, in their order. The echo is the fiftieth; bits per second are parsed
/// as text.
const NAMES: [(&str, &str); 48] = [
    ("max_connect_burst_length", "burst"),
    ("total_connections", "connections"),
    ("total_requests", "requests"),
    ("total_replies", "replies"),
    ("total_test_duration", "duration"),
    ("connection_rate_per_sec", "conn_rate"),
    ("connection_rate_ms_conn", "conn_ms"),
    ("connection_time_min", "life_min"),
    ("connection_time_avg", "life_avg"),
    ("connection_time_max", "life_max"),
    ("connection_time_median", "life_median"),
    ("connection_time_stddev", "life_stddev"),
    ("connection_time_connect", "connect"),
    ("connection_length", "conn_length"),
    ("request_rate_per_sec", "req_rate"),
    ("request_rate_ms_request", "req_ms"),
    ("request_size", "req_size"),
    ("reply_rate_min", "rate_min"),
    ("reply_rate_avg", "rate_avg"),
    ("reply_rate_max", "rate_max"),
    ("reply_rate_stddev", "rate_stddev"),
    ("reply_rate_samples", "samples"),
    ("reply_time_response", "response"),
    ("reply_time_transfer", "transfer"),
    ("reply_size_header", "header"),
    ("reply_size_content", "content"),
    ("reply_size_footer", "footer"),
    ("reply_size_total", "reply_size"),
    ("reply_status_1xx", "s1xx"),
    ("reply_status_2xx", "s2xx"),
    ("reply_status_3xx", "s3xx"),
    ("reply_status_4xx", "s4xx"),
    ("reply_status_5xx", "s5xx"),
    ("cpu_time_user_sec", "cpu_user"),
    ("cpu_time_system_sec", "cpu_system"),
    ("cpu_time_user_pct", "user_percent"),
    ("cpu_time_system_pct", "system_percent"),
    ("cpu_time_total_pct", "cpu_percent"),
    ("net_io_kb_sec", "net_kb"),
    ("errors_total", "errors"),
    ("errors_client_timeout", "client_timo"),
    ("errors_socket_timeout", "socket_timo"),
    ("errors_conn_refused", "connrefused"),
    ("errors_conn_reset", "connreset"),
    ("errors_fd_unavail", "fd_unavail"),
    ("errors_addr_unavail", "addrunavail"),
    ("errors_ftab_full", "ftab_full"),
    ("errors_other", "other"),
];

/// The interpreter, the script, and the variable with the path of the parser.
const PARSERS: [[&str; 3]; 2] = [
    ["node", "tests/readers/read_httperf.js", "PRONY_TEST_HTTPERFJS"],
    ["python3", "tests/readers/read_httperf.py", "PRONY_TEST_HTTPERFPY"],
];

/// Command lines that give reports with numbers in every line, or in few.
const LINES: [&[&str]; 4] = [
    &["--num-conns=20", "--num-calls=3", "--rate=100"],
    &["--uri=/hang", "--timeout=0.1", "-v"],
    &["--wsess=3,4,0", "--burst-length=2"],
    &["--wsess=2,2,0", "--uri=/chunks"],
];

#[test]
fn third_party_parsers_read_every_field() {
    for [interpreter, script, variable] in PARSERS {
        let Some(parser) = std::env::var_os(variable) else {
            // `cargo xtask ci` says so at its end.
            eprintln!("skipped: {variable} names no parser; `cargo xtask ci tools` gets one");
            continue;
        };
        let read = |report: &str| {
            let mut command = Command::new(interpreter);
            parse(command.arg(script).arg(&parser), report)
        };
        for args in LINES {
            for which in [Which::Old, Which::Ours] {
                if which == Which::Old && !have("httperf") {
                    continue;
                }
                let server = Server::start();
                let own = ["--server=127.0.0.1".to_owned(), format!("--port={}", server.port)];
                let args: Vec<String> =
                    own.into_iter().chain(args.iter().map(|&a| a.to_owned())).collect();
                let ended = Run::new(&args).run(which);
                check(&ended.report(), &read(&ended.stdout));
            }
        }
    }
}

fn check(report: &Printed, found: &BTreeMap<String, String>) {
    assert_eq!(found.len(), 50, "{found:?}");
    assert_eq!(found["command"], report.echo);
    let bits = format!("{:.1}*10^6", report.get("net_mbps"));
    assert_eq!(found["net_io_bps"], bits);
    for (theirs, ours) in NAMES {
        let value: f64 = found[theirs].parse().unwrap_or_else(|e| panic!("{theirs}: {e}"));
        assert_eq!(value, report.get(ours), "{theirs} in {found:?}");
    }
}

fn parse(command: &mut Command, report: &str) -> BTreeMap<String, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(report.as_bytes()).expect("it reads");
    drop(stdin);
    let out = child.wait_with_output().expect("a child");
    assert!(out.status.success(), "{command:?}: {}", out.status);
    serde_json::from_slice(&out.stdout).expect("names and texts in JSON")
}
