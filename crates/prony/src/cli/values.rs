//! Single values as typed: each parser returns one sentence of what is wrong.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use super::Precision;
use prony_core::plan::{Expect, HttpVersion, Pick, Secret, Think};
use prony_core::schedule::{Arrivals, RatePlan};
use prony_core::summary::confidence::Goal;
use prony_core::target;
use prony_core::units::{self, Span};

pub use prony_core::schedule::ArrivalsArg;

/// The most connections of a run: their tables must fit into memory.
const CONNECTIONS_MAX: u64 = 1_000_000;
/// The deepest pipelining.
const PIPELINE_MAX: u64 = 4_096;
/// The most worker threads.
const THREADS_MAX: u64 = 1_024;

/// The finest and the coarsest look at the schedule.
const GRAIN_MIN: Span = Span::from_micros(1);
const GRAIN_MAX: Span = Span::from_secs(1);

/// Headers as an option gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderArg {
    /// Name and value of one.
    Line(String, Secret),
    /// A file with one on each line.
    File(PathBuf),
}

/// Statuses that count as success: inclusive ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<(u16, u16)>);

pub(crate) fn count(text: &str) -> Result<u64, String> {
    units::parse_count(text).map_err(|e| e.to_string())
}

pub(crate) fn positive(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("must be at least 1".into()),
        n => Ok(n),
    }
}

/// A percentile: `p99.9` or `99.9`.
pub(crate) fn percentile(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('p').unwrap_or(text).parse::<f64>();
    let percentile = number.ok().filter(|&p| p > 0.0 && p < 100.0);
    percentile.ok_or_else(|| "it must lie between 0 and 100, as p99.9 does".into())
}

/// How closely a figure is to be known: `p99 +- 5%`.
pub(crate) fn goal(text: &str) -> Result<Goal, String> {
    text.parse()
}

/// How to wait: a word or the grain of the schedule.
pub(crate) fn precision(text: &str) -> Result<Precision, String> {
    match text {
        "sleep" => return Ok(Precision::Sleep),
        "auto" => return Ok(Precision::Auto),
        "spin" => return Ok(Precision::Spin),
        _ => {}
    }
    let grain = positive_span(text).ok().filter(|&s| s >= GRAIN_MIN && s <= GRAIN_MAX);
    grain.map(Precision::Grain).ok_or_else(|| {
        format!("'{text}' is unknown; write sleep, auto, spin or a time between 1us and 1s")
    })
}

/// A byte of the type of service.
pub(crate) fn tos(text: &str) -> Result<u8, String> {
    let wrong = || {
        format!(
            "'{text}' is not a type of service; write 0 to 255, or --dscp with 0 to 63 or a name"
        )
    };
    text.parse().map_err(|_| wrong())
}

/// A DSCP by its number or its name (RFC 2474, 2597, 3246, 5865, 8622).
pub(crate) fn dscp(text: &str) -> Result<u8, String> {
    let wrong =
        || format!("'{text}' is not a DSCP; write 0 to 63, cs0 to cs7, af11 to af43, ef, va or le");
    let name = text.to_ascii_lowercase();
    match name.as_bytes() {
        b"ef" => Ok(46),
        b"va" => Ok(44),
        b"le" => Ok(1),
        [b'c', b's', class @ b'0'..=b'7'] => Ok((class - b'0') * 8),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
            Ok((class - b'0') * 8 + (drop - b'0') * 2)
        }
        _ => text.parse().ok().filter(|&n| n < 64).ok_or_else(wrong),
    }
}

/// A number that may be zero.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    u32::try_from(count(text)?).map_err(|_| format!("must be at most {}", u32::MAX))
}

pub(crate) fn connections(text: &str) -> Result<u32, String> {
    at_most(text, CONNECTIONS_MAX)
}

pub(crate) fn workers(text: &str) -> Result<NonZeroU32, String> {
    NonZeroU32::new(at_most(text, u64::from(u32::MAX))?).ok_or_else(|| "must be at least 1".into())
}

pub(crate) fn pipeline(text: &str) -> Result<u32, String> {
    at_most(text, PIPELINE_MAX)
}

pub(crate) fn threads(text: &str) -> Result<u32, String> {
    at_most(text, THREADS_MAX)
}

pub(crate) fn per_connection(text: &str) -> Result<u32, String> {
    at_most(text, u64::from(u32::MAX))
}

fn at_most(text: &str, max: u64) -> Result<u32, String> {
    let n = positive(text)?;
    if n > max {
        return Err(format!("must be at most {max}"));
    }
    Ok(n as u32)
}

pub(crate) fn span(text: &str) -> Result<Span, String> {
    text.parse::<Span>().map_err(|e| e.to_string())
}

pub(crate) fn positive_span(text: &str) -> Result<Span, String> {
    match span(text)? {
        Span::ZERO => Err("must be longer than nothing".into()),
        span => Ok(span),
    }
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|e| e.to_string())
}

pub(crate) fn rate_plan(text: &str) -> Result<RatePlan, String> {
    RatePlan::parse(text).map_err(|e| e.to_string())
}

pub(crate) fn arrivals(text: &str) -> Result<ArrivalsArg, String> {
    Arrivals::parse(text).map_err(|e| e.to_string())
}

pub(crate) fn think(text: &str) -> Result<Think, String> {
    text.parse::<Think>().map_err(|e| e.to_string())
}

pub(crate) fn pick(text: &str) -> Result<Pick, String> {
    text.parse::<Pick>().map_err(|e| e.to_string())
}

pub(crate) fn statuses(text: &str) -> Result<Statuses, String> {
    Expect::parse_statuses(text).map(Statuses).map_err(|e| e.to_string())
}

pub(crate) fn http(text: &str) -> Result<HttpVersion, String> {
    text.parse::<HttpVersion>().map_err(|e| e.to_string())
}

/// A method goes out as typed.
pub(crate) fn method(text: &str) -> Result<String, String> {
    target::check_method(text).map(|()| text.to_owned())
}

/// `Name: value`, as it stands in a request.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    target::parse_header(text).map_err(|e| e.to_string())
}

/// The same, or `@FILE`.
pub(crate) fn header_arg(text: &str) -> Result<HeaderArg, String> {
    match text.strip_prefix('@') {
        Some("") => Err("the file's name behind '@' is missing".into()),
        Some(file) => Ok(HeaderArg::File(file.into())),
        None => header(text).map(|(name, value)| HeaderArg::Line(name, value.into())),
    }
}

/// The value of a header that an option names.
pub(crate) fn header_value(text: &str) -> Result<String, String> {
    let value = text.trim();
    if value.is_empty() {
        return Err("must not be empty".into());
    }
    match value.chars().find(|&c| c.is_ascii_control() && c != '\t') {
        Some(c) => Err(format!("contains {c:?}, which would break the request")),
        None => Ok(value.to_owned()),
    }
}

pub(crate) fn host(text: &str) -> Result<String, String> {
    let value = header_value(text)?;
    if value.contains(|c: char| c.is_whitespace() || c == '/') {
        return Err("is no host; write a name, with a port where it is not 80".into());
    }
    Ok(value)
}

pub(crate) fn user(text: &str) -> Result<Secret, String> {
    if !text.contains(':') {
        return Err("has no password; write NAME:PASS (NAME: for an empty one)".into());
    }
    Ok(text.into())
}

pub(crate) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a seed; write a whole number, as 42"))
}

pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    text.trim_matches(['[', ']'])
        .parse()
        .map_err(|_| format!("'{text}' is not an IP address; write one of this machine's"))
}
