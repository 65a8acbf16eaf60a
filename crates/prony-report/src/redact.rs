//! Reports are shared, so they hide possible secrets unless the run allows showing them. Every
//! format is rendered from the result of `shown`.

use prony_core::plan::Plan;
use prony_core::summary::Summary;

/// The run as reports show it: with an excerpt of a large plan and the size of the full one, and
/// without secrets in plan and command line.
pub(super) fn shown(summary: &Summary) -> Summary {
    let mut run = summary.run.clone();
    let mut size = run.plan_size.take().unwrap_or_else(|| summary.plan.size());
    let mut plan = summary.plan.excerpt();
    if !run.secrets_shown {
        run.command.hide();
        run.replay.iter_mut().for_each(|replay| replay.hide());
        plan = plan.hidden();
    }
    size.body_bytes.truncate(plan.calls.len());
    run.plan_size = Some(size);
    Summary {
        plan,
        run,
        warmup: summary.warmup.clone(),
        main: summary.main.clone(),
        workers: summary.workers.clone(),
    }
}

/// A plan without secrets, for output other than reports.
pub fn plan(plan: &Plan) -> Plan {
    plan.excerpt().hidden()
}
