//! The statistics of a row of h2load's report, and how it prints numbers.

use prony_base::units::Span;
use prony_tally::record::hist::Hist;

/// A row: its samples' extremes, quantiles and spread. All zero without samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) count: u64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) median: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) mean: f64,
    /// The standard deviation of a sample.
    pub(super) sd: f64,
    /// The share of samples within one deviation of the mean, in percent.
    pub(super) within: f64,
    /// How many samples lie in each tenth of the range.
    pub(super) tenths: [u64; TENTHS],
}

pub(super) const TENTHS: usize = 10;

impl Row {
    /// Of these samples.
    pub(super) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let n = samples.len();
        let (Some(&min), Some(&max)) = (samples.first(), samples.last()) else {
            return Self::default();
        };
        let mean = samples.iter().sum::<f64>() / n as f64;
        let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
        let sd = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let inside = samples.iter().filter(|&&x| mean - sd <= x && x <= mean + sd).count();
        let mut tenths = [0; TENTHS];
        for &x in &samples {
            tenths[tenth(x, min, max)] += 1;
        }
        Self {
            count: n as u64,
            min,
            max,
            median: (samples[(n - 1) / 2] + samples[n / 2]) / 2.0,
            p95: samples[rank(n as u64, 0.95) as usize],
            p99: samples[rank(n as u64, 0.99) as usize],
            mean,
            sd,
            within: percent(inside as u64, n as u64),
            tenths,
        }
    }

    /// Of a histogram of times; in seconds.
    pub(super) fn of_times(h: &Hist) -> Self {
        let n = h.count();
        let (Some(min), Some(max)) = (h.min(), h.max()) else { return Self::default() };
        let (min, max) = (min.as_secs_f64(), max.as_secs_f64());
        let seconds = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e9;
        let mean = seconds(h.mean_ns());
        // The histogram has the deviation of a population.
        let sd =
            if n > 1 { seconds(h.stdev_ns()) * (n as f64 / (n - 1) as f64).sqrt() } else { 0.0 };
        let at = |k: u64| {
            let time = h.estimate((k as f64 + 0.5) / n as f64);
            time.map_or(0.0, |t| t.as_secs_f64())
        };
        let (low, high) = ((mean - sd).max(0.0) * 1e9, (mean + sd) * 1e9);
        let mut tenths = [0; TENTHS];
        for (time, count) in h.recorded() {
            tenths[tenth(time.0 as f64 / 1e9, min, max)] += count;
        }
        Self {
            count: n,
            min,
            max,
            median: (at((n - 1) / 2) + at(n / 2)) / 2.0,
            p95: at(rank(n, 0.95)),
            p99: at(rank(n, 0.99)),
            mean,
            sd,
            within: percent(h.count_between(Span(low as u64), Span(high as u64)).min(n), n),
            tenths,
        }
    }
}

/// Which sample, in ascending order from 0, h2load takes for a quantile.
fn rank(n: u64, q: f64) -> u64 {
    ((n as f64 * q) as u64).min(n - 1)
}

fn tenth(x: f64, min: f64, max: f64) -> usize {
    let at = (x - min) / (max - min) * TENTHS as f64;
    if at.is_finite() { (at.max(0.0) as usize).min(TENTHS - 1) } else { 0 }
}

fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 * 100.0 / all as f64 }
}

/// A time: whole microseconds below 1 ms, then milliseconds or seconds with two decimals.
pub(super) fn time(seconds: f64) -> String {
    let us = (seconds * 1e6) as u64;
    match us {
        0..1_000 => format!("{us}us"),
        1_000..1_000_000 => format!("{:.2}ms", us as f64 / 1e3),
        _ => format!("{:.2}s", us as f64 / 1e6),
    }
}

/// Bytes: a whole number below 1 KB, then with two decimals (powers of 1024).
pub(super) fn bytes(n: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("G", 1_073_741_824.0), ("M", 1_048_576.0), ("K", 1_024.0)];
    let n = n as f64;
    match UNITS.iter().find(|(_, size)| n >= *size) {
        Some((unit, size)) => format!("{:.2}{unit}B", n / size),
        None => format!("{n:.0}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_base::units::Span;

    #[test]
    fn numbers_as_h2load_prints_them() {
        for (seconds, text) in [
            (0.0, "0us"),
            (4.5768e-05, "45us"),
            (0.000_372_754, "372us"),
            (0.002_529, "2.53ms"),
            (0.407_12, "407.12ms"),
            (1.002_048, "1.00s"),
        ] {
            assert_eq!(time(seconds), text);
        }
        for (n, text) in [
            (0, "0B"),
            (610, "610B"),
            (1_220, "1.19KB"),
            (482_404, "471.10KB"),
            (2_916_846, "2.78MB"),
            (5 << 30, "5.00GB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    /// Samples and figures of a run of h2load 1.70 (`--output-file`).
    #[test]
    fn statistics_as_h2load_computes_them() {
        let row = Row::of(vec![9.6113e-05, 0.000_135_441, 0.000_164_855, 0.000_262_48]);
        assert_eq!((row.min, row.max), (9.6113e-05, 0.000_262_48));
        assert!((row.median - 0.000_150_148).abs() < 1e-12);
        assert_eq!((row.p95, row.p99), (0.000_262_48, 0.000_262_48));
        assert!((row.mean - 0.000_164_722_25).abs() < 1e-12);
        assert!((row.sd - 7.099_581_23e-05).abs() < 1e-12);
        assert_eq!(row.within, 75.0);
        assert_eq!(row.tenths, [1, 0, 1, 0, 1, 0, 0, 0, 0, 1]);
        assert_eq!(Row::of(vec![]), Row::default());
        let same = Row::of(vec![2.0]);
        assert_eq!((same.mean, same.sd, same.within, same.median), (2.0, 0.0, 100.0, 2.0));
    }

    #[test]
    fn a_histogram_gives_the_statistics_of_its_samples() {
        let us = [
            45, 46, 62, 63, 64, 69, 70, 80, 81, 83, 84, 136, 357, 358, 360, 361, 363, 364, 372, 373,
        ];
        let mut h = Hist::new();
        us.iter().for_each(|&us| h.record(Span::from_micros(us)));
        let exact = Row::of(us.iter().map(|&us| us as f64 / 1e6).collect());
        let row = Row::of_times(&h);
        assert_eq!((row.count, row.tenths, row.within), (20, exact.tenths, exact.within));
        for (ours, exact) in [
            (row.min, exact.min),
            (row.max, exact.max),
            (row.median, exact.median),
            (row.p95, exact.p95),
            (row.p99, exact.p99),
            (row.mean, exact.mean),
            (row.sd, exact.sd),
        ] {
            assert!((ours / exact - 1.0).abs() < 0.001, "{ours} {exact}");
        }
        assert_eq!(Row::of_times(&Hist::new()), Row::default());
    }
}
