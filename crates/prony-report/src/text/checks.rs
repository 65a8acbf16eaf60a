//! The checks of replies and the groups of steps: one line for each.

use prony_stats::summary::{Summary, share_of_check};
use prony_tally::record::{CheckTally, GroupTally};

use super::page::{Ink, Page, column, shortened};
use super::units;

/// Width of a cell, including the space before it.
const CELL: usize = 10;
/// The quantiles with a column.
const SHOWN: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];
/// The heads of the columns of checks; the last one is as long as an interval.
pub(crate) const CHECKS: [&str; 4] = ["passed", "failed", "share", "95 % interval"];

/// The share of the replies that pass a check, and its 95 % confidence interval.
pub(crate) fn share(check: &CheckTally) -> (String, String) {
    match share_of_check(check) {
        Ok((share, i)) => {
            (units::percent(share), format!("{} to {}", units::percent(i.lo), units::percent(i.hi)))
        }
        Err(_) => ("-".into(), "-".into()),
    }
}

/// The checks, in the order of the plan.
pub(super) fn write_checks(page: &mut Page, summary: &Summary) {
    let t = &summary.main;
    let rows: Vec<(&str, &CheckTally)> =
        summary.plan.checks.list.iter().map(|check| check.title()).zip(&t.checks).collect();
    if rows.is_empty() {
        return;
    }
    page.blank();
    let [passed, failed, share_head, interval] = CHECKS;
    let head = format!("{passed:>CELL$}{failed:>CELL$}{share_head:>CELL$}  {interval:<18}");
    let width = column(rows.iter().map(|(name, _)| *name), head.len());
    page.wide_row("check", width, head.trim_end(), Ink::Faint);
    for (name, check) in rows.iter() {
        let (passed, failed) = (units::count(check.passed), units::count(check.failed));
        let (share, interval) = share(check);
        let cells = format!("{passed:>CELL$}{failed:>CELL$}{share:>CELL$}  {interval}");
        let ink = if check.failed > 0 { Ink::Warning } else { Ink::Plain };
        page.wide_row(&shortened(name, width), width, &cells, ink);
    }
    let unreadable: u64 = rows.iter().map(|(_, check)| check.unreadable).sum();
    if unreadable > 0 {
        let results = units::counted(unreadable, "failed result", "failed results");
        page.line("", &format!("{results} because the body could not be read"));
    }
}

/// The groups, in the order of the plan.
pub(super) fn write_groups(page: &mut Page, summary: &Summary) {
    let groups = summary.plan.groups.iter().map(|group| group.name.as_str());
    let rows: Vec<(&str, &GroupTally)> = groups.zip(&summary.main.groups).collect();
    if rows.is_empty() {
        return;
    }
    page.blank();
    let heads = ["completed", "failed", "mean"].into_iter().chain(SHOWN.map(|(name, _)| name));
    let head: String = heads.map(|name| format!("{name:>CELL$}")).collect();
    let width = column(rows.iter().map(|(name, _)| *name), head.len());
    page.wide_row("group", width, &head, Ink::Faint);
    for (name, group) in rows.iter() {
        page.wide_row(&shortened(name, width), width, &row(group), Ink::Plain);
    }
}

fn row(group: &GroupTally) -> String {
    let counts = [group.completed, group.failed].map(|n| Some(units::count(n)));
    let mean = group.duration.mean_ns().map(units::nanos);
    let quantiles = SHOWN.map(|(_, q)| group.duration.quantile(q).map(units::span));
    let cells = counts.into_iter().chain([mean]).chain(quantiles);
    cells.map(|cell| format!("{:>CELL$}", cell.as_deref().unwrap_or("-"))).collect()
}
