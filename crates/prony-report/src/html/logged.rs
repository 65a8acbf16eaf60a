//! The response times of a replay against those of its log.

use maud::{Markup, html};
use prony_stats::summary::Summary;

use super::super::logged::{Change, Logged, Requests};
use super::super::units;
use super::{figures, scrolling};

/// The section; empty if there is nothing to compare.
pub(super) fn against_log(summary: &Summary) -> Markup {
    let Some(logged) = Logged::of(summary) else { return html! {} };
    html! {
        h2 { "Response times against the log" }
        @for requests in logged.requests.iter().filter(|requests| requests.name.is_none()) {
            ul { @for change in &requests.changes { li { (change.sentence) } } }
        }
        (table(&logged.requests))
        @for note in &logged.notes { p.hint { (note) } }
    }
}

fn table(all: &[Requests]) -> Markup {
    let heads = [
        "requests",
        "figure",
        "log",
        "run",
        "change",
        "interval",
        "difference",
        "interval",
        "note",
    ];
    let table = html! {
        table {
            (figures::head(heads))
            tbody {
                @for requests in all {
                    @for change in &requests.changes { (row(requests.label(), change)) }
                }
            }
        }
    };
    scrolling("response times against the log", &table)
}

fn row(label: &str, change: &Change) -> Markup {
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), units::nanos);
    let percent = |ratio: Option<f64>| {
        let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        ratio.map_or_else(|| "-".to_owned(), percent)
    };
    let signed = |ns: Option<f64>| {
        let signed =
            |ns: f64| format!("{}{}", if ns < 0.0 { "-" } else { "+" }, units::nanos(ns.abs()));
        ns.map_or_else(|| "-".to_owned(), signed)
    };
    let between = |lo: String, hi: String| if lo == "-" { lo } else { format!("{lo} to {hi}") };
    html! {
        tr {
            th scope="row" { (label) }
            td { (change.figure) }
            td { (time(change.log_ns)) }
            td { (time(change.run_ns)) }
            td { (percent(change.ratio)) }
            td { (between(percent(change.ratio_lo), percent(change.ratio_hi))) }
            td { (signed(change.difference_ns)) }
            td { (between(signed(change.difference_lo_ns), signed(change.difference_hi_ns))) }
            td { @if change.ratio.is_none() { (change.sentence) } }
        }
    }
}
