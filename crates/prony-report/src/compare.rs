//! Several results side by side: a line for each figure, a column for each result.

use prony_core::record::Tally;
use prony_core::record::hist::Hist;
use prony_core::summary::Summary;
use prony_core::units::Span;

use super::{Saved, text, units, words};

/// Columns of the text report: the label's, and the least of a result's.
const LABEL: usize = 16;
const CELL: usize = 16;
/// Results that stand side by side before a new block begins: what a screen of 100 columns holds.
const ABREAST: usize = 5;

/// The word of the verdict.
pub(super) fn verdict(summary: &Summary) -> &'static str {
    summary.verdict().verdict.word()
}

/// Label and cells of each line; a line in which no result has anything is left out.
pub(super) fn lines(results: &[Saved<'_>]) -> Vec<(String, Vec<String>)> {
    let mut lines: Vec<(String, Vec<Option<String>>)> = Vec::new();
    let mut line = |label: &str, cell: &dyn Fn(&Summary) -> Option<String>| {
        lines.push((label.to_owned(), results.iter().map(|r| cell(r.summary)).collect()));
    };
    line("verdict", &|s| Some(verdict(s).to_owned()));
    line("rate", &|s| Some(units::rate(s.main.rate())));
    line("asked", &|s| s.asked_rate().map(units::rate));
    line("requests", &|s| Some(units::count(s.main.started)));
    line("replies", &|s| Some(units::count(s.main.replies)));
    line("failed", &|s| Some(units::count(s.main.failed)));
    line("unfinished", &|s| Some(units::count(s.main.unfinished)).filter(|n| n != "0"));
    line("window", &|s| Some(units::span(s.main.window())));
    line("received", &|s| {
        let rate = s.main.bytes_per_second();
        (rate > 0.0).then(|| format!("{}/s", units::bytes(rate)))
    });
    line("under way", &|s| Some(units::three(s.main.concurrency())));
    let response: fn(&Tally) -> &Hist = |t| &t.times.response;
    let service: fn(&Tally) -> &Hist = |t| &t.times.service;
    let kinds = [("response", response), ("service", service)];
    let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
    for (kind, hist) in kinds {
        line(&format!("{kind} mean"), &|s| hist(&s.main).mean_ns().map(units::nanos));
        for (name, q) in quantiles {
            line(&format!("{kind} {name}"), &|s| hist(&s.main).quantile(q).map(units::span));
        }
    }
    line("send lag p99", &|s| s.main.times.lag.quantile(0.99).map(units::span));
    line("connect p50", &|s| s.main.times.connect.quantile(0.5).map(units::span));
    line("CPU/request", &|s| {
        let cpu = s.cpu();
        (cpu > Span::ZERO && s.ended() > 0).then(|| units::nanos(cpu.0 as f64 / s.ended() as f64))
    });
    lines
        .into_iter()
        .filter(|(_, cells)| cells.iter().any(Option::is_some))
        .map(|(label, cells)| {
            (label, cells.into_iter().map(|c| c.unwrap_or_else(|| "-".to_owned())).collect())
        })
        .collect()
}

/// The text report of several results.
pub(super) fn render(results: &[Saved<'_>]) -> String {
    let mut out = format!("prony  {} runs\n", results.len());
    for (i, result) in results.iter().enumerate() {
        let target = text::target(result.summary);
        let head = format!("  {:<LABEL$}{}  {target}", i + 1, result.name);
        out += text::shortened(&head, 100).trim_end();
        out.push('\n');
    }
    let lines = lines(results);
    for first in (0..results.len()).step_by(ABREAST) {
        let columns = first..results.len().min(first + ABREAST);
        let heads: String = columns.clone().map(|i| format!("{:>CELL$}", i + 1)).collect();
        out += &format!("\n  {:LABEL$}{heads}\n", "");
        for (label, cells) in &lines {
            let cells = cells[columns.clone()].iter();
            let cells: String = cells.map(|cell| format!("{cell:>CELL$}")).collect();
            out += &format!("  {label:LABEL$}{cells}\n");
        }
    }
    for result in results.iter().filter(|r| !r.summary.verdict().is_valid()) {
        out += &format!(
            "\n  {}: {}: {}\n",
            text::shortened(result.name, 40),
            verdict(result.summary),
            words::verdict(result.summary.verdict().verdict)
        );
    }
    out
}
