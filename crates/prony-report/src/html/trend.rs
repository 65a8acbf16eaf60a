//! A trend as an HTML page: the steps, a plot per figure, and a table of the runs.

use maud::{Markup, html};
use prony_stats::comparison::RUNS_MIN;

use super::super::trend::{Trend, shown};
use super::super::{plot, units};
use super::{figures, plots, scrolling};

/// The content of `main`.
pub(super) fn page(trend: &Trend) -> Markup {
    let steps = || trend.figures.iter().flat_map(|c| &c.steps);
    html! {
        header {
            p.eyebrow { "prony" }
            h1 { "Trend of " (trend.runs.len()) " runs" }
        }
        @if steps().next().is_some() {
            ul { @for step in steps() { li { (step.sentence) } } }
        } @else if trend.runs.len() >= RUNS_MIN {
            p { "No step in any figure." }
        }
        @if !trend.notes.is_empty() { ul { @for note in &trend.notes { li { (note) } } } }
        @for course in &trend.figures {
            @if let Some(chart) = plot::trend(course, &trend.runs) {
                h2 { (course.figure) }
                (plots::figure(
                    &chart, &format!("trend-{}", course.figure.replace('.', "-")),
                    "Bars: 95 % confidence intervals within the runs. Vertical lines: steps.",
                ))
            }
        }
        h2 { "The runs" }
        (table(trend))
        p.hint {
            "* marks the first run after a step: a change of the level that random orders of the same "
            "runs show in at most 1 % of the cases. Ten runs or more are needed to find one."
        }
    }
}

fn table(trend: &Trend) -> Markup {
    let heads = ["run", "started"].into_iter().map(str::to_owned);
    let heads = heads.chain(trend.figures.iter().map(|c| c.figure.clone()));
    let heads: Vec<String> = heads.chain(["verdict".to_owned()]).collect();
    let table = html! {
        table {
            (figures::head(heads))
            tbody {
                @for (i, run) in trend.runs.iter().enumerate() {
                    tr {
                        th scope="row" { (run.label) }
                        td { @if let Some(at) = run.started_unix { (units::date(at)) } @else { "-" } }
                        @for course in &trend.figures {
                            td {
                                @if course.steps.iter().any(|s| s.run == i) { "* " }
                                (shown(course.unit, course.points[i].value))
                            }
                        }
                        td { (run.verdict) }
                    }
                }
            }
        }
    };
    scrolling("the runs", &table)
}
