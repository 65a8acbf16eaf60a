//! Thresholds: what a user promises of a figure, as `p99 < 200ms`. Data and its grammar;
//! `summary::threshold` decides them.

mod figure;
mod numbers;
mod part;
mod times;
mod unit;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::rate::{RatePiece, RatePlan};
pub use figure::{Counted, Figure, Statistic};
pub use numbers::{Distortion, Scalar};
use prony_base::units::{Span, parse_count, parse_size};
pub use times::{InJson, Timed};
pub use unit::Unit;

/// How a figure must relate to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `=`; of counts only.
    Equal,
}

/// A figure, and what it must be: `p99 < 200ms`, `errors < 0.1%`, `login: p95 <= 300ms`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Threshold {
    /// The name of the requests that it is about; `None`: all.
    pub request: Option<String>,
    /// The name of the check or group that it is about.
    pub part: Option<String>,
    /// The figure.
    pub figure: Figure,
    /// Its relation to the limit.
    pub relation: Relation,
    /// What the limit is measured in.
    pub unit: Unit,
    /// The limit in that unit: nanoseconds, per second, a number or a share of 1.
    pub limit: f64,
    /// Whether a miss beyond doubt ends the load, and how long after the start of the measurement
    /// at the earliest.
    pub abort: Option<Span>,
    /// The limit as it was written.
    text: String,
}

/// The longest first, so that none is taken for the beginning of another.
const RELATIONS: [(&str, Relation); 6] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("==", Relation::Equal),
    ("<", Relation::Below),
    (">", Relation::Above),
    ("=", Relation::Equal),
];

const FORM: &str = "write a figure, a relation and a limit, as in 'p99 < 200ms' or 'errors < 0.1%'";

impl Relation {
    /// Whether a figure of that value keeps to it.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
            Self::Equal => value == limit,
        }
    }
}

impl FromStr for Threshold {
    type Err = String;

    /// # Errors
    /// One sentence that says what is wrong, and what to write instead.
    fn from_str(text: &str) -> Result<Self, String> {
        let (text, abort) = split_abort(text)?;
        let at = text.find(['<', '>', '=']).ok_or_else(|| FORM.to_owned())?;
        let (left, rest) = text.split_at(at);
        let (sign, relation) =
            RELATIONS.into_iter().find(|(sign, _)| rest.starts_with(sign)).ok_or(FORM)?;
        let limit = rest[sign.len()..].trim();
        let (request, name) = match left.rsplit_once(':') {
            Some((request, name)) => (Some(request.trim()), name.trim()),
            None => (None, left.trim()),
        };
        if name.is_empty() || limit.is_empty() || request.is_some_and(str::is_empty) {
            return Err(FORM.into());
        }
        let (figure, part) = part::parse(name)?;
        if request.is_some() && !figure.is_of_requests() {
            return Err(format!(
                "'{name}' is a figure of the whole run; one of named requests is p99, mean, \
                 service.p99, errors, requests or replies"
            ));
        }
        let (unit, value) = limit_of(figure, name, limit)?;
        if relation == Relation::Equal && !matches!(unit, Unit::Count) {
            return Err(format!("'=' is for counts; write '<=' or '>=' with {name}"));
        }
        if abort.is_some() && (request.is_some() || !figure.can_end_load()) {
            return Err(format!(
                "{name} cannot end a load early; rate, errors, and percentiles and mean of the \
                 response and service time of all requests can"
            ));
        }
        let request = request.map(str::to_owned);
        let text = limit.to_owned();
        Ok(Self { request, part, figure, relation, unit, limit: value, abort, text })
    }
}

/// A threshold without its `, abort` or `, abort after TIME`, and that time.
fn split_abort(text: &str) -> Result<(&str, Option<Span>), String> {
    let Some((rest, end)) = text.rsplit_once(',') else { return Ok((text, None)) };
    let mut words = end.split_whitespace();
    if words.next() != Some("abort") {
        return Ok((text, None));
    }
    let after = match (words.next(), words.next(), words.next()) {
        (None, ..) => Span::ZERO,
        (Some("after"), Some(time), None) => {
            time.parse().map_err(|e| format!("', abort after': {e}"))?
        }
        _ => return Err("write ', abort' or ', abort after 10s' at the end".into()),
    };
    Ok((rest, Some(after)))
}

/// The limit and what it is measured in.
fn limit_of(figure: Figure, name: &str, text: &str) -> Result<(Unit, f64), String> {
    let unit = figure.unit();
    let counted = matches!(figure, Figure::Count(_));
    if let Some(number) = text.strip_suffix('%') {
        if !counted && unit != Unit::Share {
            return Err(format!("{name} is no share; write its limit as {}", example(unit)));
        }
        let share = number.trim().parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n));
        let share = share.ok_or_else(|| format!("'{text}' is no share between 0% and 100%"))?;
        return Ok((Unit::Share, share / 100.0));
    }
    let of = |e: String| format!("the limit of {name}: {e}");
    let value = match unit {
        Unit::Time => {
            if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
                // Other tools read a bare number as milliseconds, prony's options as seconds.
                return Err(format!("the limit '{text}' of {name} lacks its unit: write {text}ms"));
            }
            text.parse::<Span>().map_err(|e| of(e.to_string()))?.0 as f64
        }
        Unit::Rate => {
            if matches!(text, "0" | "0/s") {
                return Ok((unit, 0.0));
            }
            let rate: RatePlan = text.parse().map_err(|e| of(format!("{e}")))?;
            match rate.pieces[..] {
                [RatePiece { from, to, length: None }] if from == to => from,
                _ => return Err(of(format!("'{text}' is no single rate; write 9.9k/s"))),
            }
        }
        Unit::ByteRate => {
            let size = text.strip_suffix("/s").unwrap_or(text);
            parse_size(size).map_err(|e| of(e.to_string()))? as f64
        }
        Unit::Count => match text.parse::<f64>() {
            // A mean number of requests in flight need not be whole.
            Ok(n) if n.is_finite() && n >= 0.0 => n,
            _ => parse_count(text).map_err(|e| of(e.to_string()))? as f64,
        },
        Unit::Share => return Err(of(format!("'{text}' is no share; write 80%"))),
    };
    Ok((unit, value))
}

fn example(unit: Unit) -> &'static str {
    match unit {
        Unit::Time => "200ms",
        Unit::Rate => "9.9k/s",
        Unit::ByteRate => "10MB/s",
        Unit::Count => "100",
        Unit::Share => "1%",
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(request) = &self.request {
            write!(f, "{request}: ")?;
        }
        let relation = RELATIONS.iter().rfind(|(_, r)| *r == self.relation);
        let figure = part::shown(self.figure, self.part.as_deref());
        write!(f, "{figure} {} {}", relation.map_or("", |(sign, _)| sign), self.text)?;
        match self.abort {
            None => Ok(()),
            Some(Span::ZERO) => f.write_str(", abort"),
            Some(after) => write!(f, ", abort after {after}"),
        }
    }
}

impl From<Threshold> for String {
    fn from(threshold: Threshold) -> Self {
        threshold.to_string()
    }
}

impl TryFrom<String> for Threshold {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Threshold {
        text.parse().expect(text)
    }

    #[test]
    fn thresholds_are_read_back_as_they_are_written() {
        for (text, written) in [
            ("p99<200ms", "p99 < 200ms"),
            (" service.p99.9 <= 1s ", "service.p99.9 <= 1s"),
            ("errors < 0.1%", "errors < 0.1%"),
            ("rate >= 9.9k/s", "rate >= 9.9k/s"),
            ("status.503 == 0", "status.503 = 0"),
            ("login: p95 < 300ms", "login: p95 < 300ms"),
            ("GET /a:b: mean > 1us", "GET /a:b: mean > 1us"),
            ("session.completed > 99%", "session.completed > 99%"),
            ("throughput >= 10MB/s", "throughput >= 10MB/s"),
            ("concurrency < 2.5", "concurrency < 2.5"),
            ("checks>99%", "checks > 99%"),
            ("check.logged in >= 99.9%", "check.logged in >= 99.9%"),
            ("group.check out.p99.9<2s", "group.check out.p99.9 < 2s"),
            ("group.a.b.mean < 2s", "group.a.b.mean < 2s"),
            ("group.buy.failed < 1%", "group.buy.failed < 1%"),
            ("errors < 5%,abort", "errors < 5%, abort"),
            ("p99 < 1s, abort  after 10s", "p99 < 1s, abort after 10s"),
        ] {
            let threshold = read(text);
            assert_eq!(threshold.to_string(), written);
            assert_eq!(read(written), threshold);
        }
    }

    #[test]
    fn limits_have_the_unit_of_their_figure() {
        let limit = |text: &str| (read(text).unit, read(text).limit);
        assert_eq!(limit("p99 < 200ms"), (Unit::Time, 2e8));
        assert_eq!(limit("errors < 0.1%"), (Unit::Share, 0.001));
        assert_eq!(limit("errors < 10"), (Unit::Count, 10.0));
        assert_eq!(limit("rate >= 9.9k/s"), (Unit::Rate, 9_900.0));
        assert_eq!(limit("throughput > 2kB/s"), (Unit::ByteRate, 2_000.0));
        assert_eq!(limit("requests >= 10k"), (Unit::Count, 10_000.0));
        assert_eq!(limit("busy < 80%"), (Unit::Share, 0.8));
    }

    #[test]
    fn malformed_thresholds_are_refused_in_one_sentence() {
        for (wrong, why) in [
            ("p99", FORM),
            ("< 3ms", FORM),
            ("p99 <", FORM),
            (": p99 < 3ms", FORM),
            ("p99 < 200", "the limit '200' of p99 lacks its unit: write 200ms"),
            ("p99 < 5%", "p99 is no share; write its limit as 200ms"),
            ("p99 = 5ms", "'=' is for counts; write '<=' or '>=' with p99"),
            ("errors < 101%", "'101%' is no share between 0% and 100%"),
            ("busy < 3", "the limit of busy: '3' is no share; write 80%"),
            ("p99 < 1s, abort at 3s", "write ', abort' or ', abort after 10s' at the end"),
            (
                "max < 1s, abort",
                "max cannot end a load early; rate, errors, and percentiles and mean of the \
                 response and service time of all requests can",
            ),
            ("check > 99%", "'check' lacks the name of its check; write check.NAME"),
            ("check. > 99%", "'check.' lacks the name of its check; write check.NAME"),
            (
                "group.p99 < 3s",
                "'group.p99' lacks the name of its group; write group.NAME.p99, group.NAME.failed \
                 or group.NAME.completed",
            ),
            (
                "group.buy.p101 < 3s",
                "'group.buy.p101' lacks the name of its group; write group.NAME.p99, \
                 group.NAME.failed or group.NAME.completed",
            ),
            ("errrs < 3", "there is no figure 'errrs'; did you mean 'errors'?"),
            ("rate > 1k..2k@3s", "the limit of rate: '1k..2k@3s' is no single rate; write 9.9k/s"),
            (
                "login: rate > 3",
                "'rate' is a figure of the whole run; one of named requests is p99, mean, \
                 service.p99, errors, requests or replies",
            ),
        ] {
            assert_eq!(wrong.parse::<Threshold>(), Err(why.to_owned()), "{wrong}");
        }
        let span = "p99 < 3xs".parse::<Threshold>().expect_err("no unit");
        assert!(span.starts_with("the limit of p99: '3xs' is not a time"), "{span}");
    }
}
