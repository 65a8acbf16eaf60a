//! Parsers of single values of a plan, for all front ends. Each error is one sentence.

use prony_base::units::{self, Span};
use prony_plan::plan::{Expect, Think};
use prony_plan::schedule::{Arrivals, ArrivalsArg, RatePlan};
use prony_plan::target::{self, Url, UrlKind};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The maximum number of connections, whose tables must fit into memory.
const CONNECTIONS_MAX: u64 = 1_000_000;
/// The maximum depth of pipelining.
const PIPELINE_MAX: u64 = 4_096;

/// Status codes that count as success, as inclusive ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<(u16, u16)>);

/// Parses a count with an optional suffix: `10k`.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn count(text: &str) -> Result<u64, String> {
    units::parse_count(text).map_err(|e| e.to_string())
}

/// Parses an instant: `2026-11-24T09:00:00Z` (RFC 3339), or seconds since 1970 with or without a
/// fraction. Returns nanoseconds since 1970.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn instant(text: &str) -> Result<u64, String> {
    let wrong = || {
        "write an instant such as 2026-11-24T09:00:00Z or 2026-11-24T10:00:00.5+01:00, or seconds \
         since 1970 (date +%s)"
            .to_owned()
    };
    if let Ok(at) = OffsetDateTime::parse(text, &Rfc3339) {
        return u64::try_from(at.unix_timestamp_nanos()).map_err(|_| wrong());
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) {
        return Err(wrong());
    }
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let seconds = seconds.parse::<u64>().ok().and_then(|s| s.checked_mul(1_000_000_000));
    seconds.and_then(|ns| ns.checked_add(digits.parse().ok()?)).ok_or_else(wrong)
}

/// Parses a positive count.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn positive(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("must be at least 1".into()),
        n => Ok(n),
    }
}

/// Parses a number, which may be zero.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn number(text: &str) -> Result<u32, String> {
    u32::try_from(count(text)?).map_err(|_| format!("must be at most {}", u32::MAX))
}

/// Parses how many redirects are followed one after another.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn redirects(text: &str) -> Result<u32, String> {
    const MOST: u32 = 1_000;
    match number(text)? {
        n if n <= MOST => Ok(n),
        _ => Err(format!("must be at most {MOST}")),
    }
}

/// Parses the URL of a server: one without a path.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn server(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|e| e.to_string())?;
    if url.path != "/" || url.kind != UrlKind::Http {
        return Err("write the server alone, as http://host:port".into());
    }
    Ok(url)
}

/// Parses a number of connections.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn connections(text: &str) -> Result<u32, String> {
    at_most(text, CONNECTIONS_MAX)
}

/// Parses a number of requests in flight per connection.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn pipeline(text: &str) -> Result<u32, String> {
    at_most(text, PIPELINE_MAX)
}

/// Parses a number of requests per connection, or a similar number.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn per_connection(text: &str) -> Result<u32, String> {
    at_most(text, u64::from(u32::MAX))
}

/// Parses a number from 1 to `max`.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn at_most(text: &str, max: u64) -> Result<u32, String> {
    let n = positive(text)?;
    if n > max {
        return Err(format!("must be at most {max}"));
    }
    Ok(n as u32)
}

/// Parses a time: `1m30s`.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn span(text: &str) -> Result<Span, String> {
    text.parse::<Span>().map_err(|e| e.to_string())
}

/// Parses a positive time.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn positive_span(text: &str) -> Result<Span, String> {
    match span(text)? {
        Span::ZERO => Err("must be longer than 0".into()),
        span => Ok(span),
    }
}

/// Parses a rate, or a list of steps and ramps.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn rate_plan(text: &str) -> Result<RatePlan, String> {
    RatePlan::parse(text).map_err(|e| e.to_string())
}

/// Parses the rate of messages in a stream: a rate per second, or a list of steps and ramps.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn message_rate(text: &str) -> Result<RatePlan, String> {
    let is_list = text.contains(['@', ',']);
    RatePlan::parse(text).map_err(|why| match is_list {
        true => why.to_string(),
        false => format!("'{text}' is no rate of messages, such as 10/s or 600/m"),
    })
}

/// Parses the times between messages in a stream.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn message_arrivals(text: &str) -> Result<Arrivals, String> {
    Arrivals::parse_process(text).map_err(|why| why.to_string())
}

/// Parses an arrival process.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn arrivals(text: &str) -> Result<ArrivalsArg, String> {
    Arrivals::parse(text).map_err(|e| e.to_string())
}

/// Parses a think time.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn think(text: &str) -> Result<Think, String> {
    text.parse::<Think>().map_err(|e| e.to_string())
}

/// Parses status codes that count as success.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn statuses(text: &str) -> Result<Statuses, String> {
    Expect::parse_statuses(text).map(Statuses).map_err(|e| e.to_string())
}

/// Checks a method, which is sent unchanged.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn method(text: &str) -> Result<String, String> {
    target::check_method(text).map(|()| text.to_owned())
}

/// Parses a header: `Name: value`.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn header(text: &str) -> Result<(String, String), String> {
    target::parse_header(text).map_err(|e| e.to_string())
}

/// Parses the seed of the random numbers.
///
/// # Errors
/// The value is invalid; the error is one sentence.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a seed; write a whole number, such as 42"))
}

/// Parses the names of application protocols, separated by commas; `none` is an empty list.
///
/// # Errors
/// An invalid name, or a protocol that prony does not support.
pub fn alpn(text: &str) -> Result<Vec<String>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let names: Vec<String> = text.split(',').map(|p| p.trim().to_owned()).collect();
    if names.iter().any(|p| p.is_empty() || p.len() > 255) {
        return Err("the name of a protocol has 1 to 255 bytes; write http/1.1, or none".into());
    }
    if names.iter().any(|p| p == "h3") {
        return Err("prony does not support HTTP/3 yet; write h2, http/1.1 or http/1.0".into());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_dates_or_seconds() {
        for (text, ns) in [
            ("2026-11-24T09:00:00Z", 1_795_510_800_000_000_000),
            ("2026-11-24T10:00:00.5+01:00", 1_795_510_800_500_000_000),
            ("1795510800", 1_795_510_800_000_000_000),
            ("1795510800.000000001", 1_795_510_800_000_000_001),
            ("1.5", 1_500_000_000),
        ] {
            assert_eq!(instant(text), Ok(ns), "{text}");
        }
        for text in ["", "now", "-1", "1.", ".5", "1e9", "09:00", "2026-11-24", "99999999999999"] {
            assert!(instant(text).is_err(), "{text}");
        }
    }
}
