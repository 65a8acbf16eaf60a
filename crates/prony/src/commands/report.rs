//! `prony report`: shows or compares saved results.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use prony_report::phased::{Outcome, Phased};
use prony_report::{self, Saved, json};
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::{files, output};
use prony_stats::summary::Summary;

use super::github::publish_run;
use super::{phases, style, trend};
use crate::cli;
use crate::cli::output::ReportArgs;

/// The longest saved report that is read: 256 MiB.
const REPORT_MAX: u64 = 256 << 20;

/// Reads the files, and prints and writes the reports.
pub(super) fn report(args: &ReportArgs) -> Result<Exit, Error> {
    if args.to.histogram && args.files.len() > 1 {
        let why = "a comparison has no histogram; give one FILE";
        return Err(Error::Conflict("--histogram", "several FILEs", why));
    }
    if args.to.github && args.files.len() > 1 {
        let why = "annotations are about one run; `prony compare --github` compares several";
        return Err(Error::Conflict("--github", "several FILEs", why));
    }
    let mut summaries = match &args.files[..] {
        [file] => match open(file)? {
            Document::Run(summary) => vec![*summary],
            Document::Phases(_) if args.trend => {
                let why = "a trend has one run for each file";
                return Err(Error::Conflict("--trend", "a plan with phases", why));
            }
            Document::Phases(report) => {
                return phases::show_again(*report, &args.to, args.accept);
            }
        },
        files => files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?,
    };
    for summary in &mut summaries {
        summary.run.secrets_shown = args.to.show_secrets;
        args.accept.apply(&mut summary.run.accepted);
    }
    let names = names(&args.files);
    let results: Vec<Saved<'_>> =
        names.iter().zip(&summaries).map(|(name, summary)| Saved { name, summary }).collect();
    if args.trend {
        return trend::trend(args, &results);
    }
    let outputs = args.to.prepare()?;
    outputs.check_runs(results.len())?;
    let printed = prony_report::render_all(args.to.stdout_format(), &results, &style(&args.to));
    let printed = printed.ok_or_else(|| {
        let option = if args.to.json { "--json" } else { "--format" };
        Error::OneOnly(option.to_owned(), results.len())
    })?;
    // Write the files first: a closed standard output must not lose them.
    let written = outputs.write_all(&results).map_err(Error::without_run);
    output::to_stdout(&printed)?;
    if let [one] = summaries.as_slice() {
        publish_run(&args.to, one)?;
    }
    written?;
    Ok(match summaries.as_slice() {
        [one] => Exit::of(one, one.run.accepted),
        // A comparison marks invalid runs.
        _ => Exit::Done,
    })
}

/// What a saved result is.
#[derive(Debug)]
pub enum Document {
    /// The report of a run.
    Run(Box<Summary>),
    /// That of a plan with phases.
    Phases(Box<Phased>),
}

fn open(path: &Path) -> Result<Document, Error> {
    document(&text_of(path)?).map_err(|e| unread(path, &e))
}

/// Reads a saved result.
pub(super) fn document(text: &str) -> Result<Document, json::ReadError> {
    match parse(text) {
        Err(json::ReadError::Phases) => Ok(Document::Phases(Box::new(parse_phases(text)?))),
        run => run.map(|run| Document::Run(Box::new(run))),
    }
}

pub(super) fn read(path: &Path) -> Result<Summary, Error> {
    parse(&text_of(path)?).map_err(|e| unread(path, &e))
}

/// The message for a file that is not the report of a run.
fn unread(path: &Path, why: &json::ReadError) -> Error {
    match why {
        json::ReadError::Schema(_) | json::ReadError::Phases => {
            Error::Result { path: path.into(), why: why.to_string() }
        }
        _ => refused(path, &why.to_string()),
    }
}

fn refused(path: &Path, why: &str) -> Error {
    let expected = "expected a result saved with `--json` or `-o FILE.json`";
    Error::Result { path: path.into(), why: format!("{why}; {expected}") }
}

/// The text of a saved result.
fn text_of(path: &Path) -> Result<String, Error> {
    let bytes = files::read_bounded("report", path, REPORT_MAX)?;
    String::from_utf8(bytes).map_err(|_| refused(path, "not a text file"))
}

/// The run of a saved result.
pub(super) fn parse(text: &str) -> Result<Summary, json::ReadError> {
    let mut summary = json::read(text)?;
    hide(&mut summary);
    Ok(summary)
}

/// The saved result of a plan with phases.
fn parse_phases(text: &str) -> Result<Phased, json::ReadError> {
    let mut report = json::phased::read(text)?;
    for phase in &mut report.phases {
        if let Outcome::Ran(summary) = &mut phase.outcome {
            hide(summary);
        }
    }
    report.command = cli::shown::command_line(&report.command);
    Ok(report)
}

/// Finds what is secret in the command line: a saved result may contain secrets.
fn hide(summary: &mut Summary) {
    let words: Vec<String> = std::mem::take(&mut summary.run.command).into();
    let of_tool = prony_compat::recorded(&words);
    summary.run.command = of_tool.unwrap_or_else(|| cli::shown::recorded(words));
}

/// Distinct names for the files: without directory and extension if these are distinct, otherwise
/// as given, with numbers if a file is given twice.
fn names(files: &[PathBuf]) -> Vec<String> {
    let stem = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        stem.to_string_lossy().into_owned()
    };
    let whole = |path: &PathBuf| path.to_string_lossy().into_owned();
    let different = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let stems: Vec<String> = files.iter().map(stem).collect();
    if different(&stems) {
        return stems;
    }
    let wholes: Vec<String> = files.iter().map(whole).collect();
    if different(&wholes) {
        return wholes;
    }
    wholes.into_iter().enumerate().map(|(i, name)| format!("{} {name}", i + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        let check = |files: &[&str]| names(&files.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(check(&["a/run.json", "b/other.json"]), ["run", "other"]);
        assert_eq!(check(&["a/run.json", "b/run.json"]), ["a/run.json", "b/run.json"]);
        assert_eq!(check(&["run.json", "run.json"]), ["1 run.json", "2 run.json"]);
        assert_eq!(check(&["-"]), ["-"]);
    }
}
