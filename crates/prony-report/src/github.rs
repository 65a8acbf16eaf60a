//! Annotations for GitHub Actions: workflow commands, which its runner reads from the output of a
//! step and shows at the run.

use prony_base::plain;
use prony_stats::summary::{Conclusion, Summary, Weight};

use super::comparison::Comparison;
use super::{text, words};

/// The weight of an annotation.
#[derive(Clone, Copy)]
enum Level {
    Error,
    Warning,
    Notice,
}

/// The annotations of a run: an error for each missed threshold and for a run that is not valid, a
/// warning for each undecided threshold, and notices in place of those that the user accepts; if
/// there is nothing of that, a notice.
pub fn of_run(summary: &Summary) -> String {
    annotations(&text::target(summary), summary)
}

/// The annotations of a phase of a plan, with its name.
pub(super) fn of_phase(name: &str, summary: &Summary) -> String {
    annotations(&format!("{name}: {}", text::target(summary)), summary)
}

fn annotations(target: &str, summary: &Summary) -> String {
    let Conclusion { judgment, weight, thresholds } = summary.conclusion();
    let level = |weight: Weight| match weight {
        Weight::Fine | Weight::Said | Weight::Accepted => Level::Notice,
        Weight::Unknown => Level::Warning,
        Weight::Failed => Level::Error,
    };
    let mut out = String::new();
    if weight != Weight::Fine {
        let reasons: Vec<String> =
            judgment.reasons.iter().map(|r| words::reason(r, summary)).collect();
        let verdict = judgment.verdict;
        let (means, mark) = (words::verdict(verdict), words::weight(weight));
        let why = format!("{}: {means}. {}{mark}", verdict.word(), reasons.join("; "));
        out += &line(level(weight), target, &why);
    }
    for (checked, weight) in thresholds.iter().filter(|(_, weight)| *weight != Weight::Fine) {
        let why = words::decided(checked) + words::weight(*weight);
        out += &line(level(*weight), target, &why);
    }
    if out.is_empty() {
        let met = match thresholds.len() {
            0 => "VALID".to_owned(),
            n => format!("VALID; thresholds met: {n}"),
        };
        out = line(Level::Notice, target, &met);
    }
    out
}

/// The annotations of a comparison: an error for each limit that fails and if it is not valid, a
/// warning for each limit that cannot be decided; a notice for each figure that differs.
pub fn of_comparison(comparison: &Comparison) -> String {
    let mut out = String::new();
    for doubt in &comparison.doubts {
        out += &line(Level::Error, "comparison", doubt);
    }
    for limit in &comparison.limits {
        match limit.outcome {
            "fails" => out += &line(Level::Error, "comparison", &limit.sentence),
            "unknown" => out += &line(Level::Warning, "comparison", &limit.sentence),
            _ => {}
        }
    }
    for change in comparison.changes.iter().filter(|c| matches!(c.outcome, "higher" | "lower")) {
        out += &line(Level::Notice, "comparison", &change.sentence);
    }
    if out.is_empty() {
        out = line(Level::Notice, "comparison", "no figure is known to differ");
    }
    out
}

/// A workflow command. Its message and its title are one line each.
fn line(level: Level, title: &str, message: &str) -> String {
    let level = match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    let message = plain::line(message).replace('%', "%25");
    let title = plain::line(title).replace('%', "%25").replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title=prony {title}::{message}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the user accepts is a notice, in Markdown no bold word, and in JUnit no failure.
    #[test]
    fn what_is_accepted_is_no_failure_in_any_format() {
        use prony_base::units::{Nanos, Span};
        use prony_plan::plan::{CallSpec, Load, Plan, Stop, Think};
        use prony_plan::target::Endpoint;
        use prony_stats::summary::{Accepted, RunInfo};
        use prony_tally::record::Tally;

        let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
        let load = Load::Closed { connections: 1, think: Think::None };
        let mut plan = Plan::new(vec![endpoint], vec![CallSpec::default()], load, Stop::default());
        plan.thresholds = vec!["errors < 0.1%".parse().expect("a threshold")];
        let mut main = Tally { end: Nanos::ZERO + Span::from_secs(1), ..Tally::default() };
        for _ in 0..100 {
            main.times.response.record(Span::from_millis(1));
        }
        (main.started, main.sent, main.replies) = (100, 100, 100);
        let run = RunInfo { percentile: Some(99.9), ..RunInfo::default() };
        let mut summary = Summary { plan, run, warmup: None, main, workers: Vec::new() };
        let all = |summary: &Summary| {
            (of_run(summary), crate::junit::render(summary), crate::markdown::render(summary))
        };
        let (lines, junit, markdown) = all(&summary);
        // The threshold decides in the verdict's place.
        assert!(!lines.contains("::error ") && lines.contains("::warning "), "{lines}");
        assert!(lines.contains("(the thresholds decide)"), "{lines}");
        assert!(!junit.contains("<failure ") && junit.contains("<error "), "{junit}");
        assert!(junit.contains("failures=\"0\" errors=\"1\""), "{junit}");
        let alone = std::mem::take(&mut summary.plan.thresholds);
        let (lines, junit, markdown_alone) = all(&summary);
        assert!(lines.contains("::error "), "{lines}");
        assert!(junit.contains("failures=\"1\" errors=\"0\""), "{junit}");
        assert!(markdown_alone.contains("**TOO-SHORT**:"), "{markdown_alone}");
        summary.plan.thresholds = alone;
        assert!(markdown.contains("**undecided**"), "{markdown}");
        summary.run.accepted = Accepted { invalid: true, undecided: true };
        let (lines, junit, markdown) = all(&summary);
        assert!(!lines.contains("::error ") && !lines.contains("::warning "), "{lines}");
        assert_eq!(lines.matches("(accepted)").count(), 2, "{lines}");
        assert!(!junit.contains("<failure ") && !junit.contains("<error "), "{junit}");
        assert!(junit.contains("failures=\"0\" errors=\"0\""), "{junit}");
        assert!(junit.contains("<system-out>TOO-SHORT: "), "{junit}");
        assert!(markdown.contains("**TOO-SHORT** (accepted)"), "{markdown}");
        assert!(markdown.contains("undecided (accepted)"), "{markdown}");
    }

    #[test]
    fn messages_cannot_end_or_start_a_command() {
        assert_eq!(
            line(Level::Error, "http://h:1/a,b", "5 % more\n::error::x"),
            "::error title=prony http%3A//h%3A1/a%2Cb::5 %25 more\\n: :error::x\n"
        );
    }
}
