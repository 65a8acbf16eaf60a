//! Several results side by side: one line per figure, one column per result. For two results, also
//! their difference.

mod data;
mod figures;
mod text;

use prony_stats::summary::Summary;
use prony_stats::summary::confidence::Interval;

use super::units;
pub(super) use data::{csv, json, markdown};
pub(super) use figures::lines;
pub(super) use text::render;

/// A ratio from which a difference is shown as a multiple, not in percent.
const MULTIPLE: f64 = 10.0;
/// The names of the two columns.
pub(super) const DIFFERENCES: [&str; 2] = ["difference", "outside both"];
/// The explanation of the second column, in lines.
pub(super) const OUTSIDE_MEANS: [&str; 2] = [
    "Outside both: each run's figure lies outside the other's 95 % confidence interval.",
    "\"-\": a run has no interval for that figure.",
];

/// A line of the comparison.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) label: String,
    /// For each result.
    what: What,
    /// Whether the text report has it only with `-v`.
    is_detail: bool,
}

/// What a line has.
#[derive(Debug)]
enum What {
    /// A word for each result.
    Words(Vec<Option<&'static str>>),
    /// A figure for each result.
    Figures(Unit, Vec<Option<Figure>>),
}

/// What figures are measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Nanoseconds.
    Time,
    /// Per second.
    Rate,
    /// Whole numbers.
    Count,
    /// Bytes per second.
    Throughput,
    /// 0 to 1.
    Share,
    /// Any number.
    Number,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Time => units::nanos(value),
            Self::Rate => units::rate(value),
            Self::Count => units::count(value as u64),
            Self::Throughput => format!("{}/s", units::bytes(value)),
            Self::Share => units::percent(value),
            Self::Number => units::three(value),
        }
    }

    /// The word of the formats for programs.
    fn word(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::Rate => "per-second",
            Self::Count => "count",
            Self::Throughput => "bytes-per-second",
            Self::Share => "share",
            Self::Number => "number",
        }
    }
}

/// A figure of one result.
#[derive(Clone, Copy, Debug)]
struct Figure {
    value: f64,
    /// Its 95 % confidence interval.
    interval: Option<Interval>,
}

impl Figure {
    fn exact(value: f64) -> Self {
        Self { value, interval: None }
    }

    fn is_outside(&self, interval: Interval) -> bool {
        self.value < interval.lo || self.value > interval.hi
    }
}

impl Line {
    /// One cell for each result.
    pub(super) fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        match &self.what {
            What::Words(words) => {
                words.iter().map(|word| word.map_or_else(dash, str::to_owned)).collect()
            }
            What::Figures(unit, figures) => {
                let cell = |figure: &Option<Figure>| figure.map(|f| unit.show(f.value));
                figures.iter().map(|figure| cell(figure).unwrap_or_else(dash)).collect()
            }
        }
    }

    /// The difference of the second of two results from the first; see [`DIFFERENCES`].
    pub(super) fn differences(&self) -> Option<[String; 2]> {
        match &self.what {
            What::Words(words) => (words.len() == 2).then(|| ["-", "-"].map(str::to_owned)),
            What::Figures(unit, figures) => match figures.as_slice() {
                [a, b] => Some([difference(*a, *b, *unit), outside(*a, *b).to_owned()]),
                _ => None,
            },
        }
    }
}

/// The verdict of the result.
pub(super) fn verdict(summary: &Summary) -> &'static str {
    summary.verdict().verdict.word()
}

/// The difference of the second figure from the first: `+1.20 ms (+8.31 %)`, `+24.0 ms (x25.0)`.
fn difference(a: Option<Figure>, b: Option<Figure>, unit: Unit) -> String {
    let (Some(a), Some(b)) = (a, b) else { return "-".to_owned() };
    let more = b.value - a.value;
    let absolute = unit.show(more.abs());
    // Includes differences that round to zero.
    if more == 0.0 || absolute == "0" {
        return "0".to_owned();
    }
    let sign = if more < 0.0 { '-' } else { '+' };
    // A share of a share would be taken for percentage points.
    if a.value == 0.0 || unit == Unit::Share {
        return format!("{sign}{absolute}");
    }
    let ratio = b.value / a.value;
    if ratio >= MULTIPLE {
        return format!("{sign}{absolute} (x{})", units::three(ratio));
    }
    format!("{sign}{absolute} ({sign}{} %)", units::three((ratio - 1.0).abs() * 100.0))
}

fn outside(a: Option<Figure>, b: Option<Figure>) -> &'static str {
    match is_outside(a, b) {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    }
}

/// Whether each figure lies outside the interval of the other; `None` if one has no interval.
fn is_outside(a: Option<Figure>, b: Option<Figure>) -> Option<bool> {
    let (a, b) = (a?, b?);
    let (of_a, of_b) = (a.interval?, b.interval?);
    Some(a.is_outside(of_b) && b.is_outside(of_a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, lo: f64, hi: f64) -> Option<Figure> {
        Some(Figure { value, interval: Some(Interval { lo, hi }) })
    }

    #[test]
    fn shows_differences_with_sign_and_share_of_the_first_figure() {
        let of =
            |a: f64, b: f64| difference(Some(Figure::exact(a)), Some(Figure::exact(b)), Unit::Time);
        assert_eq!(of(10e6, 12.5e6), "+2.50 ms (+25.0 %)");
        assert_eq!(of(12.5e6, 10e6), "-2.50 ms (-20.0 %)");
        assert_eq!(of(1e6, 25e6), "+24.0 ms (x25.0)");
        assert_eq!(of(5.0, 5.0), "0");
        assert_eq!(of(0.0, 5e3), "+5.00 us");
        assert_eq!(difference(None, Some(Figure::exact(1.0)), Unit::Time), "-");
        let shares = [0.02, 0.03].map(|share| Some(Figure::exact(share)));
        assert_eq!(difference(shares[0], shares[1], Unit::Share), "+1.00 %");
    }

    #[test]
    fn outside_both_intervals_requires_both_figures_outside() {
        let a = figure(10.0, 9.0, 11.0);
        assert_eq!(outside(a, figure(13.0, 12.0, 14.0)), "yes");
        assert_eq!(outside(figure(13.0, 12.0, 14.0), a), "yes");
        // The second figure is outside the first interval, but not the other way round.
        assert_eq!(outside(a, figure(13.0, 9.5, 17.0)), "no");
        assert_eq!(outside(a, figure(10.5, 10.0, 11.0)), "no");
        assert_eq!(outside(a, Some(Figure::exact(99.0))), "-");
        assert_eq!(outside(a, None), "-");
    }
}
