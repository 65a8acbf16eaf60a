//! A spectrum of round trips as an HTML page: the plot, and a table per transport.

use maud::{Markup, html};
use prony_base::units::Span;

use super::super::spectrum::{Cell, Figure, Spectrum};
use super::super::{plot, units};
use super::{figures, measured_with, plots, scrolling};
use crate::shell::typed;

/// The content of `main`.
pub(super) fn page(s: &Spectrum) -> Markup {
    let mut transports: Vec<&str> = s.cells.iter().map(|c| c.transport.as_str()).collect();
    transports.dedup();
    html! {
        header {
            p.eyebrow { "prony " (s.version) }
            h1 { "Round-trip time by length of message" }
        }
        @if s.interrupted {
            p.verdict.bad { strong { "Interrupted" } ": the figures cover the time until then." }
        }
        @if !s.doubts.is_empty() {
            div.verdict.bad {
                p {
                    strong { "Not valid" } ": "
                    (units::counted(s.doubts.len() as u64, "measurement", "measurements"))
                }
                ul { @for doubt in &s.doubts { li { (doubt) } } }
            }
        }
        @if !s.notes.is_empty() { ul { @for note in &s.notes { li { (note) } } } }
        p.hint { (measured_with("", s.seed, &s.host)) }
        @if !s.command.is_empty() { pre { (typed(&s.command)) } }
        h2 { "Round-trip time" }
        @if s.cells.iter().any(|c| c.max_ns.is_some()) {
            (plots::figure(
                &plot::spectrum_chart(s), "spectrum",
                "Both axes are logarithmic. Bars: 95 % confidence intervals of p50 and p99.",
            ))
        } @else {
            p.hint { "No times were measured." }
        }
        @for transport in transports {
            h2 { (transport) }
            (table(transport, s.cells.iter().filter(|c| c.transport == transport)))
        }
        p.hint {
            "-: too few round trips for that percentile, or fewer than two repetitions for an "
            "interval."
        }
    }
}

fn table<'a>(transport: &str, cells: impl Iterator<Item = &'a Cell>) -> Markup {
    let time = |ns: Option<u64>| figures::time(ns.map(Span));
    let figure = |f: Figure| {
        html! {
            td { (time(f.ns)) }
            td { (figures::mean(f.low_ns)) }
            td { (figures::mean(f.high_ns)) }
        }
    };
    let heads = [
        "bytes",
        "round trips",
        "lost",
        "failed",
        "min",
        "mean",
        "p50",
        "from",
        "to",
        "p99",
        "from",
        "to",
        "max",
    ];
    let table = html! {
        table {
            (figures::head(heads))
            tbody {
                @for c in cells {
                    tr {
                        th scope="row" { (figures::count(u64::from(c.size))) }
                        @for n in [c.exchanges, c.lost, c.failed] { td { (figures::count(n)) } }
                        td { (time(c.min_ns)) }
                        td { (figures::mean(c.mean_ns)) }
                        (figure(c.p50))
                        (figure(c.p99))
                        td { (time(c.max_ns)) }
                    }
                }
            }
        }
    };
    scrolling(&format!("round trips over {transport}"), &table)
}
