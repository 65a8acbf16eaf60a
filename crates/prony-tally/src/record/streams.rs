//! Streams that are open at once, over time: those of requests of which the first byte was sent,
//! and which have not ended.

use super::Recorder;
use prony_base::units::{Nanos, Span};

/// The streams of all connections of a worker.
#[derive(Debug, Default)]
pub(super) struct OpenStreams {
    /// How many are open.
    open: u64,
    /// The time of the last change, and the integral up to it, in streams times nanoseconds.
    seen: Nanos,
    integral: u128,
    /// The integral up to the last completion of which the time is known to have passed.
    until_last_done: u128,
    /// The most on one connection at once.
    max: u32,
}

impl OpenStreams {
    /// The integral up to `now`, since the last change, without what is before `start`.
    #[inline]
    fn until(&self, start: Nanos, now: Nanos) -> u128 {
        let from = self.seen.max(start);
        self.integral + u128::from(self.open) * u128::from(now.since(from).0)
    }

    /// The integral up to `end`. `last_done` is the last completion so far: what has ended a stream
    /// (as the time of it is over) may be counted before its frames are written, which changes the
    /// number of open streams.
    #[inline]
    fn advance(&mut self, start: Nanos, end: Nanos, now: Nanos, last_done: Nanos) {
        if last_done >= self.seen && last_done <= now {
            self.until_last_done = self.until(start, last_done.min(end));
        }
        self.integral = self.until(start, now.min(end));
        self.seen = now.max(self.seen);
    }
}

impl Recorder {
    /// The open streams of one connection were `before` until `now`, and are `after`. Call it after
    /// counting the replies that have ended them.
    #[inline]
    pub fn streams_changed(&mut self, before: u32, after: u32, now: Nanos) {
        let (streams, last_done) = (&mut self.streams, self.main.last_done);
        streams.advance(self.start, self.load_end, now, last_done);
        streams.open = streams.open + u64::from(after) - u64::from(before);
        if now >= self.start {
            streams.max = streams.max.max(before).max(after);
        }
    }

    /// The integral over the window, which ends with the load if `by_time`, otherwise with the last
    /// completion; and the most streams on one connection.
    pub(super) fn open_streams(&mut self, by_time: bool) -> (Span, u32) {
        let (start, end, last_done) = (self.start, self.load_end, self.main.last_done);
        let streams = &mut self.streams;
        if by_time && end < Nanos::MAX {
            streams.advance(start, end, end, last_done);
        }
        let all = match by_time {
            true => streams.integral,
            // Nothing has changed since.
            false if last_done >= streams.seen => streams.until(start, last_done),
            false => streams.until_last_done,
        };
        (Span(u64::try_from(all).unwrap_or(u64::MAX)), self.streams.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrates_over_the_window() {
        let changes = |r: &mut Recorder| {
            // Two connections: 3 streams from 50 to 400, 1 from 200 to 900.
            r.streams_changed(0, 3, Nanos(50));
            r.streams_changed(0, 1, Nanos(200));
            r.streams_changed(3, 0, Nanos(400));
            r.streams_changed(1, 0, Nanos(900));
        };
        // The warm-up ends at 100, the load at 600.
        let mut r = Recorder::new(Nanos(100));
        r.load_ended(Nanos(600));
        changes(&mut r);
        assert_eq!(r.open_streams(true), (Span(3 * 300 + 400), 3));
        let mut r = Recorder::new(Nanos(100));
        r.load_ended(Nanos(600));
        r.streams_changed(0, 2, Nanos(500));
        assert_eq!(r.open_streams(true), (Span(200), 2));
    }
}
