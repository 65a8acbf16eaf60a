//! Runs the original httperf and ours with the same command lines, against servers with the same
//! script.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::cases::{COOKIES, Case, PRINTED, REQUESTS, SESSIONS, WIRE};
use crate::program::{Ended, Run, Which, have};
use crate::server::{Seen, Server};
use crate::text::Printed;

/// The number of attempts before a difference between times is an error.
const ATTEMPTS: usize = 4;

/// Numbers that must be the same in both reports.
const COUNTS: [&str; 25] = [
    "connections",
    "requests",
    "replies",
    "conn_length",
    "req_size",
    "samples",
    "header",
    "content",
    "footer",
    "reply_size",
    "s1xx",
    "s2xx",
    "s3xx",
    "s4xx",
    "s5xx",
    "errors",
    "client_timo",
    "socket_timo",
    "connrefused",
    "connreset",
    "fd_unavail",
    "addrunavail",
    "ftab_full",
    "other",
    "sess_good",
];
/// More of them, with sessions.
const SESSION_COUNTS: [&str; 2] = ["sess_all", "sess_connections"];
/// Times, with the size of their unit in ms.
const TIMES: [(&str, f64); 11] = [
    ("duration", 1e3),
    ("life_min", 1.0),
    ("life_avg", 1.0),
    ("life_max", 1.0),
    ("life_median", 1.0),
    ("connect", 1.0),
    ("response", 1.0),
    ("transfer", 1.0),
    ("rate_avg", 10.0),
    ("sess_life", 1e3),
    ("sess_fail", 1e3),
];

#[test]
fn requests() {
    all(&REQUESTS);
}

#[test]
fn sessions() {
    all(&SESSIONS);
}

#[test]
fn wire() {
    all(&WIRE);
}

#[test]
fn cookies() {
    all(&COOKIES);
}

#[test]
fn printed() {
    all(&PRINTED);
}

/// The original always uses a full core, so as many run at once as a small machine has cores.
fn all(cases: &'static [Case]) {
    static TURN: Mutex<()> = Mutex::new(());
    if !have("httperf") {
        return;
    }
    // A failed test poisons the lock; the others continue.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            wrong.extend(both(case).err());
        }
        wrong
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect()
    });
    assert!(wrong.is_empty(), "{} of {}:\n\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

/// Run a case with both; the error has the difference. Exact fields must be equal in every attempt.
/// A busy machine makes times longer, never shorter, so the shortest of all attempts are compared.
fn both(case: &Case) -> Result<(), String> {
    let reported = |what: String, old: &Ended, ours: &Ended| {
        let text = |e: &Ended| {
            let [out, err] = [&e.stdout, &e.stderr];
            format!("{:?} after {:?}, {} kB\n{out}{err}", e.code, e.took, e.memory_kb)
        };
        format!("--- {}: {what}\nold: {}\nours: {}", case.name, text(old), text(ours))
    };
    let mut shortest = BTreeMap::new();
    let mut attempt = 1;
    loop {
        let (old, ours) = (run(case, Which::Old), run(case, Which::Ours));
        let compared = compare(case, &old, &ours);
        let times = compared.map_err(|what| reported(what, &old.0, &ours.0))?;
        for (name, old, ours) in times {
            let least = shortest.entry(name).or_insert((old, ours));
            *least = (least.0.min(old), least.1.min(ours));
        }
        let far: Vec<_> = TIMES.iter().filter_map(|&(n, unit)| far(n, unit, &shortest)).collect();
        if far.is_empty() {
            return Ok(());
        }
        if attempt == ATTEMPTS {
            return Err(reported(far.join("; "), &old.0, &ours.0));
        }
        attempt += 1;
    }
}

/// The result of a run, and the bytes of each connection to the server.
fn run(case: &Case, which: Which) -> (Ended, Vec<Seen>) {
    let server = Server::start();
    let dead = crate::reserved::reserved_port();
    let port = ["--server=127.0.0.1".to_owned(), format!("--port={}", server.port)];
    let args = case.args.iter().map(|a| a.replace("@DEAD@", &dead.to_string()));
    let mut run = Run::new(&port.into_iter().chain(args).collect::<Vec<_>>());
    for (name, text) in case.files {
        run = run.file(name, text);
    }
    if let Some(ms) = case.interrupted_ms {
        run = run.signal(Duration::from_millis(ms), Signal::INT);
    }
    if let Some(most) = case.descriptors {
        run = run.descriptors(most);
    }
    let mut ended = run.run(which);
    for (port, name) in [(server.port, "PORT"), (dead, "DEAD")] {
        ended.stdout =
            ended.stdout.replacen(&format!("--port={port}"), &format!("--port={name}"), 1);
    }
    (ended, server.seen())
}

/// Compare the exact fields; return the times of both.
fn compare(
    case: &Case,
    old: &(Ended, Vec<Seen>),
    ours: &(Ended, Vec<Seen>),
) -> Result<Vec<(&'static str, f64, f64)>, String> {
    let read = |ended: &Ended| match ended.code {
        Some(0) => Printed::parse(&ended.stdout),
        code => Err(format!("ended with {code:?}")),
    };
    let (a, b) = (read(&old.0)?, read(&ours.0)?);
    for (printed, ended) in [(&a, old), (&b, ours)] {
        sums(printed, &ended.1)?;
    }
    // The original does not update its clock while it works, and has reported 80 ms instead of 90.
    for &(name, least) in case.least {
        if b.get(name) < 0.99 * least {
            return Err(format!("{name} is {} and not {least}", b.get(name)));
        }
    }
    same("echo", &a.echo, &b.echo)?;
    same("lines before the report", &masked(&a.before), &masked(&b.before))?;
    // The last one is printed only if the run does not end before it.
    let (reported, ours_reported) = (delays(&old.0), delays(&ours.0));
    let shorter = reported.len().min(ours_reported.len());
    same("delays", &&reported[..shorter], &&ours_reported[..shorter])?;
    if reported.len().abs_diff(ours_reported.len()) > 2 {
        return Err(format!("{} and {} delays are reported", reported.len(), ours_reported.len()));
    }
    if !a.after.is_empty() {
        return Err(format!("more lines than known: {:?}", a.after));
    }
    if case.interrupted_ms.is_none() {
        same("bytes on the wire", &received(&old.1), &received(&ours.1))?;
    }
    let sessions = a.histogram.is_some();
    same("histogram", &a.histogram, &b.histogram)?;
    let counts = COUNTS.iter().filter(|n| sessions || **n != "sess_good");
    let sequential = !case.args.iter().any(|a| a.starts_with("--ra") || a.starts_with("--per"));
    for name in counts
        .chain(SESSION_COUNTS.iter().filter(|_| sessions))
        .chain(["burst"].iter().filter(|_| sequential))
        .chain(["concurrent"].iter().filter(|_| sequential && !sessions))
        .filter(|n| !case.better.contains(n) && case.interrupted_ms.is_none())
    {
        same(name, &a.get(name), &b.get(name))?;
    }
    let times = TIMES.iter().filter(|(n, _)| sessions || !n.starts_with("sess"));
    let times = times.filter(|(n, _)| !case.better.contains(n));
    Ok(times.map(|&(name, _)| (name, a.get(name), b.get(name))).collect())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, old: &T, ours: &T) -> Result<(), String> {
    if old == ours { Ok(()) } else { Err(format!("{what}: old {old:?}, ours {ours:?}")) }
}

/// The tolerance for a busy machine: 40 ms and a quarter. Seconds have one decimal. The original
/// never sleeps, so a busy machine delays it first; the script of the server gives the lower bounds
/// for ours.
fn far(name: &str, unit: f64, all: &BTreeMap<&str, (f64, f64)>) -> Option<String> {
    let &(old, ours) = all.get(name)?;
    let rounding = if unit > 1.0 { 100.0 } else { 0.0 };
    let allowed = 40.0 + rounding + 0.25 * old * unit;
    let far = (ours - old) * unit > allowed;
    far.then(|| format!("{name}: old {old}, ours {ours}"))
}

/// Mask the figures that differ between runs.
fn masked(lines: &[String]) -> Vec<String> {
    let mask = |line: &String| {
        let (name, _) = line.split_once(" = ").unwrap_or((line, ""));
        match name {
            // Left-aligned in eight columns.
            "reply-rate" | "session-rate" => format!("{name} of {} columns", line.len()),
            "httperf: maximum number of open descriptors" => name.to_owned(),
            _ => line.clone(),
        }
    };
    lines.iter().map(mask).collect()
}

/// All bytes of each connection, sorted: those of a rate may be accepted in any order.
fn received(seen: &[Seen]) -> Vec<String> {
    let mut all: Vec<_> =
        seen.iter().map(|s| String::from_utf8_lossy(&s.bytes).into_owned()).collect();
    all.sort_unstable();
    all
}

fn delays(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|l| l.starts_with("next arrival delay")).collect()
}

/// Check what must hold for every report and the requests at the server.
fn sums(report: &Printed, seen: &[Seen]) -> Result<(), String> {
    let get = |name| report.get(name);
    let sum = |names: &[&'static str]| names.iter().map(|&n| get(n)).sum::<f64>();
    let all = ["client_timo", "socket_timo", "connrefused", "connreset", "fd_unavail"];
    let all = [&all[..], &["addrunavail", "ftab_full", "other"]].concat();
    same("errors", &get("errors"), &sum(&all))?;
    same("replies", &get("replies"), &sum(&["s1xx", "s2xx", "s3xx", "s4xx", "s5xx"]))?;
    same("size", &get("reply_size"), &sum(&["header", "content", "footer"]))?;
    let (duration, half) = (get("duration"), 0.000_5);
    for (rate, ms, count) in
        [("conn_rate", "conn_ms", "connections"), ("req_rate", "req_ms", "requests")]
    {
        let (lowest, highest) = (get(count) / (duration + half), get(count) / (duration - half));
        let (rate, ms) = (get(rate), get(ms));
        if duration > half && !(lowest - 0.06..=highest + 0.06).contains(&rate) {
            return Err(format!("{count} in {duration} s are not {rate}/s"));
        }
        let whole = ms * get(count) / 1e3;
        let off = (whole - duration).abs() * if get(count) > 0.0 { 1.0 } else { 0.0 };
        if off > half + 0.000_06 * get(count) {
            return Err(format!("{count} of {ms} ms each are not {duration} s"));
        }
    }
    if let Some(histogram) = &report.histogram {
        same("sessions", &get("sess_all"), &(histogram.iter().sum::<u64>() as f64))?;
        let replies: u64 = (0..).zip(histogram).map(|(k, n)| k * n).sum();
        same("replies of sessions", &get("replies"), &(replies as f64))?;
    }
    let counts = report.lifetimes.iter().filter_map(|l| l.split(' ').next_back());
    let lifetimes: u64 = counts.filter_map(|n| n.parse::<u64>().ok()).sum();
    if !report.lifetimes.is_empty() {
        same("lifetimes", &lifetimes, &(get("connections") as u64))?;
    }
    if get("errors") == 0.0 {
        same("connections at the server", &get("connections"), &(seen.len() as f64))?;
        let requests: u64 = seen.iter().map(|s| s.requests).sum();
        same("requests at the server", &get("requests"), &(requests as f64))?;
    }
    Ok(())
}
