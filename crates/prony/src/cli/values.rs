//! Single values as typed: each parser returns one sentence of what is wrong. Those of a plan are
//! those of every front end.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use prony_core::plan::{HttpVersion, Pick, Secret};
use prony_core::summary::confidence::Goal;
use prony_core::units::{self, Span};
use prony_io::Precision;
use prony_run::values::at_most;
pub(super) use prony_run::values::{
    Statuses, arrivals, connections, count, header, method, number, per_connection, pipeline,
    positive, positive_span, rate_plan, seed, span, statuses, think,
};

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

pub(crate) fn workers(text: &str) -> Result<NonZeroU32, String> {
    NonZeroU32::new(at_most(text, u64::from(u32::MAX))?).ok_or_else(|| "must be at least 1".into())
}

pub(crate) fn threads(text: &str) -> Result<u32, String> {
    at_most(text, THREADS_MAX)
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|e| e.to_string())
}

pub(crate) fn pick(text: &str) -> Result<Pick, String> {
    text.parse::<Pick>().map_err(|e| e.to_string())
}

pub(crate) fn http(text: &str) -> Result<HttpVersion, String> {
    text.parse::<HttpVersion>().map_err(|e| e.to_string())
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

pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    text.trim_matches(['[', ']'])
        .parse()
        .map_err(|_| format!("'{text}' is not an IP address; write one of this machine's"))
}
