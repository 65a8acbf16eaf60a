//! The table of the phases of response times, in runs with kernel timestamps.

use prony_stats::summary::{Figures, QUANTILES, Summary};

use super::super::phases;
use super::page::{Ink, Page};
use super::table::{CELL, is_shown};
use super::units;

/// The quantiles that have a column.
const SHOWN: [&str; 4] = ["p50", "p90", "p99", "p99.9"];

pub(super) fn write(page: &mut Page, summary: &Summary) {
    let Some(phases) = &summary.main.phases else { return };
    page.blank();
    page.list("phases", &phases::remarks(summary, phases));
    if phases.whole.count() == 0 {
        return;
    }
    page.row("", &cells(["share", "mean"].into_iter().chain(SHOWN).chain(["max"])), Ink::Faint);
    let parts = phases::parts(phases).filter(|part| is_shown(part.times));
    let by_card = ("by the card", None, &phases.by_card);
    let by_card = (!phases.by_card.is_empty()).then_some(by_card);
    for (label, share, times) in parts.map(|p| (p.label, p.share, p.times)).chain(by_card) {
        let f = Figures::of(times);
        let quantiles = QUANTILES.iter().zip(f.quantiles);
        let quantiles = quantiles.filter(|((name, _), _)| SHOWN.contains(name));
        let figures = [share.map(units::percent), f.mean_ns.map(units::nanos)].into_iter();
        let figures = figures.chain(quantiles.map(|(_, time)| time.map(units::span)));
        let figures: Vec<_> = figures.chain([f.max.map(units::span)]).collect();
        page.row(label, &cells(figures.iter().map(|c| c.as_deref().unwrap_or("-"))), Ink::Plain);
    }
}

fn cells<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    cells.map(|cell| format!("{cell:>CELL$}")).collect()
}
