//! httperf: its command line, its output, its exit codes.

mod echo;
mod extras;
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

use prony_core::plan::Plan;
use prony_core::record::Tally;
use prony_core::summary::{RunInfo, Summary, WorkerStats};
use prony_io::{Control, limits};
use prony_run::error::Error;
use prony_run::interrupt::catch;
use prony_run::output::{self, Outputs};
use prony_run::{plan_file, run};

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
        let plan =
            plan::plan(opts, &mut output::lines_to_stderr).map_err(|r| r.of(&opts.program))?.0;
        return print(&plan_file::explain(&plan, &[]));
    }
    let outputs = Outputs::prepare(&opts.more.output).map_err(refuse)?;
    say(&echo::echo(opts));
    let (descriptors, _) = limits::raise_descriptors();
    if opts.verbose > 0 {
        say(&format!("{}: maximum number of open descriptors = {descriptors}", opts.program));
    }
    let plan = plan::plan(opts, &mut output::lines_to_stderr);
    let (plan, anything) = plan.map_err(|r| r.of(&opts.program))?;
    let (summary, bytes) = if anything { load(opts, &plan, call)? } else { (nothing(plan), None) };
    let mut summary = summary;
    summary.run.secrets_shown = opts.more.show_secrets;
    // Write the files first, in case standard output is closed.
    let written = outputs.write(&summary);
    let numbers = numbers::numbers(opts, &summary, bytes);
    let mut text = numbers.render();
    if !opts.more.no_extras {
        text.push_str(&extras::extras(opts, &summary));
    }
    let printed = output::to_stdout(text.as_bytes());
    written.and(printed).map_err(refuse)?;
    let failed = numbers.errors.total() > 0 || summary.main.failed > 0;
    Ok(u8::from(opts.more.fail_on_errors && failed))
}

/// Run the load on the network. Returns the bytes of the requests too, if they are encrypted.
fn load(opts: &Opts, plan: &Plan, call: &Call) -> Result<(Summary, Option<u64>), Refusal> {
    let refuse = |e: Error| Refusal::new(e.to_string()).of(&opts.program);
    let mut options = network::options(opts, plan)?;
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
    let bytes = taps.filter(|_| opts.ssl.on).map(|taps| taps.request_bytes());
    Ok((summary, bytes))
}

/// A control that Ctrl-C and SIGTERM stop: the run ends at once and is reported. A second signal
/// kills the process, in case it hangs.
fn stoppable() -> Result<Arc<Control>, Error> {
    let control = Arc::new(Control::new());
    let handler = Arc::clone(&control);
    catch(1, 2, move |_| handler.stop_now())?;
    Ok(control)
}

/// A run without a connection.
fn nothing(plan: Plan) -> Summary {
    let parts = vec![(None, Tally::default(), WorkerStats::default())];
    Summary::from_parts(plan, RunInfo::default(), parts)
}
