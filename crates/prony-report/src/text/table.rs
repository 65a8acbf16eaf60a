//! The table of times: one line for each kind, one column for each figure.

use prony_core::record::hist::Hist;
use prony_core::record::{Tally, Times};
use prony_core::summary::confidence::{Confidence, Interval, Lack};
use prony_core::summary::{Figures, QUANTILES};

use super::page::{Ink, Page};
use super::units;

/// Columns of a cell, its gap included.
pub(super) const CELL: usize = 8;
/// The label of the confidence intervals.
const BARS: &str = "  95 % +-";

pub(super) fn times(page: &mut Page, tally: &Tally, with_bars: bool) {
    let times = &tally.times;
    let lifetime = tally.sessions.as_ref().map(|s| ("session", &s.lifetime));
    let same = |a: &Hist, b: &Hist| a == b && a.count() > 0;
    let waits = !same(&times.service, &times.response);
    let pieces = !same(&times.first_byte, &times.service);
    let wanted = |name: &str| match name {
        "service" => waits,
        "first byte" | "transfer" => pieces,
        _ => true,
    };
    let told: Vec<(&str, Figures)> = kinds(times)
        .into_iter()
        .chain(lifetime)
        .filter(|(name, hist)| wanted(name) && is_told(hist))
        .map(|(name, hist)| (name, Figures::of(hist)))
        .collect();
    if told.is_empty() {
        return;
    }
    page.row("", &header(), Ink::Faint);
    let mut unsure = false;
    for (name, figures) in &told {
        let ink = if *name == "response" { Ink::Strong } else { Ink::Plain };
        page.row(name, &row(figures), ink);
        if with_bars
            && *name == "response"
            && let Some((cells, is_unsure)) = bars(tally, figures)
        {
            page.row(BARS, &cells, Ink::Plain);
            unsure |= is_unsure;
        }
    }
    if !waits {
        page.line("service", "the same as response: no request waited before it was sent");
    }
    if !pieces {
        page.line("first byte", "the same as service: every reply came in one piece");
    }
    if let Some(needs) = needs(&told) {
        page.line("-", &needs);
    }
    if unsure {
        page.line(
            "?",
            "too few independent times for an interval; those that hang together count for less",
        );
    }
}

/// All kinds of times with their names, in the order in which they are told.
pub(crate) fn kinds(times: &Times) -> [(&'static str, &Hist); 11] {
    [
        ("response", &times.response),
        ("service", &times.service),
        ("first byte", &times.first_byte),
        ("transfer", &times.transfer),
        ("queue", &times.queue),
        ("stream wait", &times.stream_wait),
        ("flow wait", &times.flow_wait),
        ("connect", &times.connect),
        ("handshake", &times.handshake),
        ("send lag", &times.lag),
        ("failed", &times.failed),
    ]
}

/// A kind of time is told unless it is nothing but zeros.
pub(super) fn is_told(hist: &Hist) -> bool {
    hist.max().is_some_and(|max| max.0 > 0)
}

fn header() -> String {
    let names = ["mean", "stdev"].into_iter().chain(QUANTILES.map(|(name, _)| name)).chain(["max"]);
    names.map(|name| format!("{name:>CELL$}")).collect()
}

fn row(f: &Figures) -> String {
    let moment = |ns: Option<f64>| ns.map(units::nanos);
    // One time deviates from nothing.
    let stdev = f.stdev_ns.filter(|_| f.count > 1);
    let cells = [moment(f.mean_ns), moment(stdev)]
        .into_iter()
        .chain(f.quantiles.iter().map(|q| q.map(units::span)))
        .chain([f.max.map(units::span)]);
    cells.map(|cell| format!("{:>CELL$}", cell.as_deref().unwrap_or("-"))).collect()
}

/// How far the figures above are from the further end of their 95 % confidence interval, and
/// whether one of them has none. Nothing where none has.
fn bars(tally: &Tally, f: &Figures) -> Option<(String, bool)> {
    let confidence = Confidence::of(tally);
    let mut unsure = false;
    let mut cell = |figure: Option<f64>, told: Result<Interval, Lack>| match (figure, told) {
        (Some(figure), Ok(interval)) => units::bar(interval.reach(figure)),
        (Some(_), Err(Lack::Dependent { .. })) => {
            unsure = true;
            "?".to_owned()
        }
        _ => String::new(),
    };
    let mut cells = vec![cell(f.mean_ns, confidence.mean()), String::new()];
    for ((_, q), figure) in QUANTILES.iter().zip(f.quantiles) {
        cells.push(cell(figure.map(|t| t.0 as f64), confidence.quantile(*q)));
    }
    if cells.iter().all(String::is_empty) {
        return None;
    }
    let row: String = cells.iter().map(|cell| format!("{cell:>CELL$}")).collect();
    Some((row.trim_end().to_owned(), unsure))
}

/// What the dashes of the table would need.
fn needs(rows: &[(&str, Figures)]) -> Option<String> {
    let missing = |i: usize| rows.iter().any(|(_, f)| f.quantiles[i].is_none());
    let mut needs = QUANTILES
        .iter()
        .enumerate()
        .filter(|&(i, _)| missing(i))
        .map(|(_, &(name, q))| (name, units::round(Hist::samples_needed(q) as f64)));
    let (name, n) = needs.next()?;
    let first = format!("too few: {name} needs {n}");
    Some(needs.fold(first, |all, (name, n)| format!("{all}, {name} {n}")))
}
