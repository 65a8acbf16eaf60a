//! Reports are shared, so they hide possible secrets unless the run allows showing them. Every
//! format is rendered from the result of `shown`.

use prony_base::secret::{HIDDEN, shown_header};
use prony_plan::plan::{Plan, PlanSize};
use prony_stats::summary::Summary;
use prony_tally::record::Tally;

/// The run as reports show it: with an excerpt of a large plan and the size of the full one, and
/// without secrets in plan and command line.
pub(super) fn shown(summary: &Summary) -> Summary {
    let mut run = summary.run.clone();
    let mut size = run.plan_size.take().unwrap_or_else(|| summary.plan.size());
    let mut plan = summary.plan.excerpt();
    let (mut warmup, mut main) = (summary.warmup.clone(), summary.main.clone());
    if !run.secrets_shown {
        warmup.iter_mut().chain([&mut main]).for_each(|t| hide_bodies(t, &plan, &size));
        run.command.hide();
        run.replay.iter_mut().for_each(|replay| replay.hide());
        plan = plan.hidden();
    }
    size.body_bytes.truncate(plan.calls.len());
    run.plan_size = Some(size);
    Summary { plan, run, warmup, main, workers: summary.workers.clone() }
}

/// Hide the bodies of failed replies that may repeat a secret of their requests: what these fill
/// in, their bodies, and headers that are hidden.
fn hide_bodies(tally: &mut Tally, plan: &Plan, size: &PlanSize) {
    for first in tally.first_failures.values_mut().filter(|first| !first.body.is_empty()) {
        if may_repeat_secret(plan, size, &first.body) {
            first.body = HIDDEN.to_owned();
        }
    }
}

/// Whether the body of a reply may repeat a secret of a request of this plan, which has this size.
pub fn may_repeat_secret(plan: &Plan, size: &PlanSize, body: &str) -> bool {
    let sends_more = size.body_bytes_max > 0 || plan.calls.iter().any(|call| call.template);
    let headers = plan.calls.iter().flat_map(|call| &call.headers);
    let hidden = headers.filter(|(name, value)| shown_header(name, value) == HIDDEN);
    let hidden: Vec<&str> = hidden.map(|(_, value)| value.as_str()).collect();
    let queries = plan.calls.iter().filter_map(|call| call.path.split_once('?'));
    let queries: Vec<&str> =
        queries.flat_map(|(_, query)| query.split(['&', '='])).filter(|v| !v.is_empty()).collect();
    sends_more || hidden.iter().chain(&queries).any(|text| body.contains(*text))
}

/// A plan without secrets, for output other than reports.
pub fn plan(plan: &Plan) -> Plan {
    plan.excerpt().hidden()
}
