//! Distributions of times as text: a name and its parameters, separated by colons.

use super::{Span, parse_span};

/// A distribution of times. Parameters that are not times are left to the caller to parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution<'a> {
    /// `fixed:5ms`, or just `5ms`.
    Fixed(Span),
    /// `exp:MEAN`.
    Exponential(Span),
    /// `uniform:LOW:HIGH`.
    Uniform(Span, Span),
    /// `lognormal:MEDIAN:SIGMA`.
    LogNormal(Span, &'a str),
    /// `bimodal:FAST:SLOW:SHARE`, where SHARE is the share of slow times.
    Bimodal(Span, Span, &'a str),
}

/// Parse a distribution.
///
/// # Errors
/// The defect; the caller adds the correct form.
pub fn parse_distribution(text: &str) -> Result<Distribution<'_>, String> {
    let (name, given) = match text.split_once(':') {
        Some((name, given)) => (name, Some(given)),
        None => (text, None),
    };
    let form = match name {
        "fixed" => "fixed:TIME",
        "exp" => "exp:MEAN",
        "uniform" => "uniform:LOW:HIGH",
        "lognormal" => "lognormal:MEDIAN:SIGMA",
        "bimodal" => "bimodal:FAST:SLOW:SHARE",
        _ if given.is_none() && !name.starts_with(char::is_alphabetic) => {
            return parse_span(text).map(Distribution::Fixed);
        }
        _ => return Err(format!("unknown distribution '{name}'")),
    };
    let given = given.unwrap_or_default();
    if given.contains(',') || given.contains("..") {
        let right = given.replace("..", ":").replace(',', ":").replace(' ', "");
        return Err(format!("separate the parameters with ':', as in {name}:{right}"));
    }
    let parameters: Vec<_> = given.split(':').collect();
    match (name, &parameters[..]) {
        ("fixed", [time]) => Ok(Distribution::Fixed(parse_span(time)?)),
        ("exp", [mean]) => Ok(Distribution::Exponential(parse_span(mean)?)),
        ("uniform", [low, high]) => {
            let (low, high) = (parse_span(low)?, parse_span(high)?);
            if low > high {
                return Err(format!("{low} is longer than {high}"));
            }
            Ok(Distribution::Uniform(low, high))
        }
        ("lognormal", [median, sigma]) => Ok(Distribution::LogNormal(parse_span(median)?, sigma)),
        ("bimodal", [fast, slow, share]) => {
            Ok(Distribution::Bimodal(parse_span(fast)?, parse_span(slow)?, share))
        }
        _ => Err(format!("the form is {form}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_distribution() {
        let ms = Span::from_millis;
        for (text, expected) in [
            ("5ms", Distribution::Fixed(ms(5))),
            ("fixed:5ms", Distribution::Fixed(ms(5))),
            ("exp:2ms", Distribution::Exponential(ms(2))),
            ("uniform:1ms:5ms", Distribution::Uniform(ms(1), ms(5))),
            ("lognormal:2s:0.5", Distribution::LogNormal(ms(2000), "0.5")),
            ("bimodal:1ms:60ms:10%", Distribution::Bimodal(ms(1), ms(60), "10%")),
        ] {
            assert_eq!(parse_distribution(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn rejects_other_separators_and_shows_the_correct_form() {
        for (text, right) in [
            ("lognormal:20ms,0.3", "lognormal:20ms:0.3"),
            ("uniform:1ms..9ms", "uniform:1ms:9ms"),
            ("uniform:1ms, 9ms", "uniform:1ms:9ms"),
            ("bimodal:1ms,60ms,10%", "bimodal:1ms:60ms:10%"),
        ] {
            let expected = format!("separate the parameters with ':', as in {right}");
            assert_eq!(parse_distribution(text), Err(expected), "{text}");
            assert!(parse_distribution(right).is_ok(), "{right}");
        }
        let expected = Err("the form is lognormal:MEDIAN:SIGMA".into());
        assert_eq!(parse_distribution("lognormal"), expected);
        assert_eq!(parse_distribution("lognormal:1s"), expected);
    }
}
