//! `--github`: annotations and the summary of a job of GitHub Actions.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

use prony_report::Format;
use prony_run::error::Error;
use prony_run::output;

use crate::cli::output::ToArgs;

/// The variable with the name of the file to which summaries are appended.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// Prints the annotations and appends the summary, if that was asked for.
pub(super) fn publish(
    to: &ToArgs,
    annotations: &str,
    markdown: impl FnOnce() -> Vec<u8>,
) -> Result<(), Error> {
    if !to.github {
        return Ok(());
    }
    // A program may read the standard output. GitHub reads both.
    if to.stdout_format() == Format::Text {
        output::to_stdout(annotations.as_bytes())?;
    } else {
        output::annotations_to_stderr(annotations.trim_end());
    }
    let Some(path) = env::var_os(SUMMARY).filter(|path| !path.is_empty()) else { return Ok(()) };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| {
        let mut text = markdown();
        text.push(b'\n');
        file.write_all(&text)
    });
    written.map_err(|why| Error::Written {
        what: format!("the job summary {}", path.to_string_lossy()),
        why,
    })
}

/// The same of one run.
pub(super) fn publish_run(
    to: &ToArgs,
    summary: &prony_stats::summary::Summary,
) -> Result<(), Error> {
    let annotations = if to.github { prony_report::github::of_run(summary) } else { String::new() };
    let style = prony_report::Style::default();
    publish(to, &annotations, || prony_report::render(Format::Markdown, summary, &style))
}
