//! A thread that reads the log, and deals its requests to the workers.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    self, Receiver, Sender, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::sync::{Arc, PoisonError};
use std::thread;

use prony_base::feed::{Entry, Fed, Feed};
use prony_base::units::Span;

use super::{Counts, Reader, Replay, failed, share_of};

/// The most requests of a batch.
const BATCH: usize = 1024;
/// The most batches in the queue of a worker.
const QUEUE: usize = 64;
/// Batches that are not full are handed over too, when the log is this much further.
const STEP: u64 = 50_000_000;
/// After this many steps it is noted what has been read.
const NOTED: u64 = 20;

/// Requests for one worker, in the order of their times.
#[derive(Default)]
struct Batch {
    /// Only the first `len` of them; the others are memory for later.
    entries: Vec<Entry>,
    len: usize,
}

/// The reader's side of a worker's queue.
struct Hand {
    queue: SyncSender<Batch>,
    /// Batches that come back.
    back: Receiver<Batch>,
    batch: Batch,
    is_gone: bool,
}

struct Dealer {
    reader: Reader,
    hands: Vec<Hand>,
    /// All requests before this time are in the queues.
    horizon: Arc<AtomicU64>,
    /// Gets a message when the queues are full for the first time, or the log is at its end.
    is_ready: SyncSender<()>,
    /// Dropped after the reader.
    _reading: Sender<()>,
}

/// Starts the thread. Returns when the queues are filled.
pub(super) fn feeds(replay: &Replay, shares: u32) -> Vec<Box<dyn Feed>> {
    replay.begin();
    let reader = match Reader::new(replay) {
        Ok(reader) => reader,
        Err(why) => return failed(replay, &why),
    };
    let horizon = Arc::new(AtomicU64::new(0));
    let (is_ready, ready) = sync_channel(1);
    let (mut hands, mut feeds) = (Vec::new(), Vec::<Box<dyn Feed>>::new());
    for _ in 0..shares {
        let (queue, taken) = sync_channel(QUEUE);
        let (to_back, back) = mpsc::channel();
        hands.push(Hand { queue, back, batch: Batch::default(), is_gone: false });
        feeds.push(Box::new(Dealt {
            queue: taken,
            back: to_back,
            batch: Batch::default(),
            next: 0,
            horizon: Arc::clone(&horizon),
            was_late: false,
            counts: Counts::new(replay),
        }));
    }
    let (_reading, reading) = mpsc::channel();
    *replay.0.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
    let dealer = Dealer { reader, hands, horizon, is_ready, _reading };
    let thread = thread::Builder::new().name("log".into()).spawn(move || dealer.deal());
    match thread {
        // It answers, or ends.
        Ok(_) => drop(ready.recv()),
        Err(e) => replay.lock().failed = Some(e.to_string()),
    }
    feeds
}

impl Dealer {
    fn deal(mut self) {
        let (mut entry, mut number, mut step) = (Entry::default(), 0, 0);
        while self.reader.next(&mut entry) {
            let at = entry.at.0;
            if at / STEP > step {
                step = at / STEP;
                self.hand_all(step * STEP);
                if step.is_multiple_of(NOTED) {
                    self.reader.replay.note(&self.reader);
                }
            }
            let hand = share_of(&entry, number, self.hands.len() as u64) as usize;
            number += 1;
            self.hands[hand].put(&mut entry);
            if self.hands[hand].batch.len == BATCH {
                self.hand(hand);
            }
            if self.hands.iter().all(|hand| hand.is_gone) {
                return;
            }
        }
        self.hand_all(u64::MAX);
        let _ = self.is_ready.try_send(());
    }

    /// Hands over what there is; there is nothing else before `until`.
    fn hand_all(&mut self, until: u64) {
        for hand in 0..self.hands.len() {
            self.hand(hand);
        }
        self.horizon.store(until, Ordering::Release);
    }

    fn hand(&mut self, hand: usize) {
        let Self { hands, is_ready, .. } = self;
        let Hand { queue, back, batch, is_gone } = &mut hands[hand];
        if batch.len == 0 {
            return;
        }
        let next = back.try_recv().unwrap_or_default();
        let full = mem::replace(batch, next);
        let sent = queue.try_send(full).or_else(|full| match full {
            TrySendError::Full(full) => {
                let _ = is_ready.try_send(());
                queue.send(full).map_err(drop)
            }
            TrySendError::Disconnected(_) => Err(()),
        });
        *is_gone |= sent.is_err();
        batch.len = 0;
    }
}

impl Hand {
    fn put(&mut self, entry: &mut Entry) {
        let Batch { entries, len } = &mut self.batch;
        if *len == entries.len() {
            entries.push(Entry::default());
        }
        mem::swap(&mut entries[*len], entry);
        *len += 1;
    }
}

/// The requests of one worker.
struct Dealt {
    queue: Receiver<Batch>,
    back: Sender<Batch>,
    batch: Batch,
    /// The place of the next request in the batch.
    next: usize,
    horizon: Arc<AtomicU64>,
    /// The next request was due before it was there.
    was_late: bool,
    counts: Counts,
}

impl Feed for Dealt {
    fn next(&mut self, entry: &mut Entry, now: Span) -> Fed {
        while self.next == self.batch.len {
            // Before the queue: what is before it is in the queue by now.
            let horizon = Span(self.horizon.load(Ordering::Acquire));
            match self.queue.try_recv() {
                Ok(batch) => {
                    let used = mem::replace(&mut self.batch, batch);
                    self.next = 0;
                    // The reader may have ended.
                    let _ = self.back.send(used);
                }
                Err(TryRecvError::Empty) => {
                    self.was_late = horizon <= now;
                    return Fed::Later(horizon);
                }
                Err(TryRecvError::Disconnected) => return Fed::Ended,
            }
        }
        mem::swap(entry, &mut self.batch.entries[self.next]);
        self.next += 1;
        self.counts.count(entry);
        if mem::take(&mut self.was_late) && entry.at < now {
            self.counts.late += 1;
            self.counts.late_most = self.counts.late_most.max(now - entry.at);
        }
        Fed::Entry
    }

    fn due_before(&self, limit: Span) -> u64 {
        let rest = &self.batch.entries[self.next..self.batch.len];
        rest.partition_point(|entry| entry.at < limit) as u64
    }

    fn waits_for_replies(&self) -> bool {
        self.counts.replay.0.wait
    }

    fn held(&mut self, wait: Span) {
        self.counts.held.record(wait);
    }
}

#[cfg(test)]
mod tests;
