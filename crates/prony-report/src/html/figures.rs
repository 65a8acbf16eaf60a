//! Tables of figures. Each figure stands as people read it, and as the JSON report has it in the
//! `value` of its element, so that a program can take it from the page.

use maud::{Markup, html};
use prony_core::record::hist::Hist;
use prony_core::record::{NameTally, Tally};
use prony_core::summary::confidence::{Confidence, Interval, Lack};
use prony_core::summary::{Figures, QUANTILES, Row};
use prony_core::units::Span;

use super::super::{units, words};
use super::scrolling;

/// A time, in nanoseconds in the element.
pub(super) fn time(t: Option<Span>) -> Markup {
    html! { @match t { Some(t) => { data value=(t.0) { (units::span(t)) } }, None => "-" } }
}

/// The same of a mean or a deviation.
fn mean(ns: Option<f64>) -> Markup {
    html! { @match ns { Some(ns) => { data value=(ns) { (units::nanos(ns)) } }, None => "-" } }
}

/// A count.
pub(super) fn count(n: u64) -> Markup {
    html! { data value=(n) { (units::count(n)) } }
}

/// A rate.
pub(super) fn rate(per_second: f64) -> Markup {
    html! { data value=(per_second) { (units::rate(per_second)) } }
}

/// The head of a table whose lines have a label each.
pub(super) fn head<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Markup {
    html! { thead { tr { @for name in names { th scope="col" { (name.as_ref()) } } } } }
}

/// One line for each histogram that is not empty.
pub(super) fn times(name: &str, hists: &[(&str, &Hist)]) -> Markup {
    let told: Vec<(&str, Figures)> = hists
        .iter()
        .filter(|(_, hist)| hist.count() > 0)
        .map(|(name, hist)| (*name, Figures::of(hist)))
        .collect();
    let before = ["time", "count", "mean", "stdev", "min"].into_iter();
    let table = html! {
        table {
            (head(before.chain(QUANTILES.map(|(name, _)| name)).chain(["max"])))
            tbody {
                @for (name, f) in &told {
                    tr {
                        th scope="row" { (name) }
                        td { (count(f.count)) }
                        td { (mean(f.mean_ns)) }
                        td { (mean(f.stdev_ns)) }
                        td { (time(f.min)) }
                        @for quantile in f.quantiles { td { (time(quantile)) } }
                        td { (time(f.max)) }
                    }
                }
            }
        }
    };
    html! {
        @if told.is_empty() {
            p.hint { "No time was measured." }
        } @else {
            (scrolling(name, &table))
        }
        @if let Some(needs) = needs(&told) { p.hint { (needs) } }
    }
}

/// The 95 % confidence intervals of the response times and the rate.
pub(super) fn intervals(tally: &Tally) -> Markup {
    let confidence = Confidence::of(tally);
    let response = Figures::of(&tally.times.response);
    let quantiles = QUANTILES
        .iter()
        .zip(response.quantiles)
        .map(|(&(name, q), figure)| (name, figure.map(|t| t.0 as f64), confidence.quantile(q)));
    let times = [("mean", response.mean_ns, confidence.mean())].into_iter().chain(quantiles);
    let line = |name: &str, cells: [Markup; 3], lack: Option<Lack>| {
        html! {
            tr {
                th scope="row" { (name) }
                @for cell in cells { td { (cell) } }
                td { @if let Some(lack) = lack { (words::lack(lack)) } }
            }
        }
    };
    let rows: Vec<Markup> = times
        .filter(|(_, figure, _)| figure.is_some())
        .map(|(name, figure, told)| {
            let end = |of: fn(Interval) -> f64| mean(told.ok().map(of));
            line(name, [mean(figure), end(|i| i.lo), end(|i| i.hi)], told.err())
        })
        .collect();
    let told = confidence.rate(tally.rate());
    let end = |of: fn(Interval) -> f64| {
        html! { @match told.ok().map(of) { Some(r) => { (rate(r)) }, None => "-" } }
    };
    let rates = [rate(tally.rate()), end(|i| i.lo), end(|i| i.hi)];
    let table = html! {
        table {
            (head(["response", "measured", "from", "to", ""]))
            tbody {
                @for row in &rows { (row) }
                (line("rate", rates, told.err()))
            }
        }
    };
    scrolling("95 % confidence intervals", &table)
}

/// What the dashes of the table would need.
fn needs(rows: &[(&str, Figures)]) -> Option<String> {
    let missing = |i: usize| rows.iter().any(|(_, f)| f.quantiles[i].is_none());
    let needs = QUANTILES.iter().enumerate().filter(|&(i, _)| missing(i));
    let needs = needs
        .map(|(_, (name, q))| format!("{name} needs {}", units::count(Hist::samples_needed(*q))));
    let needs: Vec<String> = needs.collect();
    (!needs.is_empty()).then(|| format!("A dash: too few times for it. {}.", needs.join(", ")))
}

/// The run over time, line by line.
pub(super) fn rows(rows: impl Iterator<Item = Row>) -> Markup {
    let heads =
        ["begin", "length", "started", "replies", "failed", "received", "p50", "p99", "max"];
    let table = html! {
        table {
            (head(heads))
            tbody {
                @for row in rows {
                    tr {
                        th scope="row" { (units::exact(row.at)) }
                        td { (units::exact(row.length)) }
                        td { (count(row.started)) }
                        td { (count(row.replies)) }
                        td { (count(row.failed)) }
                        td { data value=(row.bytes) { (units::bytes(row.bytes as f64)) } }
                        td { (time(row.p50)) }
                        td { (time(row.p99)) }
                        td { (time(row.max)) }
                    }
                }
            }
        }
    };
    scrolling("the run over time", &table)
}

/// Quantiles of several histograms, one line for each quantile that any of them carries.
pub(super) fn quantiles(hists: &[(&str, &Hist)]) -> Markup {
    const LINES: [(&str, f64); 12] = [
        ("0 (min)", 0.0),
        ("10", 0.1),
        ("25", 0.25),
        ("50", 0.5),
        ("75", 0.75),
        ("90", 0.9),
        ("95", 0.95),
        ("99", 0.99),
        ("99.9", 0.999),
        ("99.99", 0.9999),
        ("99.999", 0.99999),
        ("100 (max)", 1.0),
    ];
    let carried = |q: f64| hists.iter().any(|(_, hist)| hist.quantile(q).is_some());
    let table = html! {
        table {
            (head(["percentile"].into_iter().chain(hists.iter().map(|(name, _)| *name))))
            tbody {
                @for (label, q) in LINES.into_iter().filter(|(_, q)| carried(*q)) {
                    tr {
                        th scope="row" { (label) }
                        @for (_, hist) in hists { td { (time(hist.quantile(q))) } }
                    }
                }
            }
        }
    };
    scrolling("percentiles", &table)
}

/// One line for each name that calls have.
pub(super) fn names(names: &[String], tallies: &[NameTally]) -> Markup {
    let heads = [
        "name",
        "started",
        "replies",
        "failed",
        "response p50",
        "p90",
        "p99",
        "max",
        "service p50",
        "p99",
    ];
    let table = html! {
        table {
            (head(heads))
            tbody {
                @for (name, t) in names.iter().zip(tallies) {
                    tr {
                        th scope="row" { (name) }
                        td { (count(t.started)) }
                        td { (count(t.replies)) }
                        td { (count(t.failed)) }
                        @for q in [0.5, 0.9, 0.99, 1.0] { td { (time(t.response.quantile(q))) } }
                        @for q in [0.5, 0.99] { td { (time(t.service.quantile(q))) } }
                    }
                }
            }
        }
    };
    scrolling("requests by name", &table)
}
