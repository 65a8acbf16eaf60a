//! `prony worker`, and runs on several of them.

use std::cell::RefCell;
use std::env;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use prony_hosts::aggregator;
use prony_hosts::carrier::Carrier;
use prony_hosts::driver::{self, Job, Status, Watchers};
use prony_hosts::engine::Engine;
use prony_hosts::local::Local;
use prony_hosts::relay::Hosts;
use prony_hosts::together::Beside;
use prony_hosts::tree::Tree;
use prony_hosts::view::HostView;
use prony_hosts::worker::{self, Settings};
use prony_io::{Control, Live, Options};
use prony_plan::plan::Plan;
use prony_report::units;
use prony_run::abort::Aborter;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::goals::GoalWatch;
use prony_run::output;
use prony_run::phases::threads_of_each;
use prony_run::run::{self, Provenance};
use prony_stats::summary::confidence::Goal;
use prony_stats::summary::{CommandLine, Summary};

use super::execution::control;
use crate::cli::exec_options::ExecArgs;
use crate::cli::output::OutputArgs;
use crate::cli::shard::{EngineName, OnLoss, ShardArgs};
use crate::cli::worker::{Aggregator, WorkerArgs, words};
use crate::cli::{self, LoadArgs};
use crate::embedding::Event;
use crate::exec_options::{drain, options};
use crate::progress::{self, Progress, ProgressMode};

/// Serve the driver on standard input.
pub(super) fn worker(args: &WorkerArgs) -> Result<Exit, Error> {
    if let Some(how) = args.aggregator {
        return aggregator(how);
    }
    let settings = Settings {
        // What one host cannot reach, others may.
        options: Options { needs_contact: false, ..options(&args.exec()) },
        clock_offset_ns: args.clock_offset,
        exits: true,
    };
    worker::serve(&settings, io::BufReader::new(io::stdin()), io::stdout())
        .map_err(|why| Error::Machine(format!("the worker cannot start: {why}")))?;
    Ok(Exit::Done)
}

/// Serve the driver of many hosts on standard input.
fn aggregator(how: Aggregator) -> Result<Exit, Error> {
    let program = own_program()?;
    let local = move |args| Box::new(Local::new(program.clone(), args)) as Box<dyn Engine>;
    let engine = (how == Aggregator::Local).then_some(&local as _);
    aggregator::serve(engine, io::BufReader::new(io::stdin()), io::stdout())
        .map_err(|why| Error::Machine(format!("the aggregator cannot start: {why}")))?;
    Ok(Exit::Done)
}

/// What a run on several workers is, besides its plan.
pub(super) struct OnHosts<'a> {
    pub(super) goals: &'a [Goal],
    pub(super) shard: &'a ShardArgs,
    pub(super) exec: &'a ExecArgs,
    pub(super) output: &'a OutputArgs,
    pub(super) mode: ProgressMode,
    pub(super) control: Arc<Control>,
    /// The phase that it is, if it is one.
    pub(super) phase: Option<OfPhase<'a>>,
}

/// A phase on several workers.
pub(super) struct OfPhase<'a> {
    pub(super) name: &'a str,
    /// The number of phases that run side by side, with this one.
    pub(super) of: usize,
    /// With which it starts, if that is more than one.
    pub(super) beside: Option<Beside>,
}

/// Run the plan on this number of workers, as one run.
pub(super) fn on_hosts(
    plan: &Plan,
    goals: &[Goal],
    shard: &ShardArgs,
    exec: &ExecArgs,
    output: &OutputArgs,
    provenance: Provenance,
) -> Result<Summary, Error> {
    let (mode, control) = (progress::mode(output)?, control(output)?);
    OnHosts { goals, shard, exec, output, mode, control, phase: None }.run(plan, provenance)
}

impl OnHosts<'_> {
    /// Runs the plan.
    ///
    /// # Errors
    /// Nothing was started: a worker refused or did not answer, or the user stopped the run before.
    pub(super) fn run(self, plan: &Plan, provenance: Provenance) -> Result<Summary, Error> {
        let Self { goals, shard, exec, output, mode, control, phase } = self;
        let is_watched = matches!(mode, ProgressMode::Screen(_));
        control.limit_drain(drain(exec));
        let mut screen = is_watched.then(|| Progress::new(plan, mode, None, &control));
        // Sentences must not be written over the screen.
        let later = RefCell::new(Vec::new());
        let mut watcher = GoalWatch::new(goals, plan, &control);
        let mut aborter = Aborter::new(plan, &control);
        let name = phase.as_ref().map(|phase| phase.name);
        let prefix = name.map(|name| format!("{name}: ")).unwrap_or_default();
        let beside = phase.as_ref().map_or(1, |phase| phase.of);
        let mut engine = engine(shard, exec, output, &control, beside)?;
        let blocks = (watcher.is_some() || aborter.is_some(), run::needs_service(goals, plan));
        let job = Job {
            beside: phase.as_ref().and_then(|phase| phase.beside.clone()),
            ..job(plan, shard, provenance, blocks, is_watched)
        };
        let mut say = |sentence: &str| match is_watched {
            true => later.borrow_mut().push(sentence.to_owned()),
            false => say(output, &format!("{prefix}{sentence}")),
        };
        let mut last = Status::default();
        let mut watch = |status: &Status| {
            if let Some(embedding) = &output.embedding {
                embedding.show_status(status, &last, name);
            } else if mode == ProgressMode::Lines {
                output::to_stderr(&format!("prony: {prefix}{}", line(status, &last)));
            }
            last = status.clone();
        };
        let mut look = |live: &Live| {
            if let Some(watcher) = &mut watcher {
                watcher.look(live);
            }
            if let Some(aborter) = &mut aborter {
                aborter.look(live);
            }
        };
        let mut show = |live: &Live, hosts: &[HostView]| {
            if let Some(screen) = &mut screen {
                screen.show_hosts(live, hosts);
            }
        };
        let watchers = Watchers {
            say: &mut say,
            status: &mut watch,
            live: &mut look,
            view: if is_watched { Some(&mut show) } else { None },
        };
        let result = driver::run(&job, engine.as_mut(), &control, watchers);
        if let Some(screen) = screen {
            screen.finish();
        }
        for sentence in later.into_inner() {
            self::say(output, &sentence);
        }
        let mut summary = result?;
        summary.run.notes.extend(run::steered(&summary, &control));
        if let Some(watcher) = watcher {
            watcher.note(&mut summary);
        }
        if let Some(aborter) = aborter {
            aborter.note(&mut summary);
        }
        Ok(summary)
    }
}

/// The run on the workers.
fn job(
    plan: &Plan,
    shard: &ShardArgs,
    provenance: Provenance,
    blocks: (bool, bool),
    adjustable_rate: bool,
) -> Job {
    Job {
        plan: plan.clone(),
        hosts: shard.hosts.unwrap_or(1),
        on_loss: match shard.on_loss {
            OnLoss::Continue => driver::OnLoss::Continue,
            OnLoss::Stop => driver::OnLoss::Stop,
        },
        command: provenance.command,
        notes: provenance.notes,
        blocks,
        adjustable_rate,
        beside: None,
    }
}

/// Run one trial of a search, or one block of a comparison, on workers of its own. It shows no
/// progress.
///
/// # Errors
/// Nothing was started: a worker refused, or did not answer.
pub(super) fn once_on_hosts(
    plan: &Plan,
    keep_service: bool,
    load: &LoadArgs,
    control: &Arc<Control>,
) -> Result<Summary, Error> {
    let hosts = load.shard.hosts.unwrap_or(1);
    control.limit_drain(drain(&load.exec));
    let mut engine = engine(&load.shard, &load.exec, &load.output, control, 1)?;
    let job = Job {
        plan: plan.clone(),
        hosts,
        on_loss: driver::OnLoss::Stop,
        command: CommandLine::default(),
        notes: Vec::new(),
        blocks: (false, keep_service),
        adjustable_rate: false,
        beside: None,
    };
    let mut say = |sentence: &str| say(&load.output, sentence);
    let watchers = Watchers { say: &mut say, status: &mut |_| {}, live: &mut |_| {}, view: None };
    driver::run(&job, engine.as_mut(), control, watchers)
}

/// Passes a sentence on to the user.
pub(super) fn say(output: &OutputArgs, sentence: &str) {
    if let Some(embedding) = &output.embedding {
        embedding.send(Event::Said(sentence.to_owned()));
    } else if !output.quiet {
        output::to_stderr(&format!("prony: {sentence}"));
    }
}

/// What starts the workers. As many as `beside` share the cores of each host.
fn engine(
    shard: &ShardArgs,
    exec: &ExecArgs,
    output: &OutputArgs,
    control: &Arc<Control>,
    beside: usize,
) -> Result<Box<dyn Engine>, Error> {
    let hosts = shard.hosts.unwrap_or(1);
    let of_each = |threads: u32| threads_of_each(threads as usize, beside) as u32;
    if shard.engine == EngineName::Ray {
        let mut command = Command::new(python(output));
        command.args(["-m", "prony.ray"]);
        command.args(shard.cluster.iter().flat_map(|address| ["--cluster", address]));
        command.args(shard.insecure_cluster.then_some("--insecure-cluster"));
        let words = words(exec, exec.threads.map(of_each), beside);
        let carrier = |words| Carrier::new("ray", command, words, Arc::clone(control));
        let Some(group) = shard.group() else { return Ok(Box::new(carrier(words))) };
        let hosts = Hosts { all: hosts as usize, group };
        let aggregators = carrier(cli::worker::aggregator("carried"));
        let aggregators = Box::new(aggregators.of_aggregators(hosts));
        return Ok(Box::new(Tree::new(aggregators, group, words, Arc::clone(control))));
    }
    check_engine(shard)?;
    let threads = exec.threads.unwrap_or_else(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from) as u32;
        (cores / hosts).max(1)
    });
    let (program, words) = (program(output)?, words(exec, Some(of_each(threads)), 1));
    let Some(group) = shard.group() else { return Ok(Box::new(Local::new(program, words))) };
    let aggregators = Box::new(Local::new(program, cli::worker::aggregator("local")));
    Ok(Box::new(Tree::new(aggregators, group, words, Arc::clone(control))))
}

/// Refuses options of a cluster without one.
pub(super) fn check_engine(shard: &ShardArgs) -> Result<(), Error> {
    if shard.engine == EngineName::Ray {
        return Ok(());
    }
    for (given, option) in
        [(shard.cluster.is_some(), "--cluster"), (shard.insecure_cluster, "--insecure-cluster")]
    {
        if given {
            return Err(Error::Needs(option, "--engine ray", "the engine local has no cluster"));
        }
    }
    Ok(())
}

/// The Python interpreter that has the package `prony`: `PRONY_PYTHON`, the one of this process,
/// the one in the folder of this program, or the first on the PATH.
fn python(output: &OutputArgs) -> PathBuf {
    let given = env::var_os("PRONY_PYTHON").map(PathBuf::from);
    let own = output.embedding.as_ref().map(|embedding| embedding.python.clone());
    let beside = || {
        let python = env::current_exe().ok()?.with_file_name("python3");
        python.exists().then_some(python)
    };
    given.or(own).or_else(beside).unwrap_or_else(|| "python3".into())
}

/// The progress of the run since `last`.
fn line(status: &Status, last: &Status) -> String {
    let passed = (status.elapsed - last.elapsed).as_secs_f64();
    let ended = (status.replies + status.failed).saturating_sub(last.replies + last.failed);
    format!(
        "{:.0} s, {} of {} hosts, {} replies/s, {} failed",
        status.elapsed.as_secs_f64(),
        status.hosts,
        status.of,
        units::rate(ended as f64 / passed.max(1e-9)),
        units::count(status.failed),
    )
}

/// This program, for the workers.
fn program(output: &OutputArgs) -> Result<PathBuf, Error> {
    if let Some(embedding) = &output.embedding {
        return Ok(embedding.program.clone());
    }
    own_program()
}

fn own_program() -> Result<PathBuf, Error> {
    env::current_exe()
        .map_err(|why| Error::Machine(format!("this program cannot be found again: {why}")))
}
