//! Rate plans, arrival processes and traces as text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::rate::{Arrivals, RatePiece, RatePlan};
use prony_base::units::{
    Distribution, ParseError, Span, decimal_exponent, parse_distribution, parse_span, split_number,
    unknown,
};

/// The highest rate of a plan, per second: one arrival per nanosecond.
const RATE_MAX: f64 = 1e9;

/// A rate above this, per second, must have a unit of time: no machine can send that much, so a
/// slash was probably forgotten.
const RATE_PLAUSIBLE: f64 = 1e7;

const RATE_HELP: &str = "write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s";

impl RatePlan {
    /// Parse a rate (`500`, `20k/s`, `90/m`, `1000/h`) or a plan: pieces `RATE@TIME` and ramps
    /// `RATE..RATE@TIME`, separated by commas. The last piece may omit the time unless it is a
    /// ramp. In a ramp, a unit at one end applies to both.
    ///
    /// # Errors
    /// Any other text, rates above 1e9/s, empty pieces, a rate that is always zero.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let count = text.split(',').count();
        let mut pieces = Vec::with_capacity(count);
        for (i, part) in text.split(',').enumerate() {
            let piece = parse_piece(part).map_err(|why| {
                ParseError::new(if count == 1 {
                    format!("'{text}' is not a rate: {why}; {RATE_HELP}")
                } else {
                    format!("rate plan, piece {} ('{part}'): {why}; {RATE_HELP}", i + 1)
                })
            })?;
            pieces.push(piece);
        }
        let plan = Self { pieces };
        plan.check().map_err(|why| ParseError::new(format!("'{text}': {why}; {RATE_HELP}")))?;
        Ok(plan)
    }

    /// Check whether the plan can be run.
    ///
    /// # Errors
    /// The first defect: no pieces, a rate that is not between 0 and 1e9/s, a ramp or an inner
    /// piece without a length, a length of zero, a total length over 2^64 ns, a rate that is always
    /// zero.
    pub fn check(&self) -> Result<(), String> {
        let Some(last) = self.pieces.len().checked_sub(1) else {
            return Err("the rate plan is empty".into());
        };
        let mut total = 0u64;
        for (i, piece) in self.pieces.iter().enumerate() {
            let number = i + 1;
            for rate in [piece.from, piece.to] {
                if !(0.0..=RATE_MAX).contains(&rate) {
                    return Err(format!(
                        "piece {number} of the rate plan has a rate of {}/s, which is not between \
                         0 and 1g/s",
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
                    return Err(format!("piece {number} of the rate plan has a length of zero"));
                }
                length => match total.checked_add(length.unwrap_or(Span::ZERO).0) {
                    Some(sum) => total = sum,
                    None => return Err("the rate plan is longer than 584 years".into()),
                },
            }
        }
        if self.pieces.iter().all(|p| p.from == 0.0 && p.to == 0.0) {
            return Err("the rate is always zero".into());
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

/// The text that [`RatePlan::parse`] reads back: `1k@10s,1k..20k@1m`.
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

/// The argument of `--arrivals`: an arrival process, or the file that has its times.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalsArg {
    /// An arrival process.
    Process(Arrivals),
    /// The path of a trace file, for [`parse_trace`].
    TraceFile(String),
}

impl Arrivals {
    /// Parse `fixed`, `poisson`, `gamma:SHAPE`, `uniform:LOW:HIGH` (times) or `trace:FILE`, without
    /// opening FILE.
    ///
    /// # Errors
    /// Any other text; a shape that is not from 0.01 to 1000; bounds in the wrong order or both
    /// zero.
    pub fn parse(text: &str) -> Result<ArrivalsArg, ParseError> {
        let bad = |why| not_arrivals(text, why, "gamma:0.5, uniform:10us:90us or trace:FILE");
        match text.strip_prefix("trace:") {
            Some("") => Err(bad("the file name is missing".into())),
            Some(file) => Ok(ArrivalsArg::TraceFile(file.to_owned())),
            None if text == "trace" => Err(bad("the file name is missing".into())),
            None => process_of(text).map(ArrivalsArg::Process).map_err(bad),
        }
    }

    /// Parse `fixed`, `poisson`, `gamma:SHAPE` or `uniform:LOW:HIGH`, for what has no trace.
    ///
    /// # Errors
    /// As those of [`parse`](Self::parse); a trace.
    pub fn parse_process(text: &str) -> Result<Self, ParseError> {
        let process = match text == "trace" || text.starts_with("trace:") {
            true => Err("messages have no trace".into()),
            false => process_of(text),
        };
        process.map_err(|why| not_arrivals(text, why, "gamma:0.5 or uniform:10ms:90ms"))
    }
}

fn not_arrivals(text: &str, why: String, others: &str) -> ParseError {
    ParseError::new(format!(
        "'{text}' is not an arrival process: {why}; write fixed, poisson, {others}"
    ))
}

/// A process, or why the text is none.
fn process_of(text: &str) -> Result<Arrivals, String> {
    match text {
        "fixed" => return Ok(Arrivals::Fixed),
        "poisson" => return Ok(Arrivals::Poisson),
        _ => {}
    }
    if let Some(shape) = text.strip_prefix("gamma") {
        return shape_of(shape).map(Arrivals::Gamma);
    }
    let why = match parse_distribution(text)? {
        Distribution::Uniform(_, Span::ZERO) => "the inter-arrival times are all zero",
        Distribution::Uniform(low, high) => return Ok(Arrivals::Uniform(low, high)),
        Distribution::Exponential(_) => {
            "for exponential inter-arrival times, use poisson and a rate"
        }
        Distribution::Fixed(_) => "for constant inter-arrival times, use fixed and a rate",
        Distribution::LogNormal(..) | Distribution::Bimodal(..) => {
            "this distribution is not supported for arrivals"
        }
    };
    Err(why.into())
}

/// The shape in `gamma:SHAPE`, from what follows the name.
fn shape_of(text: &str) -> Result<f64, String> {
    let Some(shape) = text.strip_prefix(':') else {
        return Err("the form is gamma:SHAPE".into());
    };
    let is_number = shape.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = shape.parse().ok().filter(|shape| is_number && Arrivals::SHAPES.contains(shape));
    number.ok_or_else(|| {
        let (low, high) = (Arrivals::SHAPES.start(), Arrivals::SHAPES.end());
        format!("'{shape}' is not a shape from {low} to {high}")
    })
}

/// The text that [`Arrivals::parse`] reads back; of a trace, only the number of its times; of a
/// log, its name.
impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.write_str("fixed"),
            Self::Poisson => f.write_str("poisson"),
            Self::Gamma(shape) => write!(f, "gamma:{shape}"),
            Self::Uniform(low, high) => write!(f, "uniform:{low}:{high}"),
            Self::Trace(times) => write!(f, "trace of {}", times.len()),
            Self::Log => f.write_str("log"),
        }
    }
}

/// Parse the text of a trace file: one time in seconds per line (`0.25`, `1e-3`), in ascending
/// order. Blank lines and comments after `#` are ignored.
///
/// # Errors
/// The first line that is not a time or is earlier than the line before it; a file without times.
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
                "'{value}' is not a time in seconds; write one time per line, such as 0.25"
            ));
        };
        if let Some(&last) = times.last()
            && time < last
        {
            return error(format!(
                "{value} is earlier than the previous time; sort the times in ascending order"
            ));
        }
        times.push(time);
    }
    if times.is_empty() {
        return Err(ParseError::new("the trace has no times; write one time in seconds per line"));
    }
    Ok(Arrivals::Trace(Arc::from(times)))
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

/// Reject rates such as `30m`: it is 30 million per second, but 30 per minute was probably meant.
fn check_plausible(text: &str, rate: f64, unit: Option<f64>) -> Result<(), String> {
    if unit.is_some() || !(RATE_PLAUSIBLE..=RATE_MAX).contains(&rate) || rate == RATE_PLAUSIBLE {
        return Ok(());
    }
    let meant = text.strip_suffix('m').map_or_else(
        || "if you mean it".to_owned(),
        |number| format!("did you mean {number}/m ({number} per minute)? If not"),
    );
    Err(format!(
        "that is {}/s, more than any machine can send; {meant}, write {text}/s",
        rate_text(rate)
    ))
}

/// Split a rate into its number (with the suffix applied) and the seconds of its unit of time.
fn split_rate(text: &str) -> Result<(f64, Option<f64>), String> {
    let Some((digits, rest)) = split_number(text) else {
        return Err(match text {
            "" => "a rate is missing".into(),
            _ => format!("'{text}' is not a number"),
        });
    };
    let (suffix, unit) = match rest.split_once('/') {
        Some((suffix, "s" | "sec")) => (suffix, Some(1.0)),
        Some((suffix, "m" | "min")) => (suffix, Some(60.0)),
        Some((suffix, "h")) => (suffix, Some(3600.0)),
        Some((_, unit)) => {
            return Err(format!("unknown unit of time '/{unit}' (use /s, /m or /h)"));
        }
        None => (rest, None),
    };
    let exponent = decimal_exponent(suffix).ok_or_else(|| unknown("suffix", suffix))?;
    // The standard library rounds once, so that 1.1k is the number nearest to 1,100.
    let rate = format!("{}e{exponent}", digits.replace('_', ""));
    Ok((rate.parse().map_err(|_| format!("'{text}' is not a number"))?, unit))
}

/// A rate with the largest suffix that loses no precision.
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
        // Exact for any number of digits.
        return Some(span);
    }
    let seconds: f64 = text.parse().ok()?;
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '+');
    (is_number && (0.0..u64::MAX as f64 / 1e9).contains(&seconds))
        .then(|| Span::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests;
