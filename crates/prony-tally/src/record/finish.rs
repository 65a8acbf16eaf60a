//! The end of a run: what the recorder keeps becomes tallies.

use super::{Recorder, Tally};
use prony_base::units::{Nanos, Span};
use prony_proto::proto::StreamCounts;

impl Recorder {
    /// Keep what the carrier has counted.
    pub fn streams(&mut self, counts: &StreamCounts) {
        if !counts.is_empty() {
            self.main.tally.http2 = Some(Box::new(counts.clone()));
        }
    }

    /// Finish both tallies: warm-up (`None` if the plan has none) and measurement. `by_time`: the
    /// measurement ends with the load; otherwise with the last completion, and then nothing is in
    /// the drain.
    pub fn finish(mut self, by_time: bool) -> (Option<Tally>, Tally) {
        self.sort_bytes(Nanos::MAX);
        self.finish_polls();
        let ended = Some(self.load_end).filter(|&end| by_time && end < Nanos::MAX);
        let end = ended.unwrap_or(self.main.last_done).max(self.start);
        if !by_time {
            let t = &mut self.main.tally;
            (t.sent_late, t.replies_in_drain, t.bytes_in_drain) = (0, 0, 0);
            t.statuses_in_drain.clear();
            (t.time_in_drain, t.time_unfinished) = (Span::ZERO, self.in_flight.given_up());
            if let Some(tokens) = &mut t.tokens {
                (tokens.chunks_in_drain, tokens.good_in_drain) = (0, 0);
            }
            if let Some(sessions) = &mut t.sessions {
                sessions.completed_in_drain = 0;
            }
        }
        let (time, max) = self.open_streams(by_time);
        if let Some(counts) = &mut self.main.tally.http2 {
            (counts.open_time, counts.open_max) = (time, max);
        }
        self.main.tally.time_in_flight = Some(self.in_flight.total(by_time));
        // If the load stops during the warm-up, the measurement is empty and the warm-up ends with
        // the load.
        let warm_end = self.load_end.min(self.start);
        if self.ready < Nanos::MAX {
            self.main.tally.start = self.start.max(self.ready.min(end));
        }
        let warm = (self.start > Nanos::ZERO).then(|| self.warm.finish(warm_end));
        (warm, self.main.finish(end))
    }
}
