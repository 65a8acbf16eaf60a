//! Numbers of tokens, and the distributions from which they are drawn.

use std::str::FromStr;

use prony_base::rng::Sequence;
use prony_base::units::Span;

/// The most tokens of a request or a reply.
const MOST: u32 = 1_000_000;

/// A distribution of numbers of tokens, as text: `512`, `100..300`, `normal:512:100` (mean and
/// standard deviation), `exp:200` (mean), `lognormal:200:0.5` (median and the standard deviation of
/// the logarithm). A draw is at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// Always this number.
    Fixed(u32),
    /// From the first to the second, each with the same chance.
    Uniform(u32, u32),
    /// Normal: the mean and the standard deviation.
    Normal(u32, u32),
    /// Exponential with this mean.
    Exponential(u32),
    /// Log-normal: the median, and the standard deviation of the logarithm.
    LogNormal(u32, f64),
}

impl Lengths {
    /// A draw, from 1 to a million.
    pub fn draw(self, sequence: &mut Sequence) -> u32 {
        let drawn = match self {
            Self::Fixed(n) => f64::from(n),
            Self::Uniform(low, high) => {
                f64::from(low) + sequence.below(u64::from(high - low) + 1) as f64
            }
            Self::Normal(mean, stdev) => {
                (f64::from(mean) + f64::from(stdev) * sequence.normal()).round()
            }
            Self::Exponential(mean) => {
                // In millionths, so that rounding does not change the mean.
                let mean = Span(u64::from(mean) * 1_000_000);
                (sequence.exponential(mean).0 as f64 / 1e6).round()
            }
            Self::LogNormal(median, sigma) => {
                let median = Span(u64::from(median) * 1_000_000);
                (sequence.log_normal(median, sigma).0 as f64 / 1e6).round()
            }
        };
        drawn.clamp(1.0, f64::from(MOST)) as u32
    }
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || {
            format!(
                "must be a number of tokens up to {MOST}, or a distribution: 512, 100..300, \
                 normal:512:100, exp:200 or lognormal:200:0.5"
            )
        };
        let number = |text: &str| match text.trim().parse::<u32>() {
            Ok(n) if (1..=MOST).contains(&n) => Ok(n),
            _ => Err(fail()),
        };
        let range = |low: &str, high: &str| match (number(low)?, number(high)?) {
            (low, high) if low <= high => Ok(Self::Uniform(low, high)),
            (low, high) => Err(format!("the range is reversed: write {high}..{low}")),
        };
        if let Some((low, high)) = text.split_once("..") {
            return range(low, high);
        }
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [n] | ["fixed", n] => Ok(Self::Fixed(number(n)?)),
            ["uniform", low, high] => range(low, high),
            ["normal", mean, stdev] => {
                let stdev = stdev.trim().parse().ok().filter(|n| *n <= MOST).ok_or_else(fail)?;
                Ok(Self::Normal(number(mean)?, stdev))
            }
            ["exp", mean] => Ok(Self::Exponential(number(mean)?)),
            ["lognormal", median, sigma] => {
                let sigma: f64 = sigma.trim().parse().map_err(|_| fail())?;
                let is_usual = (0.0..=5.0).contains(&sigma);
                if is_usual { Ok(Self::LogNormal(number(median)?, sigma)) } else { Err(fail()) }
            }
            _ => Err(fail()),
        }
    }
}

#[cfg(test)]
mod tests {
    use prony_base::rng::Stream;

    use super::*;

    #[test]
    fn draws_have_the_mean_of_their_distribution() {
        for (text, mean, stdev) in [
            ("512", 512.0, 0.0),
            ("fixed:7", 7.0, 0.0),
            ("100..300", 200.0, 58.0),
            ("uniform:100:300", 200.0, 58.0),
            ("normal:512:100", 512.0, 100.0),
            ("exp:200", 200.0, 200.0),
            ("lognormal:200:0.5", 200.0 * 0.125_f64.exp(), 120.8),
        ] {
            let lengths: Lengths = text.parse().expect(text);
            let mut sequence = Sequence::new(3, Stream::Prompts);
            let n = 100_000;
            let drawn: Vec<f64> = (0..n).map(|_| f64::from(lengths.draw(&mut sequence))).collect();
            let measured = drawn.iter().sum::<f64>() / f64::from(n);
            let squares = drawn.iter().map(|x| (x - measured).powi(2)).sum::<f64>();
            let spread = (squares / f64::from(n)).sqrt();
            assert!((measured / mean - 1.0).abs() < 0.01, "{text}: {measured}");
            assert!((spread - stdev).abs() <= 0.02 * stdev, "{text}: {spread}");
            assert!(drawn.iter().all(|x| *x >= 1.0), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_distribution() {
        for wrong in [
            "",
            "0",
            "-1",
            "x",
            "2000000",
            "0..2",
            "1..",
            "normal:5",
            "exp:0",
            "exp:1:2",
            "lognormal:5:9",
            "lognormal:5:x",
            "poisson:4",
            "1.5",
        ] {
            let why = wrong.parse::<Lengths>().expect_err(wrong);
            assert!(why.starts_with("must be a number of tokens"), "{why}");
        }
        for reversed in ["5..1", "uniform:5:1"] {
            let why = reversed.parse::<Lengths>().expect_err(reversed);
            assert_eq!(why, "the range is reversed: write 1..5");
        }
    }
}
