//! `prony import`: files of other tools as plan files.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use prony_import::{Format, Import, Options, Progress};
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::files;
use prony_run::output::{self, Place};
use prony_run::plan_file;

use crate::cli::exec_options::ExecArgs;
use crate::cli::import::ImportArgs;
use crate::exec_options::environment;

/// How often an import that takes long says how far it is.
const PROGRESS: Duration = Duration::from_secs(2);

/// Reads the file, prints the plan or writes it, and reports on standard error what is in it.
pub(super) fn import(args: &ImportArgs) -> Result<Exit, Error> {
    let bytes = files::read("import", &args.file)?;
    let place = |path| {
        let place = output::place(path);
        let place = if args.with_secrets { place.and_then(Place::for_owner) } else { place };
        place.map_err(|why| Error::OutputPlace { path: path.to_owned(), why })
    };
    let place = args.output.as_deref().map(place).transpose()?;
    let progress = Progress::default();
    // That of standard input is the current folder.
    let folder = args.file.parent().unwrap_or_else(|| Path::new(""));
    let options = Options {
        to: args.to.as_deref(),
        with_secrets: args.with_secrets,
        correlate: !args.no_correlate,
        folder,
        all_sites: args.all_sites,
        files_from: &args.files_from,
        seed: args.seed,
        weights: &args.weight,
        progress: Some(&progress),
    };
    if args.format != Format::OpenApi && (args.seed.is_some() || !args.weight.is_empty()) {
        let option = if args.seed.is_some() { "--seed" } else { "--weight" };
        return Err(Error::Argument(format!("{option} is for the format openapi")));
    }
    let name = args.file.display().to_string();
    let import = with_progress(&name, &progress, || {
        prony_import::import(args.format, &name, &bytes, &options).map_err(Error::Argument)
    })?;
    let plan = import.write(&format!("From {name}"));
    // What prony cannot run must not be called a plan.
    plan_file::parse("the plan", &plan, None, &environment(&ExecArgs::default(), false))
        .map_err(Error::PlanFile)?;
    output::lines_to_stderr(&report(&import));
    match (place, &args.output) {
        (Some(place), Some(path)) => place
            .write(plan.as_bytes())
            .map_err(|why| Error::Report { what: path.display().to_string(), why })?,
        _ => output::to_stdout(plan.as_bytes())?,
    }
    Ok(Exit::Done)
}

/// Imports the file, and says on standard error how far it is while that takes long.
fn with_progress<T>(name: &str, progress: &Progress, import: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        // The end of the import drops the sender.
        let (_sender, receiver) = mpsc::channel::<()>();
        scope.spawn(move || {
            while receiver.recv_timeout(PROGRESS) == Err(RecvTimeoutError::Timeout) {
                output::lines_to_stderr(&format!("prony: {name}: {progress}"));
            }
        });
        import()
    })
}

/// What was understood, what was left out or changed and why, and what is to be filled in.
fn report(import: &Import) -> String {
    let count = |n: usize, thing: &str| format!("{n} {thing}{}", if n == 1 { "" } else { "s" });
    let mut text = format!("prony: imported {}", count(import.requests(), "request"));
    if import.sessions() > 0 {
        let _ = write!(text, " in {}", count(import.sessions(), "session"));
    }
    text += &import.remarks();
    text
}
