//! `prony replay LOG... --to URL`: the requests of an access log, at the times of the log.

use prony_core::director::METHODS;
use prony_core::plan::{CallSpec, Plan};
use prony_core::summary::{BadLine, Burstiness, LogBodies, LogRead, Replayed, Summary};
use prony_core::units::Span;
use prony_replay::dispersion::WINDOWS;
use prony_replay::{By, FileFacts, Replay, SPEED, Sample, Settings};
use prony_run::error::Error;
use prony_run::exit::Exit;

use super::load::{Of, carry_out};
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

/// Completes the report: the log, and what was made of it.
pub(super) fn complete(summary: &mut Summary, replay: &Replay, args: &ReplayArgs) {
    let handed = replay.handed();
    // The calls differ in what the log has.
    let base = summary.plan.calls.first().map(|call| CallSpec { name: None, ..call.clone() });
    summary.plan.calls = base.into_iter().collect::<Vec<_>>().into();
    let burstiness = WINDOWS.iter().zip(handed.logged).zip(handed.replayed);
    let burstiness = burstiness.filter(|((_, logged), replayed)| logged.or(*replayed).is_some());
    let has_times = handed.took.iter().any(|took| !took.is_empty());
    let (took_blocks, took_step) = (handed.took_blocks(), handed.took_step());
    let took = if has_times { handed.took } else { Vec::new() };
    summary.run.replay = Some(Box::new(Replayed {
        logs: handed.files.iter().map(log).collect(),
        speed: args.speed as f64 / SPEED as f64,
        copies: args.scale,
        shift: args.scale_shift,
        sample: args.sample.as_ref().map(|(_, text)| text.clone()),
        repeats: args.repeats,
        burstiness: burstiness
            .map(|((window, logged), replayed)| Burstiness {
                window: Span(*window),
                logged,
                replayed,
            })
            .collect(),
        took,
        took_blocks,
        took_step: if has_times { took_step } else { Span::ZERO },
        by: (args.by != By::Nobody).then(|| format!("{:?}", args.by).to_lowercase()),
        only_until_sent: args.by != By::Nobody && !args.wait,
        held: handed.held,
        bodies: replay.bodies().map(|bodies| LogBodies {
            file: args.bodies.as_ref().map(|file| file.display().to_string()).unwrap_or_default(),
            bodies: bodies.count(),
            keys: bodies.keys(),
            missing: handed.missing.requests,
            no_key: handed.missing.no_key,
            missing_keys: handed.missing.keys,
        }),
        read_late: handed.late,
        read_late_most: handed.late_most,
        failed: handed.failed,
    }));
}

fn log(file: &FileFacts) -> LogRead {
    let facts = &file.facts;
    let bad = |bad: &prony_replay::BadLine| BadLine {
        line: bad.line,
        why: bad.why.to_string(),
        text: bad.text.clone(),
    };
    LogRead {
        file: file.path.display().to_string(),
        format: file.format.to_owned(),
        times: file.times.clone(),
        bytes: facts.bytes,
        lines: facts.lines,
        requests: facts.requests,
        no_request: facts.no_request,
        other_method: facts.other_method,
        bad: facts.bad,
        first_bad: facts.first_bad.iter().map(bad).collect(),
        spread: facts.spread,
        moved: facts.moved,
        moved_most: Span(facts.moved_most),
    }
}
