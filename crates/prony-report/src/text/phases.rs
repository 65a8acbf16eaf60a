//! The table of the parts of response times, where the kernel noted times.

use prony_core::summary::{Figures, QUANTILES, Summary};

use super::super::phases;
use super::page::{Ink, Page};
use super::table::{CELL, is_told};
use super::units;

/// The quantiles that have a column.
const TOLD: [&str; 4] = ["p50", "p90", "p99", "p99.9"];

pub(super) fn tell(page: &mut Page, summary: &Summary) {
    let Some(phases) = &summary.main.phases else { return };
    page.blank();
    page.list("phases", &phases::told(summary, phases));
    if phases.whole.count() == 0 {
        return;
    }
    page.row("", &cells(["share", "mean"].into_iter().chain(TOLD).chain(["max"])), Ink::Faint);
    let parts = phases::parts(phases).filter(|part| is_told(part.times));
    let by_card = ("by the card", None, &phases.by_card);
    let by_card = (!phases.by_card.is_empty()).then_some(by_card);
    for (label, share, times) in parts.map(|p| (p.label, p.share, p.times)).chain(by_card) {
        let f = Figures::of(times);
        let quantiles = QUANTILES.iter().zip(f.quantiles);
        let quantiles = quantiles.filter(|((name, _), _)| TOLD.contains(name));
        let told = [share.map(units::percent), f.mean_ns.map(units::nanos)].into_iter();
        let told = told.chain(quantiles.map(|(_, time)| time.map(units::span)));
        let told: Vec<_> = told.chain([f.max.map(units::span)]).collect();
        page.row(label, &cells(told.iter().map(|c| c.as_deref().unwrap_or("-"))), Ink::Plain);
    }
}

fn cells<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    cells.map(|cell| format!("{cell:>CELL$}")).collect()
}
