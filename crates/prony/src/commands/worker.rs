//! `prony worker`, and runs on several of them.

use std::env;
use std::io;
use std::path::PathBuf;
use std::thread;

use prony_core::plan::Plan;
use prony_core::summary::Summary;
use prony_core::summary::confidence::Goal;
use prony_hosts::driver::{self, Job, Status, Watchers};
use prony_hosts::local::Local;
use prony_hosts::worker::{self, Settings};
use prony_io::Live;
use prony_report::units;
use prony_run::abort::Aborter;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::goals::GoalWatch;
use prony_run::interrupt::stoppable;
use prony_run::output;
use prony_run::run::{self, Provenance};

use crate::cli::exec_options::ExecArgs;
use crate::cli::output::OutputArgs;
use crate::cli::shard::{OnLoss, ShardArgs};
use crate::cli::worker::{WorkerArgs, words};
use crate::exec_options::options;

/// Serve the driver on standard input.
pub(super) fn worker(args: &WorkerArgs) -> Result<Exit, Error> {
    let settings = Settings {
        options: options(&args.exec()),
        clock_offset_ns: args.clock_offset,
        exits: true,
    };
    worker::serve(&settings, io::BufReader::new(io::stdin()), io::stdout())
        .map_err(|why| Error::Machine(format!("the worker cannot start: {why}")))?;
    Ok(Exit::Done)
}

/// The plan on that many workers, as one run.
pub(super) fn on_hosts(
    plan: &Plan,
    goals: &[Goal],
    shard: &ShardArgs,
    exec: &ExecArgs,
    output: &OutputArgs,
    provenance: Provenance,
) -> Result<Summary, Error> {
    let control = stoppable()?;
    let hosts = shard.hosts.unwrap_or(1);
    let mut watcher = GoalWatch::new(goals, plan, &control);
    let mut aborter = Aborter::new(plan, &control);
    let threads = exec.threads.unwrap_or_else(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from) as u32;
        (cores / hosts).max(1)
    });
    let mut engine = Local::new(program()?, words(exec, threads));
    let job = Job {
        plan: plan.clone(),
        hosts,
        on_loss: match shard.on_loss {
            OnLoss::Continue => driver::OnLoss::Continue,
            OnLoss::Stop => driver::OnLoss::Stop,
        },
        command: provenance.command,
        notes: provenance.notes,
        blocks: (watcher.is_some() || aborter.is_some(), run::needs_service(goals, plan)),
    };
    let quiet = output.quiet;
    let silent = output.quiet || output.no_progress;
    let mut say = |sentence: &str| {
        if !quiet {
            output::to_stderr(&format!("prony: {sentence}"));
        }
    };
    let mut last = Status::default();
    let mut watch = |status: &Status| {
        if !silent {
            output::to_stderr(&format!("prony: {}", line(status, &last)));
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
    let watchers = Watchers { say: &mut say, status: &mut watch, live: &mut look };
    let mut summary = driver::run(&job, &mut engine, &control, watchers)?;
    if let Some(watcher) = watcher {
        watcher.note(&mut summary);
    }
    if let Some(aborter) = aborter {
        aborter.note(&mut summary);
    }
    Ok(summary)
}

/// How the run stands, since it stood as `last` says.
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
fn program() -> Result<PathBuf, Error> {
    env::current_exe()
        .map_err(|why| Error::Machine(format!("this program cannot be found again: {why}")))
}
