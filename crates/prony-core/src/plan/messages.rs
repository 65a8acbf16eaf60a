//! Messages in streams that have a schedule of their own.

use serde::{Deserialize, Serialize};

use crate::units::Span;

/// When the messages of a stream are sent, counted from the intended start of the stream. Applies
/// to all calls that take any number of messages. They are the messages of the call, in turn, and
/// from the first one again after the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagePlan {
    /// Messages per second of each stream; if it is that of several, of these together.
    pub rate: f64,
    /// The rate is that of this many streams together, each of which has its turn.
    #[serde(default = "alone", skip_serializing_if = "is_alone")]
    pub over: u32,
    /// The times between messages.
    #[serde(default, skip_serializing_if = "MessageArrivals::is_usual")]
    pub arrivals: MessageArrivals,
    /// Messages per stream; `None`: as many as fit into `time`, or else each message of the call
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// When the stream has no more messages, from its intended start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// Which message of the reply belongs to which message of the request.
    #[serde(default, skip_serializing_if = "MessageReply::is_usual")]
    pub reply: MessageReply,
}

/// The times between the messages of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageArrivals {
    /// Constant; the first message is due at the start of the stream.
    #[default]
    Fixed,
    /// Exponential, also before the first message.
    Poisson,
}

/// Which message of the reply belongs to which message of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageReply {
    /// By their order where both sides send any number of messages; otherwise none.
    #[default]
    Usual,
    /// The k-th to the k-th.
    Order,
    /// None: no latency is measured.
    None,
    /// By the value of a field, as each call says.
    Field,
    /// By a token that prony puts into each message of WebSocket, and that its reply has, too.
    Token,
}

fn alone() -> u32 {
    1
}

fn is_alone(over: &u32) -> bool {
    *over == 1
}

impl MessageArrivals {
    fn is_usual(&self) -> bool {
        *self == Self::Fixed
    }
}

impl MessageReply {
    fn is_usual(&self) -> bool {
        *self == Self::Usual
    }
}

impl MessagePlan {
    /// The most messages of a stream whose call has `own` of them.
    pub fn most(&self, own: u64) -> u64 {
        match self.time {
            Some(_) => self.count.unwrap_or(u64::MAX),
            None => self.count.unwrap_or(own),
        }
    }

    /// The latest time at which a stream with `own` messages of its call sends one, from its
    /// intended start. Random times have no such limit: it is twice their mean then, plus 10 times
    /// the mean gap.
    pub fn length(&self, own: u64) -> Span {
        let count = self.most(own);
        let gap = self.gap_ns();
        let gaps = match self.arrivals {
            MessageArrivals::Fixed => count.saturating_sub(1) as f64,
            MessageArrivals::Poisson => 2.0 * count as f64 + 10.0,
        };
        // The first message of the last stream is due nearly a gap later.
        let gaps = if self.over > 1 { gaps + 1.0 } else { gaps };
        let by_count = Span((gaps * gap).min(u64::MAX as f64) as u64);
        self.time.map_or(by_count, |time| time.min(by_count))
    }

    /// The mean time between the messages of one stream, in nanoseconds.
    pub fn gap_ns(&self) -> f64 {
        1e9 * f64::from(self.over) / self.rate
    }

    /// Check the values.
    ///
    /// # Errors
    /// One sentence about the first defect.
    pub fn check(&self) -> Result<(), String> {
        // Once a year; and a nanosecond is the shortest time there is.
        if !(1e-8..=1e9).contains(&self.rate) {
            return Err("the rate of messages must be positive, and at most 1,000,000,000 per \
                        second"
                .into());
        }
        if self.over == 0 {
            return Err("a schedule of messages is that of at least 1 stream".into());
        }
        if self.count == Some(0) {
            return Err("a stream must have at least 1 message".into());
        }
        Ok(())
    }
}
