//! The first signal stops the load and waits for requests in flight, for three seconds or as long
//! as `--drain` says. The second stops at once. The report is always complete.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::rig::{
    Running, Serve, alone, command, descriptors, drivers, side_by_side, wait_until, waiting,
};
use crate::scripted::{Deed, Scripted};

fn sleep(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

/// The maximum number of requests that a client with 100 requests per second can have started by
/// now. There may be far fewer, as the time of its start is unknown, and it sees the signal
/// slightly later.
fn most_at_100(started: Instant) -> u64 {
    started.elapsed().as_millis() as u64 / 10 + 10
}

#[test]
fn first_signal_drains_and_reports() {
    let _alone = alone();
    let both = |driver| [Signal::INT, Signal::TERM].map(|signal| (driver, signal));
    side_by_side(drivers().into_iter().flat_map(both), |(driver, signal)| {
        let server = Serve::start(&["--latency", "300ms"]);
        let url = server.url("/");
        let load = ["-r", "100", "-d", "60s", "--driver", driver, "--json", "--quiet", &url];
        let started = Instant::now();
        let client = Running::start(&load);
        sleep(1_500);
        client.signal(signal);
        let (begun, most) = (Instant::now(), most_at_100(started));
        let ended = client.wait();
        let took = begun.elapsed();
        assert_eq!(ended.code, 130, "{ended:?}");
        assert!((200..5_000).contains(&took.as_millis()), "{took:?} for a drain of 300 ms");
        let report = ended.report();
        report.check_sums();
        assert_eq!(report.count("unfinished"), 0);
        assert_eq!(report.count("failed"), 0);
        let n = report.count("replies");
        assert!((30..=most).contains(&n), "{n} requests at 100 a second, {most} at most");
        assert_eq!(crate::rig::served(&server.stop(), "replies"), n);
    });
}

#[test]
fn second_signal_stops_at_once_and_reports() {
    let _alone = alone();
    side_by_side(drivers(), |driver| {
        let server = Serve::start(&["--latency", "20s"]);
        let url = server.url("/");
        let load = ["-r", "100", "-d", "60s", "--driver", driver, "--json", "--quiet", &url];
        let started = Instant::now();
        let client = Running::start(&load);
        sleep(800);
        client.signal(Signal::INT);
        let most = most_at_100(started);
        sleep(300);
        let begun = Instant::now();
        client.signal(Signal::INT);
        let ended = client.wait();
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        assert_eq!(ended.code, 130, "{ended:?}");
        let report = ended.report();
        report.check_sums();
        assert_eq!(report.count("replies"), 0);
        let n = report.count("unfinished");
        assert!((10..=most).contains(&n), "{n} requests at 100 a second, {most} at most");
    });
}

#[test]
fn text_report_of_an_interrupted_run_is_complete() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "5ms"]);
    let client = Running::start(&["-c", "5", "-d", "60s", "-v", &server.url("/")]);
    sleep(1_000);
    client.signal(Signal::INT);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    for word in ["p99", "interrupted", "200"] {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
    // On a busy machine, a more important reason may hide this one.
    let words = ["INTERRUPTED", "CLIENT-LIMITED"];
    assert!(words.iter().any(|w| ended.stdout.contains(w)), "{}", ended.stdout);
}

#[test]
fn server_stops_and_prints_its_summary() {
    let server = Serve::start(&["--latency", "1s"]);
    let idle = server.descriptors_when_idle();
    let client = Running::start(&["-c", "2", "-n", "2", "--json", "--quiet", &server.url("/")]);
    wait_until("two connections", || descriptors(server.pid()) == Some(idle + 2));
    // Each sends its request at once.
    sleep(300);
    let there = server.stop();
    let ended = client.wait();
    assert_eq!(ended.report().count("replies"), 2, "{ended:?}");
    assert_eq!(crate::rig::served(&there, "replies"), 3, "one was by hand");
}

/// A server that never replies.
fn mute() -> Scripted {
    Scripted::start(|_, _| Deed::Keep(Vec::new()))
}

/// Waits until the server has this number of requests.
fn requests(server: &Scripted, n: usize) {
    wait_until("the requests", || server.begun() >= n);
    // The gauges are updated slightly later.
    sleep(200);
}

#[test]
fn every_signal_waits_for_at_most_three_seconds() {
    let _waiting = waiting();
    let all = |driver| [Signal::INT, Signal::TERM, Signal::HUP].map(|signal| (driver, signal));
    side_by_side(drivers().into_iter().flat_map(all), |(driver, signal)| {
        let (server, dir) = (mute(), tempfile::tempdir().expect("a folder"));
        let file = |name: &str| dir.path().join(name);
        let (json, html) = (file("a.json"), file("a.html"));
        let url = format!("http://{}/", server.address());
        let outputs = [&json, &html].map(|p| p.to_str().expect("UTF-8"));
        let [json_name, html_name] = outputs;
        let load = ["-c", "5", "-d", "60s", "--driver", driver, "-o", json_name];
        let mut client = Running::start(&[&load[..], &["-o", html_name, &url]].concat());
        requests(&server, 5);
        let begun = Instant::now();
        client.signal(signal);
        client.reported(
            "prony: stopping: waiting for 5 replies, at most 3 s; press Ctrl-C to stop at once\n",
        );
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        let ended = client.wait();
        let took = begun.elapsed();
        assert_eq!(ended.code, 130, "{ended:?}");
        assert!((2_900..8_000).contains(&took.as_millis()), "{took:?} for a drain of 3 s");
        assert!(ended.stdout.contains("5 unfinished"), "{}", ended.stdout);
        let text = std::fs::read_to_string(&json).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["run"]["interrupted"], true);
        assert_eq!(report["measurement"]["tally"]["unfinished"], 5, "{text}");
        let page = std::fs::read_to_string(&html).expect("a report");
        assert!(page.trim_end().ends_with("</html>"));
    });
}

#[test]
fn ctrl_c_waits_longer_with_an_option_but_not_beyond_the_timeouts() {
    let _waiting = waiting();
    let (server, most) = (mute(), "stopping: waiting for 5 replies, at most");
    let url = format!("http://{}/", server.address());
    let load = ["-c", "5", "-d", "60s", "--timeout", "6s", "--drain", "1h", "--json", &url];
    let mut client = Running::start(&load);
    requests(&server, 5);
    let begun = Instant::now();
    client.signal(Signal::INT);
    client.reported(&format!("prony: {most} 6 s; press Ctrl-C to stop at once\n"));
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let report = ended.report();
    report.check_sums();
    assert_eq!((report.count("failed"), report.count("unfinished")), (5, 0));
}

/// The time of a signal is limited for each kind of load, whatever the timeout of its requests.
#[test]
fn ctrl_c_waits_for_three_seconds_whatever_the_load() {
    let _waiting = waiting();
    let server = Serve::start(&["--latency", "1h"]);
    let (url, dir) = (server.url("/"), tempfile::tempdir().expect("a folder"));
    let socket = url.replace("http:", "ws:");
    let plan = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text.replace("URL", &url)).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let sessions = "users = 3\n[[session]]\n[[session.request]]\nurl = 'URL'\n";
    let sessions = plan("sessions.toml", &format!("duration = '60s'\ntimeout = '1h'\n{sessions}"));
    let phases = "url = 'URL'\nduration = '60s'\ntimeout = '1h'\nconnections = 3\n";
    let phases =
        plan("phases.toml", &format!("{phases}[[phases]]\nname = 'a'\n[[phases]]\nname = 'b'\n"));
    let long = ["-d", "60s", "--timeout", "1h", "--json", "--accept-invalid"];
    let of = |words: &[&str]| -> Vec<String> {
        words.iter().chain(&long).map(|word| (*word).to_owned()).collect()
    };
    let search = ["capacity", "--threshold", "p99 < 100ms", "--timeout", "1h", "--json", &url];
    let loads: [(Vec<String>, Option<u64>); 11] = [
        (of(&["-c", "3", &url]), Some(3)),
        (of(&["-c", "3", "--h2c", &url]), Some(3)),
        (of(&["-c", "3", "--stream", "sse", &url]), Some(3)),
        (of(&["-c", "3", &socket]), Some(3)),
        (of(&["-c", "3", "-n", "100", "-p", "2", &url]), Some(6)),
        (of(&["llm", "--model", "m", "-c", "3", &url]), Some(3)),
        (of(&["-c", "4", "--hosts", "2", &url]), Some(4)),
        (["run", &sessions, "--json"].map(str::to_owned).into(), Some(3)),
        (["run", &phases, "--json"].map(str::to_owned).into(), None),
        (of(&["compare", &url, &url]), None),
        (search.map(str::to_owned).into(), None),
    ];
    side_by_side(loads, |(load, unfinished)| {
        let words: Vec<&str> = load.iter().map(String::as_str).collect();
        let client = Running::start(&words);
        sleep(5_000);
        let begun = Instant::now();
        client.signal(Signal::INT);
        let ended = client.wait();
        let took = begun.elapsed();
        assert_eq!(ended.code, 130, "{load:?}: {ended:?}");
        assert!((2_000..20_000).contains(&took.as_millis()), "{load:?}: {took:?}, not 3 s");
        if let Some(n) = unfinished {
            let report = ended.report();
            report.check_sums();
            assert_eq!(report.count("unfinished"), n, "{load:?}: {ended:?}");
        } else {
            assert!(ended.stdout.starts_with('{'), "{load:?}: {ended:?}");
        }
    });
}

#[test]
fn any_second_signal_stops_at_once() {
    let _alone = alone();
    let orders = [[Signal::INT, Signal::TERM], [Signal::TERM, Signal::INT]];
    side_by_side(orders, |[first, second]| {
        let server = mute();
        let url = format!("http://{}/", server.address());
        let client = Running::start(&["-c", "5", "-d", "60s", "--json", "--quiet", &url]);
        requests(&server, 5);
        client.signal(first);
        sleep(300);
        let begun = Instant::now();
        client.signal(second);
        let ended = client.wait();
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_eq!((ended.code, ended.stderr.as_str()), (130, ""), "--quiet says nothing");
        assert_eq!(ended.report().count("unfinished"), 5);
    });
}

#[test]
fn every_command_shows_what_it_waits_for() {
    let _waiting = waiting();
    let server = mute();
    let (address, url) = (server.address(), format!("http://{}/", server.address()));
    let reported =
        "prony: stopping: waiting for 2 replies, at most 3 s; press Ctrl-C to stop at once\n";
    let one = "prony: stopping: waiting for 1 reply, at most 3 s; press Ctrl-C to stop at once\n";
    let loads: [(&[&str], &str); 5] = [
        (&["rtt", &address, "-c", "2"], reported),
        (&["spectrum", &address], one),
        (&["ab", "-c", "2", "-n", "9", &url], reported),
        (&["wrk", "-t", "1", "-c", "2", &url], reported),
        (&["htstress", "-c", "2", &url], reported),
    ];
    side_by_side(loads, |(load, reported)| {
        // Protocols with a handshake wait for it, and the script does not reply to it.
        let mut client = Running::start(load);
        sleep(1_500);
        let begun = Instant::now();
        client.signal(Signal::TERM);
        client.reported(reported);
        client.wait();
        assert!(begun.elapsed() < Duration::from_secs(8), "{load:?}: {:?}", begun.elapsed());
    });
}

#[test]
fn signals_leave_no_temporary_files() {
    let _alone = alone();
    let cases = [&[Signal::KILL][..], &[Signal::USR1], &[Signal::ALARM], &[Signal::INT; 3]];
    side_by_side(cases, |signals| {
        let (server, dir) = (mute(), tempfile::tempdir().expect("a folder"));
        let old = dir.path().join("old.json");
        std::fs::write(&old, "older").expect("a file");
        let names = ["old.json", "new.html"].map(|n| dir.path().join(n));
        let url = format!("http://{}/", server.address());
        let outputs = names.each_ref().map(|p| p.to_str().expect("UTF-8"));
        let [json, html] = outputs;
        let args = ["-c", "2", "-d", "60s", "--quiet", "-o", json, "-o", html, &url];
        let mut child = command(&args).spawn().expect("the binary starts");
        requests(&server, 2);
        for signal in signals {
            crate::rig::kill(&child, *signal);
            // The third signal arrives before or after the report is written.
            sleep(15);
        }
        let status = child.wait().expect("a child");
        let left: Vec<_> = std::fs::read_dir(dir.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .filter(|name| name.starts_with('.'))
            .collect();
        assert!(left.is_empty(), "{signals:?}, {status}: {left:?}");
        if signals.len() == 1 {
            assert_eq!(std::fs::read_to_string(&old).expect("a file"), "older", "{signals:?}");
        }
    });
}

#[test]
fn nohup_keeps_a_run_alive() {
    let _alone = alone();
    let server = Serve::start(&[]);
    let args = ["-c", "1", "-d", "1s", "--json", "--quiet", &server.url("/")];
    let mut nohup = std::process::Command::new("nohup");
    nohup.arg(env!("CARGO_BIN_EXE_prony")).args(args).stdin(std::process::Stdio::null());
    let client = Running::of(nohup, &args);
    sleep(500);
    client.signal(Signal::HUP);
    let ended = client.wait();
    assert_ne!(ended.code, 130, "{ended:?}");
    assert_eq!(ended.report().0["run"]["interrupted"], false);
}
