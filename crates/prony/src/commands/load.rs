//! `prony URL...`: runs a load.

use prony_run::error::Error;
use prony_run::exit::Exit;

use super::carried::{Of, carry_out, explain};
use super::trace::trace;
use crate::cli::LoadArgs;
use crate::cli::plan;
use crate::cli::refusal::command_as_url;
use crate::exec_options::environment_of;

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
