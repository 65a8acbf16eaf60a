//! A comparison as an HTML page: what differs, the shift function, and both over time.

use maud::{Markup, html};
use prony_base::units::Span;

use super::super::comparison::{Change, Comparison};
use super::super::{plot, units};
use super::{figures, measured_with, plots, scrolling};
use crate::shell::typed;

/// The content of `main`.
pub(super) fn page(c: &Comparison) -> Markup {
    html! {
        header {
            p.eyebrow { "prony " (c.version) }
            h1 {
                "Comparison of " (c.targets.len())
                (if c.saved { " groups of runs" } else { " targets" })
            }
        }
        ul { @for side in &c.targets { li { strong { (side.label) } ": " (side.name) } } }
        @if c.interrupted {
            p.verdict.bad { strong { "Interrupted" } ": this is what was known until then." }
        }
        @if !c.doubts.is_empty() {
            div.verdict.bad {
                p { strong { "Not valid" } }
                ul { @for doubt in &c.doubts { li { (doubt) } } }
            }
        }
        @if !c.limits.is_empty() {
            @let good = c.limits.iter().all(|l| l.outcome == "holds");
            div.verdict.good[good].bad[!good] {
                ul { @for limit in &c.limits { li { (limit.sentence) } } }
            }
        }
        h2 { "What differs" }
        ul {
            @for change in &c.changes { li { (change.sentence) } }
            @for shift in &c.distributions { li { (shift.sentence) } }
        }
        @for side in c.targets.iter().skip(1) {
            (table(c, &side.label))
        }
        p.hint {
            "Differences are those of the ratio, multiplied by the figure of A. All intervals hold "
            "together with a probability of 95 %."
        }
        @if c.distributions.iter().any(|d| !d.quantiles.is_empty()) {
            h2 { "Shift function" }
            (plots::figure(
                &plot::shift(c), "shift",
                "How much longer each percentile is than in A. Bars: intervals.",
            ))
            details { summary { "The shift function, in figures" } (shifts(c)) }
        }
        @if let Some(chart) = plot::over_blocks(c) {
            h2 { (if c.saved { "Run by run" } else { "Over time" }) }
            (plots::figure(&chart, "blocks", ""))
            details { summary { "The blocks, in figures" } (blocks(c)) }
        }
        h2 { "All blocks together" }
        (sides(c))
        @if !c.notes.is_empty() { ul { @for note in &c.notes { li { (note) } } } }
        p.hint { (measured_with("", c.seed, &c.host)) }
        @if !c.command.is_empty() { pre { (typed(&c.command)) } }
    }
}

fn table(c: &Comparison, target: &str) -> Markup {
    let changes: Vec<&Change> = c.changes.iter().filter(|change| change.target == target).collect();
    let table = html! {
        table {
            (figures::head(["figure", "A", target, "change", "interval", "difference", "interval"]))
            tbody {
                @for change in changes {
                    @let (by, interval) = super::super::comparison::shown(change);
                    tr {
                        th scope="row" { (change.figure) }
                        td { (value(change, change.a)) }
                        td { (value(change, change.b)) }
                        td { (by) }
                        td { (interval) }
                        td { (difference(change, change.difference)) }
                        td {
                            @if change.difference_lo.is_some() {
                                (difference(change, change.difference_lo)) " to "
                                (difference(change, change.difference_hi))
                            }
                        }
                    }
                }
            }
        }
    };
    scrolling(&format!("{target} against A"), &table)
}

fn value(change: &Change, value: Option<f64>) -> String {
    super::super::comparison::value(change, value)
}

/// A difference with its sign, in the unit of the figure.
fn difference(change: &Change, difference: Option<f64>) -> String {
    let Some(d) = difference else { return "-".into() };
    format!("{}{}", if d < 0.0 { '-' } else { '+' }, value(change, Some(d.abs())))
}

fn shifts(c: &Comparison) -> Markup {
    let percent = |ratio: f64| format!("{:+.2} %", (ratio - 1.0) * 100.0);
    let table = html! {
        table {
            (figures::head(["target", "percentile", "change", "from", "to"]))
            tbody {
                @for shift in &c.distributions {
                    @for q in &shift.quantiles {
                        tr {
                            th scope="row" { (shift.target) }
                            td { "p" (format!("{:.0}", q.quantile * 100.0)) }
                            @for ratio in [q.ratio, q.ratio_lo, q.ratio_hi] {
                                td { (percent(ratio)) }
                            }
                        }
                    }
                }
            }
        }
    };
    scrolling("the shift function", &table)
}

fn blocks(c: &Comparison) -> Markup {
    let table = html! {
        table {
            (figures::head([
                "round", "target", "verdict", "requests",
                "failed", "rate", "mean", "p50", "p99",
            ]))
            tbody {
                @for block in &c.blocks {
                    tr {
                        th scope="row" { (block.round) }
                        td { (block.target) }
                        td { (block.verdict) }
                        td { (figures::count(block.requests)) }
                        td { (figures::count(block.failed)) }
                        td { (units::rate(block.rate)) }
                        td { (figures::mean(block.mean_ns)) }
                        td { (figures::time(block.p50_ns.map(Span))) }
                        td { (figures::time(block.p99_ns.map(Span))) }
                    }
                }
            }
        }
    };
    scrolling("the blocks", &table)
}

fn sides(c: &Comparison) -> Markup {
    let table = html! {
        table {
            (figures::head([
                "", "blocks", "requests", "failed", "rate",
                "mean", "p50", "p90", "p99", "p99.9",
            ]))
            tbody {
                @for side in &c.targets {
                    tr {
                        th scope="row" { (side.label) }
                        td { (figures::count(side.blocks.into())) }
                        td { (figures::count(side.requests)) }
                        td { (figures::count(side.failed)) }
                        td { (units::rate(side.rate)) }
                        td { (figures::mean(side.mean_ns)) }
                        @for ns in [side.p50_ns, side.p90_ns, side.p99_ns, side.p999_ns] {
                            td { (figures::time(ns.map(Span))) }
                        }
                    }
                }
            }
        }
    };
    scrolling("the targets", &table)
}
