//! `prony demo`: loads a target server in this process, and reports the result.

use std::num::NonZeroU32;

use clap::Parser as _;
use prony_base::units::Span;
use prony_io::Options;
use prony_plan::plan::{Load, Plan};
use prony_report::units;
use prony_run::builder::Planned;
use prony_run::error::Error;
use prony_run::exit::{Accepted, Exit};
use prony_run::local_server::{LocalServer, ServerConfig};
use prony_run::output;
use prony_run::run::Provenance;
use prony_server::serve::{Latency, Served, ServerBehavior};
use prony_stats::summary::Summary;

use super::carried::finish;
use super::execution::on_the_network;
use crate::cli::plan;
use crate::cli::refusal::of_clap;
use crate::cli::shown::recorded;
use crate::cli::{Cli, DemoArgs};
use crate::exec_options::environment;

/// The server's mean service time, long in comparison with the send lag of a busy machine.
const SERVICE: Span = Span::from_millis(100);
/// Its number of workers, for a utilization of 75 % at the default rate.
const WORKERS: u32 = 200;
/// The maximum number of connections. Both ends are in this process, so each needs two file
/// descriptors.
const CONNECTIONS: u32 = 400;

/// Starts the server, loads it, reports the result, and prints commands that repeat it.
pub(super) fn demo(args: &DemoArgs, typed: Vec<String>) -> Result<Exit, Error> {
    let outputs = args.output.to.prepare()?;
    let target =
        LocalServer::start(ServerConfig { behavior: behavior(), ..ServerConfig::default() })?;
    let url = format!("{}/", target.url);
    let words = words(args);
    let load = Cli::try_parse_from(words.iter().chain([&url])).map_err(|e| of_clap(&e))?;
    let Planned { plan, notes, .. } = plan::plan(&load.load, &environment(&load.load.exec, false))?;
    let verbose = !args.output.quiet;
    if verbose {
        output::to_stderr(&format!("prony: started a target server on {url}"));
    }
    let provenance = Provenance { command: recorded(typed), notes, ..Provenance::default() };
    let options = Options { threads: Some(1), ..Options::default() };
    let result = on_the_network(&plan, &[], &options, &args.output, provenance);
    let served = target.stop().map(|done| done.served);
    let mut summary = result?;
    // On a busy machine the verdict may be invalid, which is not an error of the demonstration.
    let accepted = Accepted { invalid: true, undecided: true };
    let exit = finish(&mut summary, outputs, &args.output, accepted)?;
    if verbose {
        show_expected(&summary, served.as_ref(), &words);
    }
    Ok(exit)
}

/// The load as a command line, without its URL.
fn words(args: &DemoArgs) -> Vec<String> {
    let mut words: Vec<String> = ["prony", "--arrivals", "poisson"].map(str::to_owned).to_vec();
    words.extend(["--rate".to_owned(), args.rate.to_string()]);
    words.extend(["-d".to_owned(), args.duration.to_string()]);
    words.extend(["-c".to_owned(), CONNECTIONS.to_string()]);
    words
}

fn behavior() -> ServerBehavior {
    ServerBehavior {
        latency: Latency::Exponential(SERVICE),
        workers: NonZeroU32::new(WORKERS),
        ..ServerBehavior::default()
    }
}

/// Prints the server's count, the theoretical response time, and commands that repeat the run.
fn show_expected(summary: &Summary, served: Option<&Served>, words: &[String]) {
    let mut lines = Vec::new();
    if let Some(served) = served {
        let ours = summary.main.sent;
        lines.push(format!("the server counted {} requests, prony {ours}", served.requests));
    }
    let times = &summary.main.times.response;
    if let (Some(expected), Some(measured)) = (expected(&summary.plan), times.mean_ns()) {
        lines.push(format!(
            "queueing theory (M/M/{WORKERS}) gives a mean response time of {}, prony measured {}",
            units::span(expected),
            units::nanos(measured)
        ));
    }
    lines.push(format!(
        "to repeat: prony serve --latency {} --workers {WORKERS}",
        behavior().latency
    ));
    let seed = summary.plan.seed;
    lines.push(format!("and: {} --seed {seed} http://127.0.0.1:8080/", words.join(" ")));
    for line in lines {
        output::to_stderr(&format!("prony: {line}"));
    }
}

/// The mean response time of the M/M/c queue at a constant rate (Erlang's C formula); `None` if the
/// rate changes or exceeds the capacity.
fn expected(plan: &Plan) -> Option<Span> {
    let Load::Open { rate, .. } = &plan.load else { return None };
    let [piece] = rate.pieces[..] else { return None };
    let offered = piece.from * SERVICE.as_secs_f64();
    let is_stable = piece.from == piece.to && offered < f64::from(WORKERS);
    is_stable.then(|| Span::from_secs_f64(SERVICE.as_secs_f64() * mean(offered, WORKERS)))
}

/// The mean time in an M/M/c queue with `workers` servers at a load of `offered` erlangs, in units
/// of the service time.
fn mean(offered: f64, workers: u32) -> f64 {
    let blocked = (1..=workers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    let free = f64::from(workers) - offered;
    let waits = blocked / (1.0 - offered / f64::from(workers) * (1.0 - blocked));
    1.0 + waits / free
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_ms(rate: &str) -> Option<f64> {
        let line = ["prony", "--rate", rate, "http://h/"];
        let load = Cli::try_parse_from(line).unwrap().load;
        let plan = plan::plan(&load, &environment(&load.exec, false)).unwrap().plan;
        expected(&plan).map(|t| t.as_secs_f64() * 1e3)
    }

    #[test]
    fn calculates_mean_response_times_of_queues() {
        // M/M/1: 1 / (mu - lambda). M/M/8 at 5 erlangs: requests wait with probability 0.1673, and
        // then for a third of a service time on average.
        assert!((mean(0.5, 1) - 2.0).abs() < 1e-9);
        assert!((mean(5.0, 8) - 1.0 - 0.1673 / 3.0).abs() < 1e-4);
        // Without load there is no queue. Above the capacity there is no mean.
        assert!((expected_ms("1").unwrap() - 100.0).abs() < 1e-6);
        assert_eq!(expected_ms("2000"), None);
        assert_eq!(expected_ms("1..100@1s"), None);
    }
}
