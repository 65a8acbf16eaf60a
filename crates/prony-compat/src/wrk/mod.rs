//! wrk: a number of keep-alive connections, for a fixed time.

mod options;
mod plan;
mod report;
mod units;

use prony_base::units::{Nanos, Span};
use prony_io::{Live, Options as IoOptions};
use prony_report::{Style, appendix};
use prony_run::error::Error;
use prony_run::interrupt::{Ending, stoppable};
use prony_run::output::{self, Outputs};
use prony_run::run;

use self::options::{Asked, Options};
use self::report::{Rates, Run};
use super::{Call, say};

const USAGE: &str = "\
Usage: wrk <options> <url>
  Options:
    -c, --connections <N>  Connections in use at once (10)
    -d, --duration    <T>  How long to load the server (10s)
    -t, --threads     <N>  Threads (2)

    -H, --header      <H>  A header line; may be repeated
        --latency          Print the distribution of the latencies
        --timeout     <T>  Count replies that take longer (2s)
    -v, --version          Print the version
        --no-extras        Print wrk's lines only: no latencies of prony, no verdict
        --output      <F>  Also write prony's report: .json .html .md ...; may be repeated

  Numbers may have a unit (1k, 1M, 1G), as may times (2s, 2m, 2h)
  Scripts (-s) are not supported; see `prony load --help`, `prony run --help`
";

/// wrk's exit code for all errors.
const FAILED: u8 = 1;
/// How long a server that has never replied may refuse connections.
const PATIENCE: Span = Span::from_secs(1);

/// Run the command line. Returns the exit code.
pub(super) fn main(call: &Call) -> u8 {
    match options::read(&call.program, &call.args) {
        Asked::Version => {
            say(&format!("wrk [prony {}]\n{USAGE}", env!("CARGO_PKG_VERSION")));
            FAILED
        }
        Asked::Refused { why, usage } => {
            if let Some(why) = why {
                output::lines_to_stderr(&why);
            }
            if usage {
                say(USAGE);
            }
            FAILED
        }
        Asked::Run(options) => load(&options, call).unwrap_or_else(|e| {
            output::lines_to_stderr(&refusal(&e, &options.url));
            if matches!(e, Error::Url(_)) {
                say(USAGE);
            }
            FAILED
        }),
    }
}

/// An error message in wrk's words, which scripts may search for.
fn refusal(e: &Error, url: &str) -> String {
    match (super::unresolved(e), e) {
        (Some((host, why)), _) => format!("unable to resolve {host} {why}"),
        (None, Error::Url(_)) => format!("invalid URL: {}\nwrk: {e}", url.escape_debug()),
        (None, _) => format!("wrk: {e}"),
    }
}

fn load(options: &Options, call: &Call) -> Result<u8, Error> {
    let (plan, at) = plan::of(options)?;
    let outputs = Outputs::prepare(&options.outputs)?;
    let io = IoOptions { threads: Some(options.threads as usize), ..IoOptions::default() };
    let control = stoppable()?;
    let mut rates = Rates::default();
    let mut head = Some(report::head(options));
    let mut ended = false;
    let duration = Span::from_secs(options.duration);
    let mut ending = Ending::default();
    let mut watch = |live: &Live| {
        ending.say(&control, live);
        let now = live.now.since(Nanos::ZERO);
        rates.sample(&live.workers, Nanos::ZERO + duration);
        let is_unavailable = live.answered() == 0 && live.lost > 0;
        let is_running = live.answered() > 0 || (now >= PATIENCE && !is_unavailable);
        if is_running && let Some(head) = head.take() {
            say(&head);
        }
        // Requests that are in flight at the end are not waited for.
        if !ended && (now >= duration || (is_unavailable && now >= PATIENCE)) {
            ended = true;
            control.stop_now();
        }
    };
    let mut summary = run::run(&plan, &io, &control, &mut watch, call.provenance())?;
    summary.run.interrupted &= !ended;
    // Write the files first, in case standard output is closed.
    let written = outputs.write(&summary);
    let t = &summary.main;
    if t.lost() > 0 && t.replies + t.failed == t.lost() {
        let why = report::refused(t);
        output::lines_to_stderr(&format!("unable to connect to {at} {why}"));
        return Ok(FAILED);
    }
    say(&head.take().unwrap_or_default());
    let run = Run { options, summary: &summary, rates: &rates };
    say(&run.text());
    if options.extras {
        say("\n");
        say(&appendix(&summary, Style::default(), &run.remarks()));
    }
    written.map(|()| 0)
}
