//! A summary in Markdown, short enough for a pull request: verdict, thresholds, the main figures
//! with their intervals.

use std::fmt::Write as _;

use prony_base::plain;
use prony_stats::summary::confidence::{Confidence, Interval, NoInterval};
use prony_stats::summary::{Conclusion, QUANTILES, Summary, Weight};

use super::phased::{COLUMNS, Phased};
use super::{text, units, words};

/// The quantiles with a row.
const SHOWN: [&str; 4] = ["p50", "p90", "p99", "p99.9"];

pub(super) fn render(summary: &Summary) -> String {
    let Conclusion { judgment, weight, thresholds } = summary.conclusion();
    let t = &summary.main;
    let mut out = format!("### {}\n\n", escaped(&text::target(summary)));
    let word = judgment.verdict.word();
    let mark = words::weight(weight);
    let _ = writeln!(out, "**{word}**{mark}: {}.", escaped(words::verdict(judgment.verdict)));
    for reason in &judgment.reasons {
        let _ = writeln!(out, "- {}", escaped(&words::reason(reason, summary)));
    }
    if let Some(failures) = words::failures(summary) {
        let _ = writeln!(out, "\n{}.", escaped(&failures));
    }
    if !thresholds.is_empty() {
        out.push_str("\n| threshold | outcome | measured |\n|---|---|---|\n");
        for (checked, weight) in &thresholds {
            let word = words::outcome(checked.outcome);
            let outcome = match weight {
                Weight::Unknown | Weight::Failed => format!("**{word}**"),
                Weight::Fine | Weight::Said | Weight::Accepted => {
                    format!("{word}{}", words::weight(*weight))
                }
            };
            let (threshold, measured) = (checked.threshold.to_string(), words::threshold(checked));
            let _ = writeln!(out, "| {} | {outcome} | {} |", code(&threshold), escaped(&measured));
        }
    }
    out.push_str("\n| figure | value | 95 % confidence interval |\n|---|---:|---|\n");
    let mut row = |name: &str, value: Option<String>, interval: Result<String, NoInterval>| {
        let value = value.unwrap_or_else(|| "-".into());
        let interval = interval.unwrap_or_else(words::no_interval);
        let _ = writeln!(out, "| {name} | {value} | {interval} |");
    };
    let confidence = Confidence::of(t);
    let rates =
        |Interval { lo, hi }: Interval| format!("{} to {}", units::rate(lo), units::rate(hi));
    let times =
        |Interval { lo, hi }: Interval| format!("{} to {}", units::nanos(lo), units::nanos(hi));
    row("completed rate", Some(units::rate(t.rate())), confidence.rate(t.rate()).map(rates));
    for (name, q) in QUANTILES.into_iter().filter(|(name, _)| SHOWN.contains(name)) {
        let value = t.times.response.quantile(q).map(units::span);
        row(&format!("response time {name}"), value, confidence.quantile(q).map(times));
    }
    let ended = units::count(t.replies + t.failed);
    let failed = format!("{} of {ended}", units::count(t.failed));
    row("failed requests", Some(failed), Ok(String::new()));
    for (check, t_check) in summary.plan.checks.list.iter().zip(&t.checks) {
        let (share, interval) = text::share_of_check(t_check);
        row(&format!("check {}", code(check.title())), Some(share), Ok(interval));
    }
    for (group, t_group) in summary.plan.groups.iter().zip(&t.groups) {
        for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
            let value = t_group.duration.quantile(q).map(units::span);
            let label = format!("group {} {name}", code(&group.name));
            row(&label, value, Ok(String::new()));
        }
    }
    out
}

/// The same for a plan with phases: an overview, then each phase.
pub(super) fn render_phases(all: &Phased) -> String {
    let mut out = format!("## {}\n\n| phase |", all.title());
    for column in COLUMNS {
        let _ = write!(out, " {column} |");
    }
    out.push_str("\n|---|---|---:|---:|---:|---:|---|\n");
    for (name, row) in all.rows() {
        let _ = write!(out, "| {} |", code(name));
        for cell in row {
            let _ = write!(out, " {} |", escaped(&cell));
        }
        out.push('\n');
    }
    for sentence in all.sentences() {
        let _ = writeln!(out, "\n{}", escaped(&sentence));
    }
    for (name, summary) in all.runs() {
        let _ = write!(out, "\n## Phase {}\n\n{}", code(name), render(summary));
    }
    out
}

/// A text as code in a cell of a table.
pub(super) fn code(text: &str) -> String {
    let text = plain::line(text).replace('`', "'").replace('|', "\\|");
    format!("`{text}`")
}

/// Escape a text for Markdown.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain::line(text).chars() {
        if "\\`*_[]<>|#&~$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{code, escaped};

    #[test]
    fn what_markdown_reads_is_escaped() {
        assert_eq!(escaped("a_b|<c>&d;~e$"), r"a\_b\|\<c\>\&d;\~e\$");
        assert_eq!(escaped("a\n::error::b ![x](http://y)"), r"a\\n: :error::b !\[x\](http://y)");
        assert_eq!(code("a`b|c\n##[error]"), r"`a'b\|c\n# #[error]`");
    }
}
