//! Parsers of single values; each error is one sentence. Plan values use the parsers that all front
//! ends share.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use prony_base::http2;
use prony_base::units::{self, Span};
use prony_io::Precision;
use prony_plan::plan::{HttpVersion, Pick, Secret};
use prony_plan::threshold::Threshold;
use prony_run::error::Error;
use prony_run::files::read_text;
use prony_run::values::at_most;
pub(super) use prony_run::values::{
    Statuses, arrivals, connections, count, header, method, number, per_connection, pipeline,
    positive, positive_span, rate_plan, seed, span, statuses, think,
};
use prony_stats::summary::confidence::Goal;

/// The maximum number of worker threads.
const THREADS_MAX: u64 = 1_024;

/// The minimum and maximum time of `--precision T`.
const GRAIN_MIN: Span = Span::from_micros(1);
const GRAIN_MAX: Span = Span::from_secs(1);

/// The value of `--header`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderArg {
    /// The name and value of one header.
    Line(String, Secret),
    /// A file with one header per line.
    File(PathBuf),
}

/// Parses a percentile: `p99.9` or `99.9`.
pub(crate) fn percentile(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('p').unwrap_or(text).parse::<f64>();
    let percentile = number.ok().filter(|&p| p > 0.0 && p < 100.0);
    percentile.ok_or_else(|| "must be between 0 and 100, such as p99.9".into())
}

/// Parses a goal: `p99 +- 5%`.
pub(crate) fn goal(text: &str) -> Result<Goal, String> {
    text.parse()
}

/// Parses `--threshold`.
pub(crate) fn threshold(text: &str) -> Result<Threshold, String> {
    text.parse()
}

/// Parses `--precision`: a word or a time.
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

/// Parses a type-of-service byte.
pub(crate) fn tos(text: &str) -> Result<u8, String> {
    let wrong = || {
        format!(
            "'{text}' is not a type of service; write 0 to 255, or --dscp with 0 to 63 or a name"
        )
    };
    text.parse().map_err(|_| wrong())
}

/// Parses a DSCP number or name (RFC 2474, 2597, 3246, 5865, 8622).
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

/// Parses a limit of streams. With 0, a client may open none.
pub(crate) fn streams(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a number of streams; write 0 to {}", u32::MAX);
    text.parse().map_err(|_| wrong())
}

/// Parses a number of streams after which something happens.
pub(crate) fn after_streams(text: &str) -> Result<NonZeroU32, String> {
    let wrong = || format!("'{text}' is not a number of streams; write 1 to {}", u32::MAX);
    text.parse().map_err(|_| wrong())
}

pub(crate) fn threads(text: &str) -> Result<u32, String> {
    at_most(text, THREADS_MAX)
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|e| e.to_string())
}

/// Parses the size of a flow-control window of HTTP/2.
pub(crate) fn window(text: &str) -> Result<u32, String> {
    let size = size(text)?;
    match u32::try_from(size) {
        Ok(size) if size <= http2::WINDOW_MAX => Ok(size),
        _ => Err("a window has at most 2147483647 bytes".to_owned()),
    }
}

pub(crate) fn pick(text: &str) -> Result<Pick, String> {
    text.parse::<Pick>().map_err(|e| e.to_string())
}

pub(crate) fn http(text: &str) -> Result<HttpVersion, String> {
    text.parse::<HttpVersion>().map_err(|e| e.to_string())
}

/// Parses a header line or `@FILE`.
pub(crate) fn header_arg(text: &str) -> Result<HeaderArg, String> {
    match text.strip_prefix('@') {
        Some("") => Err("the file name after '@' is missing".into()),
        Some(file) => Ok(HeaderArg::File(file.into())),
        None => header(text).map(|(name, value)| HeaderArg::Line(name, value.into())),
    }
}

/// Parses a header value.
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
        return Err("is not a host; write NAME or NAME:PORT".into());
    }
    Ok(value)
}

/// Parses `NAME:PASS` or `@FILE`.
pub(crate) fn user(text: &str) -> Result<Secret, String> {
    match text.strip_prefix('@') {
        Some("") => Err("the file name after '@' is missing".into()),
        Some(_) => Ok(text.into()),
        None => name_and_password(text),
    }
}

/// Parses `NAME:PASS`.
pub(crate) fn name_and_password(text: &str) -> Result<Secret, String> {
    if text.contains(['\r', '\n']) {
        return Err("must be one line; write NAME:PASS".into());
    }
    if !text.contains(':') {
        return Err("has no password; write NAME:PASS (NAME: for an empty password)".into());
    }
    Ok(text.into())
}

/// Name and password of this option, read from the file if it names one.
pub(super) fn user_of(what: &'static str, given: Option<&Secret>) -> Result<Option<Secret>, Error> {
    let Some(file) = given.and_then(|user| user.expose().strip_prefix('@')) else {
        return Ok(given.cloned());
    };
    let text = read_text(what, Path::new(file))?;
    let line = text.strip_suffix('\n').map_or(&text[..], |t| t.strip_suffix('\r').unwrap_or(t));
    name_and_password(line).map(Some).map_err(|why| Error::Value {
        what,
        value: format!("@{file}"),
        why,
    })
}

pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    text.trim_matches(['[', ']'])
        .parse()
        .map_err(|_| format!("'{text}' is not an IP address; use an address of this machine"))
}
