//! ab: a number of HTTP/1.0 requests, each on its own connection or with keep-alive.

mod observe;
mod options;
mod plan;
mod report;
mod table;
mod trace;

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use prony_base::fault::Fault;
use prony_base::units::Nanos;
use prony_io::{Control, Live, Options as IoOptions, SocketOptions, Taps};
use prony_report::{Style, appendix};
use prony_run::error::Error;
use prony_run::interrupt::{Ending, stoppable};
use prony_run::output::{self, Outputs};
use prony_run::run;
use prony_stats::summary::Summary;

use self::observe::{Looker, Seen};
use self::options::{Asked, Options};
use self::plan::Planned;
use self::report::Run;
use self::trace::Trace;
use super::{Call, say};

const USAGE: &str = include_str!("usage.txt");
/// The exit code for wrong usage: EINVAL.
const USAGE_CODE: u8 = 22;

/// Run the command line.
pub(super) fn main(call: &Call) -> u8 {
    match options::read(&call.args) {
        Asked::Help => {
            refuse_with_usage(&call.program, None);
            USAGE_CODE
        }
        Asked::Version => {
            say(&banner());
            0
        }
        Asked::Refused { why, usage: true } => {
            refuse_with_usage(&call.program, Some(&why));
            USAGE_CODE
        }
        Asked::Refused { why, usage: false } => {
            output::lines_to_stderr(&why);
            1
        }
        Asked::Run(options) => match load(&options, call) {
            Ok(code) => code,
            Err(Error::Url(why)) => {
                refuse_with_usage(&call.program, Some(&format!("invalid URL\nab: {why}")));
                USAGE_CODE
            }
            Err(e) => {
                output::lines_to_stderr(&refusal(&e));
                1
            }
        },
    }
}

fn refuse_with_usage(program: &str, why: Option<&str>) {
    let why = why.map(|why| format!("ab: {why}\n")).unwrap_or_default();
    let first = format!("Usage: {program} [options] [http[s]://]hostname[:port]/path\n");
    output::lines_to_stderr((why + &first + USAGE).trim_end());
}

/// A refusal, with ab's own message, which scripts may look for.
fn refusal(e: &Error) -> String {
    match super::unresolved(e) {
        Some((host, why)) => format!("apr_sockaddr_info_get() for {host}: {why} (670002)"),
        None => format!("ab: {e}"),
    }
}

/// Printed instead of ab's own three lines.
fn banner() -> String {
    format!(
        "This is ApacheBench, Version 2.3 <prony {}>\n\
         The command line and the report of ab, on another engine: not the program of the\n\
         Apache Software Foundation. What differs: docs/ab-and-wrk.md\n\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn load(options: &Options, call: &Call) -> Result<u8, Error> {
    if let Some(letter) = options.illegal {
        output::lines_to_stderr(&format!("ab: illegal option -- {letter}"));
    }
    let planned = plan::of(options)?;
    let outputs = Outputs::prepare(&options.outputs)?;
    let mut files = Files::open(options)?;
    let through = planned.through.as_ref().map(|p| format!("[through {p}] ")).unwrap_or_default();
    let heartbeat = report::heartbeat(options);
    if options.table.is_some() {
        say(&table::head(&banner()));
    } else {
        say(&banner());
        let ending = if heartbeat.is_some() { "\n" } else { "..." };
        say(&format!("Benchmarking {} {through}(be patient){ending}", planned.url.host));
    }

    let seen = Arc::new(Seen::default());
    let control = stoppable()?;
    let ending = Ending::default();
    let mut watch =
        Watch { options, control: &control, heartbeat, reported: 0, ended: false, ending };
    let trace =
        (options.verbosity >= 2).then(|| Arc::new(Trace::new(&options.method, options.verbosity)));
    let shared = Arc::clone(&seen);
    let taps = Taps::new(move || Looker::new(&shared, trace.as_ref()));
    let summary = carry_out(&planned, options, &mut watch, call, taps)?;
    // Write the files first, in case standard output is closed.
    let written = outputs.write(&summary);
    let run = Run::new(options, &planned, &summary, &seen);
    if !options.keep_going
        && let Some(fault) =
            Fault::ALL.into_iter().find(|&f| f.is_lost() && summary.main.fault(f) > 0)
    {
        return Ok(give_up(fault, &run));
    }
    match heartbeat {
        Some(_) => {
            watch.report_progress(run.done());
            output::lines_to_stderr(&format!("Finished {} requests", run.done()));
        }
        None => say("..done\n"),
    }
    match &options.table {
        Some(attributes) => say(&run.table(attributes)),
        None => say(&run.text()),
    }
    files.write(&run)?;
    if options.extras {
        say("\n");
        say(&appendix(&summary, Style::default(), &run.remarks()));
    }
    written?;
    // The time limit is not an interruption.
    let interrupted = summary.run.interrupted && !watch.ended;
    Ok(u8::from(interrupted))
}

fn carry_out(
    planned: &Planned,
    options: &Options,
    watch: &mut Watch<'_>,
    call: &Call,
    taps: Taps,
) -> Result<Summary, Error> {
    let io = IoOptions {
        threads: Some(options.threads as usize),
        sources: options.bind.into_iter().collect(),
        sockets: SocketOptions {
            send_buffer: (options.buffer > 0).then_some(options.buffer),
            recv_buffer: (options.buffer > 0).then_some(options.buffer),
            ..SocketOptions::default()
        },
        keep_requests: true,
        taps: Some(taps),
        ..IoOptions::default()
    };
    let control = watch.control;
    let mut show = |live: &Live| watch.show(live);
    let provenance = call.provenance();
    let mut summary = run::run(&planned.plan, &io, control, &mut show, provenance)?;
    // The run was ended by ab's rules, not by the user.
    summary.run.interrupted &= !watch.ended;
    Ok(summary)
}

/// Whether the run must end: without `-r`, ab ends at the first lost request.
fn give_up(fault: Fault, run: &Run<'_>) -> u8 {
    let (words, number) = report::last_words(fault);
    output::lines_to_stderr(&format!("{words} ({number})"));
    let done = run.rows.len();
    if done > 0 {
        say(&format!("Total of {done} requests completed\n"));
    }
    number as u8
}

/// Watches a load: prints lines of progress, and ends it when ab would.
struct Watch<'a> {
    options: &'a Options,
    control: &'a Control,
    heartbeat: Option<u64>,
    /// The number of requests in the last line of progress.
    reported: u64,
    /// Whether one of ab's rules has ended the load.
    ended: bool,
    ending: Ending,
}

impl Watch<'_> {
    fn show(&mut self, live: &Live) {
        self.report_progress(live.replies + live.failed);
        self.ending.say(self.control, live);
        let lost = live.lost > 0 && !self.options.keep_going;
        let over = report::time_is_over(self.options, live.now.since(Nanos::ZERO));
        if (lost || over) && !self.ended && self.control.stop_request().is_none() {
            self.ended = true;
            self.control.stop_now();
        }
    }

    fn report_progress(&mut self, done: u64) {
        let Some(every) = self.heartbeat else { return };
        while self.reported + every <= done {
            self.reported += every;
            output::lines_to_stderr(&format!("Completed {} requests", self.reported));
        }
    }
}

/// The files of `-g` and `-e`, opened before the load.
struct Files {
    gnuplot: Option<(String, File)>,
    csv: Option<(String, File)>,
}

impl Files {
    fn open(options: &Options) -> Result<Self, Error> {
        let open = |what: &str, path: &Option<String>| -> Result<_, Error> {
            let Some(path) = path else { return Ok(None) };
            let file = File::create(path).map_err(|why| {
                let why = prony_run::error::plain(&why.to_string());
                Error::Argument(format!("Cannot open {what} output file ({path}): {why}"))
            })?;
            Ok(Some((path.clone(), file)))
        };
        Ok(Self { gnuplot: open("gnuplot", &options.gnuplot)?, csv: open("CSV", &options.csv)? })
    }

    fn write(&mut self, run: &Run<'_>) -> Result<(), Error> {
        let put = |file: &mut Option<(String, File)>, text: String| match file {
            None => Ok(()),
            Some((path, file)) => file
                .write_all(text.as_bytes())
                .map_err(|why| Error::Report { what: path.clone(), why }),
        };
        put(&mut self.csv, run.csv())?;
        put(&mut self.gnuplot, run.gnuplot())
    }
}
