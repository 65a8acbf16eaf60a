//! A capacity as an HTML page: the answer, the load-latency curve, and the trials.

use maud::{Markup, html};
use prony_stats::capacity::{By, Estimate, Finding, Point};

use super::super::capacity::Capacity;
use super::super::{plot, units};
use super::{figures, measured_with, plots, scrolling};
use crate::shell::typed;

/// The content of `main`.
pub(super) fn page(report: &Capacity) -> Markup {
    let is_found = matches!(report.answer.finding, Finding::Capacity { .. });
    html! {
        header {
            p.eyebrow { "prony " (report.version) }
            h1 { "Capacity of " (report.target) }
        }
        @if is_found {
            p.verdict.good { (report.sentence) }
        } @else {
            p.verdict.bad { (report.sentence) }
        }
        @if !report.notes.is_empty() { ul { @for note in &report.notes { li { (note) } } } }
        @if let Some(command) = &report.run_at_80_percent {
            p { "The command that runs at 80 % of it:" }
            pre { (typed(command)) }
        }
        p.hint {
            "Thresholds: " (report.thresholds.join("; ")) ". "
            (measured_with(&report.arrivals_words(), report.seed, &report.host))
        }
        @if !report.command.is_empty() { pre { (typed(&report.command)) } }
        @if !report.answer.curve.is_empty() {
            h2 { "The limit" }
            (plots::figure(
                &plot::capacity_chart(report), "limit",
                "The excess is the share of requests beyond the limit over the share that is \
                 allowed (of a mean, the mean over its limit). Dashed: the 95 % band of the curve.",
            ))
        }
        h2 { "Load and latency" }
        @if report.curve().iter().any(|p| p.p50.value.is_some()) {
            (plots::figure(
                &plot::latency_chart(report), "capacity",
                "Both axes are logarithmic. Bars: 95 % confidence intervals of p50 and p99.",
            ))
        }
        @if report.answer.by == By::Connections {
            h2 { "Throughput" }
            (plots::figure(
                &plot::throughput_chart(report), "throughput",
                "Completed requests per second of each trial.",
            ))
        }
        h2 { "Trials" }
        (table(report))
    }
}

fn table(report: &Capacity) -> Markup {
    let time = |e: &Estimate| {
        let ns = |value: Option<f64>| value.map_or_else(|| "-".into(), units::nanos);
        html! {
            td { (ns(e.value)) }
            td { (ns(e.interval.map(|i| i.lo))) }
            td { (ns(e.interval.map(|i| i.hi))) }
        }
    };
    let side = |p: &Point| match &p.remark {
        Some(remark) if p.counts => format!("held, although {remark}"),
        Some(remark) => remark.clone(),
        None if p.holds.contains(&Some(false)) => "missed".into(),
        None if p.holds.iter().all(Option::is_none) => "-".into(),
        None => "held".into(),
    };
    let (first, level): (_, &dyn Fn(f64) -> String) = match report.answer.by {
        By::Rate => ("rate", &units::rate),
        By::Connections => ("connections", &|n| units::count(n.round() as u64)),
    };
    let heads = [
        first, "requests", "p50", "from", "to", "p99", "from", "to", "errors", "goodput", "limits",
    ];
    let table = html! {
        table {
            (figures::head(heads))
            tbody {
                @for p in report.curve() {
                    tr {
                        th scope="row" { (level(p.trial.rate)) }
                        td { (units::count(p.requests)) }
                        (time(&p.p50))
                        (time(&p.p99))
                        td { (p.errors.value.map_or_else(|| "-".into(), units::percent)) }
                        td { (p.goodput.value.map_or_else(|| "-".into(), units::rate)) }
                        td { (side(p)) }
                    }
                }
            }
        }
    };
    scrolling("trials", &table)
}
