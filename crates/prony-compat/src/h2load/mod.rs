//! h2load: independent clients over HTTP/2 or HTTP/1.1.

mod figures;
mod json;
mod keys;
mod options;
mod plan;
mod report;
mod stats;
mod tap;
mod uris;
mod values;
mod watch;

use std::fs::{self, File};
use std::sync::Arc;
use std::thread;

use prony_io::{Live, Options as IoOptions, Taps};
use prony_plan::plan::{HttpVersion, Plan};
use prony_report::{Style, appendix};
use prony_run::error::Error;
use prony_run::interrupt::{Ending, stoppable};
use prony_run::output::{self, Outputs};
use prony_run::run;
use prony_stats::summary::Summary;

use self::figures::Figures;
use self::options::{Asked, Options};
use self::tap::{Observer, Shared};
use self::watch::Progress;
use super::{Call, say};

/// h2load's exit code for all errors before the load.
const FAILED: u8 = 1;
/// The exit code after Ctrl-C, as of a program that the signal ended.
const INTERRUPTED: u8 = 130;

/// Run the command line. Returns the exit code.
pub(super) fn main(call: &Call) -> u8 {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    match options::read(&call.program, &call.args, cores) {
        Asked::Help => {
            say(include_str!("usage.txt"));
            0
        }
        Asked::Version => {
            say(&format!("h2load [prony {}]\n", env!("CARGO_PKG_VERSION")));
            0
        }
        Asked::Refused(why) => {
            output::lines_to_stderr(&why);
            FAILED
        }
        Asked::Run(options) => load(&options, call).unwrap_or_else(|e| {
            output::lines_to_stderr(&refusal(&e));
            FAILED
        }),
    }
}

/// An error message in h2load's words, which scripts may search for.
fn refusal(e: &Error) -> String {
    match (super::unresolved(e), e) {
        (Some((_, why)), _) => format!("getaddrinfo() failed: {why}"),
        (None, Error::Argument(why)) => why.clone(),
        (None, _) => format!("h2load: {e}"),
    }
}

fn load(options: &Options, call: &Call) -> Result<u8, Error> {
    options.warnings.iter().for_each(|warning| output::lines_to_stderr(warning));
    let plan = plan::of(options)?;
    let outputs = Outputs::prepare(&options.outputs)?;
    let shared = Arc::new(observed(options, &plan)?);
    let io = IoOptions {
        threads: Some(options.threads as usize),
        connect_to: options.connect_to.clone(),
        keep_requests: options.json.is_some(),
        taps: shared.is_needed().then(|| taps(&shared)),
        ..IoOptions::default()
    };
    run::check(&plan, &io)?;
    let control = stoppable()?;
    say(&watch::head(options, &plan));
    let mut progress = Progress::new(options, &plan);
    let mut ending = Ending::default();
    let mut watch = |live: &Live| {
        ending.say(&control, live);
        progress.see(live);
    };
    let summary = run::run(&plan, &io, &control, &mut watch, call.provenance())?;
    if !progress.has_named_protocol() {
        say(&report::protocol(&summary, options.edition));
    }
    if !summary.run.interrupted {
        progress.finish(summary.main.replies);
    }
    print(options, &summary, &shared)?;
    outputs.write(&summary)?;
    Ok(if summary.run.interrupted { INTERRUPTED } else { 0 })
}

fn print(options: &Options, summary: &Summary, shared: &Shared) -> Result<(), Error> {
    let figures = Figures::of(summary, shared.h1_fields());
    say(&report::text(&figures, options));
    if let Some(path) = &options.json {
        fs::write(path, json::file(&figures, &summary.main.kept))
            .map_err(|why| Error::Report { what: path.clone(), why })?;
    }
    if !shared.finish() {
        output::lines_to_stderr("--log-file: the file could not be written completely");
    }
    if options.extras {
        say("\n");
        say(&appendix(summary, Style::default(), &report::remarks(&figures, summary)));
    }
    Ok(())
}

/// What is observed of single requests. Opens the log.
fn observed(options: &Options, plan: &Plan) -> Result<Shared, Error> {
    let log =
        match &options.log_file {
            None => None,
            Some(path) => {
                Some(File::options().append(true).create(true).open(path).map_err(|_| {
                    Error::Argument(format!("--log-file: Could not open file {path}"))
                })?)
            }
        };
    Ok(Shared::new(log, options.verbose, plan.http == HttpVersion::Http11))
}

fn taps(shared: &Arc<Shared>) -> Taps {
    let shared = Arc::clone(shared);
    Taps::new(move || Observer::new(&shared))
}
