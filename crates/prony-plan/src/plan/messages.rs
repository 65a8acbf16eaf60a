//! Messages in streams that have a schedule of their own.

use serde::{Deserialize, Serialize};

use crate::rate::{Arrivals, Inverse, RatePlan};
use prony_base::units::Span;

/// When the messages of a stream are sent, counted from the intended start of the stream. Applies
/// to all calls that take any number of messages. They are the messages of the call, in turn, and
/// from the first one again after the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagePlan {
    /// Messages per second of each stream; if it is that of several, of these together. It has no
    /// pieces if the times between messages have no rate.
    #[serde(default, with = "rate", skip_serializing_if = "has_no_pieces")]
    pub rate: RatePlan,
    /// The rate is that of this many streams together, each of which has its turn.
    #[serde(default = "alone", skip_serializing_if = "is_alone")]
    pub over: u32,
    /// The times between messages. With constant ones, the first message is due at the start of the
    /// stream; others are drawn before the first message, too.
    #[serde(default, skip_serializing_if = "is_fixed")]
    pub arrivals: Arrivals,
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

fn is_fixed(arrivals: &Arrivals) -> bool {
    *arrivals == Arrivals::Fixed
}

fn has_no_pieces(rate: &RatePlan) -> bool {
    rate.pieces.is_empty()
}

/// A constant rate is a number.
mod rate {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::rate::RatePlan;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Rate {
        Constant(f64),
        Plan(RatePlan),
    }

    pub(super) fn serialize<S: Serializer>(rate: &RatePlan, to: S) -> Result<S::Ok, S::Error> {
        match rate.as_constant() {
            Some(constant) => constant.serialize(to),
            None => rate.serialize(to),
        }
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<RatePlan, D::Error> {
        Rate::deserialize(from).map(|rate| match rate {
            Rate::Constant(rate) => RatePlan::constant(rate),
            Rate::Plan(rate) => rate,
        })
    }
}

impl MessageReply {
    fn is_usual(&self) -> bool {
        *self == Self::Usual
    }
}

impl MessagePlan {
    /// A schedule with this constant rate on each stream.
    pub fn fixed(rate: f64, count: Option<u64>, time: Option<Span>) -> Self {
        let (rate, arrivals) = (RatePlan::constant(rate), Arrivals::Fixed);
        Self { rate, over: 1, arrivals, count, time, reply: MessageReply::Usual }
    }

    /// When a stream has no more messages, from its intended start: its time, or the end of its
    /// rate or of its trace.
    pub fn end(&self) -> Option<Span> {
        let own = match &self.arrivals {
            // The last message falls into it.
            Arrivals::Trace(times) => times.last().map(|&last| last + Span(1)),
            arrivals if arrivals.has_rate() => self.rate.length(),
            _ => None,
        };
        self.time.into_iter().chain(own).min()
    }

    /// The most messages of a stream whose call has `own` of them.
    pub fn most(&self, own: u64) -> u64 {
        match self.end() {
            Some(_) => self.count.unwrap_or(u64::MAX),
            None => self.count.unwrap_or(own),
        }
    }

    /// The latest time at which a stream with `own` messages of its call sends one, from its
    /// intended start. Random times have no such limit: it is twice their mean then, plus 10 times
    /// the mean gap (with bursts, as many times more as they are more variable).
    pub fn length(&self, own: u64) -> Span {
        let (count, over) = (self.most(own), f64::from(self.over));
        let gaps = match &self.arrivals {
            Arrivals::Fixed => count.saturating_sub(1) as f64,
            &Arrivals::Gamma(shape) => 2.0 * count as f64 + 10.0 / shape.min(1.0),
            _ => 2.0 * count as f64 + 10.0,
        };
        // The first message of the last stream is due nearly a gap later.
        let gaps = if self.over > 1 { gaps + 1.0 } else { gaps };
        let by_count = match &self.arrivals {
            Arrivals::Uniform(_, high) => {
                Span((count as f64 * over * high.0 as f64).min(u64::MAX as f64) as u64)
            }
            arrivals if arrivals.has_rate() => {
                Inverse::new(&self.rate).at(gaps * over).unwrap_or(Span::MAX)
            }
            _ => Span::MAX,
        };
        self.end().map_or(by_count, |end| end.min(by_count))
    }

    /// Check the values.
    ///
    /// # Errors
    /// One sentence about the first defect.
    pub fn check(&self) -> Result<(), String> {
        self.check_times()?;
        if self.over == 0 {
            return Err("a schedule of messages is that of at least 1 stream".into());
        }
        if self.count == Some(0) {
            return Err("a stream must have at least 1 message".into());
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), String> {
        match &self.arrivals {
            Arrivals::Log => return Err("messages have no log of their times".into()),
            Arrivals::Gamma(shape) if !Arrivals::SHAPES.contains(shape) => {
                return Err(
                    "the shape of the times between messages is not from 0.01 to 1000".into()
                );
            }
            Arrivals::Uniform(low, high) if high < low || *high == Span::ZERO => {
                return Err(
                    "the times between messages are uniform from LOW to HIGH, not all zero".into(),
                );
            }
            Arrivals::Trace(times) if times.is_empty() || !times.is_sorted() => {
                return Err("the times of messages are none, or not in order".into());
            }
            _ => {}
        }
        match (self.arrivals.has_rate(), self.rate.as_constant()) {
            (false, _) if self.rate.pieces.is_empty() => Ok(()),
            (false, _) => Err(format!(
                "messages have a rate, or times between them that are {}, not both",
                self.arrivals
            )),
            // Once a year; and a nanosecond is the shortest time there is.
            (true, Some(rate)) if !(1e-8..=1e9).contains(&rate) => {
                Err("the rate of messages must be positive, and at most 1,000,000,000 per \
                     second"
                    .into())
            }
            (true, _) => self.rate.check(),
        }
    }
}
