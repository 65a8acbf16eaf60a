//! Runs a plan, on the network or in a simulation, and returns its summary.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use prony_base::feed::Feeds;
use prony_base::units::{Nanos, Span};
use prony_core::engine::Taps;
use prony_io::{Control, Live, Options, Outcome, Precision};
use prony_plan::plan::{Cookies, Load, Plan, Stop, StreamFormat};
use prony_plan::schedule::RateChange;
use prony_plan::threshold::{Counted, Figure, Scalar, Threshold, Timed};
use prony_report::units;
use prony_server::serve::{EventBehavior, Latency, ServerBehavior};
use prony_sim::Extras;
use prony_stats::summary::confidence::{Goal, GoalFigure, Until, Watch};
use prony_stats::summary::{Accepted, CommandLine, Deciding, Part, RunInfo, Sequential, Summary};

use crate::abort;
use crate::contact;
use crate::error::Error;
use crate::here;
use crate::redirects;
use crate::rows;
use crate::tls;
use crate::tokenizer;

/// The origin of a plan, for the report.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// The command line.
    pub command: CommandLine,
    /// Notes, in full sentences.
    pub notes: Vec<String>,
    /// The run of which this plan is a share, if it is one.
    pub part: Option<Part>,
    /// What has the requests of a plan of a log, in virtual time.
    pub feeds: Option<Feeds>,
    /// Creates an observer for each thread, in virtual time.
    pub taps: Option<Taps>,
}

/// The duration of the first attempt of a simulated run with goals.
const TRY: Span = Span::from_secs(16);
/// The time between the events or tokens of a simulated stream.
const EVENT_GAP: Span = Span::from_millis(10);

/// Runs the plan on the network. Reports all errors before the load starts. `control` stops the run
/// early; `watch` gets a snapshot about 20 times per second.
///
/// # Errors
/// The machine lacks a resource that the plan needs.
pub fn run(
    plan: &Plan,
    options: &Options,
    control: &Control,
    watch: &mut dyn FnMut(&Live),
    provenance: Provenance,
) -> Result<Summary, Error> {
    let start =
        options.start_at.map_or_else(SystemTime::now, |at| UNIX_EPOCH + Duration::from_nanos(at));
    let options = &with_tls(plan, options)?;
    let outcome = prony_io::run(plan, options, control, watch)?;
    let out_of_reach = outcome.out_of_reach;
    let mut summary = summary(outcome, start, options, provenance);
    if summary.run.part.is_none() {
        // It explains the rest of the report.
        let note = contact::note(&summary, out_of_reach);
        note.into_iter().for_each(|note| summary.run.notes.insert(0, note));
    }
    summary.run.notes.extend(steered(&summary, control));
    Ok(summary)
}

/// Names each unnamed request after its method and path, so that the report has a row for each. The
/// name omits the query, which may contain a secret. A single request needs no row, and more than
/// [`Plan::EXCERPT`] requests are too many for a table.
#[must_use]
pub fn with_names(mut plan: Plan) -> Plan {
    let count = plan.calls.len();
    if plan.exchange.is_some() || !(2..=Plan::EXCERPT).contains(&count) {
        return plan;
    }
    let mut calls = plan.calls.to_vec();
    for call in calls.iter_mut().filter(|call| call.name.is_none()) {
        let path = call.path.split('?').next().unwrap_or_default();
        let name = format!("{} {path}", call.method);
        let known = plan.names.iter().position(|n| *n == name);
        let index = known.unwrap_or_else(|| {
            plan.names.push(name);
            plan.names.len() - 1
        });
        call.name = u32::try_from(index).ok();
    }
    plan.calls = calls.into();
    plan
}

/// Checks that the plan can run on this machine.
///
/// # Errors
/// The machine lacks a resource that the plan needs.
pub fn check(plan: &Plan, options: &Options) -> Result<(), Error> {
    Ok(prony_io::check(plan, &with_tls(plan, options)?)?)
}

/// Checks that the plan can be simulated: reads the file that it needs.
///
/// # Errors
/// The tokenizer cannot be read.
pub fn check_simulated(plan: &Plan) -> Result<(), Error> {
    tokenizer::of(plan).map(drop)
}

/// The options with the TLS context of the plan, and with the samples that its thresholds need.
fn with_tls(plan: &Plan, options: &Options) -> Result<Options, Error> {
    let keep_service = options.keep_service || needs_service(&[], plan);
    let (tls, tokenizer) = (tls::context(plan)?, tokenizer::of(plan)?);
    Ok(Options { tls, keep_service, tokenizer, ..options.clone() })
}

fn summary(
    outcome: Outcome,
    start: SystemTime,
    options: &Options,
    provenance: Provenance,
) -> Summary {
    let Provenance { command, mut notes, part, feeds: _, taps: _ } = provenance;
    let started = start.duration_since(UNIX_EPOCH).ok().map(|d| d.as_secs_f64());
    notes.extend(outcome.notes);
    let part = part.map(|part| Part { start_late: outcome.start_late, ..part });
    let info = RunInfo {
        version: env!("CARGO_PKG_VERSION").into(),
        command,
        label: None,
        started_unix: started,
        driver: outcome.driver.into(),
        local_target: here::target(&outcome.plan, &outcome.addresses),
        addresses: outcome.addresses,
        host: host(),
        descriptor_limit: outcome.descriptor_limit,
        interrupted: outcome.interrupted,
        ended_by: None,
        level: None,
        percentile: None,
        accepted: Accepted::default(),
        part,
        director: None,
        replay: None,
        hosts: None,
        precision: match options.precision {
            Precision::Grain(grain) => Some(grain),
            Precision::Sleep | Precision::Auto | Precision::Spin => None,
        },
        cpu_pressure: outcome.cpu_pressure,
        until: None,
        self_test: None,
        connections_as_sessions: false,
        plan_size: None,
        secrets_shown: false,
        notes,
    };
    let parts = outcome.tallies.into_iter().zip(outcome.workers);
    let parts = parts.map(|((warmup, main), meter)| (warmup, main, meter)).collect();
    noted(Summary::from_parts(outcome.plan, info, parts))
}

/// Runs the plan in virtual time against a target server with this behavior. The result depends on
/// the arguments only, to the last byte. The plan is split into `threads` shares, or as many as
/// possible. The samples that `goals` need are kept.
pub fn simulate(
    plan: &Plan,
    threads: u32,
    seed: u64,
    server: &ServerBehavior,
    goals: &[Goal],
    provenance: Provenance,
) -> Summary {
    let extras = Extras {
        keep_service: needs_service(goals, plan),
        feeds: provenance.feeds,
        taps: provenance.taps,
        tokenizers: Some(tokenizer::of_checked),
    };
    let parts = prony_sim::simulate(plan, threads, seed, &model(plan, server), &extras);
    let info = RunInfo {
        version: env!("CARGO_PKG_VERSION").into(),
        command: provenance.command,
        driver: "simulation".into(),
        notes: provenance.notes,
        part: provenance.part,
        ..RunInfo::default()
    };
    noted(Summary::from_parts(plan.clone(), info, parts))
}

/// Runs several plans side by side in one virtual world against one server, each with its delay and
/// on this number of threads.
pub fn simulate_beside(
    plans: &[(&Plan, Span)],
    threads: u32,
    seed: u64,
    server: &ServerBehavior,
    provenance: &dyn Fn(usize) -> Provenance,
) -> Vec<Summary> {
    let Some((first, _)) = plans.first() else { return Vec::new() };
    let extras = Extras {
        keep_service: plans.iter().any(|(plan, _)| needs_service(&[], plan)),
        tokenizers: Some(tokenizer::of_checked),
        ..Extras::default()
    };
    let parts = prony_sim::simulate_beside(plans, threads, seed, &model(first, server), &extras);
    let summaries = plans.iter().zip(parts).enumerate().map(|(i, ((plan, _), parts))| {
        let provenance = provenance(i);
        let info = RunInfo {
            version: env!("CARGO_PKG_VERSION").into(),
            command: provenance.command,
            driver: "simulation".into(),
            notes: provenance.notes,
            ..RunInfo::default()
        };
        noted(Summary::from_parts((*plan).clone(), info, parts))
    });
    summaries.collect()
}

/// The server as a language model or one of streams of events, if the plan asks for one: its
/// service time is the time to the first token or event.
fn model(plan: &Plan, server: &ServerBehavior) -> ServerBehavior {
    let asks = plan.stream.as_deref().is_some_and(|stream| {
        let is_in_pieces = matches!(stream.format, StreamFormat::Sse | StreamFormat::Chunks);
        stream.tokens.is_some() || is_in_pieces
    });
    let model = || EventBehavior {
        first: server.latency,
        gap: Latency::Fixed(EVENT_GAP),
        ..EventBehavior::default()
    };
    let sse = server.sse.or_else(|| asks.then(model));
    ServerBehavior { sse, ..server.clone() }
}

/// A run in virtual time that stops when its goals are reached, at the end of the plan at the
/// latest. As virtual time can be repeated, `simulate` is called with increasing durations.
pub fn until(plan: &Plan, goals: &[Goal], simulate: &dyn Fn(&Plan) -> Summary) -> Summary {
    if goals.is_empty() {
        return simulate(plan);
    }
    let limited = |length: Span| {
        let stop = Stop { duration: Some(length), ..plan.stop };
        simulate(&Plan { stop, ..plan.clone() })
    };
    let limit = plan.stop.duration.unwrap_or(Span::MAX);
    let mut length = TRY.min(limit);
    let mut summary = loop {
        let tried = limited(length);
        // Requests that end after the check may make an interval wider again.
        let ended = Watch::ends(goals, &tried.main).map(limited).find(|ended| {
            let reached = |goal: &Goal| goal.is_reached(&ended.main);
            goals.iter().all(reached)
        });
        let over = length >= limit || tried.main.window() < length;
        if ended.is_some() || over {
            let is_ended = ended.is_some();
            let mut summary = ended.unwrap_or(tried);
            summary.run.until = Some(Until::of(goals.to_vec(), is_ended, &summary.main));
            break summary;
        }
        length = (length * 2).min(limit);
    };
    summary.plan.stop = plan.stop;
    summary
}

/// A simulated run that a threshold may stop early, or the decision of all: it is then simulated
/// again up to that time.
pub fn aborted(plan: &Plan, simulate: &dyn Fn(&Plan) -> Summary) -> Summary {
    let whole = simulate(plan);
    let until = |at: Span| {
        let stop = Stop { duration: Some(at), ..plan.stop };
        let mut summary = simulate(&Plan { stop, ..plan.clone() });
        summary.plan.stop = plan.stop;
        summary
    };
    let missed = Sequential::end_of(&plan.thresholds, &whole.main);
    let decided = Deciding::end_of(plan, &whole.main);
    let first = decided.as_ref().and_then(|(at, _)| *at).unwrap_or(Span::MAX);
    if let Some((at, threshold)) = missed.filter(|(at, _)| *at <= first) {
        let mut summary = until(at);
        abort::note(&mut summary, at, threshold);
        return summary;
    }
    let Some((at, level)) = decided else { return whole };
    let mut summary = at.map_or(whole, until);
    abort::note_level(&mut summary, at, level);
    summary
}

/// Whether a goal or a threshold needs the service times over time.
pub fn needs_service(goals: &[Goal], plan: &Plan) -> bool {
    let of_service = |threshold: &Threshold| threshold.figure.is_of_service();
    goals.iter().any(Goal::is_of_service) || plan.thresholds.iter().any(of_service)
}

/// Checks that the plan has the requests, sessions and handshakes that its thresholds name.
///
/// # Errors
/// The first threshold that can never be decided, in one sentence.
pub fn check_thresholds(plan: &Plan) -> Result<(), Error> {
    for threshold in &plan.thresholds {
        let refused = |why: &str| Err(Error::Argument(format!("threshold '{threshold}': {why}")));
        if let Some(name) = &threshold.request
            && !plan.names.contains(name)
        {
            let names: Vec<String> = plan.names.iter().map(|n| format!("'{n}'")).collect();
            return match &names[..] {
                [] => refused("the plan has no named requests; omit the name"),
                _ => refused(&format!(
                    "no request has the name '{name}'; there are {}",
                    names.join(", ")
                )),
            };
        }
        let is_of_rate = threshold.figure == Figure::Scalar(Scalar::Rate);
        if threshold.abort.is_some() && is_of_rate && plan.has_changing_rate() {
            return refused("the load changes during the run; remove ', abort'");
        }
        check_part(plan, threshold)?;
        if threshold.figure.is_of_sessions() && plan.sessions.is_none() {
            return refused("the plan has no sessions");
        }
        let is_secured = plan.endpoints.iter().any(|e| e.tls_name().is_some());
        if matches!(threshold.figure, Figure::Time(Timed::Handshake, _)) && !is_secured {
            return refused("there are no TLS handshakes without https://");
        }
        let has_tunnels = (0..plan.endpoints.len() as u32).any(|e| plan.tunnel_to(e).is_some());
        if matches!(threshold.figure, Figure::Time(Timed::Tunnel, _)) && !has_tunnels {
            return refused("there are no tunnels without a proxy");
        }
    }
    Ok(())
}

/// Checks that the plan has the check or group that a threshold names.
fn check_part(plan: &Plan, threshold: &Threshold) -> Result<(), Error> {
    let (what, names): (_, Vec<&str>) = if threshold.figure.is_of_group() {
        ("group", plan.groups.iter().map(|group| group.name.as_str()).collect())
    } else if threshold.figure.is_of_check() || threshold.figure == Figure::Count(Counted::Checks) {
        let all = &plan.checks.list;
        if threshold.part.is_none() && !all.is_empty() {
            return Ok(());
        }
        ("check", all.iter().filter_map(|check| check.name.as_deref()).collect())
    } else {
        return Ok(());
    };
    let wanted = threshold.part.as_deref().unwrap_or_default();
    if names.contains(&wanted) {
        return Ok(());
    }
    let why = match (&names[..], what) {
        ([], "check") if !plan.checks.is_empty() => {
            "no check has a name; write it before the check, as in 'fast: time < 200ms'".to_owned()
        }
        ([], _) => format!("the plan has no {what}s"),
        _ => {
            let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
            format!("no {what} has the name '{wanted}'; there are {}", names.join(", "))
        }
    };
    Err(Error::Argument(format!("threshold '{threshold}': {why}")))
}

/// Checks that the figures of these goals have intervals in a run of the plan.
///
/// # Errors
/// The first goal that can never be reached, in one sentence.
pub fn check_goals(plan: &Plan, goals: &[Goal]) -> Result<(), Error> {
    match goals.iter().find(|goal| goal.figure == GoalFigure::Rate) {
        Some(goal) if plan.has_changing_rate() => Err(Error::Argument(format!(
            "--until '{goal}': the load changes during the run, so its mean has no interval; use a \
             constant load or another figure"
        ))),
        _ => Ok(()),
    }
}

/// Adds notes that follow from the figures of the whole plan. A share gets them when it is merged.
pub(crate) fn noted(mut summary: Summary) -> Summary {
    if summary.run.part.is_some() {
        return summary;
    }
    let notes = cap_reached(&summary).into_iter().chain(one_jar(&summary.plan));
    let notes: Vec<_> =
        notes.chain(redirects::notes(&summary)).chain(rows::notes(&summary)).collect();
    summary.run.notes.extend(notes);
    summary
}

/// Adds a note with the reason for the default connection limit, if it delayed requests.
pub fn explain_cap(summary: &mut Summary, why: Option<&str>) {
    if let (Some(connections), Some(why)) = (cap_held(summary), why) {
        let most = units::counted(u64::from(connections), "connection", "connections");
        let note = format!("At most {most} could be open at once: {why}.");
        summary.run.notes.push(note);
    }
}

/// The connection limit of an open loop, if requests waited because all connections were in use.
fn cap_held(summary: &Summary) -> Option<u32> {
    let (plan, t) = (&summary.plan, &summary.main);
    let Load::Open { connections, .. } = plan.load else { return None };
    // With more requests in flight than the connections can carry, some waited in the queue.
    // (Others may have waited there because their connection was lost.)
    let carried = u64::from(connections) * u64::from(plan.pipeline);
    let held = t.in_flight_max > carried && t.times.queue.count() > 0;
    (plan.sessions.is_none() && held).then_some(connections)
}

/// The note that requests of an open loop waited because of the connection limit. The user set this
/// limit, so it does not affect the verdict, but it explains the response times.
fn cap_reached(summary: &Summary) -> Option<String> {
    let (connections, t) = (cap_held(summary)?, &summary.main);
    Some(format!(
        "The limit of {} delayed requests: {} of {} waited in the client's queue, for up to {}. This \
         is part of their response times; -c raises the limit.",
        units::counted(u64::from(connections), "connection", "connections"),
        units::count(t.times.queue.count()),
        units::count(t.started),
        units::span(t.times.queue.max().unwrap_or_default()),
    ))
}

/// Notes about rate changes by the user during the run. The plan contains the rates themselves.
pub fn steered(summary: &Summary, control: &Control) -> Vec<String> {
    let start = Nanos::ZERO + summary.plan.warmup;
    let end = summary.main.end;
    let rate_changes: Vec<RateChange> =
        control.rate_changes().into_iter().filter(|s| s.from < end).collect();
    if rate_changes.is_empty() {
        return Vec::new();
    }
    let changes = rate_changes.iter().map(|change| {
        let what = match change.factor {
            0.0 => "paused".to_owned(),
            factor => units::percent(factor),
        };
        format!("{what} from {:.2} s", change.from.since(start).as_secs_f64())
    });
    let changes: Vec<String> = changes.collect();
    let mut notes = vec![format!(
        "The user changed the rate during the run: {}. The plan above includes these changes.",
        changes.join(", ")
    )];
    if control.applied_late() {
        notes.push(
            "A busy thread applied a rate change late, and so started some requests at the previous \
             rate."
                .into(),
        );
    }
    notes
}

/// The note that shared cookies need a single thread.
fn one_jar(plan: &Plan) -> Option<String> {
    let shared = plan.sessions.as_ref().is_some_and(|s| s.cookies == Cookies::Shared);
    shared.then(|| "All sessions share their cookies, so one thread runs them.".to_owned())
}

/// Operating system, kernel and number of cores, for the report.
fn host() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!("Linux {}, {cores} cores", kernel.trim())
}

#[cfg(test)]
mod tests {
    use prony_base::meter::WorkerStats;
    use prony_tally::record::Tally;

    use super::*;
    use crate::plan_file;

    /// An open loop with at most 5 connections and these replies by status.
    fn open(statuses: &[(u16, u64)], in_flight_max: u64) -> Summary {
        let plan = plan_file::tests::plan("url = 'http://h/'\nrate = 100\nconnections = 5");
        let mut tally = Tally { in_flight_max, ..Tally::default() };
        tally.statuses = statuses.iter().copied().collect();
        tally.times.queue.record(Span::from_millis(3));
        Summary::from_parts(plan, RunInfo::default(), vec![(None, tally, WorkerStats::default())])
    }

    #[test]
    fn unnamed_requests_are_named_after_method_and_path() {
        let named = |text: &str| {
            let plan = with_names(plan_file::tests::plan(text));
            let of =
                |call: &prony_plan::plan::CallSpec| Some(plan.names[call.name? as usize].clone());
            plan.calls.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(named("url = 'http://h/'"), [None]);
        let several = "url = 'http://h/'\nrequest = [{path = '/a?token=x'}, {path = '/b', name = 'look'}, \
                       {path = '/a?token=y'}, {path = '/b', method = 'POST'}]";
        let names = ["GET /a", "look", "GET /a", "POST /b"].map(|n| Some(n.to_owned()));
        assert_eq!(named(several), names);
    }

    #[test]
    fn explains_connection_limits_only_if_they_delayed_requests() {
        let notes = |in_flight_max, why| {
            let mut summary = open(&[], in_flight_max);
            explain_cap(&mut summary, why);
            summary.run.notes
        };
        let why = Some("the local ports allow no more");
        let note = "At most 5 connections could be open at once: the local ports allow no more.";
        assert_eq!(notes(6, why), [note]);
        assert_eq!(notes(5, why), [""; 0]);
        assert_eq!(notes(6, None), [""; 0]);
    }
}
