//! `prony URL...`: the load.

use prony_core::plan::{CallSpec, Plan};
use prony_core::serve::ServeLaw;
use prony_core::summary::Summary;
use prony_core::summary::confidence::Goal;
use prony_io::Options;
use prony_report::units;
use prony_run::builder::Planned;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::goals::Ender;
use prony_run::interrupt::stoppable;
use prony_run::output::{self, Outputs};
use prony_run::plan_file;
use prony_run::run::{self, Provenance};

use super::style;
use crate::cli::LoadArgs;
use crate::cli::means::MeansArgs;
use crate::cli::output::OutputArgs;
use crate::cli::plan;
use crate::cli::refusal::command_as_url;
use crate::cli::shown::recorded;
use crate::means::{environment, options};
use crate::progress::{self, Progress, Telling};
use crate::selftest;

/// Load what the options name, report, and say how it ended.
pub(super) fn load(args: &LoadArgs, typed: Vec<String>) -> Result<Exit, Error> {
    if let Some(tool) = args.urls.iter().find(|url| prony_compat::is_known(url)) {
        return Err(command_as_url(tool));
    }
    let planned = plan::plan(args, &environment(&args.means, args.unix_socket.is_some()))?;
    if args.explain {
        return explain(&planned);
    }
    carry_out(planned, &args.means, &args.until.until, &args.output, typed)
}

/// Print the plan file of a run.
pub(super) fn explain(planned: &Planned) -> Result<Exit, Error> {
    let text = plan_file::explain(&planned.plan, &planned.notes);
    output::to_stdout(text.as_bytes()).map(|()| Exit::Done)
}

/// Make the run, report, and say how it ended.
pub(super) fn carry_out(
    planned: Planned,
    means: &MeansArgs,
    goals: &[Goal],
    output: &OutputArgs,
    typed: Vec<String>,
) -> Result<Exit, Error> {
    let Planned { plan, notes, cap } = planned;
    if means.simulate.is_some() && plan.endpoints.iter().any(|e| e.tls_name().is_some()) {
        let why = "the virtual servers speak no TLS; use http://";
        return Err(Error::Conflict("--simulate", "an https:// URL", why));
    }
    if means.simulate.is_some() && output.tui {
        let why = "a simulated run takes no time to be watched";
        return Err(Error::Conflict("--tui", "--simulate", why));
    }
    let outputs = Outputs::prepare(&output.to.output)?;
    let provenance = Provenance { command: recorded(typed), notes };
    let mut summary = match means.simulate {
        Some(seed) => {
            let latency = means.simulate_latency.unwrap_or_default();
            let server = ServeLaw { latency, ..ServeLaw::default() };
            let simulate = |plan: &Plan| {
                let mut provenance = provenance.clone();
                let threads = means.threads.unwrap_or(1);
                let (filled, note) = with_stand_ins(plan);
                provenance.notes.extend(note);
                let summary = run::simulate(&filled, threads, seed, &server, goals, provenance);
                Summary { plan: plan.clone(), ..summary }
            };
            run::until(&plan, goals, &simulate)
        }
        None => {
            let run = on_the_network(&plan, goals, &options(means), output, provenance)?;
            cited(run)
        }
    };
    summary.run.percentile = means.percentile;
    run::explain_cap(&mut summary, cap.as_deref());
    finish(&mut summary, outputs, output, means.accept_invalid)
}

/// What stands where a simulated target's reply lacks a value that a session takes out of it.
const STAND_IN: &str = "simulated";

/// The plan for a simulated target, whose replies have nothing to take out: each value that has no
/// default gets one. With the note that says so, where there are any.
fn with_stand_ins(plan: &Plan) -> (Plan, Option<String>) {
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
            "The simulated target's replies have no value for {}: requests say '{STAND_IN}' instead.",
            names.join(", ")
        )
    });
    (plan, note)
}

/// The run with what the last self-test on this host came to.
fn cited(mut summary: Summary) -> Summary {
    summary.run.self_test = selftest::cite::cited();
    summary
}

/// A run on the network, with progress, that Ctrl-C ends, or its goals.
pub(super) fn on_the_network(
    plan: &Plan,
    goals: &[Goal],
    options: &Options,
    output: &OutputArgs,
    provenance: Provenance,
) -> Result<Summary, Error> {
    let telling = progress::telling(output)?;
    let control = stoppable()?;
    let mut progress = Progress::new(plan, telling, &control);
    let mut ender = Ender::new(goals, plan, &control);
    let watched = matches!(telling, Telling::Screen(_));
    let blocks = ender.is_some();
    let keep_service = run::of_service(goals);
    let options =
        Options { detail: watched, steerable: watched, blocks, keep_service, ..options.clone() };
    let mut watch = |live: &_| {
        if let Some(ender) = &mut ender {
            ender.look(live);
            progress.aim(aim(ender));
        }
        progress.show(live);
    };
    let result = run::run(plan, &options, &control, &mut watch, provenance);
    progress.finish();
    let mut summary = result?;
    if let Some(ender) = ender {
        ender.note(&mut summary);
    }
    Ok(summary)
}

/// How closely the figures are known, as the end of a line.
fn aim(ender: &Ender<'_>) -> String {
    let known = ender.reached().map(|(goal, reach)| match reach {
        Ok(reach) => format!(", {} of {goal}", units::bar(reach)),
        Err(_) => format!(", too early for {goal}"),
    });
    known.collect()
}

/// Print and write the reports, and tell how the run ended.
pub(super) fn finish(
    summary: &mut Summary,
    outputs: Outputs,
    output: &OutputArgs,
    accept_invalid: bool,
) -> Result<Exit, Error> {
    summary.run.secrets_shown = output.to.show_secrets;
    // The files first: a standard output that is gone must not lose them.
    let written = outputs.write(summary);
    output::print(output.to.stdout_format(), summary, &style())?;
    written?;
    Ok(Exit::of(summary, accept_invalid))
}
