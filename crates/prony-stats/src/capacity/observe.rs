//! What a trial shows: for each threshold its excess, and the figures of the curve.

use prony_base::units::Span;
use prony_plan::plan::Load;
use prony_plan::threshold::{Counted, Figure, Relation, Scalar, Statistic, Threshold, Timed, Unit};
use prony_tally::record::Tally;
use prony_tally::record::series::bin_of;

use super::likelihood::PARTS;
use super::{Estimate, Limit, Point, Trial};
use crate::summary::{Bottleneck, Judgment, Reason, Summary, Verdict};

/// A target has fallen behind if at the end of a trial more than this share of its requests is
/// left, and more than this multiple of the mean concurrency plus a constant.
const LEFT_MAX: f64 = 0.01;
const LEFT_RATIO: f64 = 1.5;
const LEFT_MIN: f64 = 10.0;
/// And than this many standard deviations of the difference between arrivals and completions, if
/// both were Poisson: close to saturation, queues grow so far by chance.
const LEFT_SIGMAS: f64 = 3.0;

/// Below this excess, a threshold holds by far.
const FAR_BELOW: f64 = 0.25;

/// What a trial shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// For each threshold, in their order, its excess: the share of requests beyond the limit over
    /// the share that is allowed, or a mean over its limit. Above 1 the threshold is missed.
    pub excess: Vec<Option<f64>>,
    /// For each threshold of a percentile how many requests were beyond the limit in each quarter
    /// of the trial, if that is known: it shows how far they come in bursts.
    pub parts: Vec<Option<[f64; PARTS]>>,
    /// What limited the trial, if that was not the target: then it shows nothing of the target.
    pub limit: Option<Limit>,
    /// Whether all that the load generator lacked was time on its processors: then the trial can
    /// be repeated later.
    pub is_host_busy: bool,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Whether requests failed for the most part.
    pub failed: bool,
    /// What limited the trial.
    pub bottleneck: Option<Bottleneck>,
    /// Its figures.
    pub point: Point,
}

impl Observed {
    /// What the run of a trial shows of these thresholds.
    pub fn of(summary: &Summary, thresholds: &[Threshold], trial: Trial) -> Self {
        let judgment = summary.verdict();
        let bottleneck = summary.bottleneck(&judgment);
        let failed = judgment.verdict == Verdict::TargetFailed;
        let of = |t| if failed { Some(f64::INFINITY) } else { excess(summary, t) };
        let excess: Vec<Option<f64>> = thresholds.iter().map(of).collect();
        let parts = thresholds.iter().map(|t| parts(summary, t)).collect();
        let limit = limit(summary, &judgment, thresholds, &excess);
        let t = &summary.main;
        let point = Point {
            trial,
            seconds: t.window().as_secs_f64(),
            requests: t.started,
            p50: estimate(summary, "p50 < 1s"),
            p99: estimate(summary, "p99 < 1s"),
            errors: estimate(summary, "errors < 1%"),
            goodput: estimate(summary, "rate > 1/s"),
            excess: excess.iter().map(|e| e.filter(|e| e.is_finite())).collect(),
            holds: excess.iter().map(|e| e.map(|e| e <= 1.0)).collect(),
            kept_up: kept_up(t),
            verdict: judgment.verdict,
            counts: limit.is_none(),
            remark: None,
        };
        let is_host_busy = limit == Some(Limit::Meter) && lacks_only_time(&judgment);
        let interrupted = judgment.verdict == Verdict::Interrupted || summary.run.interrupted;
        Self { excess, parts, limit, is_host_busy, interrupted, failed, bottleneck, point }
    }
}

/// Why a threshold cannot be used in a search, as the end of a sentence; `None` if it can.
pub fn refusal(threshold: &Threshold) -> Option<&'static str> {
    let upper = matches!(threshold.relation, Relation::Below | Relation::AtMost);
    if threshold.abort.is_some() {
        return Some("a search ends its trials itself; leave ', abort' out");
    }
    match threshold.figure {
        Figure::Time(Timed::SendLag, _) => {
            Some("the send lag is the load generator's; the search checks it in every trial")
        }
        Figure::Time(_, Statistic::Min | Statistic::Max | Statistic::Stdev) => {
            Some("it depends on the length of a trial; use a percentile or the mean")
        }
        Figure::Time(..) | Figure::Scalar(Scalar::Concurrency) => {
            (!upper).then_some("it holds at high rates; write an upper limit with '<'")
        }
        Figure::Count(Counted::SessionsCompleted) => (upper || threshold.unit != Unit::Share)
            .then_some("write a share that must complete, as in 'session.completed > 99%'"),
        Figure::Count(_) if threshold.unit == Unit::Count => {
            let none = threshold.limit == 0.0 && threshold.relation != Relation::Above;
            (!none || threshold.relation == Relation::Below)
                .then_some("a count grows with the length of a trial; write a share such as '1%'")
        }
        Figure::Count(_) => {
            (!upper).then_some("it holds at high rates; write an upper limit with '<'")
        }
        Figure::Scalar(_) => Some(
            "the search sets the rate itself; use percentiles, mean, errors, timeouts or a status",
        ),
    }
}

/// The excess of a threshold; `None` if the trial has none.
fn excess(summary: &Summary, threshold: &Threshold) -> Option<f64> {
    if let Figure::Time(_, Statistic::Percentile(_)) = threshold.figure {
        return percentile_excess(summary, threshold);
    }
    let value = summary.checked(threshold).value?;
    Some(match threshold.relation {
        Relation::Above | Relation::AtLeast => (1.0 - value) / (1.0 - threshold.limit),
        // One failure is too many.
        _ if threshold.limit == 0.0 => {
            if value > 0.0 {
                f64::INFINITY
            } else {
                0.0
            }
        }
        _ => value / threshold.limit,
    })
}

/// The share of requests that took longer than a percentile's limit, over the share that is
/// allowed.
fn percentile_excess(summary: &Summary, threshold: &Threshold) -> Option<f64> {
    let Figure::Time(_, Statistic::Percentile(p)) = threshold.figure else { return None };
    let (n, beyond) = beyond(summary, threshold)?;
    (n > 0.0).then(|| beyond / n / (1.0 - p / 100.0))
}

/// How many times there are, and how many of them are beyond the limit.
fn beyond(summary: &Summary, threshold: &Threshold) -> Option<(f64, f64)> {
    let hist = summary.times_of(threshold)?;
    let limit = (threshold.limit as u64).max(1);
    let within = hist.count_between(Span::ZERO, Span(limit));
    Some((hist.count() as f64, hist.count().saturating_sub(within) as f64))
}

/// The same of each quarter of the trial, where the times of requests are kept by the time.
fn parts(summary: &Summary, threshold: &Threshold) -> Option<[f64; PARTS]> {
    let Figure::Time(timed, Statistic::Percentile(_)) = threshold.figure else { return None };
    let t = &summary.main;
    let series = match timed {
        _ if threshold.request.is_some() => return None,
        Timed::Response => &t.series,
        Timed::Service => t.service_series.as_deref()?,
        _ => return None,
    };
    let (_, all) = beyond(summary, threshold)?;
    let (from, until) = (t.start.since(series.start()), t.end.since(series.start()));
    let length = until.saturating_sub(from).as_secs_f64().max(1e-9);
    let limit = bin_of(Span(threshold.limit as u64));
    let mut parts = [0.0; PARTS];
    for (start, block) in series.blocks().between(from, until) {
        let part = start.saturating_sub(from).as_secs_f64() / length * PARTS as f64;
        let above = block.bins.iter().filter(|(bin, _)| *bin > limit);
        parts[(part as usize).min(PARTS - 1)] += above.map(|(_, n)| f64::from(*n)).sum::<f64>();
    }
    // The bins are coarse: their shares are right, their sum is near the exact one.
    let sum: f64 = parts.iter().sum();
    (sum > 0.0 || all == 0.0).then(|| parts.map(|n| n * all / sum.max(1.0)))
}

fn estimate(summary: &Summary, threshold: &str) -> Estimate {
    let Ok(threshold) = threshold.parse() else { return Estimate::default() };
    let checked = summary.checked(&threshold);
    Estimate { value: checked.value, interval: checked.interval }
}

/// Whether the target kept up.
fn kept_up(t: &Tally) -> bool {
    has_kept_up(t.started, t.replies_in_drain + t.unfinished, t.concurrency())
}

/// Whether at the end of a trial no more of its requests are left than chance and its mean
/// concurrency explain.
pub(super) fn has_kept_up(started: u64, left: u64, concurrency: f64) -> bool {
    let by_chance = LEFT_SIGMAS * (2.0 * started as f64).sqrt();
    let most = (LEFT_RATIO * concurrency + LEFT_MIN).max(started as f64 * LEFT_MAX);
    left as f64 <= most.max(by_chance)
}

/// What limited the trial, if that was not the target.
fn limit(
    summary: &Summary,
    judgment: &Judgment,
    thresholds: &[Threshold],
    excess: &[Option<f64>],
) -> Option<Limit> {
    if judgment.verdict == Verdict::ClientLimited {
        // The throughput of a closed loop depends on the load generator's delays.
        let is_open = matches!(summary.plan.load, Load::Open { .. });
        let holds =
            is_open && kept_up(&summary.main) && holds_despite(judgment, thresholds, excess);
        return (!holds).then_some(Limit::Meter);
    }
    let Load::Open { .. } = summary.plan.load else { return None };
    let t = &summary.main;
    let waited = t.times.queue.count() as f64 > t.started as f64 * LEFT_MAX;
    // A target that is overloaded fills any number of connections. The limit itself matters where
    // the requests that were sent were fast enough, and only the wait for a connection was not.
    let own = thresholds.iter().zip(excess).any(|(threshold, excess)| {
        let Figure::Time(Timed::Response, Statistic::Percentile(p)) = threshold.figure else {
            return false;
        };
        let served = t.times.service.estimate(p / 100.0).map(|time| time.0 as f64);
        threshold.request.is_none()
            && excess.is_some_and(|excess| excess > 1.0)
            && served.is_some_and(|time| time < threshold.limit)
    });
    (waited && own).then_some(Limit::Connections)
}

/// Whether the thresholds hold by far although the load generator was late. It offered the load as
/// planned, and its own delays make the times longer, so without them they would hold, too. A trial
/// near the limit must be valid: to use only those that hold would move the estimate.
fn holds_despite(judgment: &Judgment, thresholds: &[Threshold], excess: &[Option<f64>]) -> bool {
    // Messages that wait to be read arrive without a gap.
    let grows = |t: &Threshold| {
        let of_gaps = [Timed::MessageGap, Timed::ChunkGap, Timed::Itl, Timed::Transfer];
        !matches!(t.figure, Figure::Time(time, _) if of_gaps.contains(&time))
    };
    let far = |(t, e): (&Threshold, &Option<f64>)| grows(t) && e.is_some_and(|e| e < FAR_BELOW);
    lacks_only_time(judgment) && thresholds.iter().zip(excess).all(far)
}

/// Whether all reasons against a trial are delays of the load generator.
fn lacks_only_time(judgment: &Judgment) -> bool {
    judgment.reasons.iter().all(|reason| {
        matches!(
            reason,
            Reason::SendLag { .. }
                | Reason::CpuThrottled { .. }
                | Reason::CpuStolen { .. }
                | Reason::RunQueueDelay { .. }
                | Reason::EventLoopStall { .. }
        )
    })
}
