//! Several runs on one page: figures side by side, curves in shared plots, and a section for each
//! run.

use maud::{Markup, html};
use prony_stats::summary::Summary;

use super::super::plot::Distribution;
use super::super::{Saved, abreast, words};
use super::{plots, run, scrolling, terms, text};

/// The content of `main`.
pub(super) fn page(results: &[Saved<'_>]) -> Markup {
    let runs: Vec<(&str, &Summary)> = results.iter().map(|r| (r.name, r.summary)).collect();
    let tallies = || runs.iter().map(|&(name, summary)| (name, &summary.main));
    let response: Vec<_> = tallies().map(|(name, t)| Distribution::response(name, t)).collect();
    let service: Vec<_> = tallies().map(|(name, t)| Distribution::service(name, t)).collect();
    let charts = plots::charts(&runs);
    html! {
        header {
            p.eyebrow { "prony" }
            h1 { (results.len()) " runs" }
        }
        @for result in results.iter().filter(|r| !r.summary.verdict().is_valid()) {
            p.verdict.bad {
                strong { (result.name) ": " (abreast::verdict(result.summary)) }
                ": " (words::verdict(result.summary.verdict().verdict)) "; its section says why."
            }
        }
        h2 { "Side by side" }
        (table(results))
        h2 { "Response time" }
        (plots::percentiles("all-response", "Response time by percentile", &response, plots::CAPTION))
        h2 { "Service time" }
        (plots::percentiles("all-service", "Service time by percentile", &service, plots::CAPTION))
        @if !charts.is_empty() {
            h2 { "Over time" }
            (plots::drawn(&charts, "all"))
            p.hint {
                @if charts.iter().any(|(name, _)| *name == "latencies") {
                    "The plot of response times shows the p99. "
                }
                "The figures are in the section of each run."
            }
        }
        h2 { "Each run" }
        @for (i, result) in results.iter().enumerate() {
            details {
                summary {
                    strong { (result.name) } ": " (text::target(result.summary)) ", "
                    (abreast::verdict(result.summary))
                }
                (run::sections(result.summary, &format!("run{}", i + 1)))
            }
        }
        (terms::definitions(&runs.iter().flat_map(|(_, run)| run::terms(run)).collect::<Vec<_>>()))
    }
}

fn table(results: &[Saved<'_>]) -> Markup {
    let two = results.len() == 2;
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "figure" }
                    @for result in results {
                        th scope="col" {
                            (result.name)
                            @if !result.summary.verdict().is_valid() { " " em { "(not valid)" } }
                        }
                    }
                    @if two { @for name in abreast::DIFFERENCES { th scope="col" { (name) } } }
                }
            }
            tbody {
                @for line in abreast::lines(results) {
                    tr {
                        th scope="row" { (line.label) }
                        @for cell in line.cells() { td { (cell) } }
                        @for cell in line.differences().iter().flatten() { td { (cell) } }
                    }
                }
            }
        }
    };
    html! {
        (scrolling("the runs side by side", &table))
        @if two { p.hint { (abreast::OUTSIDE_MEANS.join(" ")) } }
    }
}
