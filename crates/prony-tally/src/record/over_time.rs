//! The times that are measured in streams, and some of them over time, for their intervals and for
//! reports.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::series::Series;
use super::{Recorder, Tally};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_plan::threshold::Timed;

/// A time that is measured in streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamTime {
    /// Of a message with a schedule to its reply.
    Message,
    /// To the first message of a reply.
    FirstMessage,
    /// To the first message with content.
    FirstContent,
    /// Between two messages.
    MessageGap,
    /// To the first output of a language model.
    Ttft,
    /// Between the tokens of a reply, on average.
    Itl,
    /// Between two messages with output.
    ChunkGap,
    /// Of a broadcast's message to one of its subscribers.
    Delivery,
    /// Of a ping to its pong.
    Ping,
}

/// The series of these times, as far as there were any. A time counts when it ends, as a success of
/// the series.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct StreamSeries {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_message: Option<Box<Series>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_content: Option<Box<Series>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_gap: Option<Box<Series>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttft: Option<Box<Series>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    itl: Option<Box<Series>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunk_gap: Option<Box<Series>>,
}

impl StreamTime {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Message,
        Self::FirstMessage,
        Self::FirstContent,
        Self::MessageGap,
        Self::Ttft,
        Self::Itl,
        Self::ChunkGap,
        Self::Delivery,
        Self::Ping,
    ];

    /// Those that are kept over time.
    pub const OVER_TIME: [Self; 6] = [
        Self::FirstMessage,
        Self::FirstContent,
        Self::MessageGap,
        Self::Ttft,
        Self::Itl,
        Self::ChunkGap,
    ];

    /// As a kind of time.
    pub fn timed(self) -> Timed {
        match self {
            Self::Message => Timed::Message,
            Self::FirstMessage => Timed::FirstMessage,
            Self::FirstContent => Timed::FirstContent,
            Self::MessageGap => Timed::MessageGap,
            Self::Ttft => Timed::Ttft,
            Self::Itl => Timed::Itl,
            Self::ChunkGap => Timed::ChunkGap,
            Self::Delivery => Timed::Delivery,
            Self::Ping => Timed::Ping,
        }
    }

    /// The time in streams that is this kind of time.
    pub fn of(timed: Timed) -> Option<Self> {
        Self::ALL.into_iter().find(|time| time.timed() == timed)
    }
}

impl StreamSeries {
    /// The series of a time, if there was any.
    pub fn of(&self, time: StreamTime) -> Option<&Series> {
        match time {
            StreamTime::FirstMessage => self.first_message.as_deref(),
            StreamTime::FirstContent => self.first_content.as_deref(),
            StreamTime::MessageGap => self.message_gap.as_deref(),
            StreamTime::Ttft => self.ttft.as_deref(),
            StreamTime::Itl => self.itl.as_deref(),
            StreamTime::ChunkGap => self.chunk_gap.as_deref(),
            StreamTime::Message | StreamTime::Delivery | StreamTime::Ping => None,
        }
    }

    /// `None`: it is not kept over time.
    fn of_mut(&mut self, time: StreamTime) -> Option<&mut Option<Box<Series>>> {
        Some(match time {
            StreamTime::FirstMessage => &mut self.first_message,
            StreamTime::FirstContent => &mut self.first_content,
            StreamTime::MessageGap => &mut self.message_gap,
            StreamTime::Ttft => &mut self.ttft,
            StreamTime::Itl => &mut self.itl,
            StreamTime::ChunkGap => &mut self.chunk_gap,
            StreamTime::Message | StreamTime::Delivery | StreamTime::Ping => return None,
        })
    }

    /// Complete all of them, so that they can be read.
    pub(super) fn close(&mut self) {
        for time in StreamTime::OVER_TIME {
            if let Some(Some(series)) = self.of_mut(time) {
                series.close();
            }
        }
    }
}

impl Tally {
    /// All times of this kind; `None` if there is none.
    pub fn times_in_streams(&self, time: StreamTime) -> Option<&Hist> {
        self.times_of(time.timed()).filter(|hist| !hist.is_empty())
    }

    /// The same, from the send where that is known: without waits in the meter's own queue.
    pub fn served_in_streams(&self, time: StreamTime) -> Option<&Hist> {
        match time {
            StreamTime::Message => Some(&self.times.message_service),
            StreamTime::Ttft => self.tokens.as_deref().map(|tokens| &tokens.ttft_service),
            _ => self.times_in_streams(time),
        }
    }

    /// The times of this kind: all of them, and over time.
    pub fn stream_times(&self, time: StreamTime) -> Option<(&Hist, &Series)> {
        let series = self.stream_series.as_deref()?.of(time)?;
        Some((self.times_in_streams(time)?, series))
    }
}

impl Recorder {
    /// A time ended at `now`, and belongs to the section of `at`.
    #[inline]
    pub(super) fn over_time(&mut self, at: Nanos, kind: StreamTime, now: Nanos, time: Span) {
        let tally = &mut self.section(at).tally;
        let start = tally.series.start();
        let all = tally.stream_series.get_or_insert_default();
        if let Some(kept) = all.of_mut(kind) {
            kept.get_or_insert_with(|| Box::new(Series::new(start))).replied(now, time, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CallStart;

    #[test]
    fn times_are_kept_in_the_interval_in_which_they_ended() {
        let mut recorder = Recorder::new(Nanos::ZERO);
        let (ms, second) = (Span::from_millis, Nanos::ZERO + Span::from_secs(1));
        recorder.first_message(CallStart::default(), Nanos::ZERO + ms(1_500));
        recorder.next_message(second, second + ms(20));
        recorder.next_message(second, second + ms(40));
        let (_, t) = recorder.finish(true);
        let replies = |time| {
            let (hist, series) = t.stream_times(time).expect("there were some");
            let counts: Vec<u64> = series.cells().iter().map(|cell| cell.replies).collect();
            assert_eq!(hist.count(), counts.iter().sum::<u64>());
            counts
        };
        assert_eq!(replies(StreamTime::FirstMessage), [0, 1]);
        assert_eq!(replies(StreamTime::MessageGap), [0, 2]);
        assert!(t.stream_times(StreamTime::Ttft).is_none());
    }
}
