//! A plan with phases as one page: an overview, and a section for each phase.

use maud::{Markup, html};

use super::super::phased::{COLUMNS, Outcome, Phase, Phased, Start};
use super::{figures, run, scrolling, text};

/// The content of `main`.
pub(super) fn page(all: &Phased) -> Markup {
    html! {
        header {
            p.eyebrow { "prony " (all.version) }
            h1 { (all.title()) }
        }
        @for sentence in all.sentences() { p.verdict.bad { (sentence) } }
        h2 { "Overview" }
        (overview(all))
        @for (number, phase) in (1..).zip(&all.phases) { (section(number, phase)) }
    }
}

fn section(number: usize, phase: &Phase) -> Markup {
    html! {
        section {
            header {
                p.eyebrow {
                    "phase " (number)
                    @if phase.start == Start::With { ", side by side with the one before" }
                }
                h1 { (phase.name) }
            }
            @match &phase.outcome {
                Outcome::Ran(summary) => {
                    p { (text::target(summary)) }
                    (run::sections(summary, &format!("phase{number}")))
                }
                Outcome::NotStarted(why) => p { "Not started: " (why) "." }
            }
        }
    }
}

fn overview(all: &Phased) -> Markup {
    let table = html! {
        table {
            (figures::head(["phase"].into_iter().chain(COLUMNS)))
            tbody {
                @for (name, cells) in all.rows() {
                    tr {
                        th scope="row" { (name) }
                        @for cell in cells { td { (cell) } }
                    }
                }
            }
        }
    };
    scrolling("the phases", &table)
}
