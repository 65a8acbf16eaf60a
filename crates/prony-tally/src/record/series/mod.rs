//! The run over time: counters and a coarse histogram per interval, in bounded memory.

mod blocks;
mod intervals;

use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use blocks::Piece;
pub use blocks::{BLOCK_MIN, BLOCKS_MAX, Block, Blocks};
use prony_base::merge::{Merge, greatest};
use prony_base::units::{Nanos, Span};

/// Counters of one interval. A request counts as started in the interval of its intended start, and
/// as answered or failed in the interval in which it ended.
#[derive(Clone, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Requests with their intended start in the interval.
    pub started: u64,
    /// Successes.
    pub replies: u64,
    /// Failures, timeouts included.
    pub failed: u64,
    /// Bytes of replies.
    pub bytes: u64,
    /// The exact maximum of the response times (successes and timeouts).
    #[merge(greatest)]
    pub max: Span,
    /// Response times (successes and timeouts) as (bin, count), in ascending order of bins; see
    /// [`bin_of`]. Counts saturate at 2^32 - 1.
    #[merge(add_bins)]
    pub bins: Vec<(u16, u32)>,
}

/// The cells of a section, oldest first, each [`Series::interval`] long. The interval starts at 1
/// s. When 1,024 cells are full, neighbors are merged and the interval doubles, so a run of any
/// length takes constant memory. The same response times are kept in shorter [`Blocks`] too.
///
/// Times of the current `piece`, a cell or a block long, whichever is shorter, go into dense bins.
/// They move to its cell and its block when the next piece starts; recording allocates at no other
/// time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Series {
    start: Nanos,
    interval: Span,
    cells: Vec<Cell>,
    /// Index of the cell of `piece`; meaningless if there are no cells.
    current: usize,
    /// When the current cell starts; `Nanos::MAX` if there is none, as no event occurs after that.
    current_start: Nanos,
    piece: Piece,
    blocks: Blocks,
    /// Buffer for adding bins; empty between calls, and kept for its capacity.
    sum: Vec<(u16, u32)>,
}

/// The maximum number of cells of a series.
pub const CELLS_MAX: usize = 1_024;

/// The number of bins.
pub const BINS: usize = 1_216;

/// The longest time with a bin of its own: 2^42 - 1 ns, over 73 minutes.
const BINNED_MAX: u64 = (1 << 42) - 1;

/// The bin of a response time: 32 linear steps per power of two (the error of a value is at most
/// 1.6 %). Longer times than `BINNED_MAX` share the last bin.
#[inline]
pub fn bin_of(t: Span) -> u16 {
    let ns = t.0.min(BINNED_MAX);
    if ns < 32 {
        return ns as u16;
    }
    let power = ns.ilog2(); // 5 to 41
    ((power - 4) * 32 + ((ns >> (power - 5)) & 31) as u32) as u16
}

/// The middle of a bin.
pub fn bin_value(bin: u16) -> Span {
    let bin = u64::from(bin).min(BINS as u64 - 1);
    if bin < 32 {
        return Span(bin);
    }
    let (power, step) = (bin / 32 + 4, bin % 32);
    let width = 1 << (power - 5);
    Span((32 + step) * width + width / 2)
}

/// The shortest and the longest time of a bin.
pub fn bin_bounds(bin: u16) -> (Span, Span) {
    let middle = bin_value(bin).0;
    if middle < 64 {
        return (Span(middle), Span(middle));
    }
    let half = 1 << (middle.ilog2() - 6);
    let last = usize::from(bin) + 1 >= BINS;
    (Span(middle - half), if last { Span::MAX } else { Span(middle + half - 1) })
}

impl Default for Series {
    fn default() -> Self {
        Self::new(Nanos::ZERO)
    }
}

impl Merge for Series {
    /// Add the series of another worker, cell by cell, aligned by their starts. Exact even for
    /// different intervals: cells of the finer series are merged first. Both are closed afterwards.
    fn merge(&mut self, other: &Self) {
        if other.cells.is_empty() {
            return;
        }
        if self.cells.is_empty() {
            self.start = other.start;
        }
        let mut other = other.clone();
        other.close();
        self.close();
        while self.interval < other.interval {
            self.fold();
        }
        while other.interval < self.interval {
            other.fold();
        }
        if self.cells.len() < other.cells.len() {
            self.cells.resize_with(other.cells.len(), Cell::default);
            self.set_current(other.cells.len() - 1);
        }
        // `other` is closed, so its piece is empty; its interval and start equal those of `self`.
        let Self {
            start: _,
            interval: _,
            cells,
            current: _,
            current_start: _,
            piece: _,
            blocks,
            sum: _,
        } = other;
        for (mine, theirs) in self.cells.iter_mut().zip(&cells) {
            mine.merge(theirs);
        }
        self.blocks.merge(&blocks);
    }
}

impl Series {
    /// An empty series that starts at `start`.
    pub fn new(start: Nanos) -> Self {
        Self {
            start,
            interval: Span::from_secs(1),
            cells: Vec::with_capacity(CELLS_MAX),
            current: 0,
            current_start: Nanos::MAX,
            piece: Piece::new(),
            blocks: Blocks::default(),
            sum: Vec::new(),
        }
    }

    /// A request is due since `at`.
    #[inline]
    pub fn started(&mut self, at: Nanos) {
        self.cell(at).started += 1;
    }

    /// A request that was due at `at` starts later.
    pub fn did_not_start(&mut self, at: Nanos) {
        self.cell(at).started -= 1;
    }

    /// `n` requests are due since `at`.
    #[inline]
    pub fn started_together(&mut self, at: Nanos, n: u64) {
        self.cell(at).started += n;
    }

    /// A success. An event of an earlier cell, however old, is counted there; such events are rare,
    /// so recording is cheap.
    #[inline(always)]
    pub fn replied(&mut self, now: Nanos, response: Span, bytes: u64) {
        let cell = if self.piece.contains(now) || self.advance(now) {
            self.note(response)
        } else {
            self.note_late(now, response, 1)
        };
        cell.replies += 1;
        cell.bytes += bytes;
        cell.max = cell.max.max(response);
    }

    /// A timeout.
    pub fn timed_out(&mut self, now: Nanos, response: Span) {
        let cell = if self.piece.contains(now) || self.advance(now) {
            self.piece.timeouts += 1;
            self.note(response)
        } else {
            self.note_late(now, response, 0)
        };
        cell.failed += 1;
        cell.max = cell.max.max(response);
    }

    /// Any other failure.
    pub fn failed(&mut self, now: Nanos) {
        self.cell(now).failed += 1;
    }

    /// `n` failures other than timeouts.
    pub fn failed_together(&mut self, now: Nanos, n: u64) {
        self.cell(now).failed += n;
    }

    /// Move the newest times into their cell and block, so that these can be read. Recording may
    /// continue; call `close` again afterwards.
    pub fn close(&mut self) {
        let at = self.piece.start.since(self.start);
        if let Some(part) = self.piece.take()
            && let Some(cell) = self.cells.get_mut(self.current)
        {
            add_bins_with(&mut self.sum, &mut cell.bins, &part.bins);
            self.blocks.add(at, part);
        }
    }

    /// The start of the first cell.
    pub fn start(&self) -> Nanos {
        self.start
    }

    /// The length of a cell.
    pub fn interval(&self) -> Span {
        self.interval
    }

    /// The cells, oldest first. The last one has all its bins only after [`Series::close`].
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The blocks. The last one has all its times only after [`Series::close`].
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The time from the start of the series to the piece with times that are not in a block yet.
    pub fn settled(&self) -> Span {
        if self.cells.is_empty() { Span::ZERO } else { self.piece.start.since(self.start) }
    }

    /// The newest interval that is complete at `now`, for progress: its index and its counters,
    /// which may be zero. `None` before the first is complete.
    pub fn last_complete(&self, now: Nanos) -> Option<(usize, Cow<'_, Cell>)> {
        let index = self.index(now).checked_sub(1)?;
        let mut cell = self.cells.get(index).map_or_else(Cow::default, Cow::Borrowed);
        // No later event has moved its newest times out of the piece.
        if index == self.current {
            let mut used = Vec::new();
            self.piece.used(|bin, n| used.push((bin, n)));
            if !used.is_empty() {
                add_bins(&mut cell.to_mut().bins, &used);
            }
        }
        Some((index, cell))
    }

    /// Record a time of the current piece.
    #[inline]
    fn note(&mut self, response: Span) -> &mut Cell {
        self.piece.note(response);
        &mut self.cells[self.current]
    }

    /// Record a time of an earlier piece.
    #[cold]
    fn note_late(&mut self, now: Nanos, response: Span, replies: u64) -> &mut Cell {
        let bins = vec![(bin_of(response), 1)];
        let index = self.find(now);
        add_bins(&mut self.cells[index].bins, &bins);
        self.blocks.add(now.since(self.start), Block { replies, sum_ns: response.0, bins });
        &mut self.cells[index]
    }

    /// Start the piece that contains `at`; `false` if it is an earlier one.
    #[cold]
    fn advance(&mut self, at: Nanos) -> bool {
        if !self.cells.is_empty() && at < self.piece.start {
            return false;
        }
        self.close();
        self.find(at);
        self.set_piece(at);
        true
    }

    /// The cell that contains `at`. Most requests start and end in the current one.
    #[inline(always)]
    fn cell(&mut self, at: Nanos) -> &mut Cell {
        let index = if at >= self.current_start && at.since(self.current_start) < self.interval {
            self.current
        } else {
            self.find(at)
        };
        &mut self.cells[index]
    }

    /// The index of a cell other than the current one: an earlier one, or a new one, which becomes
    /// the current one.
    #[cold]
    fn find(&mut self, at: Nanos) -> usize {
        let mut index = self.index(at);
        if index < self.cells.len() {
            return index;
        }
        self.close();
        while index >= CELLS_MAX {
            self.fold();
            index = self.index(at);
        }
        // After folding, `at` lies in the last cell or beyond it.
        if index >= self.cells.len() {
            self.cells.resize_with(index + 1, Cell::default);
        }
        self.set_current(index);
        self.set_piece(at);
        index
    }

    fn index(&self, at: Nanos) -> usize {
        (at.since(self.start).0 / self.interval.0) as usize
    }

    fn set_current(&mut self, index: usize) {
        self.current = index;
        self.current_start = self.start + self.interval * index as u64;
        self.set_piece(self.current_start);
    }

    /// Call it only when closed, with empty dense bins.
    fn set_piece(&mut self, at: Nanos) {
        self.piece.length = self.interval.min(self.blocks.length());
        let index = at.since(self.start).0 / self.piece.length.0;
        self.piece.start = self.start + self.piece.length * index;
    }

    /// Merge neighbors and double the interval. Call it only when closed, with empty dense bins.
    fn fold(&mut self) {
        let joined = self.cells.len().div_ceil(2);
        for i in 0..joined {
            let mut cell = std::mem::take(&mut self.cells[2 * i]);
            if let Some(next) = self.cells.get(2 * i + 1) {
                cell.merge(next);
            }
            self.cells[i] = cell;
        }
        self.cells.truncate(joined);
        self.interval = self.interval * 2;
        if joined > 0 {
            self.set_current(joined - 1);
        }
    }
}

/// The saved form of a series.
#[derive(Serialize, Deserialize)]
struct Wire {
    start: Nanos,
    interval: Span,
    cells: Vec<Cell>,
    /// Results of earlier versions have none.
    #[serde(default)]
    blocks: Blocks,
}

impl From<Series> for Wire {
    fn from(mut s: Series) -> Self {
        s.close();
        Self { start: s.start, interval: s.interval, cells: s.cells, blocks: s.blocks }
    }
}

impl TryFrom<Wire> for Series {
    type Error = &'static str;

    fn try_from(w: Wire) -> Result<Self, Self::Error> {
        let second = Span::from_secs(1).0;
        if !w.interval.0.is_multiple_of(second) || !(w.interval.0 / second).is_power_of_two() {
            return Err("the interval of a series is not 1 s times a power of two");
        }
        if w.cells.len() > CELLS_MAX {
            return Err("a series has more than 1,024 cells");
        }
        let ascend = |c: &Cell| c.bins.is_sorted_by(|a, b| a.0 < b.0);
        let inside = |c: &Cell| c.bins.last().is_none_or(|&(bin, _)| usize::from(bin) < BINS);
        if !w.cells.iter().all(|c| ascend(c) && inside(c)) {
            return Err("the bins of a series are not in ascending order or are out of range");
        }
        let mut s = Self::new(w.start);
        s.interval = w.interval;
        s.blocks = w.blocks;
        s.cells.extend(w.cells);
        if let Some(last) = s.cells.len().checked_sub(1) {
            s.set_current(last);
        }
        Ok(s)
    }
}

/// Two series are equal if they recorded the same, whether or not they are closed.
impl PartialEq for Series {
    fn eq(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.clone(), other.clone());
        a.close();
        b.close();
        (a.start, a.interval, a.cells, a.blocks) == (b.start, b.interval, b.cells, b.blocks)
    }
}

impl Cell {
    /// The quantile `q` of the response times, to 1.6 %; `None` if the sample is too small.
    pub fn quantile(&self, q: f64) -> Option<Span> {
        let count: u64 = self.bins.iter().map(|&(_, n)| u64::from(n)).sum();
        if count == 0 || count < Hist::samples_needed(q) {
            return None;
        }
        if q >= 1.0 {
            return Some(self.max);
        }
        let rank = Hist::rank(q, count);
        let mut below = 0;
        let bin = self.bins.iter().find(|&&(_, n)| {
            below += u64::from(n);
            below >= rank
        });
        bin.map(|&(bin, _)| bin_value(bin).min(self.max))
    }
}

/// Add bins in ascending order, and release unused capacity.
fn add_bins(bins: &mut Vec<(u16, u32)>, more: &[(u16, u32)]) {
    let mut sum = Vec::with_capacity(bins.len() + more.len());
    add_bins_with(&mut sum, bins, more);
    bins.shrink_to_fit();
}

/// The same, with the buffer `sum`: allocates only if the capacity is too small.
fn add_bins_with(sum: &mut Vec<(u16, u32)>, bins: &mut Vec<(u16, u32)>, mut more: &[(u16, u32)]) {
    let mut rest = bins.as_slice();
    while let ([(bin, n), bins @ ..], [(new, plus), others @ ..]) = (rest, more) {
        let next = match bin.cmp(new) {
            Ordering::Less => (*bin, *n),
            Ordering::Equal => (*bin, n.saturating_add(*plus)),
            Ordering::Greater => (*new, *plus),
        };
        sum.push(next);
        rest = if bin <= new { bins } else { rest };
        more = if new <= bin { others } else { more };
    }
    sum.extend_from_slice(rest);
    sum.extend_from_slice(more);
    bins.clear();
    bins.extend_from_slice(sum);
    sum.clear();
}

#[cfg(test)]
mod tests;
