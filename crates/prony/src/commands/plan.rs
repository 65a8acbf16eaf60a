//! `prony run` and `prony check`: plan files.

use std::path::Path;

use prony_base::plain;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output;
use prony_run::plan_file::{self, PlanFile};

use super::carried::{Of, carry_out, explain};
use super::phases;
use super::trace::trace;
use crate::cli::exec_options::{ExecArgs, RunArgs};
use crate::cli::plan;
use crate::exec_options::{environment, environment_of};

/// Runs a plan file, or prints it in full.
pub(super) fn run(args: &RunArgs, typed: Vec<String>) -> Result<Exit, Error> {
    let around = environment_of(&args.exec, false, &args.shard);
    let text = args.output.embedding.as_ref().and_then(|e| e.plan_text.as_deref());
    let file = match text {
        None => plan_file::open_all(&args.plan, &around)?,
        Some(text) => plan_file::parse_all("plan", text, Some(Path::new("")), &around)
            .map_err(Error::PlanFile)?,
    };
    let mut planned = match file {
        PlanFile::Load(planned) => *planned,
        PlanFile::Phases(all) => return phases::run(all, args, typed),
    };
    plan::check_sources(&args.exec)?;
    if let Some(seed) = args.exec.seed {
        planned.plan.seed = seed;
    }
    planned.notes.extend(plan::exec_notes(&args.exec));
    planned.plan.thresholds.extend(args.until.threshold.iter().cloned());
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

/// Checks a plan file, and prints a summary.
pub(super) fn check(path: &Path) -> Result<Exit, Error> {
    let what = plan_file::check(path, &environment(&ExecArgs::default(), false))?;
    let line = format!("{}: OK: {what}", path.display());
    output::to_stdout(format!("{}\n", plain::line(&line)).as_bytes())?;
    Ok(Exit::Done)
}
