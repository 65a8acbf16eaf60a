//! Feeds that read the log when they are asked.

use prony_base::feed::{Entry, Fed, Feed};
use prony_base::units::Span;

use super::{Counts, Reader, Replay, failed, share_of};

/// Each feed reads the whole log, and takes its share of the requests.
pub(super) fn feeds(replay: &Replay, shares: u32) -> Vec<Box<dyn Feed>> {
    replay.begin();
    // Only one can read a pipe.
    let shares = if replay.0.source.is_pipe() { 1 } else { u64::from(shares) };
    let mut feeds: Vec<Box<dyn Feed>> = Vec::new();
    for share in 0..shares {
        match Reader::new(replay) {
            Ok(reader) => {
                let counts = Counts::new(replay);
                feeds.push(Box::new(Direct { reader, counts, share, shares, read: 0 }));
            }
            Err(why) => return failed(replay, &why),
        }
    }
    feeds
}

struct Direct {
    reader: Reader,
    counts: Counts,
    share: u64,
    shares: u64,
    /// Requests that have been read, of all shares.
    read: u64,
}

impl Feed for Direct {
    fn next(&mut self, entry: &mut Entry, _: Span) -> Fed {
        while self.reader.next(entry) {
            self.read += 1;
            if share_of(entry, self.read - 1, self.shares) == self.share {
                self.counts.count(entry);
                return Fed::Entry;
            }
        }
        Fed::Ended
    }

    fn due_before(&self, _: Span) -> u64 {
        0
    }

    fn waits_for_replies(&self) -> bool {
        self.counts.replay.0.wait
    }

    fn held(&mut self, wait: Span) {
        self.counts.held.record(wait);
    }
}
