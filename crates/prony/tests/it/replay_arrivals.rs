//! P6, P7 for logs: the arrivals at the server are those of the log.

use std::fs;

use prony_replay::dispersion::Dispersion;
use tempfile::TempDir;

use crate::replay::{FORMAT, Random, bursty, log};
use crate::rig::{Serve, alone, once_of_three, prony, served, slow};

/// Requests per second. A debug build, or a machine with other work, gets a log that it can keep
/// up with.
fn rate() -> f64 {
    if slow() { 50_000.0 } else { 5_000.0 }
}

/// Replays a log of these times, those of POSTs left out, until the arrivals at the server agree
/// with it, at most three times. Times are in nanoseconds since the first.
fn replayed(times: &[u64], agree: impl Fn(&[u64], &[u64])) {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("access.log");
    fs::write(&path, log(times)).expect("written");
    let sent: Vec<u64> = times.chunks(10).flat_map(|ten| &ten[..9]).copied().collect();
    let file = folder.path().join("arrivals");
    let log = path.to_str().expect("UTF-8");
    once_of_three(|| {
        let server = Serve::start(&["--record-arrivals", file.to_str().expect("UTF-8")]);
        let line = ["replay", log, "--log-format", FORMAT, "--accept-invalid", "--json"];
        let more = ["--bad-lines", "2%", "-c", "200", "-t", "1", "--to", &server.url("")];
        let ended = prony(&[&line[..], &more].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        let (report, counters) = (ended.report(), server.stop());
        let all = sent.len() as u64;
        assert_eq!((report.count("started"), served(&counters, "requests")), (all, all));
        assert_eq!(report.0["run"]["replay"]["read_late"], 0);
        let text = fs::read_to_string(&file).expect("the arrivals");
        let seconds = text.lines().map(|line| line.parse::<f64>().expect("a number"));
        let mut arrived: Vec<u64> = seconds.map(|s| (s * 1e9) as u64).collect();
        arrived.sort_unstable();
        assert_eq!(arrived.len(), sent.len());
        // The server counts from its own start.
        let mut ahead: Vec<i64> =
            arrived.iter().zip(&sent).map(|(a, t)| *a as i64 - *t as i64).collect();
        ahead.sort_unstable();
        let origin = ahead[ahead.len() / 2];
        let arrived: Vec<u64> =
            arrived.iter().map(|at| at.saturating_add_signed(-origin)).collect();
        agree(&arrived, &sent);
    });
}

/// The index of dispersion of arrivals, in windows of 10 ms and of 100 ms.
fn indices(times: &[u64]) -> [f64; 2] {
    let mut dispersion = Dispersion::default();
    times.iter().for_each(|at| dispersion.add(*at));
    let all = dispersion.indices(times.last().copied().unwrap_or(0));
    [all[1], all[2]].map(|index| index.expect("enough windows"))
}

#[test]
fn arrivals_at_the_server_are_as_bursty_as_the_log() {
    replayed(&bursty((rate() * 3.0) as usize, rate()), |arrived, sent| {
        let of_log = indices(sent);
        assert!(of_log[1] > 5.0, "bursts: {of_log:?}");
        for (found, expected) in indices(arrived).into_iter().zip(of_log) {
            assert!((found / expected - 1.0).abs() < 0.05, "{found}, in the log {expected}");
        }
    });
}

/// The times from each request to the one that comes `apart` later, in order of length.
fn gaps(times: &[u64], apart: usize) -> Vec<u64> {
    let mut gaps: Vec<u64> = times.iter().zip(&times[apart..]).map(|(a, b)| b - a).collect();
    gaps.sort_unstable();
    gaps
}

/// The largest difference between the distribution functions of two sorted samples (Kolmogorov's
/// distance), where times that differ by no more than the resolution count as equal: the smallest
/// `d` with `F(x - resolution) - d <= G(x) <= F(x + resolution) + d` for all `x`.
fn distance(a: &[u64], b: &[u64], resolution: u64) -> f64 {
    // How much more of the first than of the second has arrived at any time, if the second comes
    // later by the resolution.
    let ahead = |first: &[u64], second: &[u64]| {
        let of = |(i, x): (usize, &u64)| {
            let come = second.partition_point(|y| *y <= x + resolution);
            (i + 1) as f64 / first.len() as f64 - come as f64 / second.len() as f64
        };
        first.iter().enumerate().map(of).fold(0.0, f64::max)
    };
    ahead(a, b).max(ahead(b, a))
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

/// What is wrong with the gaps between arrivals. One gap has the distribution of the log's with a
/// resolution of a quarter of the mean gap (5 us at 50,000/s): each request is a write of some
/// microseconds, and one thread cannot make two at a time. Such shifts do not add up, so the time
/// over eight gaps has the distribution as it is.
fn wrong_gaps(arrived: &[u64], sent: &[u64], rate: f64) -> Option<String> {
    let quarter = (0.25e9 / rate) as u64;
    let one = distance(&gaps(arrived, 1), &gaps(sent, 1), quarter);
    let eight = distance(&gaps(arrived, 8), &gaps(sent, 8), 0);
    (one > 0.05 || eight > 0.05).then(|| format!("distances {one:.4} and {eight:.4}"))
}

#[test]
fn p07_inter_arrival_times_are_those_of_the_log() {
    let rate = rate();
    replayed(&poisson((rate * 3.0) as usize, rate), |arrived, sent| {
        assert_eq!(wrong_gaps(arrived, sent, rate), None);
    });
}

#[test]
fn detects_gaps_that_are_not_those_of_the_log() {
    let sent = poisson(20_000, 5_000.0);
    // A sender that needs 40 us for each request is within the resolution, one that needs 100 us
    // is not.
    let by_one = |cost: u64| {
        let mut free = 0;
        let send = |at: &u64| {
            free = free.max(*at) + cost;
            free
        };
        sent.iter().map(send).collect::<Vec<_>>()
    };
    assert_eq!(wrong_gaps(&by_one(40_000), &sent, 5_000.0), None);
    assert!(wrong_gaps(&by_one(100_000), &sent, 5_000.0).is_some());
    // Twice as regular (the Erlang distribution of two phases); all within a millisecond at once.
    let twice = poisson(40_000, 10_000.0);
    let regular: Vec<u64> = twice.chunks(2).map(|two| two[0]).collect();
    assert!(wrong_gaps(&regular, &sent, 5_000.0).is_some());
    let at_once: Vec<u64> = sent.iter().map(|at| at.next_multiple_of(1_000_000)).collect();
    assert!(wrong_gaps(&at_once, &sent, 5_000.0).is_some());
}
