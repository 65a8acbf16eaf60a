//! `prony run` and `prony check`: plan files.

use std::path::Path;

use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output;
use prony_run::plan_file;

use super::load::{carry_out, explain};
use crate::cli::exec_options::{ExecArgs, RunArgs};
use crate::cli::plan;
use crate::exec_options::{environment, environment_of};

/// Runs a plan file, or prints it in full.
pub(super) fn run(args: &RunArgs, typed: Vec<String>) -> Result<Exit, Error> {
    let mut planned = plan_file::open(&args.plan, &environment_of(&args.exec, false, &args.shard))?;
    plan::check_sources(&args.exec)?;
    if let Some(seed) = args.exec.seed {
        planned.plan.seed = seed;
    }
    planned.notes.extend(plan::exec_notes(&args.exec));
    planned.plan.thresholds.extend(args.until.threshold.iter().cloned());
    if args.explain {
        return explain(&planned);
    }
    carry_out(planned, &args.exec, &args.shard, &args.until, &args.output, typed)
}

/// Checks a plan file, and prints a summary.
pub(super) fn check(path: &Path) -> Result<Exit, Error> {
    let what = plan_file::check(path, &environment(&ExecArgs::default(), false))?;
    output::to_stdout(format!("{}: OK: {what}\n", path.display()).as_bytes())?;
    Ok(Exit::Done)
}
