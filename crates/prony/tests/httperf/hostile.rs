//! Hostile servers: prony ends in time and with limited memory, and every request has exactly one
//! result.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::Value;

use crate::cut::Cut;
use crate::defects::nginx_with_tls;
use crate::program::{Ended, Run, Serve, Which, have};
use crate::replies::Step;
use crate::server::Server;

/// The paths without good replies, and the longest time between two bytes in ms.
const PATHS: [&str; 19] = [
    "headers1",
    "oneheader1",
    "statusline1",
    "interim1",
    "bodies1",
    "trailers1",
    "chunkline1",
    "drip20",
    "driphead20",
    "hang",
    "s999",
    "s99",
    "garbage",
    "binary",
    "badchunk",
    "cutchunk",
    "cut",
    "empty",
    "reset",
];
/// The memory limit of a run in kB, for builds with and without optimization.
const MEMORY_KB: u64 = 80_000;

/// Run `prony`. Returns its report.
fn measure(args: &[&str]) -> (Ended, Value) {
    measure_with(args, &[])
}

/// The same, with files in its directory.
fn measure_with(args: &[&str], files: &[(&str, String)]) -> (Ended, Value) {
    let args = [args, &["--json", "--quiet", "--accept-invalid", "-t", "1"]].concat();
    let run = files.iter().fold(Run::new(&args), |run, (name, text)| run.file(name, text));
    let ended = run.run(Which::Prony);
    assert!(matches!(ended.code, Some(0 | 1)), "{args:?}: {ended:?}");
    assert!(ended.memory_kb < MEMORY_KB, "{args:?}: {ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("a report in JSON");
    let count = |name: &str| report["measurement"]["tally"][name].as_u64().expect("a count");
    let ends = count("replies") + count("failed") + count("unfinished");
    assert_eq!(count("started"), ends, "{args:?}: {ended:?}");
    (ended, report)
}

fn failed(report: &Value) -> u64 {
    report["measurement"]["tally"]["failed"].as_u64().expect("a count")
}

#[test]
fn loads_end_with_any_server() {
    let next = AtomicUsize::new(0);
    let work = || {
        let server = Server::start();
        while let Some(path) = PATHS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let url = format!("http://127.0.0.1:{}/{path}", server.port);
            for more in [&["--driver", "epoll"][..], &["-p", "4"], &["--no-reuse"]] {
                let load = ["-c", "3", "-n", "6", "--timeout", "300ms", &url];
                let (ended, report) = measure(&[&load[..], more].concat());
                assert!(failed(&report) > 0, "{path} {more:?}: {ended:?}");
            }
        }
    };
    // They wait most of the time.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
}

/// Run sessions of three requests at once, then one more, from a file in httperf's format, or from
/// a plan with cookies and extracts from headers and bodies. The timeout of a request is 0.3 s.
fn in_sessions(url: &str, path: &str, way: usize) -> (Ended, Value) {
    let secured = url.starts_with("https");
    let driver = drivers()[way / 2 % drivers().len()];
    if way.is_multiple_of(2) {
        let log = format!("/{path}\n /{path}\n /{path}\n/{path}\n");
        let args = ["load", "--session", "s.wsesslog", "-c", "2", "--sessions", "4", "--timeout"];
        let more = ["300ms", "--connect-timeout", "300ms", "--driver", driver, url];
        let insecure = if secured { &["-k"][..] } else { &[] };
        return measure_with(&[&args[..], &more, insecure].concat(), &[("s.wsesslog", log)]);
    }
    let call = format!(
        "{{ path = \"/{path}\", extract = {{ a = {{ header = \"X\", default = \"0\" }}, \
         b = {{ regex = \"b=(.*)\", default = \"0\" }} }}, expect-body = \"e\" }}"
    );
    let tls = if secured { "tls = { insecure = true }" } else { "" };
    let plan = format!(
        "url = \"{url}\"\nusers = 2\nsessions = 4\ntimeout = \"300ms\"\n\
         connect-timeout = \"300ms\"\ncookies = \"session\"\n{tls}\n\
         [[session]]\nrequest = [[{call}, {call}, {call}], {call}]\n"
    );
    measure_with(&["run", "p.toml", "--driver", driver], &[("p.toml", plan)])
}

/// The drivers that this kernel supports.
fn drivers() -> &'static [&'static str] {
    static DRIVERS: OnceLock<&[&str]> = OnceLock::new();
    DRIVERS.get_or_init(|| {
        let args = ["--driver", "uring", "-n", "1", "-c", "1", "http://127.0.0.1:1/", "--quiet"];
        let tried = Run::new(&args).run(Which::Prony);
        let missing = tried.code == Some(2);
        if missing { &["epoll"] } else { &["epoll", "uring"] }
    })
}

#[test]
fn sessions_end_with_any_server() {
    let next = AtomicUsize::new(0);
    let work = || {
        let server = Server::start();
        let tls = have("haproxy").then(|| haproxy_with_tls(server.port));
        let plain = format!("http://127.0.0.1:{}/", server.port);
        let secured = tls.as_ref().map(|tls| format!("https://127.0.0.1:{}/", tls.port));
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = PATHS.get(at) else { return };
            for (i, url) in [Some(&plain), secured.as_ref()].into_iter().flatten().enumerate() {
                // Each path with both drivers and both kinds of sessions, with and without TLS.
                for way in [at + i, at + i + 3] {
                    let (ended, report) = in_sessions(url, path, way);
                    assert!(failed(&report) > 0, "{url} {path} {way}: {ended:?}");
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
}

/// A proxy that terminates TLS and forwards all bytes in both directions.
fn haproxy_with_tls(upstream: u16) -> Serve {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let pem = cert.pem() + &signing_key.serialize_pem();
    Serve::haproxy(&HAPROXY.replace("@UP@", &upstream.to_string()), &[("pem", pem)])
}

const HAPROXY: &str = "
defaults
    mode tcp
    timeout connect 2s
    timeout client 20s
    timeout server 20s
frontend secured
    bind 127.0.0.1:@PORT@ ssl crt @DIR@/pem
    default_backend plain
backend plain
    server one 127.0.0.1:@UP@
";

/// Hostile servers next to a good one.
#[test]
fn a_hostile_server_does_not_affect_a_good_one() {
    let server = Server::start();
    let url = |path: &str| format!("http://127.0.0.1:{}/{path}", server.port);
    for path in ["headers1", "interim1", "bodies1", "drip20", "s999"] {
        // Half of the requests go to each server.
        let urls = [url(path), url("s200")];
        let load = ["-c", "2", "-n", "12", "--timeout", "300ms", &urls[0], &urls[1]];
        let (ended, report) = measure(&load);
        let good = report["measurement"]["tally"]["statuses"]["200"].as_u64();
        assert!(good >= Some(6), "{path}: {ended:?}");
    }
}

/// Replies of a peer instead of a handshake.
const BLUNT: [fn() -> Vec<Step>; 8] = [
    || vec![Step::Close],
    || vec![Step::Reset],
    || vec![Step::Silence],
    || vec![Step::Send(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), Step::Close],
    // An alert: handshake failure.
    || vec![Step::Send(vec![0x15, 3, 3, 0, 2, 2, 40]), Step::Close],
    // An incomplete record with the largest possible length.
    || vec![Step::Send(vec![0x16, 3, 3, 0xff, 0xff]), forever(4_096)],
    || vec![Step::Send(vec![0x16, 3, 3, 0x40, 0]), forever(1)],
    // Endless handshake messages of one byte each.
    || vec![Step::Forever { bytes: [0x16, 3, 3, 0, 1, 0].repeat(500), gap: ms(1) }],
];

fn forever(bytes: usize) -> Step {
    Step::Forever { bytes: vec![1; bytes], gap: ms(10) }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Run a load over TLS on a port.
fn secured(port: u16, more: &[&str]) -> (Ended, Value) {
    let url = format!("https://127.0.0.1:{port}/");
    let load = ["-k", "-c", "2", "-n", "4", "--timeout", "400ms", "--connect-timeout", "400ms"];
    measure(&[&load[..], more, &[&url]].concat())
}

#[test]
fn loads_end_with_any_handshake() {
    for (i, steps) in BLUNT.into_iter().enumerate() {
        let server = Server::blunt(steps);
        let (ended, report) = secured(server.port, &[]);
        assert_eq!(failed(&report), 4, "{i}: {ended:?}");
        let url = format!("https://127.0.0.1:{}/", server.port);
        let (ended, report) = in_sessions(&url, "", i);
        assert!(failed(&report) >= 4, "{i}: {ended:?}");
    }
}

/// A correct handshake and correct replies, cut after a number of bytes.
#[test]
fn loads_end_with_cut_tls_connections() {
    if !have("nginx") {
        return;
    }
    let server = Server::start();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let tls = nginx_with_tls(server.port, version);
        let whole = Cut::after(tls.port, u64::MAX);
        let (ended, report) = secured(whole.port, &["--no-reuse"]);
        assert_eq!(failed(&report), 0, "{version}: {ended:?}");
        for (i, bytes) in [0, 1, 5, 50, 127, 400, 700, 900].into_iter().enumerate() {
            let cut = Cut::after(tls.port, bytes);
            let (ended, report) = secured(cut.port, &["--no-reuse"]);
            assert!(failed(&report) > 0, "{version} {bytes}: {ended:?}");
            let url = format!("https://127.0.0.1:{}/", cut.port);
            let (ended, report) = in_sessions(&url, "size1000", i);
            assert!(failed(&report) > 0, "{version} {bytes}: {ended:?}");
        }
    }
}
