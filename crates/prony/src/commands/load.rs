//! `prony URL...`: runs a load.

use std::path::Path;
use std::sync::Arc;

use prony_core::engine::Taps;
use prony_core::plan::{CallSpec, Plan};
use prony_core::serve::ServerBehavior;
use prony_core::summary::confidence::Goal;
use prony_core::summary::{CommandLine, Part, Summary};
use prony_core::units::Span;
use prony_io::{Control, Options, clock};
use prony_replay::Replay;
use prony_report::units;
use prony_run::abort::Aborter;
use prony_run::builder::Planned;
use prony_run::contact;
use prony_run::error::Error;
use prony_run::exit::{Accepted, Exit};
use prony_run::goals::GoalWatch;
use prony_run::interrupt::stoppable;
use prony_run::merge;
use prony_run::output::{self, Outputs};
use prony_run::plan_file;
use prony_run::raw::RawFile;
use prony_run::run::{self, Provenance};

use super::github::publish_run;
use super::replay::complete;
use super::style;
use super::trace::trace;
use super::worker::on_hosts;
use crate::cli::LoadArgs;
use crate::cli::exec_options::{ExecArgs, UntilArgs};
use crate::cli::output::{OutputArgs, Undecided};
use crate::cli::plan;
use crate::cli::refusal::command_as_url;
use crate::cli::replay::ReplayArgs;
use crate::cli::shard::ShardArgs;
use crate::cli::shown::recorded;
use crate::embedding::Event;
use crate::exec_options::{check_simulable, environment_of, options};
use crate::progress::{self, Progress};
use crate::selftest;
use crate::users::Users;

/// Runs the load of the options, and reports it.
pub(super) fn load(args: &LoadArgs, typed: Vec<String>) -> Result<Exit, Error> {
    if let Some(tool) = args.urls.iter().find(|url| prony_compat::is_known(url)) {
        return Err(command_as_url(tool));
    }
    let mut planned =
        plan::plan(args, &environment_of(&args.exec, args.unix_socket.is_some(), &args.shard))?;
    planned.plan.thresholds.clone_from(&args.until.threshold);
    if args.explain {
        return explain(&planned, &args.output);
    }
    let of = Of {
        exec: &args.exec,
        shard: &args.shard,
        until: &args.until,
        output: &args.output,
        raw: args.raw.raw.as_deref(),
    };
    if let Some(n) = args.trace.trace {
        return trace(planned, of, n);
    }
    let is_shared = args.shard.hosts.is_some() || args.shard.shard.is_some();
    planned.decide(args.until.decide_within, is_shared)?;
    carry_out(planned, of, None, typed)
}

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

/// The server of a simulated run.
pub(super) fn server_of(exec: &ExecArgs) -> ServerBehavior {
    let latency = exec.simulate_latency.unwrap_or_default();
    ServerBehavior { latency, workers: exec.simulate_workers, ..ServerBehavior::default() }
}

/// Runs a plan in a virtual world with this seed, until its end, its goals or a threshold.
pub(super) fn simulated(
    plan: &Plan,
    exec: &ExecArgs,
    seed: u64,
    goals: &[Goal],
    provenance: &Provenance,
) -> Summary {
    let server = server_of(exec);
    let simulate = |plan: &Plan| {
        let mut provenance = provenance.clone();
        let threads = exec.threads.unwrap_or(1);
        let (filled, note) = with_stand_ins(plan);
        provenance.notes.extend(note);
        let summary = run::simulate(&filled, threads, seed, &server, goals, provenance);
        Summary { plan: plan.clone(), ..summary }
    };
    run::aborted(plan, &|plan| run::until(plan, goals, &simulate))
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

/// The value that a session extracts from replies of a simulated target.
const STAND_IN: &str = "simulated";

/// The plan for a simulated target, from whose replies no value can be extracted: adds a default
/// to each extract without one. The note names these.
pub(super) fn with_stand_ins(plan: &Plan) -> (Plan, Option<String>) {
    let mut plan = plan.clone();
    let mut names = Vec::new();
    let lacks = |call: &CallSpec| call.extract.iter().any(|e| e.default.is_none());
    if plan.calls.iter().any(lacks) {
        for extract in plan.calls.iter_mut().flat_map(|call| &mut call.extract) {
            if extract.default.is_none() {
                extract.default = Some(STAND_IN.to_owned());
                names.push(format!("`{}`", extract.variable));
            }
        }
    }
    names.sort();
    names.dedup();
    let note = (!names.is_empty()).then(|| {
        format!(
            "Replies of the simulated target have no value for {}; requests use '{STAND_IN}'.",
            names.join(", ")
        )
    });
    (plan, note)
}

/// Adds the result of the last self-test on this host.
pub(super) fn cited(mut summary: Summary) -> Summary {
    summary.run.self_test = selftest::cite::cited();
    summary
}

/// Runs a plan on the network, with progress, until its end, its goals or Ctrl-C.
pub(super) fn on_the_network(
    plan: &Plan,
    goals: &[Goal],
    options: &Options,
    output: &OutputArgs,
    provenance: Provenance,
) -> Result<Summary, Error> {
    let users = output.embedding.as_ref().and_then(|embedding| embedding.users.as_ref());
    let mode = progress::mode(output)?;
    let control = control(output)?;
    let progress = Progress::new(plan, mode, output.embedding.as_ref(), &control);
    with_progress(plan, goals, options, progress, &control, users, provenance)
}

/// The same, shown by `progress` and stopped by `control`.
pub(super) fn with_progress(
    plan: &Plan,
    goals: &[Goal],
    options: &Options,
    mut progress: Progress,
    control: &Arc<Control>,
    users: Option<&Users>,
    provenance: Provenance,
) -> Result<Summary, Error> {
    let mut watcher = GoalWatch::new(goals, plan, control);
    let watched = progress.is_screen();
    let mut aborter = Aborter::new(plan, control);
    let blocks = watcher.is_some() || aborter.is_some();
    let keep_service = run::needs_service(goals, plan);
    let options = Options {
        detail: watched,
        adjustable_rate: watched,
        blocks,
        keep_service,
        // Threads would wait for each other in the program.
        threads: options.threads.or_else(|| users.map(|_| 1)),
        directors: users.map(|users| users.directors.clone()),
        ..options.clone()
    };
    let mut watch = |live: &_| {
        if let Some(watcher) = &mut watcher {
            watcher.look(live);
            progress.aim(aim(watcher));
        }
        if let Some(aborter) = &mut aborter {
            aborter.look(live);
        }
        progress.show(live);
    };
    let result = run::run(plan, &options, control, &mut watch, provenance);
    progress.finish();
    let mut summary = result?;
    if let Some(watcher) = watcher {
        watcher.note(&mut summary);
    }
    if let Some(aborter) = aborter {
        aborter.note(&mut summary);
    }
    if let Some(users) = users {
        users.finish(&mut summary);
    }
    Ok(summary)
}

/// What stops a run: the program that embeds prony, or signals.
pub(super) fn control(output: &OutputArgs) -> Result<Arc<Control>, Error> {
    output.embedding.as_ref().map_or_else(stoppable, |e| Ok(Arc::clone(&e.control)))
}

/// The precision of the figures so far, for the end of a progress line.
fn aim(watcher: &GoalWatch<'_>) -> String {
    let known = watcher.reached().map(|(goal, reach)| match reach {
        Ok(reach) => format!(", {goal}: known to {} so far", units::bar(reach)),
        Err(_) => format!(", {goal}: too few samples so far"),
    });
    known.collect()
}

/// Refuses to go on with other runs after one that has not reached its target.
pub(super) fn check_contact(summary: &Summary, exec: &ExecArgs) -> Result<(), Error> {
    if exec.keep_trying { Ok(()) } else { contact::check(summary) }
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
