//! How a plan is executed: on the network with progress, or in a virtual world.

use std::sync::Arc;

use prony_io::{Control, Options};
use prony_plan::plan::{CallSpec, Plan};
use prony_report::units;
use prony_run::abort::Aborter;
use prony_run::contact;
use prony_run::error::Error;
use prony_run::goals::GoalWatch;
use prony_run::interrupt::stoppable;
use prony_run::run::{self, Provenance};
use prony_server::serve::ServerBehavior;
use prony_stats::summary::Summary;
use prony_stats::summary::confidence::Goal;

use crate::cli::exec_options::ExecArgs;
use crate::cli::output::OutputArgs;
use crate::progress::{self, Progress};
use crate::selftest;
use crate::users::Users;

/// The server of a simulated run.
pub(super) fn server_of(exec: &ExecArgs) -> ServerBehavior {
    let latency = exec.simulate_latency.unwrap_or_default();
    ServerBehavior { latency, workers: exec.simulate_workers, ..ServerBehavior::default() }
}

/// Runs a plan in a virtual world with this seed, until its end, its goals or a threshold.
pub(super) fn simulated(
    plan: &Plan,
    exec: &ExecArgs,
    seed: u64,
    goals: &[Goal],
    provenance: &Provenance,
) -> Summary {
    let server = server_of(exec);
    let simulate = |plan: &Plan| {
        let mut provenance = provenance.clone();
        let threads = exec.threads.unwrap_or(1);
        let (filled, note) = with_stand_ins(plan);
        provenance.notes.extend(note);
        let summary = run::simulate(&filled, threads, seed, &server, goals, provenance);
        Summary { plan: plan.clone(), ..summary }
    };
    run::aborted(plan, &|plan| run::until(plan, goals, &simulate))
}

/// The value that a session extracts from replies of a simulated target.
const STAND_IN: &str = "simulated";

/// The plan for a simulated target, from whose replies no value can be extracted: adds a default
/// to each extract without one. The note names these.
pub(super) fn with_stand_ins(plan: &Plan) -> (Plan, Option<String>) {
    let mut plan = plan.clone();
    let mut names = Vec::new();
    let lacks = |call: &CallSpec| call.extract.iter().any(|e| e.default.is_none());
    if plan.calls.iter().any(lacks) {
        for extract in plan.calls.iter_mut().flat_map(|call| &mut call.extract) {
            if extract.default.is_none() {
                extract.default = Some(STAND_IN.to_owned());
                names.push(format!("`{}`", extract.variable));
            }
        }
    }
    names.sort();
    names.dedup();
    let note = (!names.is_empty()).then(|| {
        format!(
            "Replies of the simulated target have no value for {}; requests use '{STAND_IN}'.",
            names.join(", ")
        )
    });
    (plan, note)
}

/// Adds the result of the last self-test on this host.
pub(super) fn cited(mut summary: Summary) -> Summary {
    summary.run.self_test = selftest::cite::cited();
    summary
}

/// Runs a plan on the network, with progress, until its end, its goals or Ctrl-C.
pub(super) fn on_the_network(
    plan: &Plan,
    goals: &[Goal],
    options: &Options,
    output: &OutputArgs,
    provenance: Provenance,
) -> Result<Summary, Error> {
    let users = output.embedding.as_ref().and_then(|embedding| embedding.users.as_ref());
    let mode = progress::mode(output)?;
    let control = control(output)?;
    let progress = Progress::new(plan, mode, output.embedding.as_ref(), &control);
    with_progress(plan, goals, options, progress, &control, users, provenance)
}

/// The same, shown by `progress` and stopped by `control`.
pub(super) fn with_progress(
    plan: &Plan,
    goals: &[Goal],
    options: &Options,
    mut progress: Progress,
    control: &Arc<Control>,
    users: Option<&Users>,
    provenance: Provenance,
) -> Result<Summary, Error> {
    let mut watcher = GoalWatch::new(goals, plan, control);
    let watched = progress.is_screen();
    let mut aborter = Aborter::new(plan, control);
    let blocks = watcher.is_some() || aborter.is_some();
    let keep_service = run::needs_service(goals, plan);
    let options = Options {
        detail: watched,
        adjustable_rate: watched,
        blocks,
        keep_service,
        // Threads would wait for each other in the program.
        threads: options.threads.or_else(|| users.map(|_| 1)),
        directors: users.map(|users| users.directors.clone()),
        ..options.clone()
    };
    let mut watch = |live: &_| {
        if let Some(watcher) = &mut watcher {
            watcher.look(live);
            progress.aim(aim(watcher));
        }
        if let Some(aborter) = &mut aborter {
            aborter.look(live);
        }
        progress.show(live);
    };
    let result = run::run(plan, &options, control, &mut watch, provenance);
    progress.finish();
    let mut summary = result?;
    if let Some(watcher) = watcher {
        watcher.note(&mut summary);
    }
    if let Some(aborter) = aborter {
        aborter.note(&mut summary);
    }
    if let Some(users) = users {
        users.finish(&mut summary);
    }
    Ok(summary)
}

/// What stops a run: the program that embeds prony, or signals.
pub(super) fn control(output: &OutputArgs) -> Result<Arc<Control>, Error> {
    output.embedding.as_ref().map_or_else(stoppable, |e| Ok(Arc::clone(&e.control)))
}

/// The precision of the figures so far, for the end of a progress line.
fn aim(watcher: &GoalWatch<'_>) -> String {
    let known = watcher.reached().map(|(goal, reach)| match reach {
        Ok(reach) => format!(", {goal}: known to {} so far", units::bar(reach)),
        Err(_) => format!(", {goal}: too few samples so far"),
    });
    known.collect()
}

/// Refuses to go on with other runs after one that has not reached its target.
pub(super) fn check_contact(summary: &Summary, exec: &ExecArgs) -> Result<(), Error> {
    if exec.keep_trying { Ok(()) } else { contact::check(summary) }
}
