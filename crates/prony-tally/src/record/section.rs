//! One section of a run, warm-up or measurement, during recording: the tally, and figures that are
//! cheaper to keep apart until the end.

use super::Tally;
use super::hist::Hist;
use super::lower_bounds::{LowerBounds, StreamBounds};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};

/// A tally during recording. The common case (sent at the intended time, complete reply in one
/// read) costs one histogram update; [`Section::finish`] adds it to all histograms that it affects.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) tally: Tally,
    /// Successes with `sent == intended` and `first == done`: response = service = first byte,
    /// transfer = lag = 0.
    pub(super) plain: Hist,
    /// Other successes with `first == done`: service = first byte, transfer = 0.
    pub(super) whole: Hist,
    /// Requests sent exactly at their intended time: the send lag is zero.
    pub(super) on_time: u64,
    /// Lower bounds of the true response times.
    pub(super) lower_bounds: LowerBounds,
    /// The same of the times in streams.
    pub(super) stream_bounds: StreamBounds,
    /// The same of the durations of each group.
    pub(super) group_bounds: Vec<LowerBounds>,
    pub(super) status_last: (u16, u64),
    pub(super) last_done: Nanos,
    /// When the last connection was requested, and how many were requested at that time.
    pub(super) connects: (Nanos, u64),
}

impl Section {
    pub(super) fn new(start: Nanos) -> Self {
        Self {
            tally: Tally::new(start),
            plain: Hist::new(),
            whole: Hist::new(),
            on_time: 0,
            lower_bounds: LowerBounds::default(),
            stream_bounds: StreamBounds::default(),
            group_bounds: Vec::new(),
            status_last: (0, 0),
            last_done: start,
            connects: (Nanos::MAX, 0),
        }
    }

    /// Allocates what nearly every reply needs, so that the first ones take no longer.
    pub(super) fn allocated(mut self) -> Self {
        let times = &mut self.tally.times;
        let often = [&mut times.response, &mut times.service, &mut times.first_byte];
        let others = [&mut times.transfer, &mut times.lag, &mut times.connect];
        let apart = [&mut self.plain, &mut self.whole];
        often.into_iter().chain(others).chain(apart).for_each(Hist::allocate);
        self
    }

    #[inline]
    pub(super) fn status(&mut self, status: u16) {
        if self.status_last.0 == status {
            self.status_last.1 += 1;
        } else {
            self.flush_status();
            self.status_last = (status, 1);
        }
    }

    #[cold]
    fn flush_status(&mut self) {
        let (status, n) = self.status_last;
        if n > 0 {
            *self.tally.statuses.entry(status).or_default() += n;
        }
    }

    pub(super) fn finish(mut self, end: Nanos) -> Tally {
        self.flush_status();
        let (plain, whole) = (self.plain, self.whole);
        let t = &mut self.tally;
        t.times.response.merge(&plain);
        t.times.transfer.record_n(Span::ZERO, plain.count() + whole.count());
        for hist in [plain, whole] {
            t.times.service.merge(&hist);
            t.times.first_byte.merge(&hist);
        }
        t.times.lag.record_n(Span::ZERO, self.on_time);
        t.end = end;
        t.series.close();
        if let Some(served) = &mut t.service_series {
            served.close();
        }
        if let Some(times) = &mut t.stream_series {
            times.close();
        }
        self.tally
    }
}
