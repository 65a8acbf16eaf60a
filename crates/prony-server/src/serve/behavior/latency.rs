//! The distribution of the times of a server.

use std::fmt;
use std::str::FromStr;

use prony_base::rng;
use prony_base::units::{Distribution, Span, parse_distribution};
use serde::{Deserialize, Serialize};

use super::{BehaviorError, Share};

/// The distribution of service times.
///
/// As text: `none`, `fixed:2ms` (or just `2ms`), `exp:MEAN`, `lognormal:MEDIAN:SIGMA`,
/// `uniform:LOW:HIGH`, `bimodal:FAST:SLOW:SHARE` (the share of slow requests, as `1%` or `0.01`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Latency {
    /// Zero.
    #[default]
    None,
    /// Constant.
    Fixed(Span),
    /// Exponential with that mean.
    Exponential(Span),
    /// Log-normal: the logarithm is normal with that standard deviation.
    LogNormal {
        /// The median.
        median: Span,
        /// The standard deviation of the natural logarithm; 0 to 10.
        sigma: f64,
    },
    /// Uniform between the two bounds.
    Uniform(Span, Span),
    /// One of two values.
    Bimodal {
        /// The time of most requests.
        fast: Span,
        /// The time of the others.
        slow: Span,
        /// The share of slow requests.
        share: Share,
    },
}

impl Latency {
    /// A draw from 128 random bits.
    pub(in crate::serve) fn draw(self, bits: u64, more: u64) -> Span {
        match self {
            Self::None => Span::ZERO,
            Self::Fixed(t) => t,
            Self::Exponential(mean) => rng::exponential(bits, mean),
            Self::LogNormal { median, sigma } => {
                // Box-Muller transform. 1 - u is never 0, so the logarithm is finite.
                let radius = (-2.0 * (1.0 - rng::unit(bits)).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * rng::unit(more)).cos();
                Span::from_secs_f64(median.as_secs_f64() * (sigma * normal).exp())
            }
            Self::Uniform(lo, hi) => {
                lo + Span::from_secs_f64((hi - lo).as_secs_f64() * rng::unit(bits))
            }
            Self::Bimodal { fast, slow, share } => {
                if share.hits(bits) {
                    slow
                } else {
                    fast
                }
            }
        }
    }
}

impl FromStr for Latency {
    type Err = BehaviorError;

    fn from_str(text: &str) -> Result<Self, BehaviorError> {
        let fail =
            |why| BehaviorError { what: "latency", given: text.to_owned(), why, form: LATENCY };
        if text == "none" {
            return Ok(Self::None);
        }
        match parse_distribution(text).map_err(|why| fail(why.into()))? {
            Distribution::Fixed(time) => Ok(Self::Fixed(time)),
            Distribution::Exponential(mean) => Ok(Self::Exponential(mean)),
            Distribution::Uniform(low, high) => Ok(Self::Uniform(low, high)),
            Distribution::LogNormal(median, sigma) => {
                let sigma: f64 = sigma.parse().map_err(|_| fail("SIGMA is not a number".into()))?;
                if !(0.0..=10.0).contains(&sigma) {
                    return Err(fail("SIGMA is not between 0 and 10".into()));
                }
                Ok(Self::LogNormal { median, sigma })
            }
            Distribution::Bimodal(fast, slow, share) => {
                let share = share.parse();
                let share = share.map_err(|_| fail("SHARE is not between 0 and 1".into()))?;
                Ok(Self::Bimodal { fast, slow, share })
            }
        }
    }
}

const LATENCY: &str = "none, fixed:2ms, exp:1ms, lognormal:1ms:0.5, uniform:1ms:3ms or \
                       bimodal:1ms:100ms:1%";

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Fixed(t) => write!(f, "fixed:{t}"),
            Self::Exponential(mean) => write!(f, "exp:{mean}"),
            Self::LogNormal { median, sigma } => write!(f, "lognormal:{median}:{sigma}"),
            Self::Uniform(lo, hi) => write!(f, "uniform:{lo}:{hi}"),
            Self::Bimodal { fast, slow, share } => write!(f, "bimodal:{fast}:{slow}:{share}"),
        }
    }
}
