//! The figures that a comparison is about, and their values in one block.

use std::fmt;
use std::str::FromStr;

use prony_base::units::Span;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use crate::summary::{Certain, Summary};

/// A figure of a block of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// The mean response time.
    Mean,
    /// A percentile of the response time, above 0 and below 100.
    Percentile(f64),
    /// The completed rate.
    Rate,
    /// The share of failed requests.
    Errors,
    /// CPU time of the server's processes per request.
    Cpu,
    /// The distribution of the response times as a whole.
    Distribution,
}

/// The quantiles by which distributions are compared.
pub const GRID: [f64; 19] = [
    0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85,
    0.9, 0.95,
];

/// The shortest block of load if nothing else says how long it is, and the longest.
const BLOCK_MIN: Span = Span::from_secs(1);
const BLOCK_MAX: Span = Span::from_secs(2);
/// A percentile that needs more requests than this (p99) does not make blocks longer.
const POOLED_ABOVE: u64 = 1_000;

impl Figure {
    /// The figures of a comparison unless others are asked for; the CPU time only where it is
    /// known.
    pub const USUAL: [Self; 8] = [
        Self::Mean,
        Self::Percentile(50.0),
        Self::Percentile(90.0),
        Self::Percentile(99.0),
        Self::Percentile(99.9),
        Self::Rate,
        Self::Errors,
        Self::Distribution,
    ];

    /// Whether values are compared by their ratio; a share is compared by its difference.
    pub fn is_ratio(self) -> bool {
        self != Self::Errors
    }

    /// Whether it is a time.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Mean | Self::Percentile(_) | Self::Cpu | Self::Distribution)
    }

    /// The number of requests that a block needs for it.
    pub fn samples_needed(self) -> u64 {
        match self {
            Self::Percentile(p) => Hist::samples_needed(p / 100.0),
            Self::Distribution => Hist::samples_needed(GRID[0]),
            Self::Mean | Self::Rate | Self::Errors | Self::Cpu => 1,
        }
    }
}

/// How long a block lasts if nothing else says so: as long as a load with this rate (per second)
/// needs for the requests of the figures, from one second to two; two if the rate is not known.
/// Percentiles that need more requests have theirs from several rounds.
pub fn block_length(figures: &[Figure], rate: Option<f64>) -> Span {
    let needs = figures.iter().map(|f| f.samples_needed()).filter(|&n| n <= POOLED_ABOVE).max();
    // Poisson arrivals can be that many fewer.
    let needs = needs.unwrap_or(POOLED_ABOVE) as f64 * 1.2;
    let seconds = rate.filter(|rate| *rate > 0.0).map_or(f64::INFINITY, |rate| needs / rate);
    Span::from_secs_f64(seconds.clamp(BLOCK_MIN.as_secs_f64(), BLOCK_MAX.as_secs_f64()))
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Percentile(p) => write!(f, "p{p}"),
            Self::Rate => f.write_str("rate"),
            Self::Errors => f.write_str("errors"),
            Self::Cpu => f.write_str("cpu"),
            Self::Distribution => f.write_str("distribution"),
        }
    }
}

impl FromStr for Figure {
    type Err = String;

    /// # Errors
    /// One sentence with the names that there are.
    fn from_str(text: &str) -> Result<Self, String> {
        let percentile = || {
            let number = text.strip_prefix('p')?.parse::<f64>().ok();
            number.filter(|&p| p > 0.0 && p < 100.0).map(Self::Percentile)
        };
        match text {
            "mean" => Ok(Self::Mean),
            "rate" => Ok(Self::Rate),
            "errors" => Ok(Self::Errors),
            "cpu" => Ok(Self::Cpu),
            "distribution" => Ok(Self::Distribution),
            _ => percentile().ok_or_else(|| {
                format!(
                    "there is no figure '{text}'; write mean, a percentile such as p99, rate, \
                     errors, cpu or distribution"
                )
            }),
        }
    }
}

/// What was measured in one block.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The response times.
    pub response: &'a Hist,
    /// The completed rate, per second.
    pub rate: f64,
    /// Requests that ended.
    pub ended: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// CPU time of the server's processes over the block, in nanoseconds; `None` where unknown.
    pub cpu_ns: Option<f64>,
    /// What is certain of it if the meter disturbed the block.
    pub certain: Option<Certain<'a>>,
}

impl<'a> Measured<'a> {
    /// The figures of a block's measurement.
    pub fn of(tally: &'a Tally, cpu_ns: Option<f64>) -> Self {
        Self {
            response: &tally.times.response,
            rate: tally.rate(),
            ended: tally.replies + tally.failed,
            failed: tally.failed,
            cpu_ns,
            certain: None,
        }
    }

    /// The same of a whole run, with what is certain if its meter disturbed it.
    pub fn of_run(run: &'a Summary, cpu_ns: Option<f64>) -> Self {
        Self { certain: run.certain(), ..Self::of(&run.main, cpu_ns) }
    }

    /// The value of a figure, in nanoseconds, per second or as a share; `None` where the block has
    /// none, or too few requests for it.
    pub fn value(&self, figure: Figure) -> Option<f64> {
        let positive = |v: f64| (v > 0.0).then_some(v);
        match figure {
            Figure::Mean => self.response.mean_ns().and_then(positive),
            Figure::Percentile(p) => {
                self.response.quantile(p / 100.0).map(|t| t.0 as f64).and_then(positive)
            }
            Figure::Rate => positive(self.rate),
            Figure::Errors => (self.ended > 0).then(|| self.failed as f64 / self.ended as f64),
            Figure::Cpu => {
                let ended = (self.ended > 0).then_some(self.ended as f64)?;
                positive(self.cpu_ns? / ended)
            }
            Figure::Distribution => None,
        }
    }

    /// The logarithms of the quantiles of [`GRID`]; `None` where the block has too few requests.
    pub fn grid(&self) -> Option<Vec<f64>> {
        let log = |q: f64| {
            let time = self.response.quantile(q)?;
            Some(libm::log(time.0.max(1) as f64))
        };
        GRID.into_iter().map(log).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_back_as_they_are_written() {
        for text in ["mean", "p50", "p99.9", "rate", "errors", "cpu", "distribution"] {
            assert_eq!(text.parse::<Figure>().expect(text).to_string(), text);
        }
        for text in ["p0", "p100", "p", "p9x", "P99", "median", ""] {
            let why = text.parse::<Figure>().expect_err(text);
            assert!(why.starts_with(&format!("there is no figure '{text}'")), "{why}");
        }
    }

    #[test]
    fn a_block_is_as_long_as_its_figures_need() {
        let of = |names: &str, rate: Option<f64>| {
            let figures = names.split(' ').map(|name| name.parse().expect(name));
            block_length(&figures.collect::<Vec<Figure>>(), rate).0 / 1_000_000
        };
        assert_eq!(of("p50", Some(200.0)), 1_000);
        assert_eq!(of("p50 p99", Some(2_000.0)), 1_000);
        assert_eq!(of("p50 p99", Some(800.0)), 1_500);
        assert_eq!(of("p50 p99", Some(200.0)), 2_000);
        assert_eq!(of("p90 p99.9", Some(1e4)), 1_000, "several rounds have its requests");
        assert_eq!(of("mean rate", Some(50.0)), 1_000);
        assert_eq!(of("p50", None), 2_000);
        assert_eq!(of("p50", Some(0.0)), 2_000);
    }

    #[test]
    fn a_block_has_only_the_figures_that_it_can_support() {
        let mut response = Hist::new();
        (1..=999).for_each(|us| response.record(Span::from_micros(us)));
        let of = |response: &Hist, failed, cpu_ns| {
            let (rate, ended) = (5.0, 1_000);
            let measured = Measured { response, rate, ended, failed, cpu_ns, certain: None };
            ["mean", "p50", "p99", "rate", "errors", "cpu", "distribution"]
                .map(|name| measured.value(name.parse().expect(name)))
        };
        let few = of(&response, 3, None);
        assert_eq!(few[0], Some(5e5));
        assert!(few[1].is_some_and(|ns| (ns / 5e5 - 1.0).abs() < 2e-3), "{few:?}");
        assert_eq!(few[2..], [None, Some(5.0), Some(0.003), None, None], "999 carry no p99");
        response.record(Span::from_micros(1_000));
        assert!(of(&response, 0, Some(2e6))[2].is_some());
        assert_eq!(of(&response, 0, Some(2e6))[5], Some(2e3));
        assert_eq!(of(&Hist::new(), 0, None)[0], None);
    }
}
