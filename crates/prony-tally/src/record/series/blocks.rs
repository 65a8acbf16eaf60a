//! The run in short blocks of time: the batches from which confidence intervals are computed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{BINS, add_bins, bin_of};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};

/// The requests that ended in one block.
#[derive(Clone, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Successes.
    pub replies: u64,
    /// Sum of the response times (successes and timeouts), in nanoseconds.
    pub sum_ns: u64,
    /// The same times as (bin, count), in ascending order of bins; see [`super::bin_of`].
    #[merge(add_bins)]
    pub bins: Vec<(u16, u32)>,
}

/// The blocks of a section, oldest first, each [`Blocks::length`] long. The length starts at 1/32
/// s. When 512 blocks are full, neighbors are merged and the length doubles, so every run of more
/// than eight seconds has 256 to 512 blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Blocks {
    length: Span,
    blocks: Vec<Block>,
}

/// The maximum number of blocks.
pub const BLOCKS_MAX: usize = 512;

/// The initial length of a block.
pub const BLOCK_MIN: Span = Span(1_000_000_000 / 32);

impl Default for Blocks {
    fn default() -> Self {
        Self { length: BLOCK_MIN, blocks: Vec::new() }
    }
}

impl Block {
    /// The number of response times.
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|&(_, n)| u64::from(n)).sum()
    }
}

impl Merge for Blocks {
    /// Add the blocks of another worker, aligned by their start. Exact even for different lengths:
    /// the shorter blocks are merged first.
    fn merge(&mut self, other: &Self) {
        let Self { length, blocks } = other;
        while self.length < *length {
            self.fold();
        }
        for (i, block) in blocks.iter().enumerate() {
            self.add(*length * i as u64, block.clone());
        }
    }
}

impl Blocks {
    /// The length of a block.
    pub fn length(&self) -> Span {
        self.length
    }

    /// The blocks, oldest first.
    pub fn all(&self) -> &[Block] {
        &self.blocks
    }

    /// Add to the block at `since_start` after the start.
    pub fn add(&mut self, since_start: Span, part: Block) {
        let mut index = (since_start.0 / self.length.0) as usize;
        while index >= BLOCKS_MAX {
            self.fold();
            index = (since_start.0 / self.length.0) as usize;
        }
        if index >= self.blocks.len() {
            self.blocks.resize_with(index + 1, Block::default);
        }
        let block = &mut self.blocks[index];
        if block.bins.is_empty() {
            *block = part;
        } else {
            block.merge(&part);
        }
    }

    /// The blocks that start at `from` or later and end at `until` or earlier (both counted from
    /// the start of the section), each with its start.
    pub fn between(&self, from: Span, until: Span) -> impl Iterator<Item = (Span, &Block)> {
        let length = self.length;
        let first = from.0.div_ceil(length.0) as usize;
        let end = ((until.0 / length.0) as usize).min(self.blocks.len());
        (first..end).map(move |i| (length * i as u64, &self.blocks[i]))
    }

    fn fold(&mut self) {
        let joined = self.blocks.len().div_ceil(2);
        for i in 0..joined {
            let mut block = std::mem::take(&mut self.blocks[2 * i]);
            if let Some(next) = self.blocks.get(2 * i + 1) {
                block.merge(next);
            }
            self.blocks[i] = block;
        }
        self.blocks.truncate(joined);
        self.length = self.length * 2;
    }
}

/// Bins that are tested together; [`BINS`] is a multiple.
const ROW: usize = 32;
const _: () = assert!(BINS.is_multiple_of(ROW));

/// The part of a block that is being filled, with dense bins.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// When it starts; `Nanos::MAX` if there is none, as no event occurs after that.
    pub(super) start: Nanos,
    pub(super) length: Span,
    pub(super) timeouts: u64,
    pub(super) sum_ns: u64,
    pub(super) dense: Box<[u32; BINS]>,
    /// The last time and its bin. Replies that are read together often have the same time.
    last: (Span, u16),
}

impl Piece {
    pub(super) fn new() -> Self {
        let dense = Box::new([0; BINS]);
        let last = (Span::ZERO, bin_of(Span::ZERO));
        Self { start: Nanos::MAX, length: BLOCK_MIN, timeouts: 0, sum_ns: 0, dense, last }
    }

    /// Count a time.
    #[inline]
    pub(super) fn note(&mut self, time: Span) {
        if time != self.last.0 {
            self.last = (time, bin_of(time));
        }
        let n = &mut self.dense[usize::from(self.last.1)];
        *n = n.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(time.0);
    }

    #[inline]
    pub(super) fn contains(&self, at: Nanos) -> bool {
        at >= self.start && at.since(self.start) < self.length
    }

    /// Pass the non-empty bins to `take`, in ascending order. They are close together, and a
    /// request waits for this function 32 times a second, so it skips whole rows of zeroes.
    pub(super) fn used(&self, mut take: impl FnMut(u16, u32)) {
        let (rows, _) = self.dense.as_chunks::<ROW>();
        for (i, row) in rows.iter().enumerate() {
            if is_zero(row) {
                continue;
            }
            for (at, &n) in row.iter().enumerate() {
                if n > 0 {
                    take((i * ROW + at) as u16, n);
                }
            }
        }
    }

    /// Take the counts and leave the piece empty.
    pub(super) fn take(&mut self) -> Option<Block> {
        // Allocate exactly: blocks live long.
        let mut used = 0;
        self.used(|_, _| used += 1);
        let mut bins = Vec::with_capacity(used);
        self.used(|bin, n| bins.push((bin, n)));
        if bins.is_empty() {
            return None;
        }
        let (rows, _) = self.dense.as_chunks_mut::<ROW>();
        rows.iter_mut().filter(|row| !is_zero(row)).for_each(|row| row.fill(0));
        let mut block = Block { replies: 0, sum_ns: self.sum_ns, bins };
        block.replies = block.count().saturating_sub(self.timeouts);
        (self.timeouts, self.sum_ns) = (0, 0);
        Some(block)
    }
}

/// Without branches, so that the compiler can vectorize it.
#[inline]
fn is_zero(row: &[u32; ROW]) -> bool {
    row.iter().fold(0, |any, n| any | n) == 0
}

/// The saved form of blocks: one array for each column, the bins of each block as text.
#[derive(Serialize, Deserialize)]
struct Wire {
    length: Span,
    replies: Vec<u64>,
    sums: Vec<u64>,
    times: Vec<String>,
}

impl From<Blocks> for Wire {
    fn from(b: Blocks) -> Self {
        Self {
            length: b.length,
            replies: b.blocks.iter().map(|b| b.replies).collect(),
            sums: b.blocks.iter().map(|b| b.sum_ns).collect(),
            times: b.blocks.iter().map(|b| encoded(&b.bins)).collect(),
        }
    }
}

impl TryFrom<Wire> for Blocks {
    type Error = &'static str;

    fn try_from(w: Wire) -> Result<Self, Self::Error> {
        let times = w.length.0 / BLOCK_MIN.0;
        if !w.length.0.is_multiple_of(BLOCK_MIN.0) || !times.is_power_of_two() {
            return Err("the length of the blocks is not 1/32 s times a power of two");
        }
        let n = w.times.len();
        if n > BLOCKS_MAX || w.replies.len() != n || w.sums.len() != n {
            return Err("there are more than 512 blocks, or their columns differ in length");
        }
        let columns = w.replies.into_iter().zip(w.sums).zip(&w.times);
        let blocks = columns.map(|((replies, sum_ns), text)| {
            let bins = decoded(text).ok_or("the bins of a block cannot be decoded")?;
            Ok(Block { replies, sum_ns, bins })
        });
        Ok(Self { length: w.length, blocks: blocks.collect::<Result<_, Self::Error>>()? })
    }
}

/// For each bin, its distance from the previous one and its count, as LEB128 in base64.
fn encoded(bins: &[(u16, u32)]) -> String {
    let mut bytes = Vec::with_capacity(bins.len() * 2);
    let mut put = |mut n: u32| {
        while n >= 0x80 {
            bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        bytes.push(n as u8);
    };
    let mut last = 0;
    for &(bin, n) in bins {
        put(u32::from(bin - last));
        put(n);
        last = bin;
    }
    STANDARD.encode(bytes)
}

fn decoded(text: &str) -> Option<Vec<(u16, u32)>> {
    let bytes = STANDARD.decode(text).ok()?;
    let mut rest = bytes.iter();
    let mut bins: Vec<(u16, u32)> = Vec::new();
    let mut bin = 0_u32;
    while !rest.as_slice().is_empty() {
        let (step, n) = (number(&mut rest)?, number(&mut rest)?);
        bin = bin.checked_add(step)?;
        if bin as usize >= BINS || (step == 0 && !bins.is_empty()) {
            return None;
        }
        bins.push((bin as u16, n));
    }
    Some(bins)
}

fn number<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u32> {
    let mut n = 0_u64;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.next()?;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return u32::try_from(n).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_round_trip_through_their_saved_form() {
        let cases: [&[(u16, u32)]; 4] = [
            &[],
            &[(0, 1)],
            &[(0, 1), (1, 127), (200, 128), (BINS as u16 - 1, u32::MAX)],
            &[(1_000, 70_000)],
        ];
        for bins in cases {
            assert_eq!(decoded(&encoded(bins)).as_deref(), Some(bins));
        }
        for wrong in ["A", "gA==", "AAA=x", "/////w8B", "AQEAAQ=="] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn merges_neighboring_blocks_at_the_maximum_number() {
        let mut blocks = Blocks::default();
        let one = Block { replies: 1, sum_ns: 5, bins: vec![(3, 1)] };
        for i in 0..BLOCKS_MAX as u64 {
            blocks.add(BLOCK_MIN * i, one.clone());
        }
        assert_eq!((blocks.length(), blocks.all().len()), (BLOCK_MIN, BLOCKS_MAX));
        blocks.add(Span::from_secs(16), one.clone());
        assert_eq!((blocks.length(), blocks.all().len()), (BLOCK_MIN * 2, BLOCKS_MAX / 2 + 1));
        assert_eq!(blocks.all()[0], Block { replies: 2, sum_ns: 10, bins: vec![(3, 2)] });
        assert_eq!(blocks.all()[BLOCKS_MAX / 2], one);
        let starts: Vec<Span> =
            blocks.between(Span(1), Span::from_millis(200)).map(|(at, _)| at).collect();
        assert_eq!(starts, [BLOCK_MIN * 2, BLOCK_MIN * 4], "only whole blocks");
    }
}
