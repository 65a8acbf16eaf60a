//! Arrival processes, as streams of times since the start of their phase (warm-up or measurement).

use std::sync::Arc;

use crate::rate::{Arrivals, Inverse, RatePlan};
use prony_base::rng::{ExponentialSum, GammaSum, Sequence, Stream};
use prony_base::units::Span;

#[derive(Clone, Debug)]
pub(crate) enum ArrivalProcess {
    /// No arrivals.
    None,
    Fixed {
        clock: Inverse,
        /// The index of the next arrival.
        next: u64,
    },
    Poisson {
        clock: Inverse,
        /// The integral of the rate at the last arrival: a sum of exponential draws with mean 1.
        integral: ExponentialSum,
    },
    Gamma {
        clock: Inverse,
        /// The integral of the rate at the last arrival: a sum of gamma draws with mean 1.
        integral: GammaSum,
    },
    Uniform {
        low: Span,
        high: Span,
        last: Span,
        draws: Sequence,
    },
    Trace {
        times: Arc<[Span]>,
        next: u64,
    },
}

impl ArrivalProcess {
    /// The processes of the warm-up and of the measurement.
    pub(super) fn pair(rate: &RatePlan, arrivals: &Arrivals, seed: u64) -> (Self, Self) {
        let process =
            |rate: &RatePlan, stream| Self::new(rate, arrivals, Sequence::new(seed, stream));
        let warmup = match arrivals {
            Arrivals::Trace(_) => Self::None,
            _ => process(&RatePlan::constant(rate.initial()), Stream::Warmup),
        };
        (warmup, process(rate, Stream::Arrivals))
    }

    /// The process with this rate, from these draws.
    pub(crate) fn new(rate: &RatePlan, arrivals: &Arrivals, draws: Sequence) -> Self {
        match arrivals {
            Arrivals::Fixed => Self::Fixed { clock: Inverse::new(rate), next: 0 },
            &Arrivals::Gamma(shape) if shape != 1.0 => {
                Self::Gamma { clock: Inverse::new(rate), integral: GammaSum::new(draws, shape) }
            }
            Arrivals::Poisson | Arrivals::Gamma(_) => {
                Self::Poisson { clock: Inverse::new(rate), integral: ExponentialSum::new(draws) }
            }
            &Arrivals::Uniform(low, high) => Self::Uniform { low, high, last: Span::ZERO, draws },
            Arrivals::Trace(times) => Self::Trace { times: Arc::clone(times), next: 0 },
            // Its requests come from a feed.
            Arrivals::Log => Self::None,
        }
    }

    /// Continue with another rate. Return the time that the latest arrival has under this rate, or
    /// `None` if the rate never gets there or the process has no rate.
    pub(super) fn set_rate(&mut self, rate: &RatePlan) -> Option<Span> {
        match self {
            Self::Fixed { clock, next } => {
                *clock = Inverse::new(rate);
                clock.at(next.saturating_sub(1) as f64)
            }
            Self::Poisson { clock, integral } => {
                *clock = Inverse::new(rate);
                clock.at(integral.value())
            }
            Self::Gamma { clock, integral } => {
                *clock = Inverse::new(rate);
                clock.at(integral.value())
            }
            Self::None | Self::Uniform { .. } | Self::Trace { .. } => None,
        }
    }

    /// Skip `others` arrivals and return the time of the following one, if there is one.
    #[inline]
    pub(crate) fn next(&mut self, others: u64) -> Option<Span> {
        match self {
            Self::None => None,
            Self::Fixed { clock, next } => {
                let own = *next + others;
                *next = own + 1;
                clock.at(own as f64)
            }
            Self::Poisson { clock, integral } => {
                integral.draw(others + 1);
                clock.at(integral.value())
            }
            Self::Gamma { clock, integral } => {
                integral.draw(others + 1);
                clock.at(integral.value())
            }
            Self::Uniform { low, high, last, draws } => {
                for _ in 0..=others {
                    *last += draws.uniform(*low, *high);
                }
                Some(*last)
            }
            Self::Trace { times, next } => {
                let own = *next + others;
                *next = own + 1;
                times.get(usize::try_from(own).ok()?).copied()
            }
        }
    }
}
