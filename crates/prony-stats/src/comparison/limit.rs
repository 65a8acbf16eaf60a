//! How much a figure may change before a build fails: `p99 > +5%`.

use std::fmt;
use std::str::FromStr;

use super::figure::Figure;
use crate::summary::confidence::Interval;

/// A change that is not accepted: of a figure, in percent of its value in A (of `errors`: in
/// percentage points).
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The figure.
    pub figure: Figure,
    /// Whether an increase beyond the limit fails, or a decrease.
    pub is_increase: bool,
    /// The change, as a share of 1.
    pub change: f64,
    /// The change as it was written.
    text: String,
}

/// What a limit comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The change is within the limit, with the whole interval.
    Holds,
    /// It is beyond the limit, with the whole interval.
    Fails,
    /// The limit lies inside the interval, or there is none.
    Unknown,
}

const FORM: &str = "write a figure, '>' or '<' and a change, as in 'p99 > +5%' or 'rate < -3%'";

impl Limit {
    /// The change as it is compared: the logarithm of a ratio, or a difference of shares.
    pub(super) fn compared(&self) -> f64 {
        if self.figure.is_ratio() { libm::log1p(self.change) } else { self.change }
    }

    /// What the interval of a change means: of a logarithm of a ratio, or of a difference of
    /// shares.
    pub fn held(&self, interval: Option<Interval>) -> Held {
        let Some(Interval { lo, hi }) = interval else { return Held::Unknown };
        let at = self.compared();
        let beyond = |end: f64| if self.is_increase { end > at } else { end < at };
        match (beyond(lo), beyond(hi)) {
            (true, true) => Held::Fails,
            (false, false) => Held::Holds,
            _ => Held::Unknown,
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    /// # Errors
    /// One sentence that says what is wrong, and what to write instead.
    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>']).ok_or_else(|| FORM.to_owned())?;
        let (name, rest) = text.split_at(at);
        let (is_increase, change) = (rest.starts_with('>'), rest[1..].trim());
        if name.trim().is_empty() || change.is_empty() || change.starts_with('=') {
            return Err(FORM.into());
        }
        let figure: Figure = name.trim().parse()?;
        if figure == Figure::Distribution {
            return Err(
                "a distribution changes in more than one way; write a figure of it, as in \
                        'p99 > +5%'"
                    .into(),
            );
        }
        let number = change
            .strip_suffix('%')
            .ok_or_else(|| format!("the change '{change}' is not in percent; write +5% or -3%"))?;
        let percent = number.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        let share =
            percent.ok_or_else(|| format!("'{change}' is not a change; write +5% or -3%"))?;
        if share <= -100.0 || share.abs() > 10_000.0 {
            return Err(format!("the change '{change}' is not between -100% and +10000%"));
        }
        // `p99 > 5%` could also mean 5 % of something, and `p99 > -5%` fails without a difference.
        let (sign, wanted) = if is_increase { ('+', '>') } else { ('-', '<') };
        if !number.starts_with(sign) {
            return Err(format!(
                "'{change}' after '{wanted}' needs the sign {sign}: write {name} {wanted} \
                 {sign}{}%",
                number.trim_start_matches(['+', '-']),
                name = figure,
            ));
        }
        Ok(Self { figure, is_increase, change: share / 100.0, text: change.to_owned() })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.figure, if self.is_increase { '>' } else { '<' }, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Limit {
        text.parse().expect(text)
    }

    #[test]
    fn limits_are_read_back_as_they_are_written() {
        for (text, written) in [
            ("p99>+5%", "p99 > +5%"),
            (" rate < -3% ", "rate < -3%"),
            ("errors > +0.1%", "errors > +0.1%"),
        ] {
            assert_eq!(read(text).to_string(), written);
            assert_eq!(read(written), read(text));
        }
    }

    #[test]
    fn malformed_limits_are_refused_in_one_sentence() {
        for (wrong, why) in [
            ("p99", FORM),
            ("p99 >= +5%", FORM),
            ("> +5%", FORM),
            ("p99 > +5", "the change '+5' is not in percent; write +5% or -3%"),
            ("p99 > +x%", "'+x%' is not a change; write +5% or -3%"),
            ("p99 > 5%", "'5%' after '>' needs the sign +: write p99 > +5%"),
            ("rate < +5%", "'+5%' after '<' needs the sign -: write rate < -5%"),
            ("rate < -100%", "the change '-100%' is not between -100% and +10000%"),
            (
                "distribution > +5%",
                "a distribution changes in more than one way; write a figure of it, as in 'p99 > \
                 +5%'",
            ),
        ] {
            assert_eq!(wrong.parse::<Limit>(), Err(why.to_owned()), "{wrong}");
        }
        assert!("p9x > +5%".parse::<Limit>().is_err_and(|why| why.starts_with("there is no")));
    }

    #[test]
    fn the_whole_interval_decides() {
        let of = |text: &str, lo: f64, hi: f64| {
            let log = |x: f64| if text.starts_with("errors") { x } else { libm::log1p(x) };
            read(text).held(Some(Interval { lo: log(lo), hi: log(hi) }))
        };
        assert_eq!(of("p99 > +5%", 0.051, 0.114), Held::Fails);
        assert_eq!(of("p99 > +5%", -0.01, 0.049), Held::Holds);
        assert_eq!(of("p99 > +5%", 0.03, 0.06), Held::Unknown);
        assert_eq!(of("rate < -3%", -0.05, -0.031), Held::Fails);
        assert_eq!(of("rate < -3%", -0.02, 0.5), Held::Holds);
        assert_eq!(of("errors > +0.1%", 0.0005, 0.0009), Held::Holds);
        assert_eq!(of("errors > +0.1%", 0.0011, 0.2), Held::Fails);
        assert_eq!(read("p99 > +5%").held(None), Held::Unknown);
    }
}
