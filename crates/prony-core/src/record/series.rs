//! The run over time: counts and a coarse histogram per interval, in bounded memory.

use crate::units::{Nanos, Span};

/// Counts of one interval. A request is counted as started where its intended start falls, as answered or failed where it
/// ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Intended starts.
    pub started: u64,
    /// Successes.
    pub replies: u64,
    /// Failures, timeouts among them.
    pub failed: u64,
    /// Bytes of replies.
    pub bytes: u64,
    /// The longest response time (successes and timeouts), exact.
    pub max: Span,
    /// Response times (successes and timeouts): (bin, count), bins ascending; see [`bin_of`].
    pub bins: Vec<(u16, u32)>,
}

/// The cells of a section, oldest first, each [`Series::interval`] long. Begins with 1 s; when 1,024 cells are full,
/// neighbours are joined and the interval doubles, so a run of any length takes constant memory.
#[derive(Clone, Debug)]
pub struct Series {
    begin: Nanos,
    interval: Span,
    cells: Vec<Cell>,
    // TODO(series): dense bins of the current cell, cached bounds of the current interval
}

/// The bin of a response time: 32 linear steps per power of two (a value is off by at most 1.6 %).
pub fn bin_of(t: Span) -> u16 {
    let _ = t;
    todo!()
}

/// The middle of a bin.
pub fn bin_value(bin: u16) -> Span {
    let _ = bin;
    todo!()
}

impl Series {
    /// An empty series from `begin` on.
    pub fn new(begin: Nanos) -> Self {
        Self { begin, interval: Span::from_secs(1), cells: Vec::new() }
    }

    /// A request is wanted from `at` on.
    #[inline]
    pub fn started(&mut self, at: Nanos) {
        let _ = at;
    }

    /// A success. `now` never goes backwards by more than one interval.
    #[inline]
    pub fn replied(&mut self, now: Nanos, response: Span, bytes: u64) {
        let _ = (now, response, bytes);
    }

    /// A timeout.
    pub fn timed_out(&mut self, now: Nanos, response: Span) {
        let _ = (now, response);
    }

    /// Any other failure.
    pub fn failed(&mut self, now: Nanos) {
        let _ = now;
    }

    /// No more will be counted: makes the current cell readable.
    pub fn close(&mut self) {}

    /// When the first cell begins.
    pub fn begin(&self) -> Nanos {
        self.begin
    }

    /// The length of a cell.
    pub fn interval(&self) -> Span {
        self.interval
    }

    /// The cells, oldest first.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The newest cell that is complete at `now`, if any, for progress.
    pub fn last_complete(&self, now: Nanos) -> Option<&Cell> {
        let _ = now;
        None
    }

    /// Add another worker's series (of the same begin). Exact.
    pub fn merge(&mut self, other: &Self) {
        let _ = other;
    }
}

impl Cell {
    /// The quantile `q` of the response times, to 1.6 %; `None` where the sample cannot carry it.
    pub fn quantile(&self, q: f64) -> Option<Span> {
        let _ = q;
        None
    }

    /// Add another cell of the same interval, or of its neighbour when intervals are joined.
    pub fn merge(&mut self, other: &Self) {
        let _ = other;
    }
}
