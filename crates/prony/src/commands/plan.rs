//! `prony run` and `prony check`: plan files.

use std::path::Path;

use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output;
use prony_run::plan_file;

use super::load::{carry_out, explain};
use crate::cli::means::{MeansArgs, RunArgs};
use crate::cli::plan;
use crate::means::environment;

/// Carry out a plan file, or print what it comes to.
pub(super) fn run(args: &RunArgs, typed: Vec<String>) -> Result<Exit, Error> {
    let mut planned = plan_file::open(&args.plan, &environment(&args.means, false))?;
    plan::check_sources(&args.means)?;
    if let Some(seed) = args.means.seed {
        planned.plan.seed = seed;
    }
    planned.notes.extend(plan::means(&args.means));
    if args.explain {
        return explain(&planned);
    }
    carry_out(planned, &args.means, &args.until.until, &args.output, typed)
}

/// Say whether a plan file is right, and what it comes to.
pub(super) fn check(path: &Path) -> Result<Exit, Error> {
    let what = plan_file::check(path, &environment(&MeansArgs::default(), false))?;
    output::to_stdout(format!("{}: OK: {what}\n", path.display()).as_bytes())?;
    Ok(Exit::Done)
}
