//! The requests by name: one line for each, with its counts and response times.

use prony_stats::summary::{Figures, QUANTILES, Summary};
use prony_tally::record::NameTally;

use super::page::{Ink, Page, column, shortened};
use super::units;

/// Width of a cell, including the space before it.
const CELL: usize = 10;
/// The quantiles with a column.
const SHOWN: [&str; 3] = ["p50", "p90", "p99"];

/// The names, those with the most requests first.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    let mut rows: Vec<(&str, &NameTally)> =
        summary.plan.names.iter().map(String::as_str).zip(&summary.main.names).collect();
    rows.retain(|(_, t)| t.started > 0);
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|&(_, t)| std::cmp::Reverse(t.started));
    page.blank();
    let header = ["replies", "failed", "mean"].into_iter().chain(SHOWN).chain(["max"]);
    let header: String = header.map(|name| format!("{name:>CELL$}")).collect();
    let width = column(rows.iter().map(|(name, _)| *name), header.len());
    page.wide_row("response", width, &header, Ink::Faint);
    for (name, t) in rows.iter() {
        page.wide_row(&shortened(name, width), width, &row(t), Ink::Plain);
    }
}

fn row(t: &NameTally) -> String {
    let f = Figures::of(&t.response);
    let quantiles = QUANTILES
        .iter()
        .zip(f.quantiles)
        .filter(|((name, _), _)| SHOWN.contains(name))
        .map(|(_, time)| time.map(units::span));
    let cells =
        [Some(units::count(t.replies)), Some(units::count(t.failed)), f.mean_ns.map(units::nanos)]
            .into_iter()
            .chain(quantiles)
            .chain([f.max.map(units::span)]);
    cells.map(|cell| format!("{:>CELL$}", cell.as_deref().unwrap_or("-"))).collect()
}
