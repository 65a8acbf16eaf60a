//! The sessions by kind: one line for each, with its counts and lifetimes.

use prony_base::units::Span;
use prony_plan::plan::Plan;
use prony_stats::summary::{DirectorCost, Summary};
use prony_tally::record::{KindTally, Tally};

use super::page::{Ink, Page, column, shortened};
use super::units;

/// Columns of a cell, its gap included.
const CELL: usize = 10;
/// The quantiles with a column.
const SHOWN: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];

/// The sessions of each kind, by its name or its number in the plan. Empty if the plan has one
/// kind only.
pub(crate) fn session_kinds<'a>(plan: &Plan, tally: &'a Tally) -> Vec<(String, &'a KindTally)> {
    let (Some(plan), Some(tally)) = (&plan.sessions, &tally.sessions) else { return Vec::new() };
    let names = plan.kinds.iter().zip(1..).map(|(kind, n)| match kind.name.as_str() {
        "" => format!("kind {n}"),
        name => name.to_owned(),
    });
    names.zip(&tally.kinds).collect()
}

/// The kinds, those with the most sessions first.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    let mut rows = session_kinds(&summary.plan, &summary.main);
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|&(_, kind)| std::cmp::Reverse(kind.started));
    page.blank();
    let counts = ["started", "completed", "failed", "mean"].into_iter();
    let header = counts.chain(SHOWN.map(|(name, _)| name));
    let header: String = header.map(|name| format!("{name:>CELL$}")).collect();
    let width = column(rows.iter().map(|(name, _)| name.as_str()), header.len());
    page.wide_row("session", width, &header, Ink::Faint);
    for (name, kind) in rows.iter() {
        page.wide_row(&shortened(name, width), width, &row(kind), Ink::Plain);
    }
}

fn row(kind: &KindTally) -> String {
    let counts = [kind.started, kind.completed, kind.failed].map(|n| Some(units::count(n)));
    let mean = kind.lifetime.mean_ns().map(units::nanos);
    let quantiles = SHOWN.map(|(_, q)| kind.lifetime.quantile(q).map(units::span));
    let cells = counts.into_iter().chain([mean]).chain(quantiles);
    cells.map(|cell| format!("{:>CELL$}", cell.as_deref().unwrap_or("-"))).collect()
}

/// What the program took that decided the steps of sessions.
pub(super) fn director(cost: &DirectorCost) -> String {
    format!(
        "users' program {} per step, longest {}",
        units::span(Span(cost.time.0 / cost.steps)),
        units::span(cost.longest)
    )
}

/// What the sessions decided about their steps.
pub(super) fn steps(t: &Tally) -> Vec<String> {
    let Some(steps) = t.sessions.as_ref().and_then(|s| s.steps.as_deref()) else {
        return Vec::new();
    };
    let recovered = steps.recovered.count();
    let mut parts: Vec<String> = [
        (steps.skipped, "skipped"),
        (steps.limited, "repeated up to their limit"),
        (steps.retried, "retries"),
        (recovered, "recovered"),
        (steps.exhausted, "failed after all retries"),
    ]
    .into_iter()
    .filter(|&(n, _)| n > 0)
    .map(|(n, what)| format!("{} {what}", units::count(n)))
    .collect();
    if let Some(most) = steps.recovered.max() {
        let median = steps.recovered.quantile(0.5).unwrap_or(most);
        parts.push(format!("with retries p50 {}, max {}", units::span(median), units::span(most)));
    }
    parts
}
