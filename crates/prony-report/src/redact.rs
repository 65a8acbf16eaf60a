//! Reports are passed on, so they hide what may be a secret, unless the run says that it shows it:
//! every format is made of what `shown` leaves.

use prony_core::plan::Plan;
use prony_core::summary::Summary;

/// The run as reports show it: an excerpt of its plan with the size of the whole, and without
/// secrets in plan and command line.
pub(super) fn shown(summary: &Summary) -> Summary {
    let mut run = summary.run.clone();
    let mut size = run.plan_size.take().unwrap_or_else(|| summary.plan.size());
    let mut plan = summary.plan.excerpt();
    if !run.secrets_shown {
        run.command.hide();
        plan = plan.hidden();
    }
    size.body_bytes.truncate(plan.calls.len());
    run.plan_size = Some(size);
    Summary {
        plan,
        run,
        warmup: summary.warmup.clone(),
        main: summary.main.clone(),
        meters: summary.meters.clone(),
    }
}

/// A plan without secrets, for those who show one that is no report's.
pub fn plan(plan: &Plan) -> Plan {
    plan.excerpt().hidden()
}
