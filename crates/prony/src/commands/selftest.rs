//! `prony selftest`: checks the accuracy of measurements on this host.

use std::path::{Path, PathBuf};

use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::interrupt::stoppable;
use prony_run::output::{self, Place};

use crate::cli::selftest::SelftestArgs;
use crate::progress::Steps;
use crate::selftest::{self, Request, cite, record::Record};

/// Runs the self-test, saves the result, and prints it.
pub(super) fn selftest(args: &SelftestArgs) -> Result<Exit, Error> {
    let (name, place) = match &args.output {
        Some(path) => (Some(path.clone()), Some(given_place(path)?)),
        None => default_place().unwrap_or_else(|e| {
            output::to_stderr(&format!("prony: {e}"));
            (None, None)
        }),
    };
    let control = stoppable()?;
    let steps = Steps::new(args.quiet, None);
    let mut progress = |what: &str| steps.show(what);
    let record = selftest::run(Request {
        quick: args.quick,
        quiet: args.quiet,
        control,
        progress: &mut progress,
    })?;
    steps.finish();
    // An interrupted self-test must not replace a complete one.
    let saved = match (place, &name) {
        (Some(place), Some(name)) if !record.interrupted => place
            .write(cite::json(&record).as_bytes())
            .map_err(|why| Error::Report { what: name.display().to_string(), why }),
        _ => Ok(()),
    };
    let report = if args.json { cite::json(&record) } else { selftest::text(&record) };
    output::to_stdout(report.as_bytes())?;
    saved?;
    if let (Some(path), false, false) = (&name, record.interrupted, args.quiet) {
        output::to_stderr(&format!("prony: saved in {}", path.display()));
    }
    Ok(exit(&record))
}

/// The file given by the user.
fn given_place(path: &Path) -> Result<Place, Error> {
    output::place(path).map_err(|why| Error::OutputPlace { path: path.to_owned(), why })
}

/// The default file; none without a home directory.
fn default_place() -> Result<(Option<PathBuf>, Option<Place>), Error> {
    let Some(path) = cite::path()? else { return Ok((None, None)) };
    match output::place(&path) {
        Ok(place) => Ok((Some(path), Some(place))),
        Err(why) => Err(Error::SelftestPlace { path, why }),
    }
}

fn exit(record: &Record) -> Exit {
    match (record.interrupted, record.passed) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::NotValid,
    }
}
