//! The behavior of the target server, as plain data with a text form.

mod events;
mod latency;
mod sockets;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use events::EventBehavior;
pub use latency::Latency;
pub use sockets::{BroadcastFaults, SocketBehavior};

use prony_base::rng;
use prony_base::units::Span;

/// The behavior of the server. Each random part draws from its own stream, keyed by (seed, number
/// of the request), so that enabling one does not change the draws of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerBehavior {
    /// The service time of a request.
    pub latency: Latency,
    /// A step change of the service times.
    pub step: Option<Change>,
    /// A linear drift of the service times.
    pub drift: Option<Change>,
    /// When the server freezes.
    pub stalls: Stalls,
    /// How many requests are served concurrently: workers behind one FIFO queue. `None`: any
    /// number, so that no request waits for another.
    pub workers: Option<NonZeroU32>,
    /// Bytes of the body of a default reply.
    pub size: u64,
    /// The statuses of default replies.
    pub statuses: StatusMix,
    /// Default replies are streams of server-sent events.
    pub sse: Option<EventBehavior>,
    /// What happens on connections of WebSocket; `None`: handshakes are usual requests.
    pub ws: Option<SocketBehavior>,
    /// Whether messages of WebSocket are compressed, for clients that offer it.
    pub ws_compress: bool,
    /// Whether bodies are sent in chunks (to HTTP/1.1 clients).
    pub chunked: bool,
    /// After how many requests the server closes a connection.
    pub close_after: Option<CloseAfter>,
    /// Close a connection after this idle time.
    pub idle_close: Option<Span>,
    /// The share of requests that are served and then end with a connection reset instead of a
    /// reply.
    pub reset: Share,
    /// The share of replies that are cut off in the middle of the body (or of the head, if there is
    /// no body). The connection is then closed.
    pub truncate: Share,
    /// The maximum length of a request's body; a longer one gets status 413.
    pub max_body: u64,
    /// How many streams of a connection of HTTP/2 may be open at once.
    pub max_streams: u32,
    /// How many bytes of a request's body a client of HTTP/2 may send before the server has read
    /// them: the flow-control window of a stream.
    pub window: u32,
    /// After how many streams a connection of HTTP/2 announces its end by two GOAWAY frames: the
    /// second follows when the client has answered a PING.
    pub goaway_after: Option<NonZeroU32>,
    /// The share of streams that are refused with REFUSED_STREAM.
    pub refuse: Share,
    /// The share of requests that are served and then end with RST_STREAM (INTERNAL_ERROR) instead
    /// of a reply.
    pub rst: Share,
    /// How long after the client's preface the server's first SETTINGS are sent. Nothing else is
    /// sent before.
    pub settings_delay: Option<Span>,
    /// Whether requests of HTTP/2 with the content type of gRPC are calls: of the interoperability
    /// tests' service, health, reflection and load reports.
    pub grpc: bool,
}

impl Default for ServerBehavior {
    fn default() -> Self {
        Self {
            latency: Latency::None,
            step: None,
            drift: None,
            stalls: Stalls::default(),
            workers: None,
            size: 128,
            statuses: StatusMix::default(),
            sse: None,
            ws: None,
            ws_compress: false,
            chunked: false,
            close_after: None,
            idle_close: None,
            reset: Share::NEVER,
            truncate: Share::NEVER,
            max_body: 16 << 20,
            max_streams: 250,
            window: 1 << 20,
            goaway_after: None,
            refuse: Share::NEVER,
            rst: Share::NEVER,
            settings_delay: None,
            grpc: false,
        }
    }
}

/// The purposes of a request's random draws.
#[derive(Clone, Copy)]
pub(super) enum Draw {
    Latency = 0,
    Latency2 = 1,
    Status = 2,
    Reset = 3,
    Truncate = 4,
    Rst = 5,
    Refuse = 6,
    Count = 7,
    Lose = 8,
    Duplicate = 9,
    Swap = 10,
    Cut = 11,
}

impl ServerBehavior {
    /// The factor on service times at `t` after the first request.
    pub(super) fn factor(&self, t: Span) -> f64 {
        self.step.map_or(1.0, |c| c.stepped(t)) * self.drift.map_or(1.0, |c| c.drifted(t))
    }
}

/// Freezes of the server, in which it sends no reply and no service makes progress. A request in
/// service when a freeze starts continues after the end of the freeze.
///
/// As text: `none`; `1s@10s` freezes for 1 s every 10 s, first 10 s after the first request;
/// `2s@+4s` freezes once, for 2 s, 4 s after the first request. Separate several with commas; at
/// most one may repeat: `1s@10s,200ms@+500ms`. Overlapping freezes are merged. Times count from
/// the first request that the server receives, so that a freeze has the same position in a run
/// regardless of when the server was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stalls(pub Vec<Stall>);

/// One freeze, or one that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// A periodic freeze, shorter than its period.
    Every {
        /// Its duration.
        length: Span,
        /// From the start of one freeze to the start of the next, and from the first request to
        /// the first freeze.
        period: Span,
    },
    /// A single freeze.
    Once {
        /// Its duration.
        length: Span,
        /// When it starts, after the first request.
        at: Span,
    },
}

impl Stall {
    /// The start and end of the first freeze that ends after `t`, in nanoseconds since the first
    /// request.
    fn ending_after(self, t: u64) -> Option<(u64, u64)> {
        match self {
            Self::Once { length, at } => {
                let end = at.0.saturating_add(length.0);
                (end > t).then_some((at.0, end))
            }
            Self::Every { length, period } => {
                let k = (t.saturating_sub(length.0) / period.0).max(1);
                // `k` may be one too small, because a freeze that ends at `t` is over.
                (k..k + 2)
                    .map(|k| k.saturating_mul(period.0))
                    .map(|start| (start, start.saturating_add(length.0)))
                    .find(|&(_, end)| end > t)
            }
        }
    }
}

impl Stalls {
    /// Whether the server never freezes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The start and end of the first freeze that ends after `t`, in nanoseconds since the first
    /// request. Adjacent and overlapping freezes are merged.
    pub fn ending_after(&self, t: u64) -> Option<(u64, u64)> {
        let next = |t| self.0.iter().filter_map(move |s| s.ending_after(t)).min();
        let (start, mut end) = next(t)?;
        // Terminates: only one item repeats, and leaves a gap in each of its periods.
        while let Some((_, later)) =
            self.0.iter().filter_map(|s| s.ending_after(end)).find(|&(start, _)| start <= end)
        {
            end = later;
        }
        Some((start, end))
    }

    /// When `work` that starts at `from` is done. Freezes suspend it.
    pub fn done(&self, from: u64, work: Span) -> u64 {
        let (mut t, mut left) = (from, work.0);
        while let Some((start, end)) = self.ending_after(t) {
            if t < start {
                if left <= start - t {
                    break;
                }
                left -= start - t;
            }
            t = end;
            if end == u64::MAX {
                break;
            }
        }
        t.saturating_add(left)
    }
}

impl FromStr for Stalls {
    type Err = BehaviorError;

    fn from_str(text: &str) -> Result<Self, BehaviorError> {
        let fail = |why: &'static str| BehaviorError {
            what: "stall",
            given: text.to_owned(),
            why: why.into(),
            form: STALL,
        };
        let span = |t: &str| t.parse::<Span>().map_err(|_| fail("a time is malformed"));
        let mut stalls = Vec::new();
        if text == "none" {
            return Ok(Self(stalls));
        }
        for item in text.split(',').map(str::trim) {
            let (length, when) = item.split_once('@').ok_or_else(|| fail("'@' is missing"))?;
            let length = span(length)?;
            if length == Span::ZERO {
                return Err(fail("the length of a freeze is zero"));
            }
            if let Some(at) = when.strip_prefix('+') {
                stalls.push(Stall::Once { length, at: span(at)? });
                continue;
            }
            let period = span(when)?;
            if length >= period {
                return Err(fail("a freeze must be shorter than its period"));
            }
            if stalls.iter().any(|s| matches!(s, Stall::Every { .. })) {
                return Err(fail("only one freeze may repeat"));
            }
            stalls.push(Stall::Every { length, period });
        }
        Ok(Self(stalls))
    }
}

const STALL: &str = "1s@10s (1 s every 10 s) or 2s@+4s (once, 4 s after the first request), \
                     separated by commas";

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (i, stall) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match stall {
                Stall::Every { length, period } => write!(f, "{comma}{length}@{period}")?,
                Stall::Once { length, at } => write!(f, "{comma}{length}@+{at}")?,
            }
        }
        Ok(())
    }
}

/// Statuses with their relative weights.
///
/// As text: `200`, or `200:99,503:1`. Statuses are 200 to 599, weights at least 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StatusMix(pub Vec<(u16, u32)>);

impl Default for StatusMix {
    fn default() -> Self {
        Self(vec![(200, 1)])
    }
}

impl StatusMix {
    /// The status, if there is only one.
    pub(super) fn only(&self) -> Option<u16> {
        if let [(status, _)] = self.0[..] { Some(status) } else { None }
    }

    /// A draw from 64 random bits.
    pub(super) fn draw(&self, bits: u64) -> u16 {
        let total: u64 = self.0.iter().map(|&(_, weight)| u64::from(weight)).sum();
        let mut at = (rng::unit(bits) * total as f64) as u64;
        for &(status, weight) in &self.0 {
            match at.checked_sub(weight.into()) {
                None => return status,
                Some(rest) => at = rest,
            }
        }
        self.0.last().map_or(200, |&(status, _)| status)
    }
}

impl FromStr for StatusMix {
    type Err = BehaviorError;

    fn from_str(text: &str) -> Result<Self, BehaviorError> {
        let fail = |why: &'static str| BehaviorError {
            what: "list of statuses",
            given: text.to_owned(),
            why: why.into(),
            form: "200, or statuses with weights such as 200:99,503:1",
        };
        let mut mix = Vec::new();
        for item in text.split(',').map(str::trim) {
            let (status, weight) = item.split_once(':').unwrap_or((item, "1"));
            let status: u16 = status.parse().map_err(|_| fail("a status is not a number"))?;
            if !(200..=599).contains(&status) {
                return Err(fail("a status is not between 200 and 599"));
            }
            let weight: u32 = weight.parse().map_err(|_| fail("a weight is not a number"))?;
            if weight == 0 {
                return Err(fail("a weight is 0"));
            }
            mix.push((status, weight));
        }
        Ok(Self(mix))
    }
}

impl fmt::Display for StatusMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(status) = self.only() {
            return write!(f, "{status}");
        }
        for (i, (status, weight)) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{status}:{weight}")?;
        }
        Ok(())
    }
}

/// A change of all service times by a factor, at a time after the first request.
///
/// As text: `3@10s`. Factors are above 0 and at most 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Change {
    /// The final factor on service times.
    pub factor: f64,
    /// When the final factor is reached.
    pub at: Span,
}

impl Change {
    /// The factor at `t` after the first request, for a step change.
    pub(super) fn stepped(self, t: Span) -> f64 {
        if t >= self.at { self.factor } else { 1.0 }
    }

    /// The factor at `t` after the first request, for a linear drift.
    pub(super) fn drifted(self, t: Span) -> f64 {
        // 0 s / 0 s is NaN, for which `min` returns 1.
        let done = (t.as_secs_f64() / self.at.as_secs_f64()).min(1.0);
        1.0 + (self.factor - 1.0) * done
    }
}

impl FromStr for Change {
    type Err = BehaviorError;

    fn from_str(text: &str) -> Result<Self, BehaviorError> {
        let fail = |why: &'static str| BehaviorError {
            what: "change of the service time",
            given: text.to_owned(),
            why: why.into(),
            form: "3@10s (times 3, 10 s after the first request)",
        };
        let (factor, at) = text.split_once('@').ok_or_else(|| fail("'@' is missing"))?;
        let factor: f64 = factor.trim().parse().map_err(|_| fail("the factor is not a number"))?;
        if !(factor > 0.0 && factor <= 1_000.0) {
            return Err(fail("the factor must be above 0 and at most 1000"));
        }
        let at = at.trim().parse().map_err(|_| fail("a time is malformed"))?;
        Ok(Self { factor, at })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.factor, self.at)
    }
}

/// After how many requests the server closes a connection.
///
/// As text: `100` (the 100th reply has `Connection: close`), `100,silent` (it has not, so requests
/// that are in flight at that time are lost).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CloseAfter {
    /// The number of requests, at least 1.
    pub requests: u32,
    /// Whether the last reply omits `Connection: close`.
    pub silent: bool,
}

impl FromStr for CloseAfter {
    type Err = BehaviorError;

    fn from_str(text: &str) -> Result<Self, BehaviorError> {
        let fail = |why: &'static str| BehaviorError {
            what: "number of requests before a close",
            given: text.to_owned(),
            why: why.into(),
            form: "100 or 100,silent",
        };
        let (requests, silent) = match text.split_once(',') {
            None => (text, false),
            Some((requests, "silent")) => (requests, true),
            Some(_) => return Err(fail("only 'silent' may follow the number")),
        };
        match requests.parse() {
            Ok(0) => Err(fail("it must be at least 1")),
            Ok(requests) => Ok(Self { requests, silent }),
            Err(_) => Err(fail("it is not a number")),
        }
    }
}

impl fmt::Display for CloseAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.requests, if self.silent { ",silent" } else { "" })
    }
}

/// A share of requests, 0 to 1. As text: `0.1%` or `0.001`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(pub f64);

impl Share {
    /// No request.
    pub const NEVER: Self = Self(0.0);

    /// Whether a draw of these random bits is in the share.
    pub(super) fn hits(self, bits: u64) -> bool {
        rng::unit(bits) < self.0
    }
}

impl FromStr for Share {
    type Err = BehaviorError;

    fn from_str(text: &str) -> Result<Self, BehaviorError> {
        let fail = |why: &'static str| BehaviorError {
            what: "share",
            given: text.to_owned(),
            why: why.into(),
            form: "0.1% or 0.001",
        };
        let (number, unit) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let number: f64 = number.parse().map_err(|_| fail("it is not a number"))?;
        let share = number / unit;
        if (0.0..=1.0).contains(&share) {
            Ok(Self(share))
        } else {
            Err(fail("it is not between 0 and 1"))
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// These types are serialized in their text form, so that deserializing validates them.
macro_rules! serialized_as_text {
    ($($behavior:ty),*) => {$(
        impl TryFrom<String> for $behavior {
            type Error = BehaviorError;

            fn try_from(text: String) -> Result<Self, BehaviorError> {
                text.parse()
            }
        }

        impl From<$behavior> for String {
            fn from(behavior: $behavior) -> Self {
                behavior.to_string()
            }
        }
    )*};
}

serialized_as_text!(Latency, EventBehavior, SocketBehavior, Change, Stalls, StatusMix, CloseAfter);

/// The error for a malformed text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not a {what}: {why}; write {form}")]
pub struct BehaviorError {
    pub(super) what: &'static str,
    pub(super) given: String,
    pub(super) why: Cow<'static, str>,
    pub(super) form: &'static str,
}
