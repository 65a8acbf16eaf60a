//! The stages of the rate plan: one line for each, with its rates, failures and response times.

use prony_base::units::Span;
use prony_stats::summary::confidence::{Interval, NoInterval};
use prony_stats::summary::{Stage, Summary};

use super::page::{Ink, Page};
use super::table::{CORRELATED, DOMINATED};
use super::units;

/// Columns of a cell, its gap included.
const CELL: usize = 9;

/// The maximum number of lines.
pub(super) fn write(page: &mut Page, summary: &Summary, most: usize) {
    let stages = summary.stages();
    if stages.is_empty() {
        return;
    }
    page.blank();
    let is_of_sessions = summary.plan.sessions.is_some();
    let target = if is_of_sessions { "sessions" } else { "target" };
    let header = ["length", target, "rate", "+-", "failed", "p50", "+-", "p99", "+-"];
    let header: String = header.map(|name| format!("{name:>CELL$}")).concat();
    page.row("stage at", &header, Ink::Faint);
    let mut lacks = Vec::new();
    for stage in stages.iter().take(most) {
        let at = if stage.at == Span::ZERO { "0 s".to_owned() } else { units::brief(stage.at) };
        let cells = row(stage);
        lacks.extend(stage.figures.iter().flat_map(|f| {
            [f.rate_interval, f.p50_interval, f.p99_interval].into_iter().filter_map(Result::err)
        }));
        page.row(&at, cells.trim_end(), Ink::Plain);
    }
    if let Some(n) = stages.len().checked_sub(most).filter(|&n| n > 0) {
        let more = units::counted(n as u64, "more stage", "more stages");
        page.line("", &format!("and {more} in the JSON report (--json)"));
    }
    if lacks.iter().any(|why| matches!(why, NoInterval::Autocorrelated { .. })) {
        page.legend("?", CORRELATED);
    } else if lacks.contains(&NoInterval::Dominated) {
        page.legend("?", DOMINATED);
    }
}

fn row(stage: &Stage) -> String {
    let mut cells = vec![units::brief(stage.length)];
    match &stage.figures {
        None => {
            // No whole interval of the series lies in it.
            cells.push(units::rate(stage.from.midpoint(stage.to)));
            cells.extend(["-", "", "-", "-", "", "-"].map(str::to_owned));
        }
        Some(f) => {
            let time = |t: Option<Span>| t.map_or_else(|| "-".to_owned(), units::span);
            let ns = |t: Option<Span>| t.map(|t| t.0 as f64);
            cells.extend([
                units::rate(f.target_rate),
                units::rate(f.rate),
                bar(Some(f.rate), f.rate_interval),
                units::count(f.failed),
                time(f.p50),
                bar(ns(f.p50), f.p50_interval),
                time(f.p99),
                bar(ns(f.p99), f.p99_interval),
            ]);
        }
    }
    cells.iter().map(|cell| format!("{cell:>CELL$}")).collect()
}

/// The further end of an interval, as a share of its figure.
fn bar(figure: Option<f64>, interval: Result<Interval, NoInterval>) -> String {
    match (figure, interval) {
        (Some(figure), Ok(interval)) => units::bar(interval.reach(figure)),
        (Some(_), Err(NoInterval::Autocorrelated { .. } | NoInterval::Dominated)) => "?".to_owned(),
        (Some(_), Err(NoInterval::TooFewSamples { .. })) => "-".to_owned(),
        _ => String::new(),
    }
}
