//! Figures of one check or of the groups of one name.

use std::collections::BTreeMap;

use prony_plan::threshold::{Counted, Figure, Threshold, Unit};
use prony_tally::record::{CheckTally, GroupTally};

use super::Summary;
use super::known::Known;
use super::shares::{clustered_share, clustering_of, share};
use crate::summary::confidence::{Interval, NoInterval};

/// The share of the replies that pass a check, and its 95 % confidence interval.
///
/// # Errors
/// Nothing was checked.
pub fn share_of_check(check: &CheckTally) -> Result<(f64, Interval), NoInterval> {
    let known = passes(&[check]);
    let interval = known.interval?.ok_or(NoInterval::Empty)?;
    Ok((known.value.ok_or(NoInterval::Empty)?, interval))
}

/// The share of the replies that pass: Wilson's interval, with as many independent replies as those
/// that failed over time are worth.
fn passes(checks: &[&CheckTally]) -> Known<'static> {
    let passed = checks.iter().map(|check| check.passed).sum();
    let failed: u64 = checks.iter().map(|check| check.failed).sum();
    clustered_share(passed, passed + failed, || {
        // By second: how many failed, and all.
        let mut cells: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for check in checks {
            for (&second, &n) in &check.passed_by_second {
                cells.entry(second).or_default().1 += n;
            }
            for (&second, &n) in &check.failed_by_second {
                let (failed, all) = cells.entry(second).or_default();
                (*failed, *all) = (*failed + n, *all + n);
            }
        }
        clustering_of(&cells.into_values().collect::<Vec<_>>())
    })
}

impl Summary {
    pub(super) fn known_of_checks(&self, threshold: &Threshold) -> Known<'static> {
        let all = self.plan.checks.list.iter().zip(&self.main.checks);
        let is_meant =
            |name: Option<&str>| threshold.part.is_none() || threshold.part.as_deref() == name;
        let meant: Vec<&CheckTally> =
            all.filter(|(check, _)| is_meant(check.name.as_deref())).map(|(_, t)| t).collect();
        match threshold.unit {
            _ if meant.is_empty() => Known::NOTHING,
            Unit::Share => passes(&meant),
            _ => Known::exact(meant.iter().map(|check| check.passed).sum::<u64>() as f64),
        }
    }

    /// The groups that a threshold is about.
    pub(super) fn group_of(&self, threshold: &Threshold) -> Option<&GroupTally> {
        let name = threshold.part.as_ref()?;
        let index = self.plan.groups.iter().position(|group| group.name == *name)?;
        self.main.groups.get(index)
    }

    pub(super) fn known_of_group(&self, threshold: &Threshold) -> Known<'static> {
        let Some(group) = self.group_of(threshold) else { return Known::NOTHING };
        let n = match threshold.figure {
            Figure::Count(Counted::GroupsFailed) => group.failed,
            _ => group.completed,
        };
        match threshold.unit {
            Unit::Share => share(&self.main, n, group.completed + group.failed),
            _ => Known::exact(n as f64),
        }
    }
}
