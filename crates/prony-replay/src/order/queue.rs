//! A queue in the order of time, for entries that come nearly in that order.
//!
//! Entries are collected by slices of time, unsorted, and a slice is sorted when its first entry
//! leaves. So an entry costs about the same however many are held. With a heap, each costs a walk
//! through memory that no cache holds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Time, number of the line, place.
pub(super) type Entry = (i64, u64, u32);

/// A slice has 2^24 ns, about 17 ms.
const SLICE: u32 = 24;
/// How many empty slices are kept for reuse.
const SPARE: usize = 512;

#[derive(Debug)]
pub(super) struct Queue {
    /// The slices that are later than the current one.
    later: BTreeMap<i64, Vec<Entry>>,
    /// The slice whose entries leave now, and these entries, in descending order.
    slice: i64,
    current: Vec<Entry>,
    /// Entries of that slice, or of earlier ones, that came after it was sorted.
    late: BinaryHeap<Reverse<Entry>>,
    spare: Vec<Vec<Entry>>,
    len: usize,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            later: BTreeMap::new(),
            slice: i64::MIN,
            current: Vec::new(),
            late: BinaryHeap::new(),
            spare: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        self.len += 1;
        let slice = entry.0 >> SLICE;
        if slice <= self.slice {
            return self.late.push(Reverse(entry));
        }
        let spare = &mut self.spare;
        let of = self.later.entry(slice).or_insert_with(|| spare.pop().unwrap_or_default());
        of.push(entry);
    }

    /// The earliest entry.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<Entry> {
        if self.current.is_empty() && self.late.is_empty() {
            self.turn_to_next()?;
        }
        match (self.current.last(), self.late.peek()) {
            (Some(&current), Some(&Reverse(late))) => Some(current.min(late)),
            (Some(&entry), None) | (None, Some(&Reverse(entry))) => Some(entry),
            (None, None) => None,
        }
    }

    /// Remove the entry that [`peek`](Self::peek) has just returned.
    #[inline]
    pub(super) fn remove(&mut self, entry: Entry) {
        self.len -= 1;
        if self.current.last() == Some(&entry) {
            self.current.pop();
        } else {
            self.late.pop();
        }
    }

    /// Sort the next slice.
    fn turn_to_next(&mut self) -> Option<()> {
        let (slice, mut entries) = self.later.pop_first()?;
        entries.sort_unstable_by_key(|&entry| Reverse(entry));
        let used = std::mem::replace(&mut self.current, entries);
        if self.spare.len() < SPARE {
            self.spare.push(used);
        }
        self.slice = slice;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Entries leave as from a heap, whatever comes between.
        #[test]
        fn it_is_a_heap(
            steps in prop::collection::vec(
                (0..40_i64, -3_000_000_000_i64..90_000_000, any::<bool>()),
                1..300,
            )
        ) {
            let (mut queue, mut heap) = (Queue::new(), BinaryHeap::new());
            for (line, (second, part, leaves)) in (0_u64..).zip(steps) {
                let entry = (second * 50_000_000 + part, line, line as u32);
                queue.push(entry);
                heap.push(Reverse(entry));
                if leaves {
                    let first = queue.peek();
                    prop_assert_eq!(first, heap.pop().map(|Reverse(entry)| entry));
                    queue.remove(first.expect("an entry"));
                }
                prop_assert_eq!(queue.len(), heap.len());
            }
            while let Some(first) = queue.peek() {
                prop_assert_eq!(Some(first), heap.pop().map(|Reverse(entry)| entry));
                queue.remove(first);
            }
            prop_assert!(heap.is_empty() && queue.len() == 0);
        }
    }
}
