//! `prony report`: saved results, told again.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use prony_core::summary::Summary;
use prony_report::{self, Saved, json, words};
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output::{self, Outputs};

use super::style;
use crate::cli;
use crate::cli::output::ReportArgs;

/// Read the files, and print and write what was asked for.
pub(super) fn report(args: &ReportArgs) -> Result<Exit, Error> {
    let mut summaries = args.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    for summary in &mut summaries {
        summary.run.secrets_shown = args.to.show_secrets;
    }
    let names = names(&args.files);
    let results: Vec<Saved<'_>> =
        names.iter().zip(&summaries).map(|(name, summary)| Saved { name, summary }).collect();
    let doubts = if args.accept_invalid { Vec::new() } else { doubts(&results) };
    if let (Some(doubt), 2..) = (doubts.first(), results.len()) {
        return Err(Error::Doubtful(doubt.clone()));
    }
    let outputs = Outputs::prepare(&args.to.output)?;
    outputs.tell_of(results.len())?;
    let printed = prony_report::render_all(args.to.stdout_format(), &results, &style());
    let printed = printed.ok_or_else(|| {
        let option = if args.to.json { "--json" } else { "--format" };
        Error::OneOnly(option.to_owned(), results.len())
    })?;
    // The files first: a standard output that is gone must not lose them.
    let written = outputs.write_all(&results).map_err(|e| match e {
        Error::Report { what, why } => Error::Written { what, why },
        e => e,
    });
    output::to_stdout(&printed)?;
    written?;
    Ok(if doubts.is_empty() { Exit::Done } else { Exit::NotValid })
}

/// Which results are not valid, and for what reason each.
fn doubts(results: &[Saved<'_>]) -> Vec<String> {
    let doubt = |saved: &Saved<'_>| {
        let judgement = saved.summary.verdict();
        let reason = words::limit(judgement.reasons.first()?, saved.summary);
        Some(format!("{}: {}: {reason}", saved.name, judgement.verdict.word()))
    };
    results.iter().filter_map(doubt).collect()
}

fn read(path: &Path) -> Result<Summary, Error> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    let bytes =
        bytes.map_err(|why| Error::Unreadable { what: "report", path: path.into(), why })?;
    let expected = "expected what `--json` or `-o FILE.json` has written";
    let refused =
        |why: String| Error::Result { path: path.into(), why: format!("{why}; {expected}") };
    let text = String::from_utf8(bytes).map_err(|_| refused("this is no text".to_owned()))?;
    let mut summary = json::read(&text).map_err(|e| match e {
        json::ReadError::Schema(_) => Error::Result { path: path.into(), why: e.to_string() },
        e => refused(e.to_string()),
    })?;
    // It may have been saved with its secrets.
    let words: Vec<String> = summary.run.command.into();
    let of_tool = prony_compat::recorded(&words);
    summary.run.command = of_tool.unwrap_or_else(|| cli::shown::recorded(words));
    Ok(summary)
}

/// The files' names without folder and ending where that tells them apart, else as they were given;
/// a file that was given twice is numbered.
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
    fn names_tell_files_apart() {
        let told = |files: &[&str]| names(&files.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(told(&["a/run.json", "b/other.json"]), ["run", "other"]);
        assert_eq!(told(&["a/run.json", "b/run.json"]), ["a/run.json", "b/run.json"]);
        assert_eq!(told(&["run.json", "run.json"]), ["1 run.json", "2 run.json"]);
        assert_eq!(told(&["-"]), ["-"]);
    }
}
