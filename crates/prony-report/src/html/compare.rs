//! Several runs on one page: side by side in figures, over each other in plots, each by itself.

use maud::{Markup, html};
use prony_core::record::hist::Hist;
use prony_core::summary::Summary;

use super::super::{Saved, compare, words};
use super::{figures, plots, run, scrolling, text};

/// What stands in `main`.
pub(super) fn page(results: &[Saved<'_>]) -> Markup {
    let runs: Vec<(&str, &Summary)> = results.iter().map(|r| (r.name, r.summary)).collect();
    let of = |pick: fn(&Summary) -> &Hist| -> Vec<(&str, &Hist)> {
        runs.iter().map(|&(name, summary)| (name, pick(summary))).collect()
    };
    let (response, service) = (of(|s| &s.main.times.response), of(|s| &s.main.times.service));
    let dashed = "Dashed: fewer than ten samples lie beyond.";
    let charts = plots::charts(&runs);
    html! {
        header {
            p.eyebrow { "prony" }
            h1 { (results.len()) " runs" }
        }
        @for result in results.iter().filter(|r| !r.summary.verdict().is_valid()) {
            p.verdict.bad {
                strong { (result.name) ": " (compare::verdict(result.summary)) }
                ": " (words::verdict(result.summary.verdict().verdict)) "; its section says why."
            }
        }
        h2 { "Side by side" }
        (table(results))
        h2 { "Response time" }
        (plots::percentiles("all-response", "Response time by percentile", &response, dashed))
        h2 { "Service time" }
        (plots::percentiles("all-service", "Service time by percentile", &service, dashed))
        @if !charts.is_empty() {
            h2 { "Over time" }
            (plots::drawn(&charts, "all"))
            p.hint {
                "Of the response times, the p99. The figures are in the sections of the runs."
            }
        }
        h2 { "Each run" }
        @for (i, result) in results.iter().enumerate() {
            details {
                summary {
                    strong { (result.name) } ": " (text::target(result.summary)) ", "
                    (compare::verdict(result.summary))
                }
                (run::sections(result.summary, &format!("run{}", i + 1)))
            }
        }
    }
}

fn table(results: &[Saved<'_>]) -> Markup {
    let table = html! {
        table {
            (figures::head([""].into_iter().chain(results.iter().map(|r| r.name))))
            tbody {
                @for (label, cells) in compare::lines(results) {
                    tr { th scope="row" { (label) } @for cell in cells { td { (cell) } } }
                }
            }
        }
    };
    scrolling("the runs side by side", &table)
}
