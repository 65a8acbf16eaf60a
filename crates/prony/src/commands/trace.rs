//! `--trace`: prints a few sessions or requests, instead of a load.

use std::num::NonZeroU64;

use prony_io::Options;
use prony_plan::plan::Plan;
use prony_run::builder::Planned;
use prony_run::contact;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output;
use prony_run::run::{self, Provenance};
use prony_run::trace::{self, Trace};
use prony_stats::summary::Summary;

use super::carried::Of;
use super::execution::{control, server_of, with_stand_ins};
use crate::exec_options::{check_simulable, options};

/// Prints the first `n` sessions or requests of a plan, each with its reply.
pub(super) fn trace(planned: Planned, of: Of<'_>, n: NonZeroU64) -> Result<Exit, Error> {
    refuse(of)?;
    let plan = trace::plan_of(&run::with_names(planned.plan), n.get())?;
    check_simulable(&plan, of.exec)?;
    let trace = Trace::new(&plan, of.output.to.show_secrets);
    let summary = match of.exec.simulate {
        Some(seed) => simulated(&plan, of, seed, &trace),
        None => on_the_network(&plan, of, &trace)?,
    };
    let note = contact::note(&summary, false).map_or_else(String::new, |note| note + "\n");
    output::to_stdout((trace.take() + &trace.end() + &note).as_bytes())?;
    Ok(match () {
        () if summary.run.interrupted => Exit::Interrupted,
        () if summary.main.replies == 0 => Exit::NoAnswer,
        () => Exit::Done,
    })
}

/// Refuses options that a trace has no use for.
fn refuse(of: Of<'_>) -> Result<(), Error> {
    if of.output.embedding.is_some() {
        return Err(Error::Argument("a trace is printed by the command line alone".into()));
    }
    let Of { exec, shard, until, output, raw } = of;
    let given = [
        (shard.hosts.is_some(), "--hosts"),
        (shard.shard.is_some(), "--shard"),
        (shard.start_at.is_some(), "--start-at"),
        (exec.timestamps, "--timestamps"),
        (exec.percentile.is_some(), "--percentile"),
        (!until.until.is_empty(), "--until"),
        (!until.threshold.is_empty(), "--threshold"),
        (raw.is_some(), "--raw"),
        (!output.to.output.is_empty(), "--output"),
        (output.to.json, "--json"),
        (output.to.github, "--github"),
        (output.tui, "--tui"),
    ];
    match given.into_iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, option)) => {
            let why = "a trace has no load, and no report; omit one of them";
            Err(Error::Conflict("--trace", option, why))
        }
    }
}

fn simulated(plan: &Plan, of: Of<'_>, seed: u64, trace: &Trace) -> Summary {
    let (filled, _) = with_stand_ins(plan);
    let provenance = Provenance { taps: Some(trace.taps()), ..Provenance::default() };
    run::simulate(&filled, 1, seed, &server_of(of.exec), &[], provenance)
}

fn on_the_network(plan: &Plan, of: Of<'_>, trace: &Trace) -> Result<Summary, Error> {
    let control = control(of.output)?;
    let taps = Some(trace.taps());
    let options = Options { threads: Some(1), taps, ..options(of.exec) };
    let mut unprinted = None;
    let mut watch = |_: &_| {
        if unprinted.is_none()
            && let Err(e) = output::to_stdout(trace.take().as_bytes())
        {
            unprinted = Some(e);
            control.stop_now();
        }
    };
    let summary = run::run(plan, &options, &control, &mut watch, Provenance::default())?;
    unprinted.map_or(Ok(summary), Err)
}
