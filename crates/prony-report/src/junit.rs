//! The outcome as JUnit XML, which build servers read: the verdict is a test case, and so is each
//! threshold. The elements and attributes are those that Jenkins, GitLab and GitHub's readers
//! share.

use std::fmt::Write as _;

use prony_base::plain::{Sink, plain};
use prony_stats::summary::{Conclusion, Summary, Weight};

use super::phased::{Outcome as Ended, Phased};
use super::{text, units, words};

/// A test case that did not pass, or would not have if the user did not accept it.
struct Problem {
    /// `failure` or `error`; `None`: it does not count.
    element: Option<&'static str>,
    kind: String,
    message: String,
    /// What is added to a problem that does not count.
    mark: &'static str,
}

pub(super) fn render(summary: &Summary) -> String {
    document(&[suite(&text::target(summary), summary)])
}

/// The same for a plan with phases, each of which is a suite.
pub(super) fn render_all(all: &Phased) -> String {
    let suites = all.phases.iter().map(|phase| match &phase.outcome {
        Ended::Ran(summary) => {
            suite(&format!("{}: {}", phase.name, text::target(summary)), summary)
        }
        Ended::NotStarted(why) => skipped(&phase.name, why),
    });
    document(&suites.collect::<Vec<_>>())
}

/// A suite of test cases as XML, and what it counts.
struct Suite {
    xml: String,
    tests: usize,
    failures: usize,
    errors: usize,
    seconds: f64,
}

/// All suites in one document.
fn document(suites: &[Suite]) -> String {
    let sum = |of: fn(&Suite) -> usize| suites.iter().map(of).sum::<usize>();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\"",
        sum(|suite| suite.tests),
        sum(|suite| suite.failures),
        sum(|suite| suite.errors),
        suites.iter().map(|suite| suite.seconds).sum::<f64>(),
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites name=\"prony\" {counts}>");
    suites.iter().for_each(|suite| out.push_str(&suite.xml));
    out.push_str("</testsuites>\n");
    plain(&out, Sink::Markup).into_owned()
}

/// The suite of a phase that was not started.
fn skipped(name: &str, why: &str) -> Suite {
    let xml = format!(
        "  <testsuite name=\"{}\" tests=\"1\" failures=\"0\" errors=\"0\" time=\"0.000\" \
         skipped=\"1\">\n    <testcase classname=\"prony\" name=\"verdict\" time=\"0\">\n      \
         <skipped message=\"{}\"/>\n    </testcase>\n  </testsuite>\n",
        escaped(name),
        escaped(why)
    );
    Suite { xml, tests: 1, failures: 0, errors: 0, seconds: 0.0 }
}

/// The test cases of a run.
fn cases(summary: &Summary) -> Vec<(String, Option<Problem>)> {
    let Conclusion { judgment, weight, thresholds } = summary.conclusion();
    let element = |weight: Weight| match weight {
        Weight::Fine | Weight::Said | Weight::Accepted => None,
        Weight::Unknown => Some("error"),
        Weight::Failed => Some("failure"),
    };
    let mut cases: Vec<(String, Option<Problem>)> = Vec::new();
    let reasons: Vec<String> =
        judgment.reasons.iter().map(|reason| words::reason(reason, summary)).collect();
    cases.push((
        "verdict".into(),
        (weight != Weight::Fine).then(|| Problem {
            element: element(weight),
            kind: judgment.verdict.word().into(),
            message: format!("{}: {}", words::verdict(judgment.verdict), reasons.join("; ")),
            mark: words::weight(weight),
        }),
    ));
    for (checked, weight) in thresholds {
        let problem = (weight != Weight::Fine).then(|| Problem {
            element: element(weight),
            kind: words::outcome(checked.outcome).into(),
            message: words::decided(&checked),
            mark: words::weight(weight),
        });
        cases.push((checked.threshold.to_string(), problem));
    }
    cases
}

/// The suite of a run.
fn suite(name: &str, summary: &Summary) -> Suite {
    let cases = cases(summary);
    let count = |element: &str| {
        cases.iter().filter(|(_, p)| p.as_ref().is_some_and(|p| p.element == Some(element))).count()
    };
    let target = escaped(name);
    let time = summary.main.window().as_secs_f64();
    let (tests, failures, errors) = (cases.len(), count("failure"), count("error"));
    let counts =
        format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{time:.3}\"");
    // As ISO 8601, in UTC.
    let started = summary.run.started_unix.map(|unix| {
        let date = units::date(unix);
        let stamp = date.trim_end_matches(" UTC").replacen(' ', "T", 1);
        format!(" timestamp=\"{}\"", escaped(&stamp))
    });
    let mut out = String::new();
    let _ = writeln!(
        out,
        "  <testsuite name=\"{target}\" {counts} skipped=\"0\"{}>",
        started.unwrap_or_default()
    );
    for (name, problem) in &cases {
        let case =
            format!("    <testcase classname=\"prony\" name=\"{}\" time=\"0\"", escaped(name));
        match problem {
            None => {
                let _ = writeln!(out, "{case}/>");
            }
            Some(Problem { element: None, kind, message, mark }) => {
                // The message of a threshold starts with its outcome.
                let what = message.strip_prefix(&format!("{kind}: ")).unwrap_or(message);
                let said = format!("{kind}: {what}{mark}");
                let _ = writeln!(
                    out,
                    "{case}>\n      <system-out>{}</system-out>\n    </testcase>",
                    escaped(&said)
                );
            }
            Some(Problem { element: Some(element), kind, message, .. }) => {
                let (kind, message) = (escaped(kind), escaped(message));
                let _ = writeln!(
                    out,
                    "{case}>\n      <{element} type=\"{kind}\" message=\"{message}\"/>\n    \
                     </testcase>"
                );
            }
        }
    }
    out.push_str("  </testsuite>\n");
    Suite { xml: out, tests, failures, errors, seconds: time }
}

/// A text as the value of an attribute. The document escapes characters that XML 1.0 does not know.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn attributes_hold_any_text() {
        assert_eq!(escaped("a<b> & \"c\"\n\u{e9}"), "a&lt;b&gt; &amp; &quot;c&quot; \u{e9}");
    }
}
