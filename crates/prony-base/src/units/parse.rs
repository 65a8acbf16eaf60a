//! Counts, times and sizes as text. All arithmetic is in integers, so that `0.1s` is exactly
//! 100,000,000 nanoseconds.

use std::fmt;
use std::str::FromStr;

use super::Span;

/// A parse error: one sentence with the defect, its position and the correct form. It starts in
/// lower case, so that a front end can prefix it with the name of the option or file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    /// With this sentence, which says what is wrong and what to write instead.
    /// An error with this sentence.
    pub fn new(sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        if !sentence.contains(char::is_control) {
            return Self(sentence);
        }
        // Quoted input must neither break the line nor send control sequences to a terminal.
        let escaped = |c: char| {
            let text = c.to_string();
            if c.is_control() { text.escape_debug().to_string() } else { text }
        };
        Self(sentence.chars().map(escaped).collect())
    }

    /// The same, with the line of the file (counted from 1) in front.
    pub fn at_line(self, line: usize) -> Self {
        Self(format!("line {line}: {}", self.0))
    }
}

/// Parse a count: `5000`, `10k`, `2m`, `1g` (powers of 1,000), `1.5k`, `1_000`.
///
/// # Errors
/// Any other text, fractions, more than 2^64 - 1.
pub fn parse_count(text: &str) -> Result<u64, ParseError> {
    let bad = |why: &str| {
        ParseError::new(format!("'{text}' is not a count: {why}; write 500, 10k, 2m or 1g"))
    };
    let (number, suffix) = Decimal::split(text).ok_or_else(|| bad("it must start with a digit"))?;
    let factor = decimal_factor(suffix).ok_or_else(|| bad(&unknown("suffix", suffix)))?;
    match number.times(factor) {
        Product::Whole(n) => Ok(n),
        Product::Rounded(_) => Err(bad("it is not a whole number")),
        Product::TooLarge => Err(bad("it is too large")),
    }
}

/// Parse a size in bytes: `512`, `64k` or `64KiB`, `1m` or `1MiB`, `2g` or `2GiB` (powers of
/// 1,024), `1kB`, `1MB`, `1GB` (powers of 1,000), `512B`. Case does not matter.
///
/// # Errors
/// Any other text, fractions of a byte, more than 2^64 - 1.
pub fn parse_size(text: &str) -> Result<u64, ParseError> {
    let bad = |why: &str| {
        ParseError::new(format!("'{text}' is not a size: {why}; write 512, 64k, 1MiB or 1MB"))
    };
    let (number, suffix) = Decimal::split(text).ok_or_else(|| bad("it must start with a digit"))?;
    let factor = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(bad(&unknown("unit", suffix))),
    };
    match number.times(factor) {
        Product::Whole(n) => Ok(n),
        Product::Rounded(_) => Err(bad("it is not a whole number of bytes")),
        Product::TooLarge => Err(bad("it is too large")),
    }
}

/// Parse a time: `500ms`, `1m30s`, `250us`, `1.5s`, `2h`. A number without a unit is in seconds.
/// Rounds to the nearest nanosecond.
impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_span(text).map_err(|why| ParseError::new(format!("{why}; write 500ms, 1m30s or 2h")))
    }
}

/// As above, for a time within a larger text: the caller adds the correct form to the error.
pub fn parse_span(text: &str) -> Result<Span, String> {
    let bad = |why: &str| format!("'{text}' is not a time: {why}");
    let too_long = || bad("it is longer than 584 years");
    let mut rest = text;
    let mut total = 0u64;
    loop {
        let (number, after) = Decimal::split(rest).ok_or_else(|| bad("a number is missing"))?;
        let unit_length = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_length);
        let factor = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            "" if rest.len() == text.len() => 1_000_000_000,
            "" => return Err(bad("its last number has no unit")),
            _ => return Err(bad(&unknown("unit", unit))),
        };
        let nanos = match number.times(factor) {
            Product::Rounded(0) => return Err(bad("it is shorter than a nanosecond")),
            Product::Whole(n) | Product::Rounded(n) => n,
            Product::TooLarge => return Err(too_long()),
        };
        total = total.checked_add(nanos).ok_or_else(too_long)?;
        if after.is_empty() {
            return Ok(Span(total));
        }
        rest = after;
    }
}

/// The shortest exact text, which parses back to the same span: `1m30s`, `1.5ms`, `0s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, rest) = (self.0 / 3_600_000_000_000, self.0 % 3_600_000_000_000);
        let (minutes, rest) = (rest / 60_000_000_000, rest % 60_000_000_000);
        let mut text = String::new();
        if hours > 0 {
            text += &format!("{hours}h");
        }
        if minutes > 0 {
            text += &format!("{minutes}m");
        }
        let (unit, digits, name) = match rest {
            0 if !text.is_empty() => return f.pad(&text),
            1..1_000 => (1, 0, "ns"),
            1_000..1_000_000 => (1_000, 3, "us"),
            1_000_000..1_000_000_000 => (1_000_000, 6, "ms"),
            _ => (1_000_000_000, 9, "s"),
        };
        text += &(rest / unit).to_string();
        if rest % unit > 0 {
            let fraction = format!(".{:0digits$}", rest % unit);
            text += fraction.trim_end_matches('0');
        }
        text += name;
        f.pad(&text)
    }
}

/// The factor of a suffix `k`, `m` or `g`, or none: a power of 1,000.
fn decimal_factor(suffix: &str) -> Option<u64> {
    Some(10u64.pow(decimal_exponent(suffix)?))
}

/// The exponent of ten of a suffix `k`, `m` or `g`, or none.
pub fn decimal_exponent(suffix: &str) -> Option<u32> {
    match suffix {
        "" => Some(0),
        "k" | "K" => Some(3),
        "m" | "M" => Some(6),
        "g" | "G" => Some(9),
        _ => None,
    }
}

/// The sentence about a text that has no meaning there.
pub fn unknown(what: &str, found: &str) -> String {
    format!("unknown {what} '{found}'")
}

/// Split a text after its leading number (digits, underscores, decimal point). `None` if it does
/// not start with a digit.
pub fn split_number(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let whole = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let after = &text[whole..];
    let fraction = match after.strip_prefix('.') {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => {
            1 + digits.find(|c| !is_digit(c)).unwrap_or(digits.len())
        }
        _ => 0,
    };
    Some(text.split_at(whole + fraction))
}

/// A decimal number: `digits / 10^scale`.
struct Decimal {
    digits: u128,
    scale: u32,
    /// Whether the digits do not fit.
    overflow: bool,
}

enum Product {
    Whole(u64),
    /// Not a whole number, but rounded to the nearest.
    Rounded(u64),
    TooLarge,
}

impl Decimal {
    fn split(text: &str) -> Option<(Self, &str)> {
        let (number, rest) = split_number(text)?;
        let mut decimal = Self { digits: 0, scale: 0, overflow: false };
        let mut in_fraction = false;
        for c in number.chars() {
            let Some(digit) = c.to_digit(10) else {
                in_fraction |= c == '.';
                continue;
            };
            // More digits make no difference. With at most 18, a product that fits in 64 bits fits
            // in 128 bits with its fraction.
            if in_fraction && decimal.scale == 18 {
                continue;
            }
            let next = decimal.digits.checked_mul(10).and_then(|d| d.checked_add(digit.into()));
            decimal.overflow |= next.is_none();
            decimal.digits = next.unwrap_or(0);
            decimal.scale += u32::from(in_fraction);
        }
        Some((decimal, rest))
    }

    fn times(&self, factor: u64) -> Product {
        let unit = 10u128.pow(self.scale);
        let product = match self.digits.checked_mul(factor.into()) {
            Some(product) if !self.overflow => product,
            _ => return Product::TooLarge,
        };
        let (whole, part) = (product / unit, product % unit);
        match u64::try_from(whole + u128::from(part >= unit.div_ceil(2))) {
            Ok(n) if part == 0 => Product::Whole(n),
            Ok(n) => Product::Rounded(n),
            Err(_) => Product::TooLarge,
        }
    }
}
