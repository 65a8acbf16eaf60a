//! The run over time: counts and a coarse histogram per interval, in bounded memory.

mod blocks;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use crate::units::{Nanos, Span};
use blocks::Piece;
pub use blocks::{BLOCK_MIN, BLOCKS_MAX, Block, Blocks};

/// Counts of one interval. A request is counted as started where its intended start falls, as
/// answered or failed where it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Response times (successes and timeouts): (bin, count), bins ascending; see [`bin_of`]. A
    /// count stays at 2^32 - 1 once it is there.
    pub bins: Vec<(u16, u32)>,
}

/// The cells of a section, oldest first, each [`Series::interval`] long. Begins with 1 s; when
/// 1,024 cells are full, neighbours are joined and the interval doubles, so a run of any length
/// takes constant memory. The same response times stand in shorter [`Blocks`] too.
///
/// The bins of the piece of time that is being filled are dense and apart (`piece`); they move into
/// its cell and its block when the next one begins, which is the only time that counting allocates.
/// A piece is a cell or a block long, whichever is shorter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Series {
    begin: Nanos,
    interval: Span,
    cells: Vec<Cell>,
    /// Index of the cell that `piece` belongs to; meaningless while there are no cells.
    current: usize,
    /// When the current cell begins; `Nanos::MAX` while there is none, which no event is after.
    current_begin: Nanos,
    piece: Piece,
    blocks: Blocks,
    /// Where bins are added up; empty between calls but for its room.
    sum: Vec<(u16, u32)>,
}

/// The most cells that a series has.
pub const CELLS_MAX: usize = 1_024;

/// How many bins there are; every bin is below it.
pub const BINS: usize = 1_216;

/// The longest time that a bin stands for: 2^42 - 1 ns, over 73 minutes.
const BINNED_MAX: u64 = (1 << 42) - 1;

/// The bin of a response time: 32 linear steps per power of two (a value is off by at most 1.6 %).
/// Times over 73 minutes share the last bin.
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

impl Series {
    /// An empty series from `begin` on.
    pub fn new(begin: Nanos) -> Self {
        Self {
            begin,
            interval: Span::from_secs(1),
            cells: Vec::with_capacity(CELLS_MAX),
            current: 0,
            current_begin: Nanos::MAX,
            piece: Piece::new(),
            blocks: Blocks::default(),
            sum: Vec::new(),
        }
    }

    /// A request is wanted from `at` on.
    #[inline]
    pub fn started(&mut self, at: Nanos) {
        self.cell(at).started += 1;
    }

    /// So many requests are wanted from `at` on.
    #[inline]
    pub fn started_together(&mut self, at: Nanos, n: u64) {
        self.cell(at).started += n;
    }

    /// A success. An event of an earlier cell lands there, whatever its age; that it is rare makes
    /// counting cheap.
    #[inline]
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

    /// No more will be counted: makes the current cell and block readable. Counting on is allowed;
    /// they are then readable after another `close`.
    pub fn close(&mut self) {
        let at = self.piece.begin.since(self.begin);
        if let Some(part) = self.piece.take()
            && let Some(cell) = self.cells.get_mut(self.current)
        {
            add_bins_with(&mut self.sum, &mut cell.bins, part.bins.iter().copied());
            self.blocks.add(at, part);
        }
    }

    /// When the first cell begins.
    pub fn begin(&self) -> Nanos {
        self.begin
    }

    /// The length of a cell.
    pub fn interval(&self) -> Span {
        self.interval
    }

    /// The cells, oldest first. The last one has all its bins after [`Series::close`] only.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The same in blocks. The last one has all its times after [`Series::close`] only.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// How long after the begin the newest times are still apart from their block.
    pub fn settled(&self) -> Span {
        if self.cells.is_empty() { Span::ZERO } else { self.piece.begin.since(self.begin) }
    }

    /// The newest interval that is complete at `now`, for progress: its number and what was counted
    /// in it, which may be nothing. `None` before the first is complete.
    pub fn last_complete(&self, now: Nanos) -> Option<(usize, Cow<'_, Cell>)> {
        let index = self.index(now).checked_sub(1)?;
        let mut cell = self.cells.get(index).map_or_else(Cow::default, Cow::Borrowed);
        // Nothing has come since, which would have moved its newest times to the others.
        if index == self.current {
            let mut used = Vec::new();
            self.piece.used(|bin, n| used.push((bin, n)));
            if !used.is_empty() {
                add_bins(&mut cell.to_mut().bins, used.into_iter());
            }
        }
        Some((index, cell))
    }

    /// Add another worker's series, cell by cell: the first cell of one to the first of the other.
    /// Exact, whatever the intervals: those of the finer one are joined first. Both are readable to
    /// their ends afterwards.
    pub fn merge(&mut self, other: &Self) {
        if other.cells.is_empty() {
            return;
        }
        if self.cells.is_empty() {
            self.begin = other.begin;
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
        // Closed, it holds nothing in its piece; its interval and begin are ours.
        let Self {
            begin: _,
            interval: _,
            cells,
            current: _,
            current_begin: _,
            piece: _,
            blocks,
            sum: _,
        } = other;
        for (mine, theirs) in self.cells.iter_mut().zip(&cells) {
            mine.merge(theirs);
        }
        self.blocks.merge(&blocks);
    }

    /// A time of the current piece.
    #[inline]
    fn note(&mut self, response: Span) -> &mut Cell {
        let n = &mut self.piece.dense[usize::from(bin_of(response))];
        *n = n.saturating_add(1);
        self.piece.sum_ns = self.piece.sum_ns.saturating_add(response.0);
        &mut self.cells[self.current]
    }

    /// A time of an earlier piece.
    #[cold]
    fn note_late(&mut self, now: Nanos, response: Span, replies: u64) -> &mut Cell {
        let bins = vec![(bin_of(response), 1)];
        let index = self.find(now);
        add_bins(&mut self.cells[index].bins, bins.iter().copied());
        self.blocks.add(now.since(self.begin), Block { replies, sum_ns: response.0, bins });
        &mut self.cells[index]
    }

    /// Begin the piece in which `at` lies; `false` where it is an earlier one.
    #[cold]
    fn advance(&mut self, at: Nanos) -> bool {
        if !self.cells.is_empty() && at < self.piece.begin {
            return false;
        }
        self.close();
        self.find(at);
        self.set_piece(at);
        true
    }

    /// The cell in which `at` lies.
    #[inline]
    fn cell(&mut self, at: Nanos) -> &mut Cell {
        let index = if at >= self.current_begin && at.since(self.current_begin) < self.interval {
            self.current
        } else {
            self.find(at)
        };
        &mut self.cells[index]
    }

    /// The same where it is not the current cell: an earlier one, or one still to be made, which
    /// becomes the current.
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
        // Folding can only have brought `at` into a cell that exists, the last one, or left it
        // beyond.
        if index >= self.cells.len() {
            self.cells.resize_with(index + 1, Cell::default);
        }
        self.set_current(index);
        self.set_piece(at);
        index
    }

    fn index(&self, at: Nanos) -> usize {
        (at.since(self.begin).0 / self.interval.0) as usize
    }

    fn set_current(&mut self, index: usize) {
        self.current = index;
        self.current_begin = self.begin + self.interval * index as u64;
        self.set_piece(self.current_begin);
    }

    /// Only when closed: the dense bins are empty.
    fn set_piece(&mut self, at: Nanos) {
        self.piece.length = self.interval.min(self.blocks.length());
        let index = at.since(self.begin).0 / self.piece.length.0;
        self.piece.begin = self.begin + self.piece.length * index;
    }

    /// Join neighbours and double the interval. Only when closed: the dense bins are empty.
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

/// A series as it is saved and sent.
#[derive(Serialize, Deserialize)]
struct Wire {
    begin: Nanos,
    interval: Span,
    cells: Vec<Cell>,
    /// Earlier versions kept none.
    #[serde(default)]
    blocks: Blocks,
}

impl From<Series> for Wire {
    fn from(mut s: Series) -> Self {
        s.close();
        Self { begin: s.begin, interval: s.interval, cells: s.cells, blocks: s.blocks }
    }
}

impl TryFrom<Wire> for Series {
    type Error = &'static str;

    fn try_from(w: Wire) -> Result<Self, Self::Error> {
        let second = Span::from_secs(1).0;
        if !w.interval.0.is_multiple_of(second) || !(w.interval.0 / second).is_power_of_two() {
            return Err("the interval of a series is no power of two of seconds");
        }
        if w.cells.len() > CELLS_MAX {
            return Err("a series has more than 1,024 cells");
        }
        let ascend = |c: &Cell| c.bins.is_sorted_by(|a, b| a.0 < b.0);
        let inside = |c: &Cell| c.bins.last().is_none_or(|&(bin, _)| usize::from(bin) < BINS);
        if !w.cells.iter().all(|c| ascend(c) && inside(c)) {
            return Err("the bins of a series do not ascend or are too many");
        }
        let mut s = Self::new(w.begin);
        s.interval = w.interval;
        s.blocks = w.blocks;
        s.cells.extend(w.cells);
        if let Some(last) = s.cells.len().checked_sub(1) {
            s.set_current(last);
        }
        Ok(s)
    }
}

/// Two series are equal when the same was counted, whether or not they are closed.
impl PartialEq for Series {
    fn eq(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.clone(), other.clone());
        a.close();
        b.close();
        (a.begin, a.interval, a.cells, a.blocks) == (b.begin, b.interval, b.cells, b.blocks)
    }
}

impl Cell {
    /// The quantile `q` of the response times, to 1.6 %; `None` where the sample cannot carry it.
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

    /// Add another cell of the same interval, or of its neighbour when intervals are joined.
    pub fn merge(&mut self, other: &Self) {
        let Self { started, replies, failed, bytes, max, bins } = other;
        self.started += started;
        self.replies += replies;
        self.failed += failed;
        self.bytes += bytes;
        self.max = self.max.max(*max);
        add_bins(&mut self.bins, bins.iter().copied());
    }
}

/// Add bins that come in ascending order, and take no more memory than they need.
fn add_bins(bins: &mut Vec<(u16, u32)>, more: impl Iterator<Item = (u16, u32)>) {
    let mut sum = Vec::with_capacity(bins.len() + more.size_hint().0);
    add_bins_with(&mut sum, bins, more);
    bins.shrink_to_fit();
}

/// The same by way of `sum`, without a new allocation where there is room.
fn add_bins_with(
    sum: &mut Vec<(u16, u32)>,
    bins: &mut Vec<(u16, u32)>,
    more: impl Iterator<Item = (u16, u32)>,
) {
    let mut more = more.peekable();
    for &(bin, n) in &*bins {
        while let Some(new) = more.next_if(|&(b, _)| b < bin) {
            sum.push(new);
        }
        let plus = more.next_if(|&(b, _)| b == bin).map_or(0, |(_, n)| n);
        sum.push((bin, n.saturating_add(plus)));
    }
    sum.extend(more);
    bins.clear();
    bins.extend_from_slice(sum);
    sum.clear();
}

#[cfg(test)]
mod tests;
