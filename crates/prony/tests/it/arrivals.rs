//! P7: the gaps between arrivals, as the server sees them, are of the law that was asked for.

use std::fs;

use tempfile::TempDir;

use crate::rig::{Serve, alone, drivers, measure};

/// The times in seconds at which a server saw the requests of a load.
fn times(load: &[&str]) -> Vec<f64> {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("arrivals");
    let server = Serve::start(&["--record-arrivals", file.to_str().expect("UTF-8")]);
    let report =
        measure(&[load, &["--warmup", "200ms", "-c", "20", "-t", "1", &server.url("/")]].concat());
    server.stop();
    let text = fs::read_to_string(file).expect("the arrivals");
    let times: Vec<f64> = text.lines().map(|l| l.parse().expect("a number")).collect();
    // The warm-up has opened the connections.
    let measured = report.count("started") as usize;
    assert!(times.len() > measured);
    times[times.len() - measured..].to_vec()
}

fn gaps(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|w| w[1] - w[0]).collect()
}

/// Kolmogorov and Smirnov: the largest distance of the sample's distribution from the law's.
fn distance(mut sample: Vec<f64>, law: impl Fn(f64) -> f64) -> f64 {
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let far = |(i, x): (usize, &f64)| {
        let p = law(*x);
        (p - i as f64 / n).abs().max(((i + 1) as f64 / n - p).abs())
    };
    sample.iter().enumerate().map(far).fold(0.0, f64::max)
}

/// Whether a sample of a few is of the law. A busy machine can spoil a sample, as sends and reads
/// are late then, but it cannot make the right law of a wrong one.
fn one_of_a_few(load: &[&str], holds: impl Fn(Vec<f64>) -> Result<(), String>) {
    let mut why = String::new();
    for _ in 0..3 {
        match holds(times(load)) {
            Ok(()) => return,
            Err(e) => why += &(e + "; "),
        }
    }
    panic!("{load:?}: {why}");
}

/// What the right law exceeds in one sample of a thousand.
fn within_chance(sample: Vec<f64>, law: impl Fn(f64) -> f64) -> Result<(), String> {
    let n = sample.len() as f64;
    let (found, limit) = (distance(sample, law), 1.95 / n.sqrt());
    if found < limit { Ok(()) } else { Err(format!("distance {found}, limit {limit}")) }
}

#[test]
fn p07_poisson_gaps_are_exponential() {
    let _alone = alone();
    for driver in drivers() {
        let load = ["-r", "200", "--arrivals", "poisson", "-d", "4s", "--driver", driver];
        one_of_a_few(&load, |all| {
            assert!((700..900).contains(&all.len()), "{} requests", all.len());
            within_chance(gaps(&all), |gap| 1.0 - (-gap * 200.0).exp())
        });
    }
}

#[test]
fn p07_uniform_gaps_are_uniform() {
    let _alone = alone();
    for driver in drivers() {
        let load = ["--arrivals", "uniform:2ms..8ms", "-d", "4s", "--driver", driver];
        one_of_a_few(&load, |all| {
            within_chance(gaps(&all), |gap| ((gap - 0.002) / 0.006).clamp(0.0, 1.0))
        });
    }
}

/// The law is a point, from which any jitter is as far as can be, so there is no test of
/// distributions: the times must lie close to a grid, and its mesh must be the asked gap.
#[test]
fn p07_fixed_arrivals_lie_on_a_grid_that_does_not_drift() {
    let _alone = alone();
    for driver in drivers() {
        one_of_a_few(&["-r", "200", "-d", "3s", "--driver", driver], |all| {
            assert_eq!(all.len(), 600);
            on_the_grid(&all, 0.005)
        });
    }
}

/// P16: with timers of a millisecond half of the sends at random times would be late by half of
/// one. (That nearly all are in time within 50 us holds on a core that has nothing else to do; here
/// others may be at work, who can make sends late but none of them early.)
#[test]
fn p16_sends_are_in_time_and_their_lateness_is_told() {
    let _alone = alone();
    for driver in drivers() {
        let server = Serve::start(&[]);
        let load = ["-r", "250", "--arrivals", "poisson", "-n", "250", "-t", "1", "-c", "20"];
        let more = ["--warmup", "100ms", "--driver", driver, &server.url("/")];
        let mut lags = Vec::new();
        while lags.len() < 5 && !lags.iter().any(|&p50| p50 < 0.25) {
            let report = measure(&[&load[..], &more].concat());
            let [p50, p95, max] = ["p50", "p95", "max"].map(|q| report.ms("lag", q));
            assert!(p50 <= p95 && p95 <= max, "{p50}, {p95}, {max}");
            lags.push(p50);
        }
        assert!(lags.iter().any(|&p50| p50 < 0.25), "{driver}: half are late by {lags:?} ms");
    }
}

/// Half of the times within 100 us of the grid and nine of ten within 1 ms, and a mesh that is the
/// gap within a ten-thousandth: whoever counted each gap from the last send, some microseconds
/// late, would be beyond that.
fn on_the_grid(times: &[f64], gap: f64) -> Result<(), String> {
    let half = times.len() / 2;
    // Theil and Sen: the median of many slopes, which a few late requests do not move.
    let slopes = times.iter().zip(&times[half..]).map(|(a, b)| (b - a) / half as f64);
    let slope = sorted(slopes)[half / 2];
    let late: Vec<f64> = times.iter().enumerate().map(|(k, t)| t - k as f64 * gap).collect();
    let origin = sorted(late.iter().copied())[half];
    let off = sorted(late.iter().map(|late| (late - origin).abs()));
    let (p50, p90) = (off[half], off[off.len() * 9 / 10]);
    if (slope / gap - 1.0).abs() < 1e-4 && p50 < 1e-4 && p90 < 1e-3 {
        Ok(())
    } else {
        Err(format!("slope {slope}, off the grid by {p50} and {p90} (p50 and p90)"))
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

#[test]
fn times_beside_the_grid_are_told() {
    let jitter = |k: u32| f64::from(k * 7_919 % 1_000) * 5e-8;
    let with = |gap: f64| (0..600).map(move |k| f64::from(k) * gap + jitter(k));
    assert_eq!(on_the_grid(&with(0.005).collect::<Vec<_>>(), 0.005), Ok(()));
    // A gap that is 1 us too long, times that are rounded to milliseconds of another grid, and a
    // fifth of the requests late.
    let drifts: Vec<f64> = with(0.005_001).collect();
    let coarse: Vec<f64> = with(0.0052).map(|t| (t * 1e3).round() / 1e3).collect();
    let some_late: Vec<f64> =
        with(0.005).enumerate().map(|(k, t)| if k % 5 == 0 { t + 2e-3 } else { t }).collect();
    for wrong in [drifts, coarse, some_late] {
        assert!(on_the_grid(&wrong, 0.005).is_err());
    }
}
