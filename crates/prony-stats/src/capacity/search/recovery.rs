//! After an overload, the search probes the target at a low rate until it replies as before.

use prony_base::units::Span;

use super::{Observed, PROBE_REQUESTS, Phase, Recovering, Search};
use crate::capacity::{Finding, Recovery};

/// A target has recovered if its median is at most this multiple of that before, plus a constant.
const RECOVERED_RATIO: f64 = 1.5;
const RECOVERED_MORE_NS: f64 = 200_000.0;
/// How long a target may take to recover, at least, and as a share of the budget.
const RECOVERY: Span = Span::from_secs(10);
const RECOVERY_SHARE: f64 = 0.1;

impl Search {
    /// Starts to probe, if there is a rate at which the target's latency is known.
    pub(super) fn recover(&mut self, overload: f64) {
        let known = |o: &&Observed| {
            let (rate, requests) = (o.point.trial.rate, o.point.requests as f64);
            rate <= overload / 4.0 && requests >= PROBE_REQUESTS && o.point.p50.value.is_some()
        };
        let slowest = self.valid().filter(known).max_by(|a, b| {
            let rate = |o: &Observed| o.point.trial.rate;
            rate(a).total_cmp(&rate(b))
        });
        let Some(known) = slowest else { return };
        let (probe, before) = (known.point.trial.rate, known.point.p50.value);
        let before_ns = before.unwrap_or_default();
        let since = self.spent;
        self.recovering = Some(Recovering { overload, probe, before_ns, after_ns: None, since });
    }

    pub(super) fn probed(&mut self, observed: &Observed) {
        let Some(mut recovering) = self.recovering else { return };
        recovering.after_ns = observed.point.p50.value;
        let limit = recovering.before_ns * RECOVERED_RATIO + RECOVERED_MORE_NS;
        let errors = observed.point.errors.value.unwrap_or(1.0);
        let back = recovering.after_ns.is_some_and(|after| after <= limit) && errors < 0.1;
        let waited = self.spent.saturating_sub(recovering.since);
        self.recovering = (!back).then_some(recovering);
        let Recovering { overload, probe, before_ns, after_ns, .. } = recovering;
        if back {
            let last = observed.point.seconds;
            let seconds = (waited.as_secs_f64() - last).max(0.0);
            self.recoveries.push(Recovery { overload, probe, seconds });
            return;
        }
        let patience =
            RECOVERY.as_secs_f64().max(self.settings.budget.as_secs_f64() * RECOVERY_SHARE);
        let waited = waited.as_secs_f64();
        if waited >= patience || self.left() == Span::ZERO {
            let held = self.bracket().0;
            self.phase = Phase::Over(Finding::NotRecovered {
                held,
                overload,
                probe,
                before_ns,
                after_ns,
                waited,
            });
        }
    }
}
