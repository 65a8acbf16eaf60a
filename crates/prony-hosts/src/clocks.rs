//! The offset of a worker's wall clock from the driver's, by Cristian's method: of several round
//! trips, the fastest is used, and the worker's clock is compared with its midpoint.

use prony_base::units::Span;
use prony_stats::summary::ClockOffset;

/// The fastest round trip so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Samples {
    fastest: Option<Sample>,
    slowest: Span,
    /// The number of round trips.
    pub count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    round_trip: u64,
    offset_ns: i64,
}

impl Samples {
    /// Add a ping that was sent and answered at these times of the driver's clock; the worker's
    /// clock showed `worker` in between. All in nanoseconds since 1970.
    pub fn add(&mut self, sent: u64, worker: u64, answered: u64) {
        let round_trip = answered.saturating_sub(sent);
        let middle = sent + round_trip / 2;
        let offset_ns = (i128::from(worker) - i128::from(middle))
            .clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        self.count += 1;
        self.slowest = self.slowest.max(Span(round_trip));
        if self.fastest.is_none_or(|fastest| round_trip < fastest.round_trip) {
            self.fastest = Some(Sample { round_trip, offset_ns });
        }
    }

    /// The slowest round trip.
    pub fn slowest(&self) -> Span {
        self.slowest
    }

    /// The worker's clock minus the driver's, and the bound of the error.
    pub fn offset(&self) -> Option<ClockOffset> {
        self.fastest.map(|fastest| ClockOffset {
            offset_ns: fastest.offset_ns,
            bound: Span(fastest.round_trip.div_ceil(2)),
            drift_ns: None,
        })
    }
}

/// Convert an instant of the driver's clock to a worker's clock.
pub fn translated(unix_ns: u64, offset_ns: i64) -> u64 {
    unix_ns.saturating_add_signed(offset_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_round_trip_counts() {
        let mut samples = Samples::default();
        assert_eq!(samples.offset(), None);
        // The worker is 5,000 ahead. The request of the first ping is slow.
        samples.add(1_000, 6_900, 2_000);
        samples.add(3_000, 8_050, 3_101);
        samples.add(4_000, 9_400, 4_500);
        let offset = samples.offset().expect("three");
        assert_eq!((offset.offset_ns, offset.bound), (5_000, Span(51)));
        assert_eq!((samples.slowest(), samples.count), (Span(1_000), 3));
    }

    #[test]
    fn the_true_offset_is_within_the_bound() {
        // The error is at most half of the round trip, however the two directions share it.
        for (there, back) in [(0, 90), (90, 0), (30, 60), (45, 45)] {
            for true_offset in [-7_000_i64, 0, 123_456] {
                let mut samples = Samples::default();
                let at_worker = (1_000_000_i64 + there + true_offset) as u64;
                samples.add(1_000_000, at_worker, (1_000_000 + there + back) as u64);
                let found = samples.offset().expect("one");
                let error = (found.offset_ns - true_offset).unsigned_abs();
                assert!(error <= found.bound.0, "{there} {back}: {error} > {}", found.bound.0);
            }
        }
        assert_eq!((translated(1_000, -400), translated(1_000, 400)), (600, 1_400));
    }
}
