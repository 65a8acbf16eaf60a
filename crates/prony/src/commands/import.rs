//! `prony import`: files of other tools as plan files.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use prony_import::{Format, Import, Options, Progress};
use prony_plan::plan::Data;
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
    check(args)?;
    let name = args.file.display().to_string();
    let mut import = with_progress(&name, &progress, || {
        prony_import::import(args.format, &name, &bytes, &options).map_err(Error::Argument)
    })?;
    let plan = checked(&mut import, &name, &format!("From {name}"), None)?;
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

/// How often the plan is written again without what it cannot have.
const ROUNDS: usize = 20;

/// The plan of an import. What prony cannot run must not be called a plan: a request for which it
/// is refused is left out, and named with its place in the input.
pub(super) fn checked(
    import: &mut Import,
    name: &str,
    heading: &str,
    folder: Option<&Path>,
) -> Result<String, Error> {
    const NAME: &str = "the plan";
    let around = environment(&ExecArgs::default(), false);
    for _ in 0..ROUNDS {
        let plan = import.write(heading);
        // What the user fills in is not there yet.
        let filled = plan.replace(&format!("= \"{}\"", Data::BLANK), "= \"filled\"");
        let Err(sentences) = plan_file::parse(NAME, &filled, folder, &around) else {
            return Ok(plan);
        };
        // From the last one, so that the lines of others stay.
        let mut is_other = false;
        let mut last = 0;
        for sentence in sentences.iter().rev() {
            let place = sentence.strip_prefix(NAME).and_then(|rest| rest.strip_prefix(':'));
            let mut parts = place.unwrap_or_default().splitn(3, ':');
            let line = parts.next().and_then(|line| line.parse::<usize>().ok());
            let why = parts.nth(1).unwrap_or(sentence).trim();
            is_other |= match line {
                Some(line) if line == last => false,
                Some(line) => {
                    last = line;
                    !import.leave_out(&plan, line, why)
                }
                None => true,
            };
        }
        if is_other {
            return Err(Error::PlanFile(sentences));
        }
        if import.is_empty() {
            let why = import.remarks();
            return Err(Error::Argument(format!("{name}: nothing in it can be sent{why}")));
        }
    }
    Err(Error::Argument(format!("{name}: too much in it cannot be sent{}", import.remarks())))
}

/// Refuses options that mean nothing for the format, and folders that are not there.
fn check(args: &ImportArgs) -> Result<(), Error> {
    for (is_given, option, format, name) in [
        (args.seed.is_some(), "--seed", Format::OpenApi, "openapi"),
        (!args.weight.is_empty(), "--weight", Format::OpenApi, "openapi"),
        (args.all_sites, "--all-sites", Format::Har, "har"),
        (args.no_correlate, "--no-correlate", Format::Har, "har"),
    ] {
        if is_given && args.format != format {
            return Err(Error::Argument(format!("{option} is for the format {name}")));
        }
    }
    for path in &args.files_from {
        let found = std::fs::metadata(path).and_then(|found| match found.is_dir() {
            true => Ok(()),
            false => Err(ErrorKind::NotADirectory.into()),
        });
        found.map_err(|why| Error::Unreadable { what: "--files-from", path: path.clone(), why })?;
    }
    Ok(())
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
