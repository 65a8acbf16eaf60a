//! Things that happen at a time: the earliest first, and those of one time in the order in which
//! they were added.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use prony_base::units::Nanos;

/// A queue of such things.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    /// The number of things so far.
    count: u64,
}

#[derive(Debug)]
struct Entry<T> {
    /// The time, then the number of the thing. Simulations spend a tenth of their time in
    /// comparing these, so it is one number.
    key: u128,
    what: T,
}

impl<T> Entry<T> {
    fn at(&self) -> Nanos {
        Nanos((self.key >> 64) as u64)
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), count: 0 }
    }
}

impl<T> Queue<T> {
    pub(crate) fn push(&mut self, at: Nanos, what: T) {
        self.count += 1;
        self.heap.push(Entry { key: u128::from(at.0) << 64 | u128::from(self.count), what });
    }

    /// When the first happens.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(Entry::at)
    }

    /// The first of them, and its time.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, T)> {
        self.heap.pop().map(|entry| (entry.at(), entry.what))
    }
}

/// Reversed: the greatest of a heap is the earliest.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_first_and_one_time_keeps_its_order() {
        let mut queue = Queue::default();
        for (at, what) in [(7, 'c'), (3, 'a'), (u64::MAX, 'f'), (7, 'd'), (3, 'b'), (8, 'e')] {
            queue.push(Nanos(at), what);
        }
        assert_eq!(queue.next_at(), Some(Nanos(3)));
        let all: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(all.iter().map(|&(_, what)| what).collect::<String>(), "abcdef");
        let times: Vec<u64> = all.iter().map(|&(at, _)| at.0).collect();
        assert_eq!(times, [3, 3, 7, 7, 8, u64::MAX]);
    }
}
