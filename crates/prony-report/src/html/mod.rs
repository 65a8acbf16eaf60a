//! The report as one page for a browser: no scripts, no external resources, light or dark by the
//! reader's preference, with a table for every plot.

mod abreast;
mod capacity;
mod checks;
mod comparison;
mod figures;
mod logged;
mod phased;
mod plots;
mod run;
mod spectrum;
mod terms;
mod trend;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use prony_base::plain::{Sink, plain};
use prony_stats::summary::{Summary, Verdict};

use super::capacity::Capacity;
use super::comparison::Comparison;
use super::phased::Phased;
use super::spectrum::Spectrum;
use super::trend::Trend;
use super::{Saved, plot, text, words};

/// The style sheet of the page. The layout has one column; wide tables scroll separately.
const STYLE: &str = include_str!("page.css");

/// The content security policy: the page may load and run nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The complete page.
pub(super) fn render(results: &[Saved<'_>]) -> String {
    let (title, content) = match results {
        [one] => (format!("prony: {}", text::target(one.summary)), alone(one)),
        _ => (format!("prony: {} runs", results.len()), abreast::page(results)),
    };
    page(&title, &content)
}

/// The page of a spectrum.
pub(super) fn spectrum(s: &Spectrum) -> String {
    page("prony: spectrum of round trips", &spectrum::page(s))
}

/// The page of a capacity.
pub(super) fn capacity(report: &Capacity) -> String {
    page(&format!("prony: capacity of {}", report.target), &capacity::page(report))
}

/// The page of a comparison.
pub(super) fn comparison(c: &Comparison) -> String {
    page("prony: comparison", &comparison::page(c))
}

/// The page of a plan with phases.
pub(super) fn phased(all: &Phased) -> String {
    page(&format!("prony: {}", all.title()), &phased::page(all))
}

/// The page of a trend.
pub(super) fn trend(t: &Trend) -> String {
    page("prony: trend", &trend::page(t))
}

/// A page with this title and content.
fn page(title: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(plot::style(":root"))) (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (content)
                    footer {
                        "Written by prony. docs/terms.md in its repository defines every figure."
                    }
                }
            }
        }
    };
    plain(&page.into_string(), Sink::Markup).into_owned() + "\n"
}

fn alone(one: &Saved<'_>) -> Markup {
    html! {
        header {
            p.eyebrow { "prony " (one.summary.run.version) }
            h1 { (text::target(one.summary)) }
        }
        (run::sections(one.summary, "run"))
        (terms::definitions(&run::terms(one.summary)))
    }
}

/// The verdict with its reasons, highlighted if it is not `VALID`.
fn verdict(summary: &Summary) -> Markup {
    let judgment = summary.verdict();
    let (word, means) = (judgment.verdict.word(), words::verdict(judgment.verdict));
    html! {
        @if judgment.is_valid() {
            p.verdict.good {
                strong { (word) }
                @if let Some(failures) = words::failures(summary) { " (" (failures) ")" }
                ": " (means) "."
            }
        } @else {
            div.verdict.bad {
                p { strong { (word) } ": " (means) "." }
                ul {
                    @for reason in &judgment.reasons { li { (words::reason(reason, summary)) } }
                    @if let Some(cause) = words::shared_host(&judgment, summary) { li { (cause) } }
                    @if let Some(failures) = words::failures(summary)
                        .filter(|_| judgment.verdict != Verdict::TargetFailed) {
                        li { (failures) }
                    }
                }
            }
        }
        @if let Some(added) = words::meter_added(summary) {
            p.hint { "The meter added " (added) "." }
        }
        @for (part, added) in words::meter_added_to_parts(summary) {
            p.hint { "To the times of " (part) " it added " (added) "." }
        }
        @if let Some(bottleneck) = summary.bottleneck(&judgment) {
            p.hint { "Bottleneck: " (words::bottleneck(&bottleneck)) "." }
        }
    }
}

/// Where and how something was measured. A simulation has no host.
fn measured_with(how: &str, seed: u64, host: &str) -> String {
    let how = if how.is_empty() { String::new() } else { format!("{how}, ") };
    let host = if host.is_empty() { String::new() } else { format!("; {host}") };
    let text = format!("{how}seed {seed}{host}");
    text[..1].to_uppercase() + &text[1..]
}

/// A table that scrolls on narrow screens, also with the keyboard.
fn scrolling(name: &str, table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(name) { (table) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_has_no_host_and_no_separator() {
        assert_eq!(measured_with("poisson arrivals", 3, ""), "Poisson arrivals, seed 3");
        assert_eq!(measured_with("", 5, ""), "Seed 5");
        assert_eq!(measured_with("", 5, "Linux 6.18, 2 cores"), "Seed 5; Linux 6.18, 2 cores");
    }
}
