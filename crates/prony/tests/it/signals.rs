//! The first signal stops the load and waits for requests in flight, for three seconds or as long
//! as `--drain` says. The second stops at once. The report is always complete.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::rig::{
    Running, Serve, alone, command, descriptors, drivers, side_by_side, sockets, wait_until,
    waiting,
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

/// A load at 100 requests per second that has no end of its own. If it does not stop at once, or
/// when its requests have ended, it reaches the limit of the rig.
const AT_100: [&str; 8] = ["-r", "100", "-d", "1h", "--drain", "1h", "--timeout", "1h"];

/// Starts this load and its server, and waits until they have a connection for a while.
fn at_100(latency: &str, more: &[&str]) -> (Serve, Running) {
    let server = Serve::start(&["--latency", latency]);
    let idle = server.descriptors_when_idle();
    let client = Running::start(&[&AT_100[..], more, &[&server.url("/")]].concat());
    connected(&server, idle + 1);
    (server, client)
}

/// Waits until the server has this number of descriptors, and a request may be in flight.
fn connected(server: &Serve, least: usize) {
    wait_until("connections", || descriptors(server.pid()).is_some_and(|n| n >= least));
    sleep(800);
}

#[test]
fn first_signal_drains_and_reports() {
    let _alone = alone();
    let both = |driver| [Signal::INT, Signal::TERM].map(|signal| (driver, signal));
    side_by_side(drivers().into_iter().flat_map(both), |(driver, signal)| {
        let more = ["--driver", driver, "--json", "--quiet", "--accept-invalid"];
        let started = Instant::now();
        let (server, client) = at_100("300ms", &more);
        client.signal(signal);
        let ended = client.wait();
        let most = most_at_100(started);
        assert_eq!(ended.code, 130, "{ended:?}");
        let report = ended.report();
        report.check_sums();
        assert_eq!(report.count("unfinished"), 0);
        assert_eq!(report.count("failed"), 0);
        let n = report.count("replies");
        assert!((1..=most).contains(&n), "{n} requests at 100 a second, {most} at most");
        // One was by hand.
        assert_eq!(crate::rig::served(&server.stop(), "replies"), n + 1);
    });
}

#[test]
fn second_signal_stops_at_once_and_reports() {
    let _alone = alone();
    side_by_side(drivers(), |driver| {
        let more = ["--driver", driver, "--json", "--quiet", "--accept-invalid"];
        let (server, started) = (mute(), Instant::now());
        let url = format!("http://{}/", server.address());
        let client = Running::start(&[&AT_100[..], &more, &[&url]].concat());
        requests(&server, 10);
        client.signal(Signal::INT);
        sleep(300);
        client.signal(Signal::INT);
        let ended = client.wait();
        let most = most_at_100(started);
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
    let (_server, client) = at_100("5ms", &["-v"]);
    client.signal(Signal::INT);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    for word in ["p50", "interrupted", "200"] {
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

/// Waits for the message about this number of replies, or fewer, as those of which a worker has not
/// said anything yet are not in it; with a limit of `most` seconds, or what is left of them when it
/// is known.
fn waits(client: &mut Running, replies: u64, most: u64) {
    client.reported_any(|line| {
        let rest = line.strip_prefix("prony: stopping: waiting for ")?;
        let (waited, rest) = rest.split_once(if rest.starts_with("1 ") {
            " reply, at most "
        } else {
            " replies, at most "
        })?;
        let left = rest.strip_suffix(" s; press Ctrl-C to stop at once\n")?;
        let within = |text: &str, most| text.parse::<u64>().is_ok_and(|n| (1..=most).contains(&n));
        (within(waited, replies) && within(left, most)).then_some(())
    });
}

/// Whether this process ignores the signal that a closed terminal sends, as below nohup: those that
/// it starts do, too.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel's words");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("a mask") & 1 == 1
}

#[test]
fn every_signal_waits_for_three_seconds() {
    let _waiting = waiting();
    let mut signals = vec![Signal::INT, Signal::TERM, Signal::HUP];
    signals.retain(|&signal| signal != Signal::HUP || !ignores_hangup());
    let all = |driver| signals.iter().map(move |&signal| (driver, signal));
    side_by_side(drivers().into_iter().flat_map(all), |(driver, signal)| {
        let (server, dir) = (mute(), tempfile::tempdir().expect("a folder"));
        let file = |name: &str| dir.path().join(name);
        let (json, html) = (file("a.json"), file("a.html"));
        let url = format!("http://{}/", server.address());
        let outputs = [&json, &html].map(|p| p.to_str().expect("UTF-8"));
        let [json_name, html_name] = outputs;
        let load = ["-c", "5", "-d", "1h", "--timeout", "1h", "--driver", driver, "-o", json_name];
        let mut client = Running::start(&[&load[..], &["-o", html_name, &url]].concat());
        requests(&server, 5);
        let begun = Instant::now();
        client.signal(signal);
        waits(&mut client, 5, 3);
        let ended = client.wait();
        let took = begun.elapsed();
        assert_eq!(ended.code, 130, "{ended:?}");
        assert!(took.as_millis() >= 2_900, "{took:?} for a drain of 3 s");
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
    let server = mute();
    let url = format!("http://{}/", server.address());
    let load = ["-c", "5", "-d", "1h", "--timeout", "6s", "--drain", "1h", "--json", &url];
    let mut client = Running::start(&load);
    requests(&server, 5);
    client.signal(Signal::INT);
    waits(&mut client, 5, 6);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!((report.count("failed") % 5, report.count("unfinished")), (0, 0));
    assert!(report.ms("response", "min") >= 6_000.0);
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
    let sessions = plan("sessions.toml", &format!("duration = '1h'\ntimeout = '1h'\n{sessions}"));
    let phases = "url = 'URL'\nduration = '1h'\ntimeout = '1h'\nconnections = 3\n";
    let phases =
        plan("phases.toml", &format!("{phases}[[phases]]\nname = 'a'\n[[phases]]\nname = 'b'\n"));
    let long = ["-d", "1h", "--timeout", "1h", "--json", "--accept-invalid"];
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
        // With `-p 2`, two requests share one.
        let connections = unfinished.map_or(1, |n| if n == 6 { 3 } else { n as usize });
        let words: Vec<&str> = load.iter().map(String::as_str).collect();
        let client = Running::start(&words);
        // When all of them are open, no request has a reply within the hour.
        wait_until("its connections", || sockets(client.pid()) >= connections);
        sleep(2_000);
        let begun = Instant::now();
        client.signal(Signal::INT);
        let ended = client.wait();
        let took = begun.elapsed();
        assert_eq!(ended.code, 130, "{load:?}: {ended:?}");
        assert!(took.as_millis() >= 2_000, "{load:?}: {took:?}, not 3 s");
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
        let load = ["-c", "5", "-d", "1h", "--drain", "1h", "--timeout", "1h"];
        let client = Running::start(&[&load[..], &["--json", "--quiet", &url]].concat());
        requests(&server, 5);
        client.signal(first);
        sleep(300);
        client.signal(second);
        let ended = client.wait();
        assert_eq!((ended.code, ended.stderr.as_str()), (130, ""), "--quiet says nothing");
        assert_eq!(ended.report().count("unfinished"), 5);
    });
}

#[test]
fn every_command_shows_what_it_waits_for() {
    let _waiting = waiting();
    let server = mute();
    let (address, url) = (server.address(), format!("http://{}/", server.address()));
    let loads: [(&[&str], u64); 5] = [
        (&["rtt", &address, "-c", "2"], 2),
        (&["spectrum", &address], 1),
        (&["ab", "-c", "2", "-n", "9", &url], 2),
        (&["wrk", "-t", "1", "-c", "2", &url], 2),
        (&["htstress", "-c", "2", &url], 2),
    ];
    side_by_side(loads, |(load, replies)| {
        // Protocols with a handshake wait for it, and the script does not reply to it.
        let mut client = Running::start(load);
        wait_until("its connections", || sockets(client.pid()) >= replies as usize);
        sleep(1_000);
        client.signal(Signal::TERM);
        waits(&mut client, replies, 3);
        client.wait();
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
        let args = ["-c", "2", "-d", "1h", "--quiet", "-o", json, "-o", html, &url];
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
    let idle = server.descriptors_when_idle();
    let args = ["-c", "1", "-d", "3s", "--json", "--quiet", "--accept-invalid", &server.url("/")];
    let mut nohup = std::process::Command::new("nohup");
    nohup.arg(env!("CARGO_BIN_EXE_prony")).args(args).stdin(std::process::Stdio::null());
    let client = Running::of(nohup, &args);
    wait_until("a connection", || descriptors(server.pid()).is_some_and(|n| n > idle));
    client.signal(Signal::HUP);
    let ended = client.wait();
    assert_ne!(ended.code, 130, "{ended:?}");
    assert_eq!(ended.report().0["run"]["interrupted"], false);
}
