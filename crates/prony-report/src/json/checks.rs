//! The checks of replies, and the groups of steps.

use prony_plan::plan::Plan;
use prony_stats::summary::share_of_check;
use prony_tally::record::Tally;
use serde::Serialize;

use super::judgment::MeterAdded;
use super::{Between, Times};

#[derive(Serialize)]
pub(super) struct CheckRow<'a> {
    name: &'a str,
    check: &'a str,
    passed: u64,
    failed: u64,
    unreadable: u64,
    /// Of the replies that were checked.
    share: Option<f64>,
    ci95: Between,
}

#[derive(Serialize)]
pub(super) struct GroupRow<'a> {
    name: &'a str,
    started: u64,
    completed: u64,
    failed: u64,
    unfinished: u64,
    duration: Times,
    without_pauses: Times,
    #[serde(skip_serializing_if = "Option::is_none")]
    meter_added: Option<MeterAdded>,
}

/// A line for each check of the plan.
pub(super) fn checks<'a>(plan: &'a Plan, tally: &Tally) -> Vec<CheckRow<'a>> {
    let row = |(check, t): (&'a prony_plan::plan::Check, &prony_tally::record::CheckTally)| {
        let share = share_of_check(t);
        CheckRow {
            name: check.title(),
            check: check.text(),
            passed: t.passed,
            failed: t.failed,
            unreadable: t.unreadable,
            share: share.as_ref().ok().map(|(share, _)| *share),
            ci95: share.map(|(_, interval)| interval).into(),
        }
    };
    plan.checks.list.iter().zip(&tally.checks).map(row).collect()
}

/// A line for each group of the plan.
pub(super) fn groups<'a>(plan: &'a Plan, tally: &Tally) -> Vec<GroupRow<'a>> {
    let all = plan.groups.iter().zip(&tally.groups);
    let row = all.map(|(group, t)| GroupRow {
        name: &group.name,
        started: t.started,
        completed: t.completed,
        failed: t.failed,
        unfinished: t.unfinished,
        duration: Times::of(&t.duration),
        without_pauses: Times::of(&t.without_pauses),
        meter_added: MeterAdded::of(|q| t.meter_added(q)),
    });
    row.collect()
}
