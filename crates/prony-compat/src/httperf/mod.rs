//! httperf: its command line, its output, its exit codes.

mod echo;
mod extras;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod live;
mod network;
mod numbers;
mod options;
mod pages;
mod plan;
mod random;
mod report;
mod request;
pub(super) mod shown;
mod table;
mod tap;
mod tls;
mod uris;
mod values;

use std::path::Path;
use std::sync::Arc;

use prony_base::meter::WorkerStats;
use prony_io::{Control, Peak, limits};
use prony_plan::plan::Plan;
use prony_run::error::Error;
use prony_run::interrupt::catch;
use prony_run::output::{self, Outputs};
use prony_run::{plan_file, run};
use prony_stats::summary::{RunInfo, Summary};
use prony_tally::record::Tally;

use super::Call;
use live::{Watch, say};
use options::{Opts, Wish};
use tap::{Printer, Taps};
use values::Refusal;

/// Run a command line of httperf; returns its exit code.
pub(super) fn main(call: &Call) -> u8 {
    let program = Path::new(&call.program).file_name().map(|n| n.to_string_lossy().into_owned());
    let program = program.unwrap_or_else(|| call.tool.to_owned());
    let result = match options::read(&program, &call.args, &mut output::lines_to_stderr) {
        Ok(Wish::Help) => {
            let usage = include_str!("usage.txt").replacen("httperf", &program, 1);
            print(&(usage + include_str!("usage_more.txt")))
        }
        Ok(Wish::Version) => print(&format!(
            "{program}: httperf-0.9.0 compiled without DEBUG without TIME_SYSCALLS.\n\
             (prony {} in its place)\n",
            env!("CARGO_PKG_VERSION")
        )),
        Ok(Wish::Run(opts)) => start(&opts, call),
        Err(refusal) => Err(refusal),
    };
    result.unwrap_or_else(|refusal| {
        output::lines_to_stderr(&refusal.message);
        refusal.code
    })
}

fn print(text: &str) -> Result<u8, Refusal> {
    output::to_stdout(text.as_bytes()).map(|()| 0).map_err(|e| Refusal::new(e.to_string()))
}

fn start(opts: &Opts, call: &Call) -> Result<u8, Refusal> {
    let refuse = |e: Error| Refusal::new(e.to_string()).of(&opts.program);
    if opts.more.explain {
        let plan = plan::plan(opts, pages::page, &mut output::lines_to_stderr)
            .map_err(|r| r.of(&opts.program))?
            .0;
        return print(&plan_file::explain(&plan, &[]));
    }
    let outputs = Outputs::prepare(&opts.more.output).map_err(refuse)?;
    say(&echo::echo(opts));
    let (descriptors, _) = limits::raise_descriptors();
    if opts.verbose > 0 {
        say(&format!("{}: maximum number of open descriptors = {descriptors}", opts.program));
    }
    let plan = plan::plan(opts, pages::page, &mut output::lines_to_stderr);
    let (plan, anything) = plan.map_err(|r| r.of(&opts.program))?;
    let ran = if anything { load(opts, &plan, call)? } else { Ran::nothing(plan) };
    let Ran { mut summary, request_bytes, concurrent } = ran;
    summary.run.secrets_shown = opts.more.show_secrets;
    // Write the files first, in case standard output is closed.
    let written = outputs.write(&summary);
    let numbers = numbers::numbers(opts, &summary, request_bytes, concurrent);
    let mut text = numbers.render();
    if !opts.more.no_extras {
        text.push_str(&extras::extras(opts, &summary));
    }
    let printed = output::to_stdout(text.as_bytes());
    written.and(printed).map_err(refuse)?;
    let failed = numbers.errors.total() > 0 || summary.main.failed > 0;
    Ok(u8::from(opts.more.fail_on_errors && failed))
}

/// A finished run.
struct Ran {
    summary: Summary,
    /// The bytes of the requests, if they are encrypted.
    request_bytes: Option<u64>,
    /// The most connections at one time, over all threads.
    concurrent: u64,
}

/// Run the load on the network.
fn load(opts: &Opts, plan: &Plan, call: &Call) -> Result<Ran, Refusal> {
    let refuse = |e: Error| Refusal::new(e.to_string()).of(&opts.program);
    let mut options = network::options(opts, plan)?;
    let peak = Arc::new(Peak::default());
    options.peak = Some(Arc::clone(&peak));
    let control = stoppable().map_err(refuse)?;
    let taps = Taps::new(opts, plan, Box::new(live::show)).map(Arc::new);
    let mut watch = Watch::new(opts, &control, taps.as_deref(), plan.stop.sessions.unwrap_or(0));
    let mut see = |live: &_| watch.see(live);
    let provenance = call.provenance();
    if let Some(taps) = taps.clone() {
        options.taps = Some(prony_io::Taps::new(move || Printer::new(&taps)));
    }
    let summary = run::run(plan, &options, &control, &mut see, provenance);
    let mut summary = summary.map_err(refuse)?;
    summary.run.connections_as_sessions = !opts.has_sessions();
    watch.finish(numbers::duration(&summary));
    let request_bytes = taps.filter(|_| opts.ssl.on).map(|taps| taps.request_bytes());
    Ok(Ran { summary, request_bytes, concurrent: peak.most() })
}

/// A control that Ctrl-C and SIGTERM stop: the run ends at once and is reported. A second signal
/// kills the process, in case it hangs.
fn stoppable() -> Result<Arc<Control>, Error> {
    let control = Arc::new(Control::new());
    let handler = Arc::clone(&control);
    catch(1, 2, move |_| handler.stop_now())?;
    Ok(control)
}

impl Ran {
    /// A run without a connection.
    fn nothing(plan: Plan) -> Self {
        let parts = vec![(None, Tally::default(), WorkerStats::default())];
        let summary = Summary::from_parts(plan, RunInfo::default(), parts);
        Self { summary, request_bytes: None, concurrent: 0 }
    }
}
