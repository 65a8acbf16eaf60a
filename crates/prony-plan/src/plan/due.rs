//! How many requests are due in a part of a run.

use super::{Load, Plan};
use crate::rate::Arrivals;
use prony_base::units::Span;

impl Plan {
    /// The number of requests that are due in a part of the measurement: exact for a trace,
    /// otherwise expected. `None` if the plan has no rate of requests.
    pub fn due(&self, at: Span, length: Span) -> Option<f64> {
        if self.sessions.is_some() {
            return None;
        }
        let Load::Open { rate, arrivals, .. } = &self.load else { return None };
        let until = at + length;
        let due = match arrivals {
            Arrivals::Fixed | Arrivals::Poisson | Arrivals::Gamma(_) => {
                rate.arrivals_until(until) - rate.arrivals_until(at)
            }
            Arrivals::Uniform(low, high) => {
                let gap = (*low + *high).as_secs_f64() / 2.0;
                length.as_secs_f64() / gap
            }
            Arrivals::Trace(times) => {
                let before = |end: Span| times.partition_point(|&time| time < end);
                (before(until) - before(at)) as f64
            }
            Arrivals::Log => return None,
        };
        Some(due).filter(|due| due.is_finite())
    }
}
