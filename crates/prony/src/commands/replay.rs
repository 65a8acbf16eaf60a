//! `prony replay LOG... --to URL`: the requests of an access log, at the times of the log.

use prony_base::director::METHODS;
use prony_plan::plan::{CallSpec, Plan};
use prony_replay::{By, Replay, Sample, Settings};
use prony_run::error::Error;
use prony_run::exit::Exit;

use super::carried::{Of, carry_out};
use crate::cli::plan;
use crate::cli::replay::ReplayArgs;
use crate::exec_options::environment_of;

/// Runs the replay, and reports it.
pub(super) fn replay(args: &ReplayArgs, typed: Vec<String>) -> Result<Exit, Error> {
    let load = args.load()?;
    let around = environment_of(&load.exec, load.unix_socket.is_some(), &load.shard);
    let mut planned = plan::plan(&load, &around)?;
    let bodies = args.read_bodies()?;
    let is_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("Content-Type");
    if bodies.is_some() && planned.plan.calls.iter().any(|call| call.headers.iter().any(is_type)) {
        let why = "bodies have types of their own; use --content-type for those without one";
        return Err(Error::Conflict("--header Content-Type", "--bodies", why));
    }
    let expect = planned.plan.expect.clone();
    let settings = Settings { bodies, expect, ..args.settings(planned.plan.seed) };
    let settings_by = settings.by;
    let by_client = matches!(settings.shape.sample, Sample::Clients(_));
    let replay = Replay::open(settings).map_err(|e| Error::Argument(e.to_string()))?;
    if by_client && !replay.has(By::Client) {
        let why = "no line has a client; give the format with --log-format, or a share of requests";
        return Err(Error::Conflict("--sample by client", "this log", why));
    }
    if settings_by != By::Nobody && !replay.has(settings_by) {
        let why = "no line has one; give the format with --log-format";
        return Err(Error::Conflict("--by", "this log", why));
    }
    planned.plan = with_calls(planned.plan, &replay);
    planned.plan.thresholds.clone_from(&load.until.threshold);
    let of = Of {
        exec: &load.exec,
        shard: &load.shard,
        until: &load.until,
        output: &load.output,
        raw: load.raw.raw.as_deref(),
    };
    let exit = carry_out(planned, of, Some((&replay, args)), typed)?;
    // The report has said what was sent until then.
    match replay.handed().failed {
        Some(why) => Err(Error::Argument(format!("the log was not read to its end: {why}"))),
        None => Ok(exit),
    }
}

/// The plan with a call for each method of each pattern of paths.
fn with_calls(plan: Plan, replay: &Replay) -> Plan {
    let Some(base) = plan.calls.first().cloned() else { return plan };
    let call = |&(method, name): &(u8, u32)| CallSpec {
        method: METHODS[usize::from(method)].into(),
        name: Some(name),
        ..base.clone()
    };
    let patterns = replay.patterns();
    let calls: Vec<CallSpec> = patterns.calls.iter().map(call).collect();
    Plan { calls: calls.into(), names: patterns.names.clone(), ..plan }
}
