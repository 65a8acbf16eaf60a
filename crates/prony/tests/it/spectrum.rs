//! `prony spectrum` as users run it.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::rig::{Running, prony, reserved_port};
use crate::rtt::Echo;

/// Runs a short spectrum, and returns its JSON, whatever the verdict.
fn spectrum(args: &[&str]) -> Value {
    let short = ["-n", "20", "--warmup", "2", "--repeat", "1", "--json", "--quiet"];
    let ended = prony(&[&["spectrum"], args, &short, &["--accept-invalid"]].concat());
    assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
    serde_json::from_str(&ended.stdout).expect("JSON")
}

#[test]
fn a_spectrum_has_a_row_for_each_length_and_transport() {
    let echo = Echo::tcp();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let [svg, png, csv, html] = ["s.svg", "s.png", "s.csv", "s.html"].map(file);
    let ended = prony(&[
        "spectrum",
        echo.at(),
        "--transport",
        "tcp,udp",
        "-s",
        "1..8",
        "-n",
        "60",
        "--warmup",
        "5",
        "--repeat",
        "2",
        "--seed",
        "3",
        "--json",
        "--quiet",
        "--accept-invalid",
        "-o",
        &svg,
        "-o",
        &png,
        "-o",
        &csv,
        "-o",
        &html,
    ]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let cells = report["cells"].as_array().expect("cells");
    let reported: Vec<_> =
        cells.iter().map(|c| (c["transport"].as_str(), c["size"].as_u64())).collect();
    let sizes = [1, 2, 4, 8].map(Some);
    let rows = ["tcp", "udp"].map(|t| sizes.map(|n| (Some(t), n))).concat();
    assert_eq!(reported, rows);
    for cell in cells {
        assert_eq!((&cell["exchanges"], &cell["repetitions"]), (&120.into(), &2.into()), "{cell}");
        assert!(cell["p50"]["low_ns"].as_f64() <= cell["p50"]["high_ns"].as_f64(), "{cell}");
        assert!(cell["min_ns"].as_u64() > Some(0), "{cell}");
    }
    let read = |path: &str| std::fs::read(path).expect("a file");
    assert_eq!(String::from_utf8_lossy(&read(&csv)).lines().count(), 9);
    assert!(String::from_utf8_lossy(&read(&svg)).contains("udp p99"));
    assert!(read(&png).starts_with(b"\x89PNG"));
    let html = String::from_utf8_lossy(&read(&html)).into_owned();
    assert!(html.contains(">udp p99<"), "the plot");
    for cell in cells {
        let figure = cell["p50"]["ns"].to_string();
        assert!(html.contains(&format!("<td><data value=\"{figure}\">")), "{figure} in {html}");
    }
}

#[test]
fn p13_same_seed_gives_the_same_order() {
    let echo = Echo::tcp();
    let order = |seed: &str| {
        let shape = ["-s", "1..16", "-n", "5", "--repeat", "3", "--accept-invalid", "--json"];
        let ended = prony(&[&["spectrum", echo.at(), "--seed", seed], &shape[..]].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        // "prony: 3 of 15: tcp, 8 bytes: p50 ..."
        let cell = |line: &str| line.split(": ").nth(2).map(str::to_owned);
        let reported: Vec<String> = ended.stderr.lines().filter_map(cell).collect();
        assert_eq!(reported.len(), 15, "{ended:?}");
        reported
    };
    let first = order("7");
    assert_eq!(first, order("7"));
    assert_ne!(first, order("8"));
    assert_ne!(first[..5], first[5..10], "each repetition has its own");
}

#[test]
fn interrupted_spectrum_keeps_its_results() {
    let echo = Echo::tcp();
    let running = Running::start(&[
        "spectrum",
        echo.at(),
        "-s",
        "1,2",
        "-n",
        "1g",
        "-d",
        "200ms",
        "--repeat",
        "1000",
        "--json",
    ]);
    thread::sleep(Duration::from_millis(1_500));
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(report["interrupted"], true);
    assert!(report["cells"].as_array().is_some_and(|cells| !cells.is_empty()), "{report}");
}

/// Transports that cannot share a port or a path can have separate responders.
#[test]
fn transports_can_have_separate_responders() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| format!("unix:{}", folder.path().join(name).display());
    let plain = Echo::tcp();
    let secured = Echo::start(&["127.0.0.1:0", "--transport", "tls"]);
    let streams = Echo::start(&[&path("s")]);
    let packets = Echo::start(&[&path("p"), "--transport", "unix-seqpacket"]);
    let named = [("tls", &secured), ("unix-seqpacket", &packets)];
    let [tls, seqpacket] = named.map(|(name, echo)| format!("{name}={}", echo.at()));
    let targets = [plain.at(), &tls, streams.at(), &seqpacket, "-s", "1,2", "--insecure"];
    for (transports, order) in [
        (None, ["tcp", "tls", "unix", "unix-seqpacket"]),
        (Some("tls,unix,tcp"), ["tls", "unix", "tcp", "unix-seqpacket"]),
    ] {
        let listed = transports.map_or(Vec::new(), |list| vec!["--transport", list]);
        let report = spectrum(&[&targets[..], &listed].concat());
        let cells = report["cells"].as_array().expect("cells");
        let reported: Vec<_> = cells.iter().filter_map(|c| c["transport"].as_str()).collect();
        assert_eq!(reported, order.map(|name| [name; 2]).concat());
        assert!(cells.iter().all(|c| c["exchanges"] == 20 && c["failed"] == 0), "{cells:?}");
    }
}

/// Lengths that do not fit into a datagram are omitted, and the report has a note.
#[test]
fn omits_lengths_that_a_transport_lacks() {
    let echo = Echo::tcp();
    let report = spectrum(&[echo.at(), "--transport", "tcp,udp", "-s", "32k,64k"]);
    let cells = report["cells"].as_array().expect("cells");
    let reported: Vec<_> =
        cells.iter().map(|c| (c["transport"].as_str(), c["size"].as_u64())).collect();
    let cell = |transport, size| (Some(transport), Some(size));
    assert_eq!(reported, [cell("tcp", 32_768), cell("tcp", 65_536), cell("udp", 32_768)]);
    let said = "Messages over UDP have at most 65,487 bytes; left out for UDP: 65,536.";
    assert!(report["notes"].as_array().is_some_and(|notes| notes.iter().any(|n| n == said)));
}

#[test]
fn rejects_invalid_input_before_measuring() {
    let echo = Echo::tcp();
    let at = echo.at();
    for (args, said) in [
        (&[at, "--transport", "tcp,unix"][..], "needs a path"),
        (&[at, "-o", "x.txt"], "a spectrum can be written as .html, .svg, .png, .json or .csv"),
        (&[at, "-o", "x.hlog"], "a spectrum can be written as .html, .svg, .png, .json or .csv"),
        (&[at, "127.0.0.1:9"], "127.0.0.1:9`: is ambiguous"),
        (&["tls=127.0.0.1:9", "tls=127.0.0.1:8"], "is ambiguous"),
        (&["tls=unix:/tmp/x"], "needs HOST:PORT"),
        (&[at, "--transport", "udp", "-s", "64k"], "at most 65487 bytes"),
        (&[at, "--sni", "a"], "--sni needs --transport tls"),
        (&[at, "--source", "203.0.113.1"], "must be an address of this machine"),
    ] {
        let ended = prony(&[&["spectrum"][..], args].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn reports_why_a_responder_never_replies() {
    let port = reserved_port();
    let nobody = format!("127.0.0.1:{port}");
    let ended = prony(&["spectrum", &nobody, "-n", "5", "-s", "1", "--repeat", "1"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let said = "1 of 1: tcp, 1 byte: no reply: no server listens at the address";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}
