//! Lower bounds of true times: the measured ones less the most that the meter can have added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::StreamTime;
use super::hist::Hist;
use prony_base::merge::{Merge, greatest};
use prony_base::units::Span;

/// Each power of two has 2^9 bins in [`LowerBounds`].
const BITS: u32 = 9;

/// Lower bounds of the true times: the measured ones less what the meter can have added.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct TimeLowerBound {
    /// One lower bound for each measured time, rounded down by up to 0.2 %.
    #[serde(alias = "response")]
    pub times: Hist,
    /// The most that the meter can have added to any of them.
    #[merge(greatest)]
    pub added_max: Span,
}

impl TimeLowerBound {
    /// The most by which the meter can have made the quantile `q` of these measured times too long.
    /// `None` if the sample is too small for the quantile.
    ///
    /// No true time is below its lower bound, so no quantile of the true times is below that
    /// quantile of the lower bounds.
    pub fn added(&self, measured: &Hist, q: f64) -> Option<Span> {
        if self.times.count() != measured.count() {
            return None;
        }
        let (whole, least) = (measured.quantile(q)?, self.times.quantile(q)?);
        // A quantile is rounded up to the end of its bin.
        let least = Hist::bin_start(least);
        Some((whole - least).min(self.added_max))
    }
}

/// Builds a [`TimeLowerBound`]. Its bins cost less to update than a histogram, which also keeps
/// exact sums.
#[derive(Debug, Default)]
pub(super) struct LowerBounds {
    bins: Vec<u64>,
    added_max: Span,
}

impl LowerBounds {
    #[inline]
    pub(super) fn record(&mut self, measured: Span, added: Span, n: u64) {
        let added = added.min(measured);
        self.added_max = self.added_max.max(added);
        let ns = (measured - added).0;
        let shift = (ns | 1 << BITS).ilog2() - BITS;
        let bin = ((shift as usize) << BITS) + (ns >> shift) as usize;
        match self.bins.get_mut(bin) {
            Some(count) => *count += n,
            None => self.grow(bin, n),
        }
    }

    #[cold]
    fn grow(&mut self, bin: usize, n: u64) {
        self.bins.resize(bin + 1, 0);
        self.bins[bin] += n;
    }

    pub(super) fn finish(&self) -> TimeLowerBound {
        let mut times = Hist::new();
        for (bin, &n) in self.bins.iter().enumerate() {
            let shift = (bin >> BITS).saturating_sub(1);
            times.record_n(Span(((bin - (shift << BITS)) as u64) << shift), n);
        }
        TimeLowerBound { times, added_max: self.added_max }
    }
}

/// The [`LowerBounds`] of each time in streams.
#[derive(Debug, Default)]
pub(super) struct StreamBounds([LowerBounds; StreamTime::ALL.len()]);

impl StreamBounds {
    #[inline]
    pub(super) fn of(&mut self, kind: StreamTime) -> &mut LowerBounds {
        &mut self.0[kind as usize]
    }

    pub(super) fn finish(&self) -> BTreeMap<StreamTime, TimeLowerBound> {
        let all = StreamTime::ALL.into_iter().zip(&self.0);
        all.filter(|(_, bounds)| !bounds.bins.is_empty())
            .map(|(kind, bounds)| (kind, bounds.finish()))
            .collect()
    }
}

/// What bounds the meter's part of a time that ends with a read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bound {
    /// What the meter added before the send.
    pub(super) before: Span,
    /// The most that a late read can have added: the time since the send, or since what came
    /// before.
    pub(super) read: Span,
    /// The time is that part of the time to the read.
    pub(super) parts: u32,
}

impl Bound {
    /// The time starts with another read, or with what the target does.
    pub(super) fn of_gap(gap: Span) -> Self {
        Self { before: Span::ZERO, read: gap, parts: 1 }
    }

    /// The time is from when something was due to what the target answers. It was sent `service`
    /// before that, of which the meter had to answer for `before`.
    pub(super) fn of_answer(before: Span, service: Span) -> Self {
        Self { before, read: service, parts: 1 }
    }

    /// The most that the meter can have added, if what was read can have waited that long.
    pub(super) fn added(&self, unread: Span) -> Span {
        self.before + unread.min(self.read) / u64::from(self.parts.max(1))
    }
}
