//! P6, P7 for logs: requests are due at the times of the log, and the server gets them as the
//! client says. How late they are sent depends on the machine; in virtual time they are not late
//! (prony-sim).

use std::fs;

use prony_replay::dispersion::Dispersion;
use tempfile::TempDir;

use crate::replay::{FORMAT, Random, bursty, log};
use crate::rig::{alone, served, slow};
use crate::sides::Both;

/// Requests per second. A debug build, or a machine with other work, gets a log that it can keep
/// up with.
fn rate() -> f64 {
    if slow() { 50_000.0 } else { 5_000.0 }
}

/// Replays a log of these times, those of POSTs left out. Requires that they are due at the times
/// of the log, and that the server gets each of them between its stamps of the client, whatever
/// else the machine does. Returns the run and the times, in nanoseconds since the first.
fn replayed(times: &[u64]) -> (Both, Vec<u64>) {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("access.log");
    fs::write(&path, log(times)).expect("written");
    let sent: Vec<u64> = times.chunks(10).flat_map(|ten| &ten[..9]).copied().collect();
    let log = path.to_str().expect("UTF-8");
    let both = Both::measure(|url| {
        let line = ["replay", log, "--log-format", FORMAT, "--bad-lines", "2%", "-c", "200"];
        let more = ["-t", "1", "--to", url];
        line.iter().chain(&more).map(|word| (*word).to_owned()).collect()
    });
    let all = sent.len() as u64;
    assert_eq!((both.report.count("started"), served(&both.counters, "requests")), (all, all));
    assert_eq!(both.agree(), Ok(()));
    let intended = both.intended();
    let first = intended[0];
    for (at, logged) in intended.iter().zip(&sent) {
        assert_eq!(at - first, logged - sent[0], "in ns since the first");
    }
    (both, sent)
}

/// The index of dispersion of arrivals, in windows of 10 ms and of 100 ms.
fn indices(times: &[u64]) -> [f64; 2] {
    let mut dispersion = Dispersion::default();
    times.iter().for_each(|at| dispersion.add(*at));
    let all = dispersion.indices(times.last().copied().unwrap_or(0));
    [all[1], all[2]].map(|index| index.expect("enough windows"))
}

#[test]
fn arrivals_are_as_bursty_as_the_log() {
    let (both, sent) = replayed(&bursty((rate() * 3.0) as usize, rate()));
    let of_log = indices(&sent);
    assert!(of_log[1] > 5.0, "bursts: {of_log:?}");
    // The report says the same of the log and of the schedule, window by window.
    let rows = both.report.0["run"]["replay"]["burstiness"].as_array().expect("windows").clone();
    for (window, index) in [10_000_000_u64, 100_000_000].into_iter().zip(of_log) {
        let row = rows.iter().find(|row| row["window"] == window).expect("a window");
        for side in ["logged", "replayed"] {
            let found = row[side].as_f64().expect("an index");
            assert!((found / index - 1.0).abs() < 0.01, "{side}: {found}, in the log {index}");
        }
    }
}

/// A log of a Poisson process.
fn poisson(n: usize, rate: f64) -> Vec<u64> {
    let mut random = Random(11);
    let mut at = 0.0;
    let next = |_| {
        let time = (at * 1e6) as u64 * 1000;
        at += -(1.0 - random.unit()).ln() / rate;
        time
    };
    (0..n).map(next).collect()
}

#[test]
fn p07_inter_arrival_times_are_those_of_the_log() {
    replayed(&poisson((rate() * 3.0) as usize, rate()));
}
