//! The text report of a comparison, 100 columns wide.

use prony_base::plain;

use super::super::lines::Lines;
use super::super::text::shortened;
use super::super::units;
use super::{Change, Comparison, Distribution, Quantile};
use crate::words::changes::{number, range, signed};

const LABEL: usize = 14;
const CELL: usize = 12;
/// Columns of the band of a shift function, on each side of zero.
const SIDE: usize = 24;
/// The least change at the ends of the band, in percent.
const SCALE_MIN: f64 = 5.0;

pub(super) fn render(c: &Comparison) -> String {
    let what = if c.saved { "saved runs" } else { "targets" };
    let mut out = Lines::default();
    out.line(format!("prony {}  comparison of {what}", c.version));
    for side in &c.targets {
        let n = u64::from(side.blocks);
        let of = if c.saved {
            units::counted(n, "run", "runs")
        } else {
            units::counted(n, "block", "blocks")
        };
        let line = format!(
            "  {}  {}: {of}, {} requests",
            side.label,
            side.name,
            units::count(side.requests)
        );
        out.line(shortened(&plain::line(&line), 100));
    }
    for target in c.targets.iter().skip(1) {
        let changes = c.changes.iter().filter(|change| change.target == target.label);
        out.blank();
        out.line(format!(
            "  {:LABEL$}{:>CELL$}{:>CELL$}{:>CELL$}   interval",
            "", "A", target.label, "change"
        ));
        for change in changes {
            let (by, interval) = shown(change);
            out.line(format!(
                "  {:LABEL$}{:>CELL$}{:>CELL$}{by:>CELL$}   {interval}",
                change.figure,
                value(change, change.a),
                value(change, change.b),
            ));
        }
    }
    out.blank();
    for sentence in c.sentences() {
        wrapped(&mut out, sentence);
    }
    for shift in c.distributions.iter().filter(|d| !d.quantiles.is_empty()) {
        band(&mut out, shift);
    }
    out.blank();
    for doubt in &c.doubts {
        wrapped(&mut out, &format!("NOT VALID: {doubt}"));
    }
    wrapped(&mut out, &how(c));
    for note in &c.notes {
        wrapped(&mut out, note);
    }
    if c.interrupted {
        wrapped(&mut out, "Interrupted by the user: this is what was known until then.");
    }
    out.finish()
}

/// How sure all that is.
fn how(c: &Comparison) -> String {
    let hold = "All intervals hold together with a probability of 95 %.";
    if c.saved {
        return hold.to_owned();
    }
    format!(
        "{} of at most {} rounds. {hold} Seed {}.",
        units::count(c.rounds.into()),
        units::count(c.rounds_max.into()),
        c.seed
    )
}

/// The value of a figure.
pub(crate) fn value(change: &Change, value: Option<f64>) -> String {
    let Some(v) = value else { return "-".into() };
    match change.unit {
        "per-second" => units::rate(v),
        "share" => units::percent(v),
        _ => units::nanos(v),
    }
}

/// A change and its interval: in percent, or percentage points.
pub(crate) fn shown(change: &Change) -> (String, String) {
    let (by, lo, hi, unit) = match (change.ratio, change.difference) {
        (Some(ratio), _) => {
            let percent = |r: f64| (r - 1.0) * 100.0;
            (percent(ratio), change.ratio_lo.map(percent), change.ratio_hi.map(percent), "%")
        }
        (None, Some(by)) => {
            let points = |d: f64| d * 100.0;
            let [lo, hi] = [change.difference_lo, change.difference_hi].map(|d| d.map(points));
            (points(by), lo, hi, "pp")
        }
        (None, None) => return ("-".into(), String::new()),
    };
    (format!("{} {unit}", signed(by)), range(lo, hi, unit))
}

/// The shift function: one line for each quantile, from less to more time than A.
fn band(out: &mut Lines, shift: &Distribution) {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let ends = shift.quantiles.iter().flat_map(|q| [q.ratio_lo, q.ratio_hi]);
    let scale = ends.map(|r| percent(r).abs()).fold(SCALE_MIN, f64::max);
    out.blank();
    out.line(format!(
        "  {:LABEL$}{:>CELL$}{:>CELL$}{:>width$} %",
        "quantile",
        format!("{} - A", shift.target),
        format!("-{} %", number(scale)),
        format!("+{}", number(scale)),
        width = 2 * SIDE
    ));
    let place = |ratio: f64| {
        let at = percent(ratio) / scale * SIDE as f64;
        (at.round().clamp(-(SIDE as f64), SIDE as f64) + SIDE as f64) as usize
    };
    for q in &shift.quantiles {
        let mut line = vec![' '; 2 * SIDE + 1];
        line[SIDE] = '|';
        line[place(q.ratio_lo)..=place(q.ratio_hi)].fill('-');
        line[place(q.ratio)] = 'o';
        let line: String = line.into_iter().collect();
        let Quantile { quantile, ratio, .. } = *q;
        out.line(format!(
            "  {:LABEL$}{:>CELL$}{:CELL$}{line}",
            format!("p{:.0}", quantile * 100.0),
            format!("{} %", signed(percent(ratio))),
            "",
        ));
    }
}

/// A sentence in lines of 100 columns, the later ones indented.
fn wrapped(out: &mut Lines, sentence: &str) {
    let mut line = String::from("  ");
    for word in plain::line(sentence).split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > 100 {
            out.line(&line);
            line = String::from("   ");
        }
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.line(&line);
}
