//! The laws of arrival as streams of times since the start of their section.

use std::sync::Arc;

use crate::rate::{Arrivals, Inverse, RatePlan};
use crate::rng::{ExponentialSum, Sequence, Stream};
use crate::units::Span;

#[derive(Clone, Debug)]
pub(super) enum Law {
    /// No arrivals.
    Silent,
    Fixed {
        clock: Inverse,
        /// The number of the next arrival.
        ordinal: u64,
    },
    Poisson {
        clock: Inverse,
        /// Where the integral of the rate was at the last arrival: a sum of exponential draws with
        /// mean 1.
        integral: ExponentialSum,
    },
    Uniform {
        low: Span,
        high: Span,
        last: Span,
        draws: Sequence,
    },
    Trace {
        times: Arc<[Span]>,
        ordinal: u64,
    },
}

impl Law {
    /// The laws of the warm-up and of the measurement.
    pub(super) fn of(rate: &RatePlan, arrivals: &Arrivals, seed: u64) -> (Self, Self) {
        let law = |rate: &RatePlan, stream| match arrivals {
            Arrivals::Fixed => Self::Fixed { clock: Inverse::new(rate), ordinal: 0 },
            Arrivals::Poisson => Self::Poisson {
                clock: Inverse::new(rate),
                integral: ExponentialSum::new(Sequence::new(seed, stream)),
            },
            &Arrivals::Uniform(low, high) => {
                Self::Uniform { low, high, last: Span::ZERO, draws: Sequence::new(seed, stream) }
            }
            Arrivals::Trace(times) => Self::Trace { times: Arc::clone(times), ordinal: 0 },
        };
        let warmup = match arrivals {
            Arrivals::Trace(_) => Self::Silent,
            _ => law(&RatePlan::constant(rate.initial()), Stream::Warmup),
        };
        (warmup, law(rate, Stream::Arrivals))
    }

    /// Carry on by another rate. The time of the arrival that was given last, by that rate; `None`
    /// where it never comes. Only laws that have a rate.
    pub(super) fn turn(&mut self, rate: &RatePlan) -> Option<Span> {
        match self {
            Self::Fixed { clock, ordinal } => {
                *clock = Inverse::new(rate);
                clock.at(ordinal.saturating_sub(1) as f64)
            }
            Self::Poisson { clock, integral } => {
                *clock = Inverse::new(rate);
                clock.at(integral.value())
            }
            Self::Silent | Self::Uniform { .. } | Self::Trace { .. } => None,
        }
    }

    /// Pass over `others` arrivals and give the time of the one that follows; `None` where there is
    /// none.
    #[inline]
    pub(super) fn next(&mut self, others: u64) -> Option<Span> {
        match self {
            Self::Silent => None,
            Self::Fixed { clock, ordinal } => {
                let own = *ordinal + others;
                *ordinal = own + 1;
                clock.at(own as f64)
            }
            Self::Poisson { clock, integral } => {
                integral.draw(others + 1);
                clock.at(integral.value())
            }
            Self::Uniform { low, high, last, draws } => {
                for _ in 0..=others {
                    *last += draws.uniform(*low, *high);
                }
                Some(*last)
            }
            Self::Trace { times, ordinal } => {
                let own = *ordinal + others;
                *ordinal = own + 1;
                times.get(usize::try_from(own).ok()?).copied()
            }
        }
    }
}
