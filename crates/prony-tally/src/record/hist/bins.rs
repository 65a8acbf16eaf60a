//! The bins of a histogram of times, as in an HdrHistogram of three significant digits: a bin for
//! each nanosecond up to 2^11 ns, then 2^10 bins of equal width for each power of two.

use std::ops::RangeInclusive;

use super::TIME_MAX;

const BITS: u32 = 10;
/// Up to 2^42 ns, as [`TIME_MAX`] is below that. Longer times count as that.
pub(super) const BINS: usize = 33 << BITS;

/// How many times are in each bin. New bins are pages of zeros that the kernel provides when they
/// are written to: so no method goes through all of them, but only through those of a range of
/// times, in nanoseconds. Where the whole is meant, that is from the shortest to the longest.
#[derive(Debug)]
pub(super) struct Bins(Box<[u64; BINS]>);

impl Default for Bins {
    #[cold]
    fn default() -> Self {
        Self(vec![0; BINS].into_boxed_slice().try_into().expect("the length is the same"))
    }
}

/// The bin of a time in nanoseconds.
#[inline]
pub(super) fn bin_of(ns: u64) -> usize {
    let ns = ns.min(TIME_MAX.0);
    let shift = (ns | ((2 << BITS) - 1)).ilog2() - BITS;
    ((shift as usize) << BITS) + (ns >> shift) as usize
}

/// The first time of a bin.
pub(super) fn start(bin: usize) -> u64 {
    let shift = (bin >> BITS).saturating_sub(1);
    ((bin - (shift << BITS)) as u64) << shift
}

/// The first time beyond a bin.
pub(super) fn end(bin: usize) -> u64 {
    start(bin) + (1 << (bin >> BITS).saturating_sub(1))
}

impl Bins {
    #[inline]
    pub(super) fn add(&mut self, ns: u64, n: u64) {
        self.0[bin_of(ns)] += n;
    }

    pub(super) fn add_to(&mut self, bin: usize, n: u64) {
        self.0[bin] += n;
    }

    /// A copy of those of these times.
    pub(super) fn copy(&self, times: RangeInclusive<u64>) -> Self {
        let mut copy = Self::default();
        copy.merge(self, times);
        copy
    }

    /// Add those of these times in other bins.
    pub(super) fn merge(&mut self, other: &Self, times: RangeInclusive<u64>) {
        let range = range(&times);
        for (mine, n) in self.0[range.clone()].iter_mut().zip(&other.0[range]) {
            *mine += n;
        }
    }

    pub(super) fn count(&self, bin: usize) -> u64 {
        self.0[bin]
    }

    /// The counts of the bins of these times.
    pub(super) fn counts(&self, times: RangeInclusive<u64>) -> &[u64] {
        self.0.get(range(&times)).unwrap_or_default()
    }

    /// The bins that are not empty, in order, with their counts.
    pub(super) fn recorded(
        &self,
        times: RangeInclusive<u64>,
    ) -> impl Iterator<Item = (usize, u64)> {
        let first = *range(&times).start();
        let counts = self.counts(times).iter().enumerate();
        counts.filter(|&(_, &n)| n > 0).map(move |(i, &n)| (first + i, n))
    }
}

/// The last time of the bin that contains the rank, from 1, of bins in order.
pub(super) fn of_rank(mut recorded: impl Iterator<Item = (usize, u64)>, rank: u64) -> u64 {
    let mut up_to = 0;
    let found = recorded.find(|&(_, n)| {
        up_to += n;
        up_to >= rank
    });
    found.map_or(TIME_MAX.0, |(bin, _)| end(bin) - 1)
}

fn range(times: &RangeInclusive<u64>) -> RangeInclusive<usize> {
    bin_of(*times.start())..=bin_of(*times.end())
}

#[cfg(test)]
mod tests {
    use super::super::Hist;
    use super::*;
    use prony_base::merge::Merge;
    use prony_base::units::Span;

    fn times() -> Vec<u64> {
        let mut times = vec![0, 1, TIME_MAX.0, u64::MAX >> 20, u64::MAX >> 22, u64::MAX];
        for power in 1..43 {
            times.extend([(1 << power) - 1, 1 << power, (1 << power) + 1, (5 << power) / 4 + 3]);
        }
        times.sort_unstable();
        times
    }

    #[test]
    fn bins_are_those_of_an_hdr_histogram() {
        let bounds = Hist::new().to_hdr();
        for ns in times() {
            let bin = bin_of(ns);
            let known = ns.min(TIME_MAX.0);
            assert_eq!(start(bin), bounds.lowest_equivalent(known), "{ns}");
            assert_eq!(end(bin), bounds.next_non_equivalent(known), "{ns}");
            assert_eq!((bin_of(start(bin)), bin_of(end(bin) - 1)), (bin, bin), "{ns}");
        }
        assert_eq!(end(BINS - 1), 1 << 42);
    }

    /// Every figure after each of the times, in both orders.
    #[test]
    fn figures_are_those_of_an_hdr_histogram() {
        for reversed in [false, true] {
            let mut times = times();
            if reversed {
                times.reverse();
            }
            // The times of the sparse one become too many for it.
            let (mut hist, mut sparse) = (Hist::new(), Hist::sparse());
            let mut hdr = Hist::new().to_hdr();
            assert!(hist.recorded().next().is_none() && sparse.recorded().next().is_none());
            for (i, ns) in times.into_iter().enumerate() {
                let n = [1, 3][i % 2];
                hist.record_n(Span(ns), n);
                sparse.record_n(Span(ns), n);
                let known = ns.min(TIME_MAX.0);
                hdr.saturating_record_n(known, n);
                assert!(hist.to_hdr() == hdr, "{ns}");
                assert!(hist.clone() == hist, "{ns}");
                assert_eq!(hist.count(), hdr.len());
                assert_eq!(hist.count_in_bin(Span(ns)), hdr.count_at(known));
                assert_eq!(
                    hist.count_between(Span(3), Span(ns.max(3))),
                    hdr.count_between(3, known.max(3))
                );
                assert_eq!(
                    hist.count_between(Span(ns), Span::MAX),
                    hdr.count_between(known, u64::MAX)
                );
                for q in [0.001, 0.1, 0.5, 0.77, 0.999] {
                    let time = hist.estimate(q).expect("not empty").0;
                    let of_hdr = hdr.value_at_quantile(
                        (Hist::rank(q, hdr.len()) as f64 - 0.5) / hdr.len() as f64,
                    );
                    let (min, max) = (hist.min().expect("a time").0, hist.max().expect("a time").0);
                    assert_eq!(time, of_hdr.clamp(min, max), "{q} after {ns}");
                    assert_eq!(sparse.estimate(q), hist.estimate(q), "{q} after {ns}");
                }
                for other in [&sparse, &sparse.clone()] {
                    assert!(*other == hist && other.to_hdr() == hdr, "{ns}");
                    for last in [ns, ns.max(3), u64::MAX] {
                        let between = |h: &Hist| h.count_between(Span(3), Span(last));
                        assert_eq!(between(other), between(&hist), "{ns}");
                    }
                    assert_eq!(other.count_in_bin(Span(ns)), hist.count_in_bin(Span(ns)));
                }
            }
        }
    }

    #[test]
    fn allocated_bins_are_empty() {
        let mut hist = Hist::new();
        hist.allocate();
        assert!(hist.is_empty() && hist == Hist::new());
        assert!(hist.clone() == hist && hist.to_hdr().is_empty());
        let mut merged = Hist::new();
        merged.merge(&hist);
        merged.record(Span(7));
        hist.merge(&merged);
        assert!(hist == merged);
    }
}
