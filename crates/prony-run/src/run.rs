//! A plan to a summary: on the network, or in the virtual world.

use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use prony_core::plan::{Cookies, Load, Plan, Stop};
use prony_core::schedule::Steer;
use prony_core::serve::ServeLaw;
use prony_core::summary::confidence::{Goal, Until, Watch};
use prony_core::summary::{CommandLine, RunInfo, Summary};
use prony_core::units::{Nanos, Span};
use prony_io::{Control, Live, Options, Outcome, Precision};
use prony_report::units;

use crate::error::Error;
use crate::here;
use crate::tls;

/// What the report must say of where a plan comes from.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// What was typed.
    pub command: CommandLine,
    /// How the plan came to be, in whole sentences.
    pub notes: Vec<String>,
}

/// How long a run in virtual time is tried first.
const TRY: Span = Span::from_secs(16);

/// Carry out the plan on the network. Everything that can be refused is refused before the load
/// starts. `control` ends the run before its time; `watch` is told how the load goes, about 20
/// times a second.
///
/// # Errors
/// The machine refuses what the plan needs.
pub fn run(
    plan: &Plan,
    options: &Options,
    control: &Control,
    watch: &mut dyn FnMut(&Live),
    provenance: Provenance,
) -> Result<Summary, Error> {
    let begun = SystemTime::now();
    let options = &with_tls(plan, options)?;
    let outcome = prony_io::run(plan, options, control, watch);
    let mut summary = summary(outcome?, begun, options, provenance);
    summary.run.notes.extend(steered(&summary, control));
    Ok(summary)
}

/// Whether that could be run here.
///
/// # Errors
/// The machine refuses what the plan needs.
pub fn check(plan: &Plan, options: &Options) -> Result<(), Error> {
    Ok(prony_io::check(plan, &with_tls(plan, options)?)?)
}

/// The options with what the plan's secured connections need.
fn with_tls(plan: &Plan, options: &Options) -> Result<Options, Error> {
    Ok(Options { tls: tls::context(plan)?, ..options.clone() })
}

fn summary(
    outcome: Outcome,
    begun: SystemTime,
    options: &Options,
    Provenance { command, mut notes }: Provenance,
) -> Summary {
    let started = begun.duration_since(UNIX_EPOCH).ok().map(|d| d.as_secs_f64());
    notes.extend(outcome.notes);
    let info = RunInfo {
        version: env!("CARGO_PKG_VERSION").into(),
        command,
        started_unix: started,
        driver: outcome.driver.into(),
        target_here: here::target(&outcome.plan, &outcome.addresses),
        addresses: outcome.addresses,
        host: host(),
        descriptor_limit: outcome.descriptor_limit,
        interrupted: outcome.interrupted,
        percentile: None,
        grain: match options.precision {
            Precision::Grain(grain) => Some(grain),
            Precision::Sleep | Precision::Auto | Precision::Spin => None,
        },
        withheld: outcome.withheld,
        until: None,
        self_test: None,
        connections_as_sessions: false,
        plan_size: None,
        secrets_shown: false,
        notes,
    };
    let parts = outcome.tallies.into_iter().zip(outcome.meters);
    let parts = parts.map(|((warmup, main), meter)| (warmup, main, meter)).collect();
    noted(Summary::from_parts(outcome.plan, info, parts))
}

/// Carry out the plan in virtual time against a target server with that law: the same for the same
/// arguments, to the byte. `threads` shares of the plan run side by side,
/// as far as it can be split. What `goals` need to be looked at is kept.
pub fn simulate(
    plan: &Plan,
    threads: u32,
    seed: u64,
    server: &ServeLaw,
    goals: &[Goal],
    provenance: Provenance,
) -> Summary {
    let parts = prony_sim::simulate(plan, threads, seed, server, of_service(goals));
    let info = RunInfo {
        version: env!("CARGO_PKG_VERSION").into(),
        command: provenance.command,
        driver: "simulation".into(),
        notes: provenance.notes,
        ..RunInfo::default()
    };
    noted(Summary::from_parts(plan.clone(), info, parts))
}

/// A run in virtual time that ends by its goals: as long as `simulate` needs to reach them, and no
/// longer than the plan. Virtual time can be had again, so it is tried how long that is.
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
        // What ends after the look may make an interval wider again.
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

/// Whether one of the goals is of the service times.
pub fn of_service(goals: &[Goal]) -> bool {
    goals.iter().any(Goal::is_of_service)
}

/// The summary with what its own figures call for.
fn noted(mut summary: Summary) -> Summary {
    let notes = cap_reached(&summary).into_iter().chain(one_jar(&summary.plan));
    let notes: Vec<_> = notes.chain(redirected(&summary)).collect();
    summary.run.notes.extend(notes);
    summary
}

/// Say why an open loop could not open more connections, where that held requests back and the user
/// did not say how many.
pub fn explain_cap(summary: &mut Summary, why: Option<&str>) {
    if let (Some(connections), Some(why)) = (cap_held(summary), why) {
        let most = units::counted(u64::from(connections), "connection", "connections");
        let note = format!("No more than {most} could be open at once: {why}.");
        summary.run.notes.push(note);
    }
}

/// The cap on an open loop's connections, where requests waited because all were taken.
fn cap_held(summary: &Summary) -> Option<u32> {
    let (plan, t) = (&summary.plan, &summary.main);
    let Load::Open { connections, .. } = plan.load else { return None };
    // More in flight than the connections can carry: then some stood in the queue. (Others may have
    // stood there because they lost their connection.)
    let carried = u64::from(connections) * u64::from(plan.pipeline);
    let held = t.in_flight_max > carried && t.times.queue.count() > 0;
    (plan.sessions.is_none() && held).then_some(connections)
}

/// That an open loop's requests waited because all connections that it may open were taken. It is
/// what was asked for, so it does not touch the verdict; but whoever reads the times must know.
fn cap_reached(summary: &Summary) -> Option<String> {
    let (connections, t) = (cap_held(summary)?, &summary.main);
    Some(format!(
        "The cap of {} held requests back: {} of {} waited in the client's queue, the longest for \
         {}, which is part of their response times; -c raises it.",
        units::counted(u64::from(connections), "connection", "connections"),
        units::count(t.times.queue.count()),
        units::count(t.started),
        units::span(t.times.queue.max().unwrap_or_default()),
    ))
}

/// How the user has changed the rate while the run went on; the rates themselves stand in the plan.
fn steered(summary: &Summary, control: &Control) -> Vec<String> {
    let begin = Nanos::ZERO + summary.plan.warmup;
    let end = summary.main.end;
    let steers: Vec<Steer> = control.steers().into_iter().filter(|s| s.from < end).collect();
    if steers.is_empty() {
        return Vec::new();
    }
    let told = steers.iter().map(|steer| {
        let what = match steer.factor {
            0.0 => "a pause".to_owned(),
            factor => units::percent(factor),
        };
        format!("{what} from {:.2} s on", steer.from.since(begin).as_secs_f64())
    });
    let told: Vec<String> = told.collect();
    let mut notes = vec![format!(
        "The rate was changed by hand while the run went on: {}. The plan above has it so.",
        told.join(", ")
    )];
    if control.heard_late() {
        notes.push(
            "A thread was too busy to hear of a change before its moment: some requests behind it \
             were still started at the rate before."
                .into(),
        );
    }
    notes
}

/// Why a run in which all sessions share their cookies has one thread.
fn one_jar(plan: &Plan) -> Option<String> {
    let shared = plan.sessions.as_ref().is_some_and(|s| s.cookies == Cookies::Shared);
    shared.then(|| "All sessions share one jar of cookies, so one thread runs them.".to_owned())
}

/// That many replies were redirects, which are replies like any other here: a tool that follows
/// them measures other pages.
fn redirected(summary: &Summary) -> Option<String> {
    let statuses = &summary.main.statuses;
    let redirects: u64 = [301, 302, 303, 307, 308].iter().filter_map(|s| statuses.get(s)).sum();
    let replies: u64 = statuses.values().sum();
    (redirects > 0 && redirects * 10 >= replies).then(|| {
        format!(
            "{} of {} were redirects (3xx), which are not followed.",
            units::count(redirects),
            units::counted(replies, "reply", "replies")
        )
    })
}

/// Operating system, kernel and processors, for the report.
fn host() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!("Linux {}, {cores} cores", kernel.trim())
}

#[cfg(test)]
mod tests {
    use prony_core::record::Tally;
    use prony_core::summary::Meter;

    use super::*;
    use crate::plan_file;

    /// An open loop of at most 5 connections, with these replies by status.
    fn open(statuses: &[(u16, u64)], in_flight_max: u64) -> Summary {
        let plan = plan_file::tests::plan("url = 'http://h/'\nrate = 100\nconnections = 5");
        let mut tally = Tally { in_flight_max, ..Tally::default() };
        tally.statuses = statuses.iter().copied().collect();
        tally.times.queue.record(Span::from_millis(3));
        Summary::from_parts(plan, RunInfo::default(), vec![(None, tally, Meter::default())])
    }

    #[test]
    fn redirects_are_noted_where_they_are_many() {
        let noted = |statuses: &[(u16, u64)]| redirected(&open(statuses, 0));
        let all = "4,000 of 4,000 replies were redirects (3xx), which are not followed.";
        assert_eq!(noted(&[(302, 4_000)]).as_deref(), Some(all));
        assert!(noted(&[(200, 90), (301, 4), (308, 6)]).is_some());
        assert_eq!(noted(&[(200, 91), (307, 9)]), None);
        // Not modified is no redirect.
        assert_eq!(noted(&[(304, 100)]), None);
        assert_eq!(noted(&[]), None);
    }

    #[test]
    fn a_cap_is_explained_only_where_it_held_requests_back() {
        let notes = |in_flight_max, why| {
            let mut summary = open(&[], in_flight_max);
            explain_cap(&mut summary, why);
            summary.run.notes
        };
        let why = Some("what the local ports allow");
        let note = "No more than 5 connections could be open at once: what the local ports allow.";
        assert_eq!(notes(6, why), [note]);
        assert_eq!(notes(5, why), [""; 0]);
        assert_eq!(notes(6, None), [""; 0]);
    }
}
