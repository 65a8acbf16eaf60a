//! A histogram that is cheap to update, for what is recorded with every request.

use super::{Hist, TIME_MAX, no_bins};
use crate::units::Span;

/// Each power of two has 2^10 bins, as in [`Hist`].
const BITS: u32 = 10;
/// The number of bins of [`Hist`]: for all times below 2^42 ns. Longer times count as
/// [`TIME_MAX`].
const BINS: usize = 33 << BITS;

/// Times in the bins of a [`Hist`]. Recording one takes a sixth of the instructions, as it keeps
/// none of the figures that can be computed from the bins.
#[derive(Debug, Default)]
pub(in crate::record) struct Flat {
    bins: Option<Box<[u64; BINS]>>,
    /// The exact figures. Its bins are empty.
    exact: Hist,
}

impl Flat {
    /// Allocates the bins, so that the first time costs no more than any other.
    pub(in crate::record) fn allocate(&mut self) {
        self.bins.get_or_insert_with(zeros);
    }

    /// Record the same time `n` times.
    #[inline]
    pub(in crate::record) fn record(&mut self, t: Span, n: u64) {
        let ns = if t.0 >> 42 == 0 { t.0 } else { TIME_MAX.0 };
        let shift = (ns | ((2 << BITS) - 1)).ilog2() - BITS;
        let bin = ((shift as usize) << BITS) + (ns >> shift) as usize;
        self.bins.get_or_insert_with(zeros)[bin] += n;
        self.exact.note(t.0, n);
    }

    /// The histogram that has recorded the same times.
    pub(in crate::record) fn to_hist(&self) -> Hist {
        let mut hist = self.exact.clone();
        let Some(counts) = &self.bins else { return hist };
        let mut bins = no_bins();
        for (bin, &n) in counts.iter().enumerate().filter(|&(_, &n)| n > 0) {
            let shift = (bin >> BITS).saturating_sub(1);
            let least = ((bin - (shift << BITS)) as u64) << shift;
            bins.saturating_record_n(least, n);
        }
        hist.bins = Some(bins);
        hist
    }
}

#[cold]
fn zeros() -> Box<[u64; BINS]> {
    vec![0; BINS].into_boxed_slice().try_into().expect("the length is the same")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_histogram_of_the_same_times() {
        let mut times = vec![0, 1, 3_600_000_000_000, u64::MAX >> 20, u64::MAX >> 22];
        for power in 1..43 {
            times.extend([(1 << power) - 1, 1 << power, (1 << power) + 1, (5 << power) / 4 + 3]);
        }
        // From no time to all of them, so that the longest is in every bin once.
        times.sort_unstable();
        let (mut flat, mut hist) = (Flat::default(), Hist::new());
        assert!(flat.to_hist() == hist);
        for (i, ns) in times.into_iter().enumerate() {
            let (t, n) = (Span(ns), [1, 3][i % 2]);
            flat.record(t, n);
            hist.record_n(t, n);
            let same = flat.to_hist();
            assert!(same == hist, "{t:?}");
            assert_eq!(same.quantile(1.0), hist.quantile(1.0));
            assert_eq!(same.bins().max(), hist.bins().max(), "{t:?}");
        }
    }

    #[test]
    fn allocated_bins_are_empty() {
        let mut flat = Flat::default();
        flat.allocate();
        assert!(flat.to_hist().is_empty());
    }
}
