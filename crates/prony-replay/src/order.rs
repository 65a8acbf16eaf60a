//! Puts the records of a log in the order of their times, within a window.
//!
//! Times that are known to the second only are spread: the lines of a second, as they follow each
//! other in the log, get as many sorted draws from the uniform distribution on that second. So the
//! times of a second are uniform and independent, and the order of its lines is that of the log.

mod queue;

use prony_base::rng::{Stream, keyed};

use crate::record::Record;
use crate::times::{SECOND, Stamp};
use queue::Queue;

/// The most records that are held. The window is shorter if it has more.
pub(crate) const HELD_MAX: usize = 1 << 18;
/// The most lines of a second that are spread together. Those after them are spread as others.
const TOGETHER: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Order {
    /// In nanoseconds.
    window: i64,
    seed: u64,
    /// Successive lines with this time, which is known to the second only.
    run: Vec<u32>,
    run_stamp: Stamp,
    queue: Queue,
    records: Vec<Record>,
    free: Vec<u32>,
    /// Scratch.
    draws: Vec<i64>,
    /// The latest end of a request, or time of a line that has no end.
    newest: i64,
    /// The time of the last record that has left.
    left: i64,
    /// How many records had to be moved to the time of the last one that had left.
    pub(crate) moved: u64,
    /// By how much at most, in nanoseconds.
    pub(crate) moved_most: u64,
    /// How many have a time that was spread.
    pub(crate) spread: u64,
}

impl Order {
    pub(crate) fn new(window: i64, seed: u64) -> Self {
        Self {
            window,
            seed,
            run: Vec::new(),
            run_stamp: Stamp { at: 0, step: 1 },
            queue: Queue::new(),
            records: Vec::new(),
            free: Vec::new(),
            draws: Vec::new(),
            newest: i64::MIN,
            left: i64::MIN,
            moved: 0,
            moved_most: 0,
            spread: 0,
        }
    }

    /// Whether a line with this time is too old.
    pub(crate) fn is_late(&self, stamp: Stamp) -> bool {
        stamp.at.saturating_add(stamp.step) < self.newest.saturating_sub(self.window)
    }

    /// A record to be filled: one that has left, if there is one.
    pub(crate) fn place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.records.push(Record::default());
            self.records.len() as u32 - 1
        })
    }

    pub(crate) fn record(&mut self, place: u32) -> &mut Record {
        &mut self.records[place as usize]
    }

    /// The record will not be used.
    pub(crate) fn give_back(&mut self, place: u32) {
        self.free.push(place);
    }

    /// The record has the time of its line. Its own time `at` is how much it began before that; its
    /// request ended at `end`.
    pub(crate) fn push(&mut self, place: u32, stamp: Stamp, end: i64) {
        self.newest = self.newest.max(end);
        if stamp != self.run_stamp || self.run.len() == TOGETHER {
            self.end_run();
        }
        if stamp.step < SECOND {
            return self.insert(place, stamp.at);
        }
        self.run_stamp = stamp;
        self.run.push(place);
    }

    /// The lines of a second are complete.
    pub(crate) fn end_run(&mut self) {
        let Some(&first) = self.run.first() else { return };
        let key = self.records[first as usize].line;
        let step = self.run_stamp.step;
        self.draws.clear();
        for i in 0..self.run.len() as u64 {
            let bits = keyed(self.seed, Stream::Replay, key, i);
            self.draws.push(((u128::from(bits) * step as u128) >> 64) as i64);
        }
        self.draws.sort_unstable();
        self.spread += self.run.len() as u64;
        for i in 0..self.run.len() {
            self.insert(self.run[i], self.run_stamp.at + self.draws[i]);
        }
        self.run.clear();
    }

    fn insert(&mut self, place: u32, time: i64) {
        let record = &mut self.records[place as usize];
        let at = time.saturating_sub(record.at);
        record.at = at.max(self.left);
        if at < self.left {
            self.moved += 1;
            self.moved_most = self.moved_most.max(self.left.abs_diff(at));
        }
        self.queue.push((record.at, record.line, place));
    }

    /// The next record, if no line of the window can be before it.
    #[inline]
    pub(crate) fn pop(&mut self, ended: bool) -> Option<u32> {
        let entry = self.queue.peek()?;
        let (at, _, place) = entry;
        // Lines of the same second are not in the queue yet.
        let until = self.newest.saturating_sub(self.window);
        if at >= until && !ended && self.queue.len() < HELD_MAX {
            return None;
        }
        self.queue.remove(entry);
        self.left = at;
        self.free.push(place);
        Some(place)
    }

    /// The most records that were held at once.
    pub(crate) fn held_most(&self) -> usize {
        self.records.len()
    }
}
