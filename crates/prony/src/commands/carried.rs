//! Runs a plan with the options of its command, and reports it.

use std::path::Path;

use prony_base::units::Span;
use prony_core::engine::Taps;
use prony_io::{Options, clock};
use prony_plan::plan::Plan;
use prony_replay::Replay;
use prony_report::units;
use prony_run::builder::Planned;
use prony_run::error::Error;
use prony_run::exit::{Accepted, Exit};
use prony_run::merge;
use prony_run::output::{self, Outputs};
use prony_run::plan_file;
use prony_run::raw::RawFile;
use prony_run::run::{self, Provenance};
use prony_stats::summary::{CommandLine, Part, Summary};

use super::execution::{cited, on_the_network, simulated};
use super::github::publish_run;
use super::replayed::complete;
use super::style;
use super::worker::on_hosts;
use crate::cli::exec_options::{ExecArgs, UntilArgs};
use crate::cli::output::{OutputArgs, Undecided};
use crate::cli::replay::ReplayArgs;
use crate::cli::shard::ShardArgs;
use crate::cli::shown::recorded;
use crate::embedding::Event;
use crate::exec_options::{check_simulable, options};

/// The options of a run besides its plan.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) exec: &'a ExecArgs,
    pub(super) shard: &'a ShardArgs,
    pub(super) until: &'a UntilArgs,
    pub(super) output: &'a OutputArgs,
    /// The file for raw results.
    pub(super) raw: Option<&'a Path>,
}

/// Prints the plan file of a run.
pub(super) fn explain(planned: &Planned, output: &OutputArgs) -> Result<Exit, Error> {
    let mut plan = planned.plan.clone();
    if planned.is_endless && !plan.thresholds.is_empty() {
        // The plan file runs as these options do: until its thresholds are decided.
        plan.stop.duration = None;
    }
    print_plan(plan_file::explain(&plan, &planned.notes), output)
}

/// Prints the text of a plan file.
pub(super) fn print_plan(text: String, output: &OutputArgs) -> Result<Exit, Error> {
    if let Some(embedding) = &output.embedding {
        embedding.send(Event::Explained(text));
        return Ok(Exit::Done);
    }
    output::to_stdout(text.as_bytes()).map(|()| Exit::Done)
}

/// Runs a plan, and reports it.
pub(super) fn carry_out(
    planned: Planned,
    of: Of<'_>,
    replay: Option<(&Replay, &ReplayArgs)>,
    typed: Vec<String>,
) -> Result<Exit, Error> {
    let Of { exec, shard, until, output, raw } = of;
    let Planned { plan, notes, cap, .. } = planned;
    let users = output.embedding.as_ref().and_then(|embedding| embedding.users.as_ref());
    let whole = match users {
        None => run::with_names(plan),
        Some(_) => with_users(plan, exec, shard)?,
    };
    let goals = &until.until[..];
    run::check_thresholds(&whole)?;
    run::check_goals(&whole, goals)?;
    check_aborts(&whole, shard)?;
    check_start(shard.start_at)?;
    let (plan, part) = shared(&whole, shard)?;
    // The rate of one share must not be changed by hand.
    let output = &OutputArgs { no_tui: output.no_tui || part.is_some(), ..output.clone() };
    check_simulated(&plan, exec, output)?;
    let outputs = output.to.prepare()?;
    let (raw, taps) = raw_file(raw, &plan, of)?.unzip();
    // The command line is read for the report after the run: that takes time.
    let feeds = replay.map(|(replay, _)| replay.direct());
    let command = CommandLine::default();
    let provenance = Provenance { command, notes, part, feeds, taps: taps.clone() };
    let mut summary = match exec.simulate {
        Some(seed) => simulated(&plan, exec, seed, goals, &provenance),
        None if shard.hosts.is_some() => {
            cited(on_hosts(&plan, goals, shard, exec, output, provenance)?)
        }
        None => {
            let feeds = replay.map(|(replay, _)| replay.feeds());
            let options = Options { start_at: shard.start_at, feeds, taps, ..options(exec) };
            let run = on_the_network(&plan, goals, &options, output, provenance)?;
            cited(run)
        }
    };
    summary.run.notes.extend(raw.as_ref().and_then(RawFile::note));
    // The report comes before what may be stuck.
    let (before, after) = match raw {
        Some(raw) if raw.may_be_stuck() => (None, Some(raw)),
        raw => (raw, None),
    };
    let before = before.map_or(Ok(()), RawFile::end);
    summary.run.command = recorded(typed);
    summary.run.percentile = exec.percentile;
    if let Some((replay, args)) = replay {
        complete(&mut summary, replay, args);
    }
    if summary.run.part.is_none() {
        run::explain_cap(&mut summary, cap.as_deref());
    }
    let exit = finish(&mut summary, outputs, output, accepted(exec, until));
    let after = after.map_or(Ok(()), RawFile::end);
    let (exit, reported) = match exit {
        Ok(exit) => (exit, Ok(())),
        Err(e) => (Exit::Output, Err(e)),
    };
    Error::all([reported, before, after]).map(|()| exit)
}

/// Refuses what a simulated run cannot do.
fn check_simulated(plan: &Plan, exec: &ExecArgs, output: &OutputArgs) -> Result<(), Error> {
    check_simulable(plan, exec)?;
    if exec.simulate.is_some() && output.tui {
        let why = "a simulated run has no live view";
        return Err(Error::Conflict("--tui", "--simulate", why));
    }
    Ok(())
}

/// Begins the file of raw results, if there is to be one.
fn raw_file(
    path: Option<&Path>,
    plan: &Plan,
    of: Of<'_>,
) -> Result<Option<(RawFile, Taps)>, Error> {
    let Some(path) = path else { return Ok(None) };
    if of.shard.hosts.is_some() {
        let why = "each host would have its own requests; give it to each prony run --shard";
        return Err(Error::Conflict("--raw", "--hosts", why));
    }
    if of.output.to.output.iter().any(|output| output == path) {
        return Err(Error::OutputTwice(path.to_owned()));
    }
    let is_simulated = of.exec.simulate.is_some();
    let may_end_early =
        !of.until.until.is_empty() || plan.thresholds.iter().any(|t| t.abort.is_some());
    if is_simulated && may_end_early {
        let why = "such a run is simulated several times";
        return Err(Error::Conflict("--raw", "a --simulate that may end early", why));
    }
    RawFile::begin(path, plan, is_simulated).map(Some)
}

/// The plan of users whom the embedding program plays; refuses what they cannot do.
fn with_users(plan: Plan, exec: &ExecArgs, shard: &ShardArgs) -> Result<Plan, Error> {
    let here = "the users run in this process";
    for (option, is_given) in [
        ("hosts", shard.hosts.is_some()),
        ("shard", shard.shard.is_some()),
        ("simulate", exec.simulate.is_some()),
    ] {
        if is_given {
            return Err(Error::Conflict(option, "users", here));
        }
    }
    Ok(plan)
}

/// What the user accepts.
pub(super) fn accepted(exec: &ExecArgs, until: &UntilArgs) -> Accepted {
    Accepted { invalid: exec.accept_invalid, undecided: until.undecided == Undecided::Pass }
}

/// Refuses thresholds that would end one share of a load alone.
fn check_aborts(plan: &Plan, shard: &ShardArgs) -> Result<(), Error> {
    match plan.thresholds.iter().find(|t| shard.shard.is_some() && t.abort.is_some()) {
        None => Ok(()),
        Some(threshold) => Err(Error::Argument(format!(
            "threshold '{threshold}': one shard cannot end the whole load; remove ', abort', or use \
             --hosts"
        ))),
    }
}

/// The share of the plan that is asked for, and its run; or the whole plan.
fn shared(whole: &Plan, shard: &ShardArgs) -> Result<(Plan, Option<Part>), Error> {
    let Some(which) = shard.shard else { return Ok((whole.clone(), None)) };
    let start_at = shard.start_at.map(|ns| ns as f64 / 1e9);
    Ok((merge::share(whole, which)?, Some(merge::part_of(whole, start_at))))
}

/// Refuses a start in the past.
fn check_start(start_at: Option<u64>) -> Result<(), Error> {
    let passed = start_at.and_then(|at| clock::realtime().checked_sub(at));
    passed.map_or(Ok(()), |passed| {
        Err(Error::Argument(format!(
            "--start-at: that instant passed {} ago by this host's clock; give a later one",
            units::span(Span(passed))
        )))
    })
}

/// Prints and writes the reports, and returns the exit code.
pub(super) fn finish(
    summary: &mut Summary,
    outputs: Outputs,
    output: &OutputArgs,
    accepted: Accepted,
) -> Result<Exit, Error> {
    summary.run.secrets_shown = output.to.show_secrets;
    summary.run.label.clone_from(&output.label);
    summary.run.accepted = accepted;
    // The files first: a standard output that is gone must not lose them.
    let written = outputs.write(summary);
    let printed = match &output.embedding {
        Some(embedding) => {
            embedding.send(Event::Finished(Box::new(summary.clone())));
            Ok(())
        }
        None => output::print(output.to.stdout_format(), summary, &style(&output.to)),
    };
    let published = publish_run(&output.to, summary);
    Error::all([written, printed, published])?;
    Ok(Exit::of(summary, accepted))
}
