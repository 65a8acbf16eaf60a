//! The table of times: one line for each kind, one column for each figure.

use prony_plan::threshold::Timed;
use prony_stats::summary::confidence::{Confidence, Interval, NoInterval};
use prony_stats::summary::{Figures, QUANTILES};
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use super::page::{Ink, Page, column};
use super::{Detail, units};

/// Width of a cell, including the space before it.
pub(super) const CELL: usize = 8;
/// The label of the confidence intervals.
const BARS: &str = "  95 % +-";

pub(super) fn times(page: &mut Page, tally: &Tally) {
    let (waits, pieces) = (waits(tally), pieces(tally));
    let rows: Vec<(Timed, Figures)> =
        shown(tally).map(|(timed, hist)| (timed, Figures::of(hist))).collect();
    if rows.is_empty() {
        return;
    }
    let label = column(rows.iter().map(|(timed, _)| timed.label()), COLUMNS * CELL);
    let room = page.width().saturating_sub(2 + label);
    page.wide_row("", label, &header(room), Ink::Faint);
    let mut without = Without::default();
    for (timed, figures) in &rows {
        let is_response = *timed == Timed::Response;
        let ink = if is_response { Ink::Strong } else { Ink::Plain };
        page.wide_row(timed.label(), label, &row(figures, room), ink);
        let confidence = Confidence::of_times(tally, *timed);
        if let Some(confidence) = confidence.filter(|_| *timed != Timed::Service)
            && let Some((cells, reasons)) = bars(&confidence, figures, room)
        {
            page.wide_row(BARS, label, &cells, Ink::Plain);
            without.correlated |= reasons.correlated;
            without.dominated |= reasons.dominated;
            without.few |= reasons.few && is_response;
        } else if is_response && let Some(why) = lack(tally) {
            page.wide_row(BARS, label, &format!("  not known: {why}"), Ink::Plain);
        }
    }
    if !waits {
        page.line("service", "same as response: no request waited before it was sent");
    }
    if !pieces {
        page.line("first byte", "same as service: every reply arrived in one piece");
    }
    let needs = needs(&rows);
    let twice = "its interval needs twice as many";
    match (needs, without.few) {
        (None, false) => {}
        _ if page.style().detail != Detail::Notes => {
            page.line("-", "too few samples (-vv says how many are needed)");
        }
        (Some(needs), true) => page.line("-", &format!("{needs}; {twice}")),
        (Some(needs), false) => page.line("-", &needs),
        (None, true) => {
            page.line("-", &format!("as many samples as that percentile needs: {twice}"))
        }
    }
    if without.correlated {
        page.legend("?", CORRELATED);
    } else if without.dominated {
        page.legend("?", DOMINATED);
    }
}

/// So few samples have no interval anyway.
const SAMPLES_MIN: u64 = 100;

/// Why no response time has an interval, in place of them all.
fn lack(tally: &Tally) -> Option<String> {
    let median = Confidence::of(tally).quantile(0.5);
    match median {
        _ if tally.times.response.count() < SAMPLES_MIN => None,
        Err(NoInterval::TooShort) => Some("the measurement is shorter than a second".into()),
        Err(NoInterval::TooFewSamples { needs }) => {
            Some(format!("any interval needs {} samples", units::count(needs)))
        }
        _ => None,
    }
}

/// Why a figure has a question mark in place of its interval.
pub(super) const CORRELATED: &str = "no interval: latencies close in time are correlated, so this run \
                                     has too few independent samples; run longer";

/// The same for a mean or a rate.
pub(super) const DOMINATED: &str = "no interval: a short part of the run decides this figure alone; \
                                    run longer";

/// All kinds of times of a run, the most important first.
pub(crate) fn kinds(tally: &Tally) -> impl Iterator<Item = (Timed, &Hist)> {
    Timed::ALL.iter().filter_map(|&timed| Some((timed, tally.times_of(timed)?)))
}

/// Whether requests waited before they were sent.
fn waits(tally: &Tally) -> bool {
    !is_same(&tally.times.service, &tally.times.response)
}

/// Whether replies arrived in several pieces.
fn pieces(tally: &Tally) -> bool {
    !is_same(&tally.times.first_byte, &tally.times.service)
}

fn is_same(a: &Hist, b: &Hist) -> bool {
    a == b && a.count() > 0
}

/// Those with a row of their own.
pub(crate) fn shown(tally: &Tally) -> impl Iterator<Item = (Timed, &Hist)> {
    let (waits, pieces) = (waits(tally), pieces(tally));
    kinds(tally).filter(move |(timed, hist)| {
        let is_wanted = match timed {
            Timed::Service => waits,
            Timed::FirstByte | Timed::Transfer => pieces,
            _ => true,
        };
        is_wanted && is_shown(hist)
    })
}

/// Whether a kind of time has a row: only if a value is not zero.
pub(super) fn is_shown(hist: &Hist) -> bool {
    hist.max().is_some_and(|max| max.0 > 0)
}

/// Mean, standard deviation, percentiles and maximum.
const COLUMNS: usize = 3 + QUANTILES.len();
/// The columns that a narrow screen leaves out, first to last: p75 and p95.
const LEFT_OUT: [usize; 2] = [3, 5];

/// The cells of a row, as far as there is room for them.
fn fitting<C: AsRef<str>>(cells: impl Iterator<Item = C>, room: usize) -> String {
    let cells: Vec<C> = cells.collect();
    let excess = (cells.len() * CELL).saturating_sub(room).div_ceil(CELL);
    let left_out = &LEFT_OUT[..excess.min(LEFT_OUT.len())];
    let shown = cells.iter().enumerate().filter(|(i, _)| !left_out.contains(i));
    shown.map(|(_, cell)| format!("{:>CELL$}", cell.as_ref())).collect()
}

fn header(room: usize) -> String {
    let names = ["mean", "stdev"].into_iter().chain(QUANTILES.map(|(name, _)| name)).chain(["max"]);
    fitting(names, room)
}

fn row(f: &Figures, room: usize) -> String {
    let moment = |ns: Option<f64>| ns.map(units::nanos);
    // A single sample has no standard deviation.
    let stdev = f.stdev_ns.filter(|_| f.count > 1);
    let cells = [moment(f.mean_ns), moment(stdev)]
        .into_iter()
        .chain(f.quantiles.iter().map(|q| q.map(units::span)))
        .chain([f.max.map(units::span)]);
    fitting(cells.map(|cell| cell.unwrap_or_else(|| "-".into())), room)
}

/// Why figures have no interval: their times are correlated, a part of the run dominates, or they
/// are too few.
#[derive(Clone, Copy, Debug, Default)]
struct Without {
    correlated: bool,
    dominated: bool,
    few: bool,
}

/// The wider half of the 95 % confidence interval of each figure in the row above, and why some
/// have none. `None` if no figure has an interval.
fn bars(confidence: &Confidence<'_>, f: &Figures, room: usize) -> Option<(String, Without)> {
    let mut without = Without::default();
    let mut cell =
        |figure: Option<f64>, interval: Result<Interval, NoInterval>| match (figure, interval) {
            (Some(figure), Ok(interval)) => units::bar(interval.reach(figure)),
            (Some(_), Err(NoInterval::Autocorrelated { .. })) => {
                without.correlated = true;
                "?".to_owned()
            }
            (Some(_), Err(NoInterval::Dominated)) => {
                without.dominated = true;
                "?".to_owned()
            }
            (Some(_), Err(NoInterval::TooFewSamples { .. })) => {
                without.few = true;
                "-".to_owned()
            }
            _ => String::new(),
        };
    let mut cells = vec![cell(f.mean_ns, confidence.mean()), String::new()];
    for ((_, q), figure) in QUANTILES.iter().zip(f.quantiles) {
        cells.push(cell(figure.map(|t| t.0 as f64), confidence.quantile(*q)));
    }
    if !cells.iter().any(|cell| !matches!(cell.as_str(), "" | "-")) {
        return None;
    }
    let row = fitting(cells.iter(), room);
    Some((row.trim_end().to_owned(), without))
}

/// The percentiles that are missing from the table, and the samples that they need. Where rows
/// lack different ones, each group of rows is listed with the lowest percentile that it lacks.
fn needs(rows: &[(Timed, Figures)]) -> Option<String> {
    let needs = |i: usize| {
        let (name, q) = QUANTILES[i];
        (name, units::round(Hist::samples_needed(q) as f64))
    };
    let mut groups: Vec<(usize, Vec<&str>)> = Vec::new();
    for (timed, figures) in rows {
        let Some(first) = figures.quantiles.iter().position(Option::is_none) else { continue };
        match groups.iter_mut().find(|(lowest, _)| *lowest == first) {
            Some((_, names)) => names.push(timed.label()),
            None => groups.push((first, vec![timed.label()])),
        }
    }
    let lacks = match groups.as_slice() {
        [] => return None,
        [(first, _)] => {
            let each = (*first..QUANTILES.len()).map(needs);
            each.map(|(name, n)| format!("{name}: {n}")).collect::<Vec<_>>().join(", ")
        }
        _ => {
            let each = groups.iter().map(|(first, names)| {
                let (name, n) = needs(*first);
                format!("{} from {name}: {n}", names.join(", "))
            });
            each.collect::<Vec<_>>().join("; ")
        }
    };
    Some(format!("fewer samples than that percentile needs ({lacks})"))
}
