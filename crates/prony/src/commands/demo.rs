//! `prony demo`: a target server in this process, a load on it, the report.

use std::num::NonZeroU32;

use clap::Parser as _;
use prony_core::plan::{Load, Plan};
use prony_core::serve::{Latency, ServeLaw, Served};
use prony_core::summary::Summary;
use prony_core::units::Span;
use prony_io::Options;
use prony_report::units;
use prony_run::builder::Planned;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::local_server::{LocalServer, Wish};
use prony_run::output::{self, Outputs};
use prony_run::run::Provenance;

use super::load::{finish, on_the_network};
use crate::cli::plan;
use crate::cli::refusal::of_clap;
use crate::cli::shown::recorded;
use crate::cli::{Cli, DemoArgs};
use crate::means::environment;

/// The server's mean service time: so long that how late a busy machine sends is small beside it.
const SERVICE: Span = Span::from_millis(100);
/// Its workers: at the default rate they are busy for 75 % of the time.
const WORKERS: u32 = 200;
/// The most connections that the load opens. Both ends are in this process, so each takes two
/// descriptors.
const CONNECTIONS: u32 = 400;

/// Start the server, load it, report, tell how to do it again.
pub(super) fn demo(args: &DemoArgs, typed: Vec<String>) -> Result<Exit, Error> {
    let outputs = Outputs::prepare(&args.output.to.output)?;
    let target = LocalServer::start(Wish { law: law(), ..Wish::default() })?;
    let url = format!("{}/", target.url);
    let words = words(args);
    let load = Cli::try_parse_from(words.iter().chain([&url])).map_err(|e| of_clap(&e))?;
    let Planned { plan, notes, .. } =
        plan::plan(&load.load, &environment(&load.load.means, false))?;
    let told = !args.output.quiet;
    if told {
        output::to_stderr(&format!("prony: loading a target server of its own on {url}"));
    }
    let provenance = Provenance { command: recorded(typed), notes };
    let options = Options { threads: Some(1), ..Options::default() };
    let result = on_the_network(&plan, &[], &options, &args.output, provenance);
    let served = target.stop().map(|done| done.served);
    let mut summary = result?;
    // A demonstration on a busy machine says in its verdict what that did to the figures.
    let exit = finish(&mut summary, outputs, &args.output, true)?;
    if told {
        tell(&summary, served.as_ref(), &words);
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

fn law() -> ServeLaw {
    ServeLaw {
        latency: Latency::Exponential(SERVICE),
        workers: NonZeroU32::new(WORKERS),
        ..ServeLaw::default()
    }
}

/// What the report cannot know: the server's own count, and what theory says of it.
fn tell(summary: &Summary, served: Option<&Served>, words: &[String]) {
    let mut lines = Vec::new();
    if let Some(served) = served {
        let ours = summary.main.sent;
        lines.push(format!("the server counted {} requests, prony {ours}", served.requests));
    }
    let times = &summary.main.times.response;
    if let (Some(expected), Some(measured)) = (expected(&summary.plan), times.mean_ns()) {
        lines.push(format!(
            "queueing theory expects a mean response time of {} (M/M/{WORKERS}), prony measured {}",
            units::span(expected),
            units::nanos(measured)
        ));
    }
    lines.push(format!("again: prony serve --latency {} --workers {WORKERS}", law().latency));
    let seed = summary.plan.seed;
    lines.push(format!("   and {} --seed {seed} http://127.0.0.1:8080/", words.join(" ")));
    for line in lines {
        output::to_stderr(&format!("prony: {line}"));
    }
}

/// The mean response time of the M/M/c station under a constant rate (Erlang's C formula); none
/// where the rate changes or is more than the station can bear.
fn expected(plan: &Plan) -> Option<Span> {
    let Load::Open { rate, .. } = &plan.load else { return None };
    let [piece] = rate.pieces[..] else { return None };
    let offered = piece.from * SERVICE.as_secs_f64();
    let bearable = piece.from == piece.to && offered < f64::from(WORKERS);
    bearable.then(|| Span::from_secs_f64(SERVICE.as_secs_f64() * mean(offered, WORKERS)))
}

/// Mean time in an M/M/c station, in service times, where `offered` erlangs fall on `workers`.
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
        let plan = plan::plan(&load, &environment(&load.means, false)).unwrap().plan;
        expected(&plan).map(|t| t.as_secs_f64() * 1e3)
    }

    #[test]
    fn theory() {
        // One server: the textbook's 1 / (mu - lambda). Erlang's table: 5 erlangs on 8 servers wait
        // with probability 0.1673, and then for a third of a service time on average.
        assert!((mean(0.5, 1) - 2.0).abs() < 1e-9);
        assert!((mean(5.0, 8) - 1.0 - 0.1673 / 3.0).abs() < 1e-4);
        // Without load nobody waits; with more than the station bears nothing is expected.
        assert!((expected_ms("1").unwrap() - 100.0).abs() < 1e-6);
        assert_eq!(expected_ms("2000"), None);
        assert_eq!(expected_ms("1..100@1s"), None);
    }
}
