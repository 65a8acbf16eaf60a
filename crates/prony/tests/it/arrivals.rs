//! P7: the inter-arrival times at the server have the requested distribution.

use std::fs;

use tempfile::TempDir;

use crate::rig::{Serve, alone, drivers, measure};

/// The arrival times of the requests of a load at the server, in seconds.
fn times(load: &[&str]) -> Vec<f64> {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("arrivals");
    let server = Serve::start(&["--record-arrivals", file.to_str().expect("UTF-8")]);
    let report =
        measure(&[load, &["--warmup", "200ms", "-c", "20", "-t", "1", &server.url("/")]].concat());
    server.stop();
    let text = fs::read_to_string(file).expect("the arrivals");
    let times: Vec<f64> = text.lines().map(|l| l.parse().expect("a number")).collect();
    // The warm-up opened the connections.
    let measured = report.count("started") as usize;
    assert!(times.len() > measured);
    times[times.len() - measured..].to_vec()
}

fn gaps(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|w| w[1] - w[0]).collect()
}

/// The Kolmogorov-Smirnov distance of a sample from a distribution function.
fn distance(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let far = |(i, x): (usize, &f64)| {
        let p = cdf(*x);
        (p - i as f64 / n).abs().max(((i + 1) as f64 / n - p).abs())
    };
    sample.iter().enumerate().map(far).fold(0.0, f64::max)
}

/// Requires one of a few samples to have the distribution. Late sends and reads on a busy machine
/// can disturb a sample, but cannot turn a wrong distribution into the right one.
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

/// Tests at the 0.1 % level.
fn within_chance(sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> Result<(), String> {
    let n = sample.len() as f64;
    let (found, limit) = (distance(sample, cdf), 1.95 / n.sqrt());
    if found < limit { Ok(()) } else { Err(format!("distance {found}, limit {limit}")) }
}

#[test]
fn p07_poisson_inter_arrival_times_are_exponential() {
    let _alone = alone();
    for driver in drivers() {
        let load = ["-r", "200", "--arrivals", "poisson", "-d", "4s", "--driver", driver];
        one_of_a_few(&load, |all| {
            assert!((700..900).contains(&all.len()), "{} requests", all.len());
            within_chance(gaps(&all), |gap| 1.0 - (-gap * 200.0).exp())
        });
    }
}

/// With the shape 2, the distribution function has a closed form (Erlang's).
#[test]
fn p07_gamma_inter_arrival_times_are_those_of_the_shape() {
    let _alone = alone();
    for driver in drivers() {
        let load = ["-r", "200", "--arrivals", "gamma:2", "-d", "4s", "--driver", driver];
        one_of_a_few(&load, |all| {
            assert!((720..880).contains(&all.len()), "{} requests", all.len());
            within_chance(gaps(&all), |gap| {
                let x = gap * 200.0 * 2.0;
                1.0 - (-x).exp() * (1.0 + x)
            })
        });
    }
}

#[test]
fn p07_uniform_inter_arrival_times_are_uniform() {
    let _alone = alone();
    for driver in drivers() {
        let load = ["--arrivals", "uniform:2ms:8ms", "-d", "4s", "--driver", driver];
        one_of_a_few(&load, |all| {
            within_chance(gaps(&all), |gap| ((gap - 0.002) / 0.006).clamp(0.0, 1.0))
        });
    }
}

/// The inter-arrival time is constant, so any jitter fails a test of distributions. Instead, the
/// arrival times must be close to a grid with the requested spacing.
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

/// P16: with timers of 1 ms, half of the sends at random times would be at least 0.5 ms late. (On
/// an idle core, nearly all sends are within 50 us. Here, other processes can make sends late, but
/// never early.)
#[test]
fn p16_sends_are_punctual_and_the_send_lag_is_reported() {
    let _alone = alone();
    for driver in drivers() {
        let server = Serve::start(&[]);
        let load = ["-r", "250", "--arrivals", "poisson", "-n", "250", "-t", "1", "-c", "20"];
        let more = ["--warmup", "100ms", "--driver", driver, &server.url("/")];
        let mut lags = Vec::new();
        while lags.len() < 5 && !lags.iter().any(|&p50| p50 < 0.25) {
            let report = measure(&[&load[..], &more].concat());
            let [p50, p95, max] = ["p50", "p95", "max"].map(|q| report.ms("send_lag", q));
            assert!(p50 <= p95 && p95 <= max, "{p50}, {p95}, {max}");
            lags.push(p50);
        }
        assert!(lags.iter().any(|&p50| p50 < 0.25), "{driver}: half are late by {lags:?} ms");
    }
}

/// Requires that the earliest of each quarter of the times lie on one grid within 150 us (a drift
/// of 0.007 %), and a quarter of all times within 100 us of that grid. A busy machine sends late,
/// never early, so its late sends change neither. A schedule that counts from the last send, which
/// is some microseconds late, fails, as does one that goes on from a late send.
fn on_the_grid(times: &[f64], gap: f64) -> Result<(), String> {
    let late: Vec<f64> = times.iter().enumerate().map(|(k, t)| t - k as f64 * gap).collect();
    let quarters = late.chunks(times.len().div_ceil(4));
    let earliest = sorted(quarters.map(|quarter| sorted(quarter.iter().copied())[0]));
    let drift = earliest[earliest.len() - 1] - earliest[0];
    let off = sorted(late.iter().copied())[late.len() / 4] - earliest[0];
    if drift < 150e-6 && off < 100e-6 {
        Ok(())
    } else {
        Err(format!("the grid drifts by {drift} s; a quarter is late by at most {off} s"))
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

#[test]
fn detects_times_off_the_grid() {
    const GAP: f64 = 0.005;
    let lag = |k: u32| 3e-6 + f64::from(k * 7_919 % 1_000) * 5e-8;
    let with = |gap: f64| (0..600).map(move |k| f64::from(k) * gap + lag(k));
    let on_time: Vec<f64> = with(GAP).collect();
    // A busy machine: three fifths of the requests late by 2 ms, and a stall of 0.4 s, after which
    // what was due is sent at once.
    let some_late = with(GAP).enumerate().map(|(k, t)| if k % 5 < 3 { t + 2e-3 } else { t });
    let stalled = with(GAP).map(|t| if (1.0..1.4).contains(&t) { 1.4 } else { t });
    for right in [on_time.clone(), some_late.collect(), stalled.collect()] {
        assert_eq!(on_the_grid(&right, GAP), Ok(()));
    }
    // A spacing that is 1 us too long, times rounded to milliseconds, times that count from the
    // last send, or from one that was 2 ms late, and random times around the grid.
    let drifts: Vec<f64> = with(GAP + 1e-6).collect();
    let coarse: Vec<f64> = with(0.0052).map(|t| (t * 1e3).round() / 1e3).collect();
    let mut last = 0.0;
    let from_last = (0..600).map(|k| {
        last += GAP + lag(k);
        last
    });
    let from_late = on_time.iter().map(|t| if *t > 1.5 { t + 2e-3 } else { *t });
    let random = with(GAP).zip(0_u32..).map(|(t, k)| t + f64::from(k * 7_919 % 1_000) * 1e-6);
    for wrong in [drifts, coarse, from_last.collect(), from_late.collect(), random.collect()] {
        assert!(on_the_grid(&wrong, GAP).is_err());
    }
}
