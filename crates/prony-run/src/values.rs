//! Single values of a plan as a front end reads them: each parser returns one sentence of what is
//! wrong.

use prony_core::plan::{Expect, Think};
use prony_core::schedule::{Arrivals, ArrivalsArg, RatePlan};
use prony_core::target;
use prony_core::units::{self, Span};

/// The most connections of a run: their tables must fit into memory.
const CONNECTIONS_MAX: u64 = 1_000_000;
/// The deepest pipelining.
const PIPELINE_MAX: u64 = 4_096;

/// Statuses that count as success: inclusive ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<(u16, u16)>);

/// A number with its unit: `10k`.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn count(text: &str) -> Result<u64, String> {
    units::parse_count(text).map_err(|e| e.to_string())
}

/// The same, but not zero.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn positive(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("must be at least 1".into()),
        n => Ok(n),
    }
}

/// A number that may be zero.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn number(text: &str) -> Result<u32, String> {
    u32::try_from(count(text)?).map_err(|_| format!("must be at most {}", u32::MAX))
}

/// A number of connections.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn connections(text: &str) -> Result<u32, String> {
    at_most(text, CONNECTIONS_MAX)
}

/// Requests in flight on a connection.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn pipeline(text: &str) -> Result<u32, String> {
    at_most(text, PIPELINE_MAX)
}

/// A number of requests on a connection, or the like.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn per_connection(text: &str) -> Result<u32, String> {
    at_most(text, u64::from(u32::MAX))
}

/// A number from 1 to that one.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn at_most(text: &str, max: u64) -> Result<u32, String> {
    let n = positive(text)?;
    if n > max {
        return Err(format!("must be at most {max}"));
    }
    Ok(n as u32)
}

/// A time: `1m30s`.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn span(text: &str) -> Result<Span, String> {
    text.parse::<Span>().map_err(|e| e.to_string())
}

/// A time that is longer than nothing.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn positive_span(text: &str) -> Result<Span, String> {
    match span(text)? {
        Span::ZERO => Err("must be longer than nothing".into()),
        span => Ok(span),
    }
}

/// A rate, or a plan of steps and ramps.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn rate_plan(text: &str) -> Result<RatePlan, String> {
    RatePlan::parse(text).map_err(|e| e.to_string())
}

/// How arrivals fall.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn arrivals(text: &str) -> Result<ArrivalsArg, String> {
    Arrivals::parse(text).map_err(|e| e.to_string())
}

/// A pause after a reply.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn think(text: &str) -> Result<Think, String> {
    text.parse::<Think>().map_err(|e| e.to_string())
}

/// Statuses that count as success.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn statuses(text: &str) -> Result<Statuses, String> {
    Expect::parse_statuses(text).map(Statuses).map_err(|e| e.to_string())
}

/// A method goes out as typed.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn method(text: &str) -> Result<String, String> {
    target::check_method(text).map(|()| text.to_owned())
}

/// `Name: value`, as it stands in a request.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn header(text: &str) -> Result<(String, String), String> {
    target::parse_header(text).map_err(|e| e.to_string())
}

/// The seed of all random draws.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a seed; write a whole number, as 42"))
}

/// Application protocols by their names, with commas between them; `none` is none.
///
/// # Errors
/// A name that is none, or that of a protocol that prony does not speak.
pub fn alpn(text: &str) -> Result<Vec<String>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let names: Vec<String> = text.split(',').map(|p| p.trim().to_owned()).collect();
    if names.iter().any(|p| p.is_empty() || p.len() > 255) {
        return Err("a protocol's name has 1 to 255 bytes; write http/1.1, or none".into());
    }
    if names.iter().any(|p| p == "h2" || p == "h3") {
        return Err("prony speaks no HTTP/2 or HTTP/3 yet; write http/1.1 or http/1.0".into());
    }
    Ok(names)
}
