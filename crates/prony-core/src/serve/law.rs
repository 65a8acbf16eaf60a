//! What the target server does to requests: pure data, as a user writes it.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::rng;
use crate::units::Span;

/// The whole law. Each of its parts draws for itself from (seed, number of the request), so that
/// switching one on does not change what another draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServeLaw {
    /// How long serving a request takes.
    pub latency: Latency,
    /// From when on serving takes longer, or shorter.
    pub step: Option<Change>,
    /// Until when it takes longer and longer, or shorter.
    pub drift: Option<Change>,
    /// When the server freezes.
    pub stalls: Stalls,
    /// How many requests can be served at once: an M/M/c station with one queue, first come, first
    /// served. `None`: any number, so that no request waits for another.
    pub workers: Option<NonZeroU32>,
    /// Bytes of the body of a default reply.
    pub size: u64,
    /// The statuses of default replies.
    pub statuses: StatusMix,
    /// Whether bodies are sent in chunks (to HTTP/1.1 clients).
    pub chunked: bool,
    /// When the server closes a connection for the number of its requests.
    pub close_after: Option<CloseAfter>,
    /// Close a connection without a word once nothing was outstanding on it for so long.
    pub idle_close: Option<Span>,
    /// The share of requests that are served and then answered by a reset of the connection.
    pub reset: Share,
    /// The share of replies that are cut in the middle of the body (of the head, where there is no
    /// body); then the connection is closed.
    pub truncate: Share,
    /// The most bytes that a request's body may have; more is refused with status 413.
    pub max_body: u64,
}

impl Default for ServeLaw {
    fn default() -> Self {
        Self {
            latency: Latency::None,
            step: None,
            drift: None,
            stalls: Stalls::default(),
            workers: None,
            size: 128,
            statuses: StatusMix::default(),
            chunked: false,
            close_after: None,
            idle_close: None,
            reset: Share::NEVER,
            truncate: Share::NEVER,
            max_body: 16 << 20,
        }
    }
}

impl ServeLaw {
    /// What service times are multiplied by at `t` after the first request.
    pub(super) fn factor(&self, t: Span) -> f64 {
        self.step.map_or(1.0, |c| c.stepped(t)) * self.drift.map_or(1.0, |c| c.drifted(t))
    }
}

/// The time that serving one request takes.
///
/// As text: `none`, `fixed:2ms` (or just `2ms`), `exp:MEAN`, `lognormal:MEDIAN,SIGMA`,
/// `uniform:LO..HI`, `bimodal:FAST,SLOW,SHARE` (the share of slow ones, as `1%` or `0.01`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Latency {
    /// No time at all.
    #[default]
    None,
    /// Always the same.
    Fixed(Span),
    /// Exponential with that mean.
    Exponential(Span),
    /// Log-normal: the logarithm is normal with that standard deviation.
    LogNormal {
        /// The median.
        median: Span,
        /// The standard deviation of the natural logarithm; 0 to 10.
        sigma: f64,
    },
    /// Uniform between the two.
    Uniform(Span, Span),
    /// One of two.
    Bimodal {
        /// What the most take.
        fast: Span,
        /// What the others take.
        slow: Span,
        /// How many are slow.
        share: Share,
    },
}

impl Latency {
    /// A draw from 128 random bits.
    pub(super) fn draw(self, bits: u64, more: u64) -> Span {
        match self {
            Self::None => Span::ZERO,
            Self::Fixed(t) => t,
            Self::Exponential(mean) => rng::exponential(bits, mean),
            Self::LogNormal { median, sigma } => {
                // Box and Muller. 1 - u is never 0, so the logarithm is finite.
                let radius = (-2.0 * (1.0 - rng::unit(bits)).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * rng::unit(more)).cos();
                Span::from_secs_f64(median.as_secs_f64() * (sigma * normal).exp())
            }
            Self::Uniform(lo, hi) => {
                lo + Span::from_secs_f64((hi - lo).as_secs_f64() * rng::unit(bits))
            }
            Self::Bimodal { fast, slow, share } => {
                if share.hits(bits) {
                    slow
                } else {
                    fast
                }
            }
        }
    }
}

impl FromStr for Latency {
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let fail = |why| LawError { what: "latency", given: text.to_owned(), why, form: LATENCY };
        let span = |t: &str| t.trim().parse::<Span>().map_err(|_| fail("not a time"));
        let Some((name, arguments)) = text.split_once(':') else {
            return match text {
                "none" => Ok(Self::None),
                _ => span(text).map(Self::Fixed),
            };
        };
        match name {
            "fixed" => span(arguments).map(Self::Fixed),
            "exp" => span(arguments).map(Self::Exponential),
            "lognormal" => {
                let (median, sigma) =
                    arguments.split_once(',').ok_or_else(|| fail("no MEDIAN,SIGMA"))?;
                let sigma: f64 = sigma.trim().parse().map_err(|_| fail("SIGMA is no number"))?;
                if !(0.0..=10.0).contains(&sigma) {
                    return Err(fail("SIGMA is not between 0 and 10"));
                }
                Ok(Self::LogNormal { median: span(median)?, sigma })
            }
            "uniform" => {
                let (lo, hi) = arguments.split_once("..").ok_or_else(|| fail("no LO..HI"))?;
                let (lo, hi) = (span(lo)?, span(hi)?);
                if lo > hi { Err(fail("LO is above HI")) } else { Ok(Self::Uniform(lo, hi)) }
            }
            "bimodal" => {
                let mut parts = arguments.split(',');
                let (Some(fast), Some(slow), Some(share), None) =
                    (parts.next(), parts.next(), parts.next(), parts.next())
                else {
                    return Err(fail("no FAST,SLOW,SHARE"));
                };
                let share = share.trim().parse().map_err(|_| fail("SHARE is not within 0 to 1"))?;
                Ok(Self::Bimodal { fast: span(fast)?, slow: span(slow)?, share })
            }
            _ => Err(fail("no such law")),
        }
    }
}

const LATENCY: &str = "none, fixed:2ms, exp:1ms, lognormal:1ms,0.5, uniform:1ms..3ms or \
                       bimodal:1ms,100ms,1%";

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Fixed(t) => write!(f, "fixed:{t}"),
            Self::Exponential(mean) => write!(f, "exp:{mean}"),
            Self::LogNormal { median, sigma } => write!(f, "lognormal:{median},{sigma}"),
            Self::Uniform(lo, hi) => write!(f, "uniform:{lo}..{hi}"),
            Self::Bimodal { fast, slow, share } => write!(f, "bimodal:{fast},{slow},{share}"),
        }
    }
}

/// When the server freezes: nothing is answered and no service makes progress. What was in service
/// when a freeze began needs the rest of its time after the freeze's end.
///
/// As text: `none`; `1s@10s` freezes for 1 s every 10 s, first 10 s after the first request;
/// `2s@+4s` freezes once, for 2 s, 4 s after the first request. Several are joined by commas, with
/// at most one that repeats: `1s@10s,200ms@+500ms`. Freezes that overlap are one. Time counts from
/// the first request that the server receives, so that a freeze falls at the same place of a run
/// whenever the server was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stalls(pub Vec<Stall>);

/// One freeze, or one that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// Of that length, every so often; shorter than the period.
    Every {
        /// How long it lasts.
        length: Span,
        /// From the beginning of one to the beginning of the next, and from the first request to
        /// the first.
        period: Span,
    },
    /// Of that length, once.
    Once {
        /// How long it lasts.
        length: Span,
        /// When it begins, after the first request.
        at: Span,
    },
}

impl Stall {
    /// The first freeze that ends after `t`; both in nanoseconds since the first request.
    fn ending_after(self, t: u64) -> Option<(u64, u64)> {
        match self {
            Self::Once { length, at } => {
                let end = at.0.saturating_add(length.0);
                (end > t).then_some((at.0, end))
            }
            Self::Every { length, period } => {
                let k = (t.saturating_sub(length.0) / period.0).max(1);
                // `k` may be one too few, as a freeze that ends at `t` is over.
                (k..k + 2)
                    .map(|k| k.saturating_mul(period.0))
                    .map(|begin| (begin, begin.saturating_add(length.0)))
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

    /// The first freeze that ends after `t` (nanoseconds since the first request): its begin and
    /// its end, freezes that touch or overlap taken together.
    pub fn ending_after(&self, t: u64) -> Option<(u64, u64)> {
        let next = |t| self.0.iter().filter_map(move |s| s.ending_after(t)).min();
        let (begin, mut end) = next(t)?;
        // Ends: only one item repeats, and leaves a gap in each of its periods.
        while let Some((_, later)) =
            self.0.iter().filter_map(|s| s.ending_after(end)).find(|&(begin, _)| begin <= end)
        {
            end = later;
        }
        Some((begin, end))
    }

    /// When `work` that begins at `from` is done, as no work is done while frozen.
    pub fn done(&self, from: u64, work: Span) -> u64 {
        let (mut t, mut left) = (from, work.0);
        while let Some((begin, end)) = self.ending_after(t) {
            if t < begin {
                if left <= begin - t {
                    break;
                }
                left -= begin - t;
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
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let fail = |why| LawError { what: "stall", given: text.to_owned(), why, form: STALL };
        let span = |t: &str| t.parse::<Span>().map_err(|_| fail("not a time"));
        let mut stalls = Vec::new();
        if text == "none" {
            return Ok(Self(stalls));
        }
        for item in text.split(',').map(str::trim) {
            let (length, when) = item.split_once('@').ok_or_else(|| fail("no @"))?;
            let length = span(length)?;
            if length == Span::ZERO {
                return Err(fail("a freeze of no length"));
            }
            if let Some(at) = when.strip_prefix('+') {
                stalls.push(Stall::Once { length, at: span(at)? });
                continue;
            }
            let period = span(when)?;
            if length >= period {
                return Err(fail("a freeze as long as its period"));
            }
            if stalls.iter().any(|s| matches!(s, Stall::Every { .. })) {
                return Err(fail("more than one that repeats"));
            }
            stalls.push(Stall::Every { length, period });
        }
        Ok(Self(stalls))
    }
}

const STALL: &str = "1s@10s (1 s every 10 s) or 2s@+4s (once, 4 s after the first request), \
                     several joined by commas";

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

/// Statuses and how often each is drawn in relation to the others.
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
    /// The only status, where there is one.
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
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let fail = |why| LawError {
            what: "status",
            given: text.to_owned(),
            why,
            form: "200, or statuses with weights such as 200:99,503:1",
        };
        let mut mix = Vec::new();
        for item in text.split(',').map(str::trim) {
            let (status, weight) = item.split_once(':').unwrap_or((item, "1"));
            let status: u16 = status.parse().map_err(|_| fail("not a status"))?;
            if !(200..=599).contains(&status) {
                return Err(fail("a status outside 200 to 599"));
            }
            let weight: u32 = weight.parse().map_err(|_| fail("a weight that is no number"))?;
            if weight == 0 {
                return Err(fail("a weight of 0"));
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

/// A change of all service times: times a factor, at a time after the first request.
///
/// As text: `3@10s`. Factors are over 0 and at most 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Change {
    /// What service times are multiplied by in the end.
    pub factor: f64,
    /// When that is so.
    pub at: Span,
}

impl Change {
    /// The factor at `t` after the first request, if it comes at once.
    pub(super) fn stepped(self, t: Span) -> f64 {
        if t >= self.at { self.factor } else { 1.0 }
    }

    /// The factor at `t` after the first request, if it comes evenly.
    pub(super) fn drifted(self, t: Span) -> f64 {
        // Of 0 s by 0 s, which is no number, `min` takes the other.
        let done = (t.as_secs_f64() / self.at.as_secs_f64()).min(1.0);
        1.0 + (self.factor - 1.0) * done
    }
}

impl FromStr for Change {
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let fail = |why| LawError {
            what: "change of the service time",
            given: text.to_owned(),
            why,
            form: "3@10s (times 3, 10 s after the first request)",
        };
        let (factor, at) = text.split_once('@').ok_or_else(|| fail("no @"))?;
        let factor: f64 = factor.trim().parse().map_err(|_| fail("not a factor"))?;
        if !(factor > 0.0 && factor <= 1_000.0) {
            return Err(fail("the factor is over 0 and at most 1000"));
        }
        let at = at.trim().parse().map_err(|_| fail("not a time"))?;
        Ok(Self { factor, at })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.factor, self.at)
    }
}

/// When the server closes a connection for the number of its requests.
///
/// As text: `100` (the 100th reply says `Connection: close`), `100,silent` (it does not, as of a
/// server whose patience is over: requests that are under way then are lost).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CloseAfter {
    /// The number of requests, at least 1.
    pub requests: u32,
    /// Whether the last reply keeps silent about it.
    pub silent: bool,
}

impl FromStr for CloseAfter {
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let fail = |why| LawError {
            what: "number of requests before a close",
            given: text.to_owned(),
            why,
            form: "100 or 100,silent",
        };
        let (requests, silent) = match text.split_once(',') {
            None => (text, false),
            Some((requests, "silent")) => (requests, true),
            Some(_) => return Err(fail("only 'silent' may follow the number")),
        };
        match requests.parse() {
            Ok(0) => Err(fail("it is at least 1")),
            Ok(requests) => Ok(Self { requests, silent }),
            Err(_) => Err(fail("not a number")),
        }
    }
}

impl fmt::Display for CloseAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.requests, if self.silent { ",silent" } else { "" })
    }
}

/// A share of all requests, 0 to 1. As text: `0.1%` or `0.001`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(pub f64);

impl Share {
    /// None of them.
    pub const NEVER: Self = Self(0.0);

    /// Whether these random bits hit it.
    pub(super) fn hits(self, bits: u64) -> bool {
        rng::unit(bits) < self.0
    }
}

impl FromStr for Share {
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let fail =
            |why| LawError { what: "share", given: text.to_owned(), why, form: "0.1% or 0.001" };
        let (number, unit) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let number: f64 = number.parse().map_err(|_| fail("not a number"))?;
        let share = number / unit;
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(fail("not within 0 to 1")) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Laws are serialised as the text that a user would write, so that reading them checks them.
macro_rules! serialised_as_text {
    ($($law:ty),*) => {$(
        impl TryFrom<String> for $law {
            type Error = LawError;

            fn try_from(text: String) -> Result<Self, LawError> {
                text.parse()
            }
        }

        impl From<$law> for String {
            fn from(law: $law) -> Self {
                law.to_string()
            }
        }
    )*};
}

serialised_as_text!(Latency, Change, Stalls, StatusMix, CloseAfter);

/// Text that is no law.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} '{given}': {why}; write {form}")]
pub struct LawError {
    what: &'static str,
    given: String,
    why: &'static str,
    form: &'static str,
}
