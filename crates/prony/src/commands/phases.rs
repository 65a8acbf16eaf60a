//! `prony run` with a plan that has phases: loads one after the other or side by side.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use prony_base::units::Span;
use prony_hosts::together::Beside;
use prony_io::{Control, Options};
use prony_plan::plan::{Plan, Shard};
use prony_report::phased::{self, Outcome, Phased};
use prony_report::{Format, units};
use prony_run::error::Error;
use prony_run::exit::{Accepted, Exit};
use prony_run::merge;
use prony_run::output::{self, Outputs};
use prony_run::phases::{self, Phase, Phases, Results, Stops, offsets, threads_of_each};
use prony_run::plan_file;
use prony_run::run::{self, Provenance};
use prony_stats::summary::{CommandLine, Summary};

use super::carried::{accepted, print_plan};
use super::execution::{cited, server_of, simulated, with_progress, with_stand_ins};
use super::github::publish;
use super::style;
use super::worker::{OfPhase, OnHosts, check_engine};
use crate::cli::exec_options::{ExecArgs, RunArgs};
use crate::cli::output::{AcceptArgs, OutputArgs, ToArgs};
use crate::cli::plan;
use crate::cli::shard::{OnLoss, ShardArgs};
use crate::cli::shown::{command_line, recorded};
use crate::embedding::{Embedding, Event};
use crate::exec_options::{check_simulable, options};
use crate::progress::{Progress, ProgressMode};

/// Runs the phases of a plan, or prints them in full.
pub(super) fn run(mut phases: Phases, args: &RunArgs, typed: Vec<String>) -> Result<Exit, Error> {
    plan::check_sources(&args.exec)?;
    if let Some(seed) = args.exec.seed {
        phases.set_seed(seed);
    }
    for phase in phases.list_mut() {
        let planned = &mut phase.planned;
        planned.notes.extend(plan::exec_notes(&args.exec));
        planned.plan.thresholds.extend(args.until.threshold.iter().cloned());
    }
    if args.explain {
        return print_plan(plan_file::explain_phases(&phases), &args.output);
    }
    refuse(args)?;
    check(&mut phases, args)?;
    let outputs = prepare(&args.output.to)?;
    let mut ran = Runs::new(&phases, args)?;
    let stops = &Arc::clone(&ran.stops);
    let ends = |phase: &Phase, summary: &Summary| lost_worker(phase, summary, &args.shard);
    let (outcomes, error) =
        phases::run(&phases, &|| stops.is_interrupted(), &ends, &mut |number, group| {
            ran.group(number, group)
        });
    let interrupted = stops.is_interrupted() && outcomes.iter().any(is_cut_short);
    let report = reported(&phases, outcomes, interrupted, args, typed);
    let exit = finish(&report, outputs, &args.output, accepted(&args.exec, &args.until));
    // What has been run until then comes first.
    error.map_or(exit, Err)
}

/// Why a phase that lost a worker ends the plan, if the user wants that.
fn lost_worker(phase: &Phase, summary: &Summary, shard: &ShardArgs) -> Option<String> {
    let mut hosts = summary.run.hosts.iter().flat_map(|hosts| &hosts.hosts);
    let has_lost = shard.on_loss == OnLoss::Stop && hosts.any(|host| host.lost.is_some());
    has_lost.then(|| format!("phase '{}' has lost a worker", phase.name))
}

/// Whether a phase was not started or not run to its end: a signal may also come too late.
fn is_cut_short(outcome: &Outcome) -> bool {
    outcome.summary().is_none_or(|summary| summary.run.interrupted)
}

/// Refuses options that plans with phases do not have.
fn refuse(args: &RunArgs) -> Result<(), Error> {
    let shard = &args.shard;
    for (option, is_given, why) in [
        (
            "--shard",
            shard.shard.is_some(),
            "one driver starts each phase on all hosts; use --hosts",
        ),
        ("--start-at", shard.start_at.is_some(), "phases start one after the other"),
        ("--raw", args.raw.raw.is_some(), "its lines would be those of several loads"),
        ("--trace", args.trace.trace.is_some(), "it has several loads; trace a file with one"),
        ("--tui", args.output.tui, "the live view shows one load"),
    ] {
        if is_given {
            return Err(Error::Conflict(option, "a plan with phases", why));
        }
    }
    Ok(())
}

/// Checks everything that can be checked before the first phase starts.
fn check(phases: &mut Phases, args: &RunArgs) -> Result<(), Error> {
    for phase in phases.list_mut() {
        let plan = &mut phase.planned.plan;
        *plan = run::with_names(plan.clone());
        let checked = run::check_thresholds(plan)
            .and_then(|()| run::check_goals(plan, &args.until.until))
            .and_then(|()| check_simulable(plan, &args.exec));
        checked.map_err(|e| of_phase(&phase.name, e))?;
    }
    let own = &args.exec;
    for group in phases.groups().filter(|group| group.len() > 1) {
        if own.pin {
            let why = "the threads of all of them would be pinned to the same cores";
            return Err(Error::Conflict("--pin", "phases side by side", why));
        }
        let ends = |plan: &Plan| plan.thresholds.iter().any(|t| t.abort.is_some());
        let may_end_early =
            !args.until.until.is_empty() || group.iter().any(|p| ends(&p.planned.plan));
        if own.simulate.is_some() && may_end_early {
            let why = "a load that may end early is simulated several times";
            return Err(Error::Conflict("--simulate", "phases side by side with `abort`", why));
        }
    }
    if let Some(of) = args.shard.hosts {
        // The workers check what only their hosts can know.
        check_engine(&args.shard)?;
        for phase in phases.list() {
            let share = merge::share(&phase.planned.plan, Shard { index: 0, of });
            share.map_err(|e| of_phase(&phase.name, e))?;
        }
    } else if own.simulate.is_none() {
        let options = options(own);
        for group in phases.groups() {
            for phase in group {
                let checked = run::check(&phase.planned.plan, &options);
                checked.map_err(|e| of_phase(&phase.name, e))?;
            }
            phases::check_group(group, threads_of_each(threads(own), group.len()))?;
        }
    }
    Ok(())
}

/// An error about a phase, which names it.
fn of_phase(name: &str, error: Error) -> Error {
    match error {
        Error::Argument(why) => Error::Argument(format!("phase '{name}': {why}")),
        Error::Machine(why) => Error::Machine(format!("phase '{name}': {why}")),
        Error::Value { .. } => Error::Argument(format!("phase '{name}': {error}")),
        error => error,
    }
}

fn prepare(to: &ToArgs) -> Result<Outputs, Error> {
    if !Phased::FORMATS.contains(&to.stdout_format()) {
        let why = "phases can be printed as text, html, svg, json, junit or markdown";
        return Err(Error::Conflict("--format", "a plan with phases", why));
    }
    to.prepare_only(&Phased::FORMATS, Phased::WRITTEN_AS)
}

/// The number of worker threads of one load.
fn threads(exec: &ExecArgs) -> usize {
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    exec.threads.map_or_else(cores, |n| n as usize)
}

/// Runs groups of phases.
struct Runs<'a> {
    args: &'a RunArgs,
    options: Options,
    seed: u64,
    mode: ProgressMode,
    stops: Arc<Stops>,
    count: usize,
    started: usize,
}

impl<'a> Runs<'a> {
    fn new(phases: &Phases, args: &'a RunArgs) -> Result<Self, Error> {
        let is_silent = args.output.quiet || args.output.no_progress;
        let is_simulated = args.exec.simulate.is_some();
        Ok(Self {
            args,
            options: options(&args.exec),
            seed: args.exec.simulate.unwrap_or_default(),
            mode: if is_silent { ProgressMode::Nothing } else { ProgressMode::Lines },
            stops: match &args.output.embedding {
                Some(embedding) => Arc::clone(&embedding.stops),
                None if is_simulated => Arc::default(),
                None => Stops::by_signals()?,
            },
            count: phases.list().len(),
            started: 0,
        })
    }

    fn group(&mut self, number: usize, group: &[Phase]) -> Results {
        let first = self.started + 1;
        self.started += group.len();
        if self.args.exec.simulate.is_some() {
            return self.simulated(number, group).into_iter().map(|run| Ok(Some(run))).collect();
        }
        for (number, phase) in (first..).zip(group) {
            let line = format!("phase {number} of {}: {}", self.count, phase.name);
            match &self.args.output.embedding {
                Some(embedding) => embedding.send(Event::Progress(line)),
                None if self.mode != ProgressMode::Nothing => {
                    output::to_stderr(&format!("prony: {line}"));
                }
                None => {}
            }
        }
        match self.args.shard.hosts {
            Some(_) => self.on_hosts(group),
            None => phases::side_by_side(group, &self.stops, &|phase, control| {
                self.on_the_network(phase, group.len(), control)
            }),
        }
    }

    /// Runs each phase of a group on workers of its own. Those side by side start together: none
    /// without the others, and each with its delay by the clocks of the driver.
    fn on_hosts(&self, group: &[Phase]) -> Results {
        let RunArgs { shard, exec, output, until, .. } = self.args;
        let offsets = offsets(group);
        let first = offsets.first().copied().unwrap_or_default();
        if !self.stops.wait(first) {
            return group.iter().map(|_| Ok(None)).collect();
        }
        let delays = offsets.iter().map(|&offset| Duration::from_nanos((offset - first).0));
        let runs: Vec<(&str, Duration)> =
            group.iter().map(|phase| phase.name.as_str()).zip(delays).collect();
        let beside = match &runs[..] {
            [_] => vec![None],
            _ => Beside::all(runs.into_iter()).into_iter().map(Some).collect(),
        };
        let one = |(load, beside): (&Phase, Option<Beside>), control: Arc<Control>| {
            let is_alone = beside.is_none();
            let phase = Some(OfPhase { name: &load.name, of: group.len(), beside });
            let (goals, mode) = (&until.until[..], self.mode);
            let run = OnHosts { goals, shard, exec, output, mode, control, phase };
            match run.run(&load.planned.plan, provenance(load)) {
                Ok(summary) => Ok(Some(of_hosts(load, group.len(), summary))),
                Err(Error::Stopped) => Ok(None),
                // Of those side by side, the error has the name.
                Err(e) if is_alone => Err(of_phase(&load.name, e)),
                Err(e) => Err(e),
            }
        };
        phases::each(group.iter().zip(beside), &self.stops, &one)
    }

    fn simulated(&self, number: usize, group: &[Phase]) -> Vec<Summary> {
        let exec = &self.args.exec;
        let world = phases::world_of(self.seed, number);
        if let [alone] = group {
            let provenance = provenance(alone);
            let plan = &alone.planned.plan;
            return vec![simulated(plan, exec, world, &self.args.until.until, &provenance)];
        }
        let plans = group.iter().map(|phase| with_stand_ins(&phase.planned.plan));
        let (filled, notes): (Vec<Plan>, Vec<Option<String>>) = plans.unzip();
        let plans: Vec<(&Plan, Span)> = filled.iter().zip(offsets(group)).collect();
        let threads = exec.threads.unwrap_or(1);
        let provenance = |i: usize| {
            let mut provenance = provenance(&group[i]);
            provenance.notes.extend(notes[i].clone());
            provenance
        };
        let runs = run::simulate_beside(&plans, threads, world, &server_of(exec), &provenance);
        let own =
            |(run, phase): (Summary, &Phase)| Summary { plan: phase.planned.plan.clone(), ..run };
        runs.into_iter().zip(group).map(own).collect()
    }

    fn on_the_network(
        &self,
        phase: &Phase,
        beside: usize,
        control: &Arc<Control>,
    ) -> Result<Summary, Error> {
        let plan = &phase.planned.plan;
        let each = threads_of_each(threads(&self.args.exec), beside);
        let options = match beside {
            1 => self.options.clone(),
            _ => Options { threads: Some(each), ..self.options.clone() },
        };
        let embedding = self.args.output.embedding.as_ref();
        let progress =
            Progress::new(plan, self.mode, embedding, control).of_phase(&phase.name, beside > 1);
        let goals = &self.args.until.until;
        let mut summary =
            with_progress(plan, goals, &options, progress, control, None, provenance(phase))?;
        if beside > 1 {
            summary.run.notes.push(format!(
                "This phase ran side by side with {}, on {} of its own.",
                units::counted(beside as u64 - 1, "other", "others"),
                units::counted(each as u64, "thread", "threads"),
            ));
        }
        run::explain_cap(&mut summary, phase.planned.cap.as_deref());
        Ok(cited(summary))
    }
}

/// Completes the report of a phase that ran on several workers.
fn of_hosts(phase: &Phase, beside: usize, mut summary: Summary) -> Summary {
    if beside > 1 {
        let others = units::counted(beside as u64 - 1, "other", "others");
        let note = format!("This phase ran side by side with {others}, on workers of its own.");
        summary.run.notes.push(note);
    }
    run::explain_cap(&mut summary, phase.planned.cap.as_deref());
    cited(summary)
}

/// The origin of a phase. The command line is added after the run.
fn provenance(phase: &Phase) -> Provenance {
    let notes = phase.planned.notes.clone();
    Provenance { command: CommandLine::default(), notes, ..Provenance::default() }
}

/// The report of the outcomes.
fn reported(
    phases: &Phases,
    outcomes: Vec<Outcome>,
    interrupted: bool,
    args: &RunArgs,
    typed: Vec<String>,
) -> Phased {
    let command = command_line(&typed);
    let line = recorded(typed);
    let phase = |(phase, mut outcome): (&Phase, Outcome)| {
        if let Outcome::Ran(summary) = &mut outcome {
            summary.run.command = line.clone();
            summary.run.percentile = args.exec.percentile;
            summary.run.secrets_shown = args.output.to.show_secrets;
            summary.run.label.clone_from(&args.output.label);
            summary.run.accepted = accepted(&args.exec, &args.until);
        }
        phased::Phase { name: phase.name.clone(), start: phase.start, delay: phase.delay, outcome }
    };
    Phased {
        version: env!("CARGO_PKG_VERSION").into(),
        command,
        seed: phases.seed(),
        interrupted,
        phases: phases.list().iter().zip(outcomes).map(phase).collect(),
    }
}

/// Prints and writes the reports, and returns the exit code.
fn finish(
    report: &Phased,
    outputs: Outputs,
    output: &OutputArgs,
    accepted: Accepted,
) -> Result<Exit, Error> {
    let embedded = output.embedding.as_ref().map(|embedding| (embedding, accepted));
    show(report, outputs, &output.to, embedded, |e| match e {
        Error::Stdout(why) => Error::Report { what: "the report".into(), why },
        e => e,
    })?;
    Ok(Exit::of_phases(report, accepted))
}

/// Prints the report, or passes it on to the program that embeds prony, and writes the files.
/// `failed` makes the error of what cannot be written.
fn show(
    report: &Phased,
    outputs: Outputs,
    to: &ToArgs,
    embedded: Option<(&Embedding, Accepted)>,
    failed: impl Fn(Error) -> Error,
) -> Result<(), Error> {
    let plain = prony_report::Style::default();
    let rendered = |format| report.render(format, &plain).unwrap_or_default();
    // The files first: a standard output that is gone must not lose them.
    let written = outputs.write_with(rendered);
    match embedded {
        Some((embedding, accepted)) => {
            embedding.send(Event::Phased(Box::new(report.clone()), accepted));
        }
        None => {
            let printed = report.render(to.stdout_format(), &style(to)).unwrap_or_default();
            output::to_stdout(&printed).map_err(&failed)?;
        }
    }
    let annotations = if to.github { report.annotations() } else { String::new() };
    publish(to, &annotations, || rendered(Format::Markdown))?;
    written.map_err(failed)
}

/// Shows a saved report again: `prony report FILE`.
pub(super) fn show_again(
    mut report: Phased,
    to: &ToArgs,
    accept: AcceptArgs,
) -> Result<Exit, Error> {
    let mut accepted = Accepted::default();
    for phase in &mut report.phases {
        if let Outcome::Ran(summary) = &mut phase.outcome {
            summary.run.secrets_shown = to.show_secrets;
            accept.apply(&mut summary.run.accepted);
            accepted = summary.run.accepted;
        }
    }
    let outputs = prepare(to)?;
    show(&report, outputs, to, None, Error::without_run)?;
    Ok(Exit::of_phases(&report, accepted))
}
