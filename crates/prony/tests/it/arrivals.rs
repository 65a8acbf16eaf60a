//! P7: requests are due at times of the requested distribution, and the server gets each of them
//! between the moments at which the client says that it was sent and answered. How late a machine
//! sends them depends on its other load. Where there is none, in a virtual machine, `cargo xtask
//! truth` measures it.

use crate::rig::{alone, drivers};
use crate::sides::Both;

/// A load of one thread with these arrivals, on this driver.
fn run(load: &[&str], driver: &str) -> Both {
    let both = Both::measure(|url| {
        let more = ["--warmup", "200ms", "-c", "20", "-t", "1", "--seed", "3", "--driver", driver];
        load.iter().chain(&more).map(|word| (*word).to_owned()).chain([url.to_owned()]).collect()
    });
    both.agree().unwrap_or_else(|why| panic!("{driver} {load:?}: {why}"));
    assert_eq!(both.intended().len() as u64, both.report.count("started"), "{driver} {load:?}");
    both
}

/// The times between due requests, in seconds.
fn gaps(both: &Both) -> Vec<f64> {
    both.intended().windows(2).map(|w| (w[1] - w[0]) as f64 / 1e9).collect()
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

/// Tests at the 0.1 % level. The seed is fixed, so the answer is the same each time.
fn have_the_distribution(load: &[&str], cdf: impl Fn(f64) -> f64) {
    let _alone = alone();
    for driver in drivers() {
        let sample = gaps(&run(load, driver));
        assert!((650..950).contains(&sample.len()), "{} requests", sample.len());
        let n = sample.len() as f64;
        let (found, limit) = (distance(sample, &cdf), 1.95 / n.sqrt());
        assert!(found < limit, "{driver} {load:?}: distance {found}, limit {limit}");
    }
}

#[test]
fn p07_poisson_inter_arrival_times_are_exponential() {
    let load = ["-r", "200", "--arrivals", "poisson", "-d", "4s"];
    have_the_distribution(&load, |gap| 1.0 - (-gap * 200.0).exp());
}

/// With the shape 2, the distribution function has a closed form (Erlang's).
#[test]
fn p07_gamma_inter_arrival_times_are_those_of_the_shape() {
    let load = ["-r", "200", "--arrivals", "gamma:2", "-d", "4s"];
    have_the_distribution(&load, |gap| {
        let x = gap * 200.0 * 2.0;
        1.0 - (-x).exp() * (1.0 + x)
    });
}

#[test]
fn p07_uniform_inter_arrival_times_are_uniform() {
    let load = ["--arrivals", "uniform:2ms:8ms", "-d", "4s"];
    have_the_distribution(&load, |gap| ((gap - 0.002) / 0.006).clamp(0.0, 1.0));
}

#[test]
fn p07_fixed_arrivals_lie_on_a_grid_that_does_not_drift() {
    let _alone = alone();
    for driver in drivers() {
        let intended = run(&["-r", "200", "-d", "3s"], driver).intended();
        assert_eq!(intended.len(), 600, "{driver}");
        for (k, at) in intended.iter().enumerate() {
            let off = at.abs_diff(intended[0] + k as u64 * 5_000_000);
            assert!(off <= 1, "{driver}: request {k} is off the grid by {off} ns");
        }
    }
}

/// P16: what the report says of late sends agrees with the stamps of all requests. These may also
/// have waited for a connection, which is no send lag, but in the response time, too.
#[test]
fn p16_the_send_lag_is_reported() {
    let _alone = alone();
    for driver in drivers() {
        let both = run(&["-r", "250", "--arrivals", "poisson", "-n", "250"], driver);
        let measured = both.client.iter().filter(|s| !s.is_warmup);
        let mut waits: Vec<f64> = measured.map(|s| (s.sent - s.intended) as f64 / 1e6).collect();
        waits.sort_unstable_by(f64::total_cmp);
        for (figure, q) in [("p50", 0.5_f64), ("p95", 0.95), ("max", 1.0)] {
            // Of a histogram: within the width of a bin, or of the next rank.
            let rank = (q * waits.len() as f64).ceil() as usize;
            let most = waits[rank.min(waits.len() - 1)];
            let lag = both.report.ms("send_lag", figure);
            assert!(lag <= most * 1.001 + 1e-6, "{driver}, {figure}: {lag} ms of {most}");
        }
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        let between = both.report.ms("response", "mean") - both.report.ms("service", "mean");
        assert!((between - mean).abs() <= mean * 1e-3 + 1e-5, "{driver}: {between} ms of {mean}");
    }
}
