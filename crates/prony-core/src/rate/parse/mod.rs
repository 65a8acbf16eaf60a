//! Rate plans, laws of arrival and traces as people write them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::rate::{Arrivals, RatePiece, RatePlan};
use crate::units::{ParseError, Span, decimal_exponent, parse_span, split_number, unknown};

/// The highest rate that a plan may ask for, per second: one arrival in a nanosecond.
const RATE_MAX: f64 = 1e9;

/// Above that, per second, a rate must say its unit of time: no machine sends so much, but a slash
/// is soon forgotten.
const RATE_PLAUSIBLE: f64 = 1e7;

const RATE_HELP: &str = "write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s";

impl RatePlan {
    /// A rate (`500`, `20k/s`, `90/m`, `1000/h`) or a plan: pieces `RATE@TIME` and ramps
    /// `RATE..RATE@TIME`, separated by commas. The last piece may be without a time, if it is no
    /// ramp. In a ramp, a unit at one end holds for both.
    ///
    /// # Errors
    /// Anything else, rates over 1e9/s, empty pieces, plans that ask for nothing at all.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let count = text.split(',').count();
        let mut pieces = Vec::with_capacity(count);
        for (i, part) in text.split(',').enumerate() {
            let piece = parse_piece(part).map_err(|why| {
                ParseError::new(if count == 1 {
                    format!("'{text}' is not a rate: {why}; {RATE_HELP}")
                } else {
                    format!("piece {} ('{part}') of the rate plan: {why}; {RATE_HELP}", i + 1)
                })
            })?;
            pieces.push(piece);
        }
        let plan = Self { pieces };
        plan.check().map_err(|why| ParseError::new(format!("'{text}': {why}; {RATE_HELP}")))?;
        Ok(plan)
    }

    /// Whether the plan can be carried out.
    ///
    /// # Errors
    /// What is wrong with it: no pieces, a rate that is no number, negative or over 1e9/s, a piece
    /// without a length that is a ramp or not the last, a piece of no length, a length over 2^64
    /// ns, no arrivals.
    pub fn check(&self) -> Result<(), String> {
        let Some(last) = self.pieces.len().checked_sub(1) else {
            return Err("the rate plan has no piece".into());
        };
        let mut total = 0u64;
        for (i, piece) in self.pieces.iter().enumerate() {
            let number = i + 1;
            for rate in [piece.from, piece.to] {
                if !(0.0..=RATE_MAX).contains(&rate) {
                    return Err(format!(
                        "piece {number} of the rate plan asks for {}/s, which is not between 0 \
                         and 1g/s",
                        rate_text(rate)
                    ));
                }
            }
            match piece.length {
                None if i < last => {
                    return Err(format!("piece {number} of the rate plan has no length (@TIME)"));
                }
                None if piece.from != piece.to => {
                    return Err(format!("the ramp in piece {number} has no length (@TIME)"));
                }
                Some(Span::ZERO) => {
                    return Err(format!("piece {number} of the rate plan lasts no time"));
                }
                length => match total.checked_add(length.unwrap_or(Span::ZERO).0) {
                    Some(sum) => total = sum,
                    None => return Err("the rate plan is longer than 584 years".into()),
                },
            }
        }
        if self.pieces.iter().all(|p| p.from == 0.0 && p.to == 0.0) {
            return Err("the rate is zero all the time".into());
        }
        Ok(())
    }
}

impl FromStr for RatePlan {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

/// As it can be read back: `1k@10s,1k..20k@1m`.
impl fmt::Display for RatePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, piece) in self.pieces.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            write!(f, "{piece}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RatePiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rate_text(self.from))?;
        if self.to != self.from {
            write!(f, "..{}", rate_text(self.to))?;
        }
        if self.from.max(self.to) > RATE_PLAUSIBLE {
            f.write_str("/s")?;
        }
        match self.length {
            Some(length) => write!(f, "@{length}"),
            None => Ok(()),
        }
    }
}

/// What the user says about arrivals: a law, or where to read one.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalsArg {
    /// The law itself.
    Law(Arrivals),
    /// The file whose text [`parse_trace`] takes.
    TraceFile(String),
}

impl Arrivals {
    /// `fixed`, `poisson`, `uniform:LO..HI` (times) or `trace:FILE`. The file is not opened.
    ///
    /// # Errors
    /// Anything else; bounds in the wrong order or both zero.
    pub fn parse(text: &str) -> Result<ArrivalsArg, ParseError> {
        let bad = |why: String| {
            ParseError::new(format!(
                "'{text}' is not a law of arrivals: {why}; write fixed, poisson, \
                 uniform:10us..90us or trace:FILE"
            ))
        };
        let law = match text.split_once(':') {
            None if text == "fixed" => Self::Fixed,
            None if text == "poisson" => Self::Poisson,
            Some(("uniform", bounds)) => {
                let (low, high) = parse_bounds(bounds).map_err(bad)?;
                if high == Span::ZERO {
                    return Err(bad("gaps of no length have no end of arrivals".into()));
                }
                Self::Uniform(low, high)
            }
            Some(("trace", "")) => return Err(bad("the file's name is missing".into())),
            Some(("trace", file)) => return Ok(ArrivalsArg::TraceFile(file.to_owned())),
            _ => return Err(bad("there is no such law".into())),
        };
        Ok(ArrivalsArg::Law(law))
    }
}

/// As it can be read back, except for a trace, of which only the number of times is told.
impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.write_str("fixed"),
            Self::Poisson => f.write_str("poisson"),
            Self::Uniform(low, high) => write!(f, "uniform:{low}..{high}"),
            Self::Trace(times) => write!(f, "trace of {}", times.len()),
        }
    }
}

/// The text of a trace file: one time in seconds a line (`0.25`, `1e-3`), none earlier than the one
/// before it. Blank lines and what follows a `#` are passed over.
///
/// # Errors
/// The first line that is no such time, or that there is none at all.
pub fn parse_trace(text: &str) -> Result<Arrivals, ParseError> {
    let mut times: Vec<Span> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let value = line.split_once('#').map_or(line, |(before, _)| before).trim();
        if value.is_empty() {
            continue;
        }
        let error = |sentence| Err(ParseError::new(sentence).at_line(i + 1));
        let Some(time) = parse_seconds(value) else {
            return error(format!(
                "'{value}' is not a time in seconds; write one, as 0.25, a line"
            ));
        };
        if let Some(&last) = times.last()
            && time < last
        {
            return error(format!(
                "{value} is earlier than the time before it; sort the times, earliest first"
            ));
        }
        times.push(time);
    }
    if times.is_empty() {
        return Err(ParseError::new("the trace has no times; write one in seconds a line"));
    }
    Ok(Arrivals::Trace(Arc::from(times)))
}

/// `LO..HI`, two times in order.
pub(crate) fn parse_bounds(text: &str) -> Result<(Span, Span), String> {
    let (low, high) =
        text.split_once("..").ok_or_else(|| format!("'{text}' has no '..' between two times"))?;
    let (low, high) = (parse_span(low)?, parse_span(high)?);
    if low > high {
        return Err(format!("{low} is longer than {high}"));
    }
    Ok((low, high))
}

fn parse_piece(text: &str) -> Result<RatePiece, String> {
    let (rates, length) = match text.split_once('@') {
        Some((rates, length)) => (rates, Some(parse_span(length)?)),
        None => (text, None),
    };
    let Some((from, to)) = rates.split_once("..") else {
        let (rate, unit) = split_rate(rates)?;
        check_plausible(rates, rate, unit)?;
        let rate = rate / unit.unwrap_or(1.0);
        return Ok(RatePiece { from: rate, to: rate, length });
    };
    let ((low, high), (from, from_unit), (to, to_unit)) =
        ((from, to), split_rate(from)?, split_rate(to)?);
    check_plausible(low, from, from_unit.or(to_unit))?;
    check_plausible(high, to, to_unit.or(from_unit))?;
    Ok(RatePiece {
        from: from / from_unit.or(to_unit).unwrap_or(1.0),
        to: to / to_unit.or(from_unit).unwrap_or(1.0),
        length,
    })
}

/// `30m` is thirty million a second, and mostly meant to be thirty a minute.
fn check_plausible(text: &str, rate: f64, unit: Option<f64>) -> Result<(), String> {
    if unit.is_some() || !(RATE_PLAUSIBLE..=RATE_MAX).contains(&rate) || rate == RATE_PLAUSIBLE {
        return Ok(());
    }
    let meant = text.strip_suffix('m').map_or_else(
        || "if you mean it".to_owned(),
        |number| format!("did you mean {number}/m, {number} per minute? If not"),
    );
    Err(format!(
        "that is {}/s, more than any machine can send; {meant}, write {text}/s",
        rate_text(rate)
    ))
}

/// A number with its suffix, and the seconds for which it counts, if it says so.
fn split_rate(text: &str) -> Result<(f64, Option<f64>), String> {
    let Some((digits, rest)) = split_number(text) else {
        return Err(match text {
            "" => "a rate is missing".into(),
            _ => format!("'{text}' is no number"),
        });
    };
    let (suffix, unit) = match rest.split_once('/') {
        Some((suffix, "s" | "sec")) => (suffix, Some(1.0)),
        Some((suffix, "m" | "min")) => (suffix, Some(60.0)),
        Some((suffix, "h")) => (suffix, Some(3600.0)),
        Some((_, unit)) => return Err(unknown("unit of time (/s, /m, /h)", &format!("/{unit}"))),
        None => (rest, None),
    };
    let exponent = decimal_exponent(suffix).ok_or_else(|| unknown("suffix", suffix))?;
    // The standard library rounds once, so that 1.1k is the number nearest to 1,100.
    let rate = format!("{}e{exponent}", digits.replace('_', ""));
    Ok((rate.parse().map_err(|_| format!("'{text}' is no number"))?, unit))
}

/// A rate with the suffix that makes it shortest without losing anything.
fn rate_text(rate: f64) -> String {
    for (factor, suffix) in [(1e9, "g"), (1e6, "m"), (1e3, "k")] {
        if rate >= factor && rate % (factor / 10.0) == 0.0 {
            return format!("{}{suffix}", rate / factor);
        }
    }
    rate.to_string()
}

fn parse_seconds(text: &str) -> Option<Span> {
    if text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && let Ok(span) = text.parse()
    {
        // Exactly, however many digits the time has.
        return Some(span);
    }
    let seconds: f64 = text.parse().ok()?;
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '+');
    (is_number && (0.0..u64::MAX as f64 / 1e9).contains(&seconds))
        .then(|| Span::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests;
