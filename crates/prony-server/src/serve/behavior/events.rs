//! The streams of events that a server sends.

use std::fmt;
use std::str::FromStr;

use prony_base::units::Span;
use serde::{Deserialize, Serialize};

use super::{BehaviorError, Latency};

/// The most events of a stream.
const COUNT_MAX: u64 = 1_000_000_000_000;
/// The most tokens of an event.
const TOKENS_MAX: u64 = 1_000;

/// The streams of events that a server sends.
///
/// As text: `ttft=exp:200ms,gap=fixed:20ms,count=100..300`. `ttft` is the time to the first event,
/// the service time of the request; `gap` the time between events. Both are distributions as of
/// [`Latency`], and zero by default. `count` is a number of events, or a range from which each
/// stream draws; 100 by default. The first `empty` events have no content. With `pings`, a comment
/// stands before each event. `tokens` is the number of tokens in each event of a language model; 1
/// by default. With `cut`, a number or a range, a stream ends after as many events, and continues
/// with the event after that of `Last-Event-ID` when it is opened again; `retry` says when to do
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventBehavior {
    /// The time to the first event.
    pub first: Latency,
    /// The time between events.
    pub gap: Latency,
    /// The least and the most events of a stream.
    pub count: (u64, u64),
    /// How many events at the start of a stream have no content.
    pub empty: u64,
    /// Whether a comment stands before each event.
    pub pings: bool,
    /// How many tokens an event of a language model has.
    pub tokens: u64,
    /// After how many events, at least and at most, a reply ends although its stream has not.
    pub cut: Option<(u64, u64)>,
    /// How long clients are to wait before they open a stream again, in whole milliseconds.
    pub retry: Option<Span>,
}

impl Default for EventBehavior {
    fn default() -> Self {
        Self {
            first: Latency::None,
            gap: Latency::None,
            count: (100, 100),
            empty: 0,
            pings: false,
            tokens: 1,
            cut: None,
            retry: None,
        }
    }
}

const FORM: &str = "ttft=exp:200ms,gap=fixed:20ms,count=100..300, and empty=1, tokens=4, \
                    cut=10..20, retry=1s or pings if wanted";

impl FromStr for EventBehavior {
    type Err = BehaviorError;

    fn from_str(text: &str) -> Result<Self, BehaviorError> {
        let fail = |why: String| BehaviorError {
            what: "stream of events",
            given: text.to_owned(),
            why: why.into(),
            form: FORM,
        };
        let number = |value: &str| match value.parse::<u64>() {
            Ok(n) if n <= COUNT_MAX => Ok(n),
            _ => Err(fail(format!("'{value}' is not a number up to {COUNT_MAX}"))),
        };
        let range = |range: &str| -> Result<(u64, u64), BehaviorError> {
            let (low, high) = range.split_once("..").unwrap_or((range, range));
            let ends = (number(low)?, number(high)?);
            if low.is_empty() || ends.0 == 0 || ends.0 > ends.1 {
                return Err(fail(format!("'{range}' is not a range of counts")));
            }
            Ok(ends)
        };
        let mut events = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.split_once('=') {
                Some(("ttft", time)) => events.first = time.parse()?,
                Some(("gap", time)) => events.gap = time.parse()?,
                Some(("count", text)) => events.count = range(text)?,
                Some(("cut", text)) => events.cut = Some(range(text)?),
                Some(("retry", text)) => match text.parse::<Span>() {
                    Ok(span) if span.0 % 1_000_000 == 0 => events.retry = Some(span),
                    _ => return Err(fail(format!("'{text}' is not a time in whole milliseconds"))),
                },
                Some(("empty", n)) => events.empty = number(n)?,
                Some(("tokens", n)) => {
                    events.tokens = number(n)?;
                    if !(1..=TOKENS_MAX).contains(&events.tokens) {
                        return Err(fail(format!("an event has 1 to {TOKENS_MAX} tokens")));
                    }
                }
                None if item == "pings" => events.pings = true,
                _ => return Err(fail(format!("'{item}' is not a part of it"))),
            }
        }
        Ok(events)
    }
}

impl fmt::Display for EventBehavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, gap, count: (low, high), empty, pings, tokens, cut, retry } = self;
        write!(f, "ttft={first},gap={gap},count={low}")?;
        if low < high {
            write!(f, "..{high}")?;
        }
        if *empty > 0 {
            write!(f, ",empty={empty}")?;
        }
        if *tokens > 1 {
            write!(f, ",tokens={tokens}")?;
        }
        if let Some((low, high)) = cut {
            write!(f, ",cut={low}")?;
            if low < high {
                write!(f, "..{high}")?;
            }
        }
        if let Some(retry) = retry {
            write!(f, ",retry={retry}")?;
        }
        f.write_str(if *pings { ",pings" } else { "" })
    }
}
