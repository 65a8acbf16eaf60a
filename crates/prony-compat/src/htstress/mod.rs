//! htstress: one HTTP/1.0 request for each connection, with a fixed number of connections per
//! thread, for a number of requests or until Ctrl-C.

mod options;
mod plan;
mod report;

use prony_io::Options as IoOptions;
use prony_io::{Family, Live, Taps};
use prony_report::Style;
use prony_run::error::Error;
use prony_run::interrupt::{Ending, stoppable};
use prony_run::output;
use prony_run::run;

use self::options::{Asked, Options};
use self::report::Ticks;
use super::patience::{self, Patience};
use super::{Call, say, tap};

/// htstress's usage.
const USAGE: &str = "\
Usage: htstress [options] [http://]hostname[:port]/path
Options:
   -n, --number       total number of requests (0 for infinite, Ctrl-C to abort)
   -c, --concurrency  number of concurrent connections
   -t, --threads      number of threads (set this to the number of CPU cores)
   -u, --udaddr       path to unix domain socket
   -h, --host         host to use for http request
   -d, --debug        debug HTTP response
   --help             display this message
";
/// The options that the original does not have.
const USAGE_MORE: &str = "   \
   -4, -6             use addresses of IPv4 or IPv6 only
   --no-extras        end with the lines of htstress: no latencies, no verdict
The number of connections is that of each thread: -c 10 -t 2 opens 20.
";

/// The exit code of failures and of wrong usage.
const FAILED: u8 = 1;

/// Run the command line.
pub(super) fn main(call: &Call) -> u8 {
    match options::read(&call.program, &call.args) {
        Asked::Help => {
            say(USAGE);
            say(USAGE_MORE);
            0
        }
        Asked::Refused { out, err } => {
            if let Some(line) = err {
                output::lines_to_stderr(&line);
            }
            if let Some(line) = out {
                say(&format!("{line}\n"));
            }
            FAILED
        }
        Asked::Run(options) => load(&options, call).unwrap_or_else(|e| {
            output::lines_to_stderr(&refusal(&e));
            FAILED
        }),
    }
}

/// A refusal, with htstress's own message, which scripts may look for.
fn refusal(e: &Error) -> String {
    match super::unresolved(e) {
        Some((host, why)) => format!("getaddrinfo: {why} ({host}; check the name in the URL)"),
        None => format!("htstress: {e}"),
    }
}

fn load(options: &Options, call: &Call) -> Result<u8, Error> {
    let plan = plan::of(options)?;
    let io = IoOptions {
        threads: Some(options.threads as usize),
        family: match (options.ipv4, options.ipv6) {
            (_, true) => Family::V6,
            (true, _) => Family::V4,
            _ => Family::Any,
        },
        taps: options.debug.then(|| Taps::new(tap::Copier::default)),
        ..IoOptions::default()
    };
    let control = stoppable()?;
    if options.number == 0 {
        say("[Press Ctrl-C to finish]\n");
    }
    let mut ticks = Ticks::new(options.number);
    let mut patience = Patience::default();
    let mut ending = Ending::default();
    let mut watch = |live: &Live| {
        ending.say(&control, live);
        say(&ticks.until(live.answered()));
        if patience.is_over(live) {
            control.stop_now();
        }
    };
    let provenance = call.provenance();
    let summary = run::run(&plan, &io, &control, &mut watch, provenance)?;
    let gave_up = patience.gave_up();
    say(&ticks.until(report::requests(&summary)));
    say(&report::block(&summary));
    if options.extras {
        say(&report::extras(&summary, Style::default()));
    }
    // The exit code is 0 after a result, whatever the statuses. It is a failure if the server was
    // never available, or became unavailable for good.
    let nobody = report::requests(&summary) == 0 && !summary.run.interrupted;
    match gave_up.or_else(|| nobody.then_some(patience::NO_REPLY)) {
        None => Ok(0),
        Some(sentence) => {
            let reason = report::reason(&summary);
            output::lines_to_stderr(&format!("htstress: {sentence}{reason}; check host and port"));
            Ok(FAILED)
        }
    }
}
