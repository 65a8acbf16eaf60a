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
        [one] => format!("prony: {}", text::target(&one.summary.plan)),
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
            h1 { (text::target(&one.summary.plan)) }
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
            p.verdict.good { strong { (word) } ": " (means) "." }
        } @else {
            div.verdict.bad {
                p { strong { (word) } ": " (means) "." }
                ul { @for reason in &judgement.reasons { li { (words::limit(reason, summary)) } } }
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

/// Seconds since 1970 as a date and time of day, UTC.
fn date(unix: f64) -> String {
    let seconds = unix.max(0.0) as u64;
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let length = |y: u64| if leap(y) { 366 } else { 365 };
    // A year that no clock shows ends the search.
    while days >= length(year) && year < 10_000 {
        days -= length(year);
        year += 1;
    }
    let months = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while month < 11 && days >= months[month] {
        days -= months[month];
        month += 1;
    }
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year}-{:02}-{:02} {hour:02}:{minute:02}:{second:02}", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (unix, told) in [
            (0.0, "1970-01-01 00:00:00"),
            (951_782_400.0, "2000-02-29 00:00:00"),
            (1_700_000_000.25, "2023-11-14 22:13:20"),
            (1_735_689_599.0, "2024-12-31 23:59:59"),
            (4_107_542_400.0, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date(unix), told);
        }
    }

    #[test]
    fn command_lines_can_be_typed_again() {
        let words = ["prony", "-H", "A: it's", "", "http://h/?a=1&b"].map(str::to_owned);
        assert_eq!(typed(&words), r"prony -H 'A: it'\''s' '' 'http://h/?a=1&b'");
    }
}
