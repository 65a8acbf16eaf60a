//! P7: the gaps between arrivals, as the server sees them, are of the law that was asked for.

use std::fs;

use tempfile::TempDir;

use crate::rig::{Serve, alone, drivers, measure};

/// The gaps in seconds that a server saw under a load.
fn gaps(load: &[&str]) -> Vec<f64> {
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
    let times = &times[times.len() - measured..];
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
        match holds(gaps(load)) {
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
fn poisson_gaps_are_exponential() {
    let _alone = alone();
    for driver in drivers() {
        let load = ["-r", "200", "--arrivals", "poisson", "-d", "4s", "--driver", driver];
        one_of_a_few(&load, |all| {
            assert!((700..900).contains(&all.len()), "{} gaps", all.len());
            within_chance(all, |gap| 1.0 - (-gap * 200.0).exp())
        });
    }
}

#[test]
fn fixed_gaps_are_even() {
    let _alone = alone();
    for driver in drivers() {
        one_of_a_few(&["-r", "200", "-d", "3s", "--driver", driver], |all| {
            assert_eq!(all.len(), 599);
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            assert!((mean / 0.005 - 1.0).abs() < 0.02, "{driver}: mean {mean}");
            // The law is a point, of which a test of distributions can say nothing.
            let mut off: Vec<f64> = all.iter().map(|gap| (gap - 0.005).abs()).collect();
            off.sort_unstable_by(f64::total_cmp);
            let (p50, p90) = (off[off.len() / 2], off[off.len() * 9 / 10]);
            if p50 < 1e-4 && p90 < 1e-3 { Ok(()) } else { Err(format!("off by {p50}, {p90}")) }
        });
    }
}

#[test]
fn uniform_gaps_are_uniform() {
    let _alone = alone();
    one_of_a_few(&["--arrivals", "uniform:2ms..8ms", "-d", "4s"], |all| {
        within_chance(all, |gap| ((gap - 0.002) / 0.006).clamp(0.0, 1.0))
    });
}
