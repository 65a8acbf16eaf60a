//! The checks of replies and the groups of steps.

use maud::{Markup, html};
use prony_stats::summary::Summary;

use super::{figures, scrolling};
use crate::text::{CHECKS, share_of_check};

/// The checks, if the plan has some.
pub(super) fn checks(summary: &Summary) -> Markup {
    let t = &summary.main;
    if t.checks.is_empty() {
        return html! {};
    }
    let table = html! {
        table {
            (figures::head(["check", "must be"].into_iter().chain(CHECKS).chain(["unreadable"])))
            tbody {
                @for (check, t_check) in summary.plan.checks.list.iter().zip(&t.checks) {
                    @let (share, interval) = share_of_check(t_check);
                    tr {
                        th scope="row" { (check.title()) }
                        td { (check.text()) }
                        td { (figures::count(t_check.passed)) }
                        td { (figures::count(t_check.failed)) }
                        td { (share) }
                        td { (interval) }
                        td { (figures::count(t_check.unreadable)) }
                    }
                }
            }
        }
    };
    html! { h2 { "Checks" } (scrolling("checks", &table)) }
}

/// The groups, if the plan has some.
pub(super) fn groups(summary: &Summary) -> Markup {
    let t = &summary.main;
    if t.groups.is_empty() {
        return html! {};
    }
    let heads = ["group", "started", "completed", "failed", "unfinished", "duration mean"];
    let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];
    let names = quantiles.map(|(name, _)| name);
    let table = html! {
        table {
            (figures::head(heads.into_iter().chain(names).chain(["without pauses p50", "p99"])))
            tbody {
                @for (group, t) in summary.plan.groups.iter().zip(&t.groups) {
                    tr {
                        th scope="row" { (group.name) }
                        @for n in [t.started, t.completed, t.failed, t.unfinished] {
                            td { (figures::count(n)) }
                        }
                        td { (figures::mean(t.duration.mean_ns())) }
                        @for (_, q) in quantiles { td { (figures::time(t.duration.quantile(q))) } }
                        @for q in [0.5, 0.99] {
                            td { (figures::time(t.without_pauses.quantile(q))) }
                        }
                    }
                }
            }
        }
    };
    html! { h2 { "Groups" } (scrolling("groups", &table)) }
}
