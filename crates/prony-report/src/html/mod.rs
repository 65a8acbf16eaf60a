//! The report as one page for a browser: no script, nothing from elsewhere, light or dark as its
//! reader wishes, with a table behind every plot.

mod compare;
mod figures;
mod plots;
mod run;

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use prony_core::summary::Summary;

use super::{Saved, plot, text, words};

/// The page's own style. Everything is one column; what is wider scrolls by itself.
const STYLE: &str = include_str!("page.css");

/// Nothing may be loaded or run, whatever stands in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The whole page.
pub(super) fn render(results: &[Saved<'_>]) -> String {
    let title = match results {
        [one] => format!("prony: {}", text::target(one.summary)),
        _ => format!("prony: {} runs", results.len()),
    };
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
                    @match results {
                        [one] => (alone(one)),
                        _ => (compare::page(results)),
                    }
                    footer { "Written by prony. Its docs/terms.md says what every figure means." }
                }
            }
        }
    };
    page.into_string() + "\n"
}

fn alone(one: &Saved<'_>) -> Markup {
    html! {
        header {
            p.eyebrow { "prony " (one.summary.run.version) }
            h1 { (text::target(one.summary)) }
        }
        (run::sections(one.summary, "run"))
    }
}

/// The verdict with its reasons; where it is not `VALID`, so that nobody overlooks it.
fn verdict(summary: &Summary) -> Markup {
    let judgement = summary.verdict();
    let (word, means) = (judgement.verdict.word(), words::verdict(judgement.verdict));
    html! {
        @if judgement.is_valid() {
            p.verdict.good {
                strong { (word) }
                @if let Some(failures) = words::failures(summary) { " (" (failures) ")" }
                ": " (means) "."
            }
        } @else {
            div.verdict.bad {
                p { strong { (word) } ": " (means) "." }
                ul {
                    @for reason in &judgement.reasons { li { (words::limit(reason, summary)) } }
                    @if let Some(cause) = words::shared_host(&judgement, summary) { li { (cause) } }
                }
            }
        }
        @if let Some(bound) = summary.bound(&judgement) {
            p.hint { "Limited by " (words::bound(&bound)) "." }
        }
    }
}

/// A table that scrolls where the screen is too narrow for it, also by the keyboard.
fn scrolling(name: &str, table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(name) { (table) } }
}

/// A command line as one would type it.
fn typed(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        if !word.is_empty() && word.chars().all(plain) {
            line.push_str(word);
        } else {
            let _ = write!(line, "'{}'", word.replace('\'', r"'\''"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_typed_again() {
        let words = ["prony", "-H", "A: it's", "", "http://h/?a=1&b"].map(str::to_owned);
        assert_eq!(typed(&words), r"prony -H 'A: it'\''s' '' 'http://h/?a=1&b'");
    }
}
