//! Whether thresholds are met: each by its figure and the figure's 95 % confidence interval.
//!
//! A figure that is a fact of the run (a count, a maximum, the load on the meter) is compared as it
//! is. Any other one is an estimate of how the target behaves, and decides nothing while its limit
//! lies inside its interval. `docs/terms.md` says where each interval comes from.

mod parts;
mod sequential;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Summary;
use super::confidence::{Confidence, Interval, NoInterval, t_quantile};
use crate::fault::{Fault, FaultClass};
use crate::record::hist::Hist;
use crate::record::series::Cell;
use crate::record::{Broadcast, NameTally, StreamTime, Tally, TokenTally};
use crate::threshold::{Counted, Figure, Relation, Scalar, Statistic, Threshold, Timed, Unit};
use crate::units::{Nanos, Span};
pub use parts::share_of_check;
pub use sequential::Sequential;

/// The fewest intervals of the series from which a variance is estimated.
const CELLS_LEAST: usize = 8;
/// Into how many batches they are joined at most.
const BATCHES_MAX: usize = 32;
/// Degrees of freedom where the variance is that of independent events.
const KNOWN: f64 = 1e9;
/// The chance of a false decision on each side of a 95 % confidence interval.
const TAIL: f64 = 0.025;

/// What a threshold comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The whole interval keeps to it.
    Met,
    /// No part of the interval does; or, of a percentile without an interval, no time at all does;
    /// or it has ended the load ([`Sequential`]).
    Missed,
    /// The limit lies inside the interval, or there is none.
    Undecided,
}

/// A threshold that was decided, or could not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What was asked.
    pub threshold: Threshold,
    /// The figure in the threshold's unit; `None` where the run has none.
    pub value: Option<f64>,
    /// Its 95 % confidence interval; `None` where the figure is exact, or has none.
    pub interval: Option<Interval>,
    /// Why an estimate has no interval.
    pub no_interval: Option<NoInterval>,
    /// Whether the threshold is met.
    pub outcome: Outcome,
}

/// A figure and how well it is known.
struct Known {
    value: Option<f64>,
    /// `Ok(None)`: exactly.
    interval: Result<Option<Interval>, NoInterval>,
}

impl Known {
    const NOTHING: Self = Self { value: None, interval: Err(NoInterval::Empty) };

    fn exact(value: f64) -> Self {
        Self { value: Some(value), interval: Ok(None) }
    }

    fn estimate(value: f64, interval: Result<Interval, NoInterval>) -> Self {
        Self { value: Some(value), interval: interval.map(Some) }
    }
}

impl Checked {
    fn of(threshold: &Threshold, known: Known) -> Self {
        let (relation, limit) = (threshold.relation, threshold.limit);
        let holds = |value: f64| relation.holds(value, limit);
        let outcome = match (known.value, known.interval) {
            (Some(value), Ok(None)) => {
                if holds(value) {
                    Outcome::Met
                } else {
                    Outcome::Missed
                }
            }
            (Some(_), Ok(Some(Interval { lo, hi }))) => match (holds(lo), holds(hi)) {
                (true, true) if relation != Relation::Equal => Outcome::Met,
                (false, false) => Outcome::Missed,
                _ => Outcome::Undecided,
            },
            _ => Outcome::Undecided,
        };
        Self {
            threshold: threshold.clone(),
            value: known.value,
            interval: known.interval.ok().flatten(),
            no_interval: known.interval.err(),
            outcome,
        }
    }
}

impl Summary {
    /// The run's thresholds, decided by its measurement. A share of a run decides nothing.
    pub fn thresholds(&self) -> Vec<Checked> {
        if self.run.part.is_some() {
            return Vec::new();
        }
        self.plan.thresholds.iter().map(|threshold| self.checked(threshold)).collect()
    }

    /// One threshold, decided by the measurement of the whole run.
    pub fn checked(&self, threshold: &Threshold) -> Checked {
        let mut checked = Checked::of(threshold, self.known(threshold));
        if checked.outcome == Outcome::Undecided
            && checked.no_interval.is_some()
            && self.times_of(threshold).is_some_and(|times| misses_entirely(threshold, times))
        {
            checked.outcome = Outcome::Missed;
        }
        // The sequential test needs fewer samples than an interval.
        if checked.outcome == Outcome::Undecided && self.run.ended_by.as_ref() == Some(threshold) {
            checked.outcome = Outcome::Missed;
        }
        checked
    }

    /// The times that a threshold is about; `None` if it is not about times, or there are none.
    pub(crate) fn times_of(&self, threshold: &Threshold) -> Option<&Hist> {
        let Figure::Time(timed, _) = threshold.figure else { return None };
        if timed == Timed::Group {
            return self.group_of(threshold).map(|group| &group.duration);
        }
        let Some(request) = &threshold.request else { return hist(&self.main, timed) };
        let index = self.plan.names.iter().position(|name| name == request)?;
        let named = self.main.names.get(index)?;
        Some(if timed == Timed::Service { &named.service } else { &named.response })
    }

    fn known(&self, threshold: &Threshold) -> Known {
        if let Some(request) = &threshold.request {
            return self.known_of_request(request, threshold);
        }
        let t = &self.main;
        if threshold.figure.is_of_check() || threshold.figure == Figure::Count(Counted::Checks) {
            return self.known_of_checks(threshold);
        }
        if threshold.figure.is_of_group() {
            return self.known_of_group(threshold);
        }
        match threshold.figure {
            Figure::Time(timed, statistic) => time(t, timed, statistic),
            Figure::Count(counted) => {
                let Some((n, of)) = counts(t, counted) else { return Known::NOTHING };
                if threshold.unit == Unit::Share { share(t, n, of) } else { Known::exact(n as f64) }
            }
            Figure::Scalar(scalar) => self.scalar(scalar),
        }
    }

    fn known_of_request(&self, request: &str, threshold: &Threshold) -> Known {
        let index = self.plan.names.iter().position(|name| name == request);
        let Some(named) = index.and_then(|i| self.main.names.get(i)) else { return Known::NOTHING };
        match threshold.figure {
            Figure::Time(timed, statistic) => {
                let hist = if timed == Timed::Service { &named.service } else { &named.response };
                statistic_of(hist, statistic, &|q| design_effect(&self.main, q))
            }
            Figure::Count(_) if threshold.unit == Unit::Share => {
                share(&self.main, named.failed, named.replies + named.failed)
            }
            Figure::Count(_) => Known::exact(named.failed as f64),
            Figure::Scalar(Scalar::Replies) => Known::exact(named.replies as f64),
            Figure::Scalar(_) => Known::exact(named.started as f64),
        }
    }

    fn scalar(&self, scalar: Scalar) -> Known {
        let t = &self.main;
        let or_none = |value: Option<f64>| value.map_or(Known::NOTHING, Known::exact);
        match scalar {
            Scalar::Rate => Known::estimate(t.rate(), self.rate_interval()),
            Scalar::SentRate => or_none(self.sent_rate()),
            Scalar::SessionRate => session_rate(t),
            Scalar::Throughput => {
                let rate = t.bytes_per_second();
                Known::estimate(rate, per_second(t, rate, |cell| cell.bytes as f64))
            }
            Scalar::Requests => Known::exact(t.started as f64),
            Scalar::Sent => Known::exact(t.sent as f64),
            Scalar::Replies => Known::exact(t.replies as f64),
            Scalar::Stray => Known::exact(t.stray.iter().sum::<u64>() as f64),
            Scalar::Connects => Known::exact(t.connects as f64),
            Scalar::Connections => Known::exact(t.connected as f64),
            Scalar::Handshakes => Known::exact(t.times.handshake.count() as f64),
            Scalar::BytesSent => Known::exact(t.bytes_sent as f64),
            Scalar::BytesReceived => Known::exact(t.bytes_received() as f64),
            Scalar::Concurrency => Known::exact(t.concurrency()),
            Scalar::InFlightMax => Known::exact(t.in_flight_max as f64),
            Scalar::Streams => or_none(t.streams_mean()),
            Scalar::StreamsMax => or_none(t.http2.as_deref().map(|h| h.open_max.into())),
            Scalar::TokenRate => {
                let per_chunk = t.tokens_per_chunk().unwrap_or(0.0);
                by_second(t, t.token_rate(), |tokens| &tokens.chunks_by_second, per_chunk)
            }
            Scalar::ChunkRate => {
                by_second(t, t.chunk_rate(), |tokens| &tokens.chunks_by_second, 1.0)
            }
            Scalar::Goodput => by_second(t, t.goodput(), |tokens| &tokens.good_by_second, 1.0),
            Scalar::OutputTokens => or_none(t.output_tokens().map(|n| n as f64)),
            Scalar::InputTokens => or_none(t.input_tokens().map(|n| n as f64)),
            Scalar::WindowTime => or_none(t.http2.as_deref().map(|h| h.blocked_time.0 as f64)),
            Scalar::Reach => or_none(t.broadcast.as_deref().and_then(Broadcast::reach)),
            Scalar::Busy => or_none(self.busiest().map(|(_, share)| share)),
            Scalar::CpuPerRequest => {
                let ended = self.ended();
                or_none((ended > 0).then(|| self.cpu().0 as f64 / ended as f64))
            }
        }
    }
}

/// Whether not a single time keeps to a limit of a percentile, and this decides it. Times need not
/// be independent for it: if the percentile q kept to an upper limit, each time would be above it
/// with a chance of at most 1 - q, and so all of them together.
fn misses_entirely(threshold: &Threshold, times: &Hist) -> bool {
    let Figure::Time(_, Statistic::Percentile(p)) = threshold.figure else { return false };
    let (Some(min), Some(max)) = (times.min(), times.max()) else { return false };
    let q = p / 100.0;
    let holds = |time: Span| threshold.relation.holds(time.0 as f64, threshold.limit);
    match threshold.relation {
        Relation::Below | Relation::AtMost => 1.0 - q <= TAIL && !holds(min),
        Relation::Above | Relation::AtLeast => q <= TAIL && !holds(max),
        Relation::Equal => false,
    }
}

/// The histogram of a kind of time; `None` where the run has no such thing.
fn hist(t: &Tally, timed: Timed) -> Option<&Hist> {
    Some(match timed {
        Timed::Response => &t.times.response,
        Timed::Service => &t.times.service,
        Timed::FirstByte => &t.times.first_byte,
        Timed::Transfer => &t.times.transfer,
        Timed::SendLag => &t.times.lag,
        Timed::Queue => &t.times.queue,
        Timed::StreamWait => &t.times.stream_wait,
        Timed::FlowWait => &t.times.flow_wait,
        Timed::Message => &t.times.message,
        Timed::MessageService => &t.times.message_service,
        Timed::MessageLag => &t.times.message_lag,
        Timed::FirstMessage => &t.times.first_message,
        Timed::FirstContent => &t.times.first_content,
        Timed::MessageGap => &t.times.message_gap,
        Timed::Delivery => &t.broadcast.as_ref()?.delivery,
        Timed::Ping => &t.pings.as_ref()?.time,
        Timed::Spread => &t.broadcast.as_ref()?.spread,
        Timed::Reconnect => &t.times.reconnect,
        Timed::Ttft => &t.tokens.as_ref()?.ttft,
        Timed::TtftService => &t.tokens.as_ref()?.ttft_service,
        Timed::Itl => &t.tokens.as_ref()?.itl,
        Timed::ChunkGap => &t.tokens.as_ref()?.chunk_gap,
        Timed::Failed => &t.times.failed,
        Timed::Connect => &t.times.connect,
        Timed::Tunnel => &t.times.tunnel,
        Timed::Handshake => &t.times.handshake,
        Timed::Session => &t.sessions.as_ref()?.lifetime,
        // Each name has its own.
        Timed::Group => return None,
    })
}

fn time(t: &Tally, timed: Timed, statistic: Statistic) -> Known {
    let Some(hist) = hist(t, timed) else { return Known::NOTHING };
    let confidence = match timed {
        Timed::Response => Some(Confidence::of(t)),
        Timed::Service => Confidence::of_service(t),
        Timed::FirstMessage => Confidence::of_stream(t, StreamTime::FirstMessage),
        Timed::FirstContent => Confidence::of_stream(t, StreamTime::FirstContent),
        Timed::MessageGap => Confidence::of_stream(t, StreamTime::MessageGap),
        Timed::Ttft => Confidence::of_stream(t, StreamTime::Ttft),
        Timed::Itl => Confidence::of_stream(t, StreamTime::Itl),
        Timed::ChunkGap => Confidence::of_stream(t, StreamTime::ChunkGap),
        // Connections do not follow the requests: their times count as independent.
        Timed::Connect | Timed::Tunnel | Timed::Handshake => {
            return statistic_of(hist, statistic, &|_| 1.0);
        }
        _ => None,
    };
    let Some(confidence) = confidence else {
        return statistic_of(hist, statistic, &|q| design_effect(t, q));
    };
    match statistic {
        Statistic::Mean => match hist.mean_ns() {
            Some(mean) => Known::estimate(mean, confidence.mean()),
            None => Known::NOTHING,
        },
        Statistic::Percentile(p) => {
            let value = hist.quantile(p / 100.0).map(|value| value.0 as f64);
            Known { value, interval: confidence.quantile(p / 100.0).map(Some) }
        }
        other => statistic_of(hist, other, &|q| design_effect(t, q)),
    }
}

/// A statistic of durations that are not kept over time. They are taken to be as correlated as the
/// response times of the run at that quantile: `effect` times the variance of independent ones.
fn statistic_of(hist: &Hist, statistic: Statistic, effect: &dyn Fn(f64) -> f64) -> Known {
    let n = hist.count() as f64;
    if hist.is_empty() {
        return Known::NOTHING;
    }
    let or_none = |value: Option<Span>| value.map_or(Known::NOTHING, |v| Known::exact(v.0 as f64));
    match statistic {
        Statistic::Min => or_none(hist.min()),
        Statistic::Max => or_none(hist.max()),
        Statistic::Stdev => hist.stdev_ns().map_or(Known::NOTHING, Known::exact),
        Statistic::Mean => {
            let (Some(mean), Some(stdev)) = (hist.mean_ns(), hist.stdev_ns()) else {
                return Known::NOTHING;
            };
            let independent = n / effect(0.5);
            let needs = Hist::samples_needed(0.5);
            if independent < needs as f64 {
                let why = if hist.count() < needs {
                    NoInterval::TooFewSamples { needs }
                } else {
                    NoInterval::Autocorrelated { effective: independent }
                };
                return Known::estimate(mean, Err(why));
            }
            let reach = t_quantile(independent - 1.0) * stdev / independent.sqrt();
            Known::estimate(mean, Ok(Interval { lo: (mean - reach).max(0.0), hi: mean + reach }))
        }
        Statistic::Percentile(p) => {
            let q = p / 100.0;
            let Some(value) = hist.quantile(q) else {
                let needs = Hist::samples_needed(q);
                return Known { value: None, interval: Err(NoInterval::TooFewSamples { needs }) };
            };
            let independent = n / effect(q);
            let (low, high) = wilson(q, independent, t_quantile(KNOWN));
            // As many independent times as the percentile needs would do.
            if low * n < 1.0 || high * n > n - 1.0 {
                let why = NoInterval::Autocorrelated { effective: independent };
                return Known::estimate(value.0 as f64, Err(why));
            }
            let at = |q: f64| hist.estimate(q).unwrap_or_default().0 as f64;
            Known::estimate(value.0 as f64, Ok(Interval { lo: at(low), hi: at(high) }))
        }
    }
}

/// The 95 % confidence interval of a quantile of the response times of one name. These
/// are taken to be as correlated as those of the whole run.
///
/// # Errors
/// Why there is none.
pub fn interval_of_name(t: &Tally, name: &NameTally, q: f64) -> Result<Interval, NoInterval> {
    let percentile = Statistic::Percentile(q * 100.0);
    let known = statistic_of(&name.response, percentile, &|q| design_effect(t, q));
    known.interval.and_then(|interval| interval.ok_or(NoInterval::Empty))
}

/// The 95 % confidence interval of the mean (`q` is `None`) or a quantile of some of the times of a
/// whole. These are taken to be as correlated as all of them.
///
/// # Errors
/// Why there is none.
pub(crate) fn interval_of_part(
    part: &Hist,
    q: Option<f64>,
    whole: &Confidence<'_>,
) -> Result<Interval, NoInterval> {
    whole.ready()?;
    let statistic = q.map_or(Statistic::Mean, |q| Statistic::Percentile(q * 100.0));
    let known = statistic_of(part, statistic, &|q| whole.inflation(q).unwrap_or(1.0));
    known.interval.and_then(|interval| interval.ok_or(NoInterval::Empty))
}

/// How much larger the variance of a share is than of independent times, at that quantile of the
/// response time (Kish's design effect); 1 at least.
fn design_effect(t: &Tally, q: f64) -> f64 {
    Confidence::of(t).inflation(q).unwrap_or(1.0)
}

/// How many of them there are, and of how many; `None` where the run has no such thing.
fn counts(t: &Tally, counted: Counted) -> Option<(u64, u64)> {
    let ended = t.replies + t.failed;
    let replied = || t.statuses.values().sum();
    let class = |class: u8| t.statuses.iter().filter(move |(s, _)| **s / 100 == u16::from(class));
    Some(match counted {
        Counted::Errors => (t.failed, ended),
        Counted::Timeouts => {
            let timeouts = Fault::ALL.into_iter().filter(|f| f.class() == FaultClass::Timeout);
            (timeouts.map(|f| t.fault(f)).sum(), ended)
        }
        Counted::Error(fault) => (t.fault(fault), ended),
        Counted::Status(status) => (t.statuses.get(&status).copied().unwrap_or(0), replied()),
        Counted::StatusClass(c) => (class(c).map(|(_, n)| n).sum(), replied()),
        Counted::Unfinished => (t.unfinished, t.started),
        Counted::Retries => (t.retries, t.started),
        Counted::MessagesUnsent => {
            let messages = t.stream_messages.as_ref()?;
            (messages.unsent, messages.sent + messages.unsent)
        }
        Counted::Good => (t.tokens.as_ref()?.good, ended),
        Counted::Check | Counted::Checks | Counted::GroupsCompleted | Counted::GroupsFailed => {
            return None;
        }
        Counted::SessionsCompleted | Counted::SessionsFailed => {
            let s = t.sessions.as_ref()?;
            let n = if counted == Counted::SessionsFailed { s.failed } else { s.completed };
            (n, s.completed + s.failed)
        }
    })
}

/// A share of what was counted: Wilson's interval (1927), with as many independent events as the
/// failures over time are worth.
fn share(t: &Tally, n: u64, of: u64) -> Known {
    clustered_share(n, of, || clustering(t))
}

/// The same, with a design effect and its degrees of freedom.
fn clustered_share(n: u64, of: u64, clustering: impl Fn() -> (f64, f64)) -> Known {
    if of == 0 {
        return Known::NOTHING;
    }
    let share = n as f64 / of as f64;
    let (effect, freedom) = clustering();
    let (lo, hi) = wilson(share, of as f64 / effect, t_quantile(freedom));
    // A count of all or nothing is one end of its interval, whatever rounding makes of it.
    let (lo, hi) = (if n == 0 { 0.0 } else { lo }, if n == of { 1.0 } else { hi });
    Known::estimate(share, Ok(Interval { lo, hi }))
}

/// Wilson's interval of a share of `n` independent events.
fn wilson(share: f64, n: f64, z: f64) -> (f64, f64) {
    let zz = z * z;
    let center = (share + zz / (2.0 * n)) / (1.0 + zz / n);
    let reach = z / (1.0 + zz / n) * (share * (1.0 - share) / n + zz / (4.0 * n * n)).sqrt();
    ((center - reach).max(0.0), (center + reach).min(1.0))
}

/// How much larger the variance of the share of failures is than that of independent ones, from
/// batches of the series (the ratio estimator of Cochran 1977), and its degrees of freedom. 1 where
/// the run is too short to say, or nothing failed.
fn clustering(t: &Tally) -> (f64, f64) {
    let cells = t.series.cells().iter();
    clustering_of(&cells.map(|c| (c.failed, c.failed + c.replies)).collect::<Vec<_>>())
}

/// The same for equal intervals of time, each with the numbers of failures and of all.
fn clustering_of(cells: &[(u64, u64)]) -> (f64, f64) {
    if cells.len() < CELLS_LEAST {
        return (1.0, KNOWN);
    }
    let k = cells.len().min(BATCHES_MAX);
    let batches = (0..k).map(|i| {
        let batch = &cells[i * cells.len() / k..(i + 1) * cells.len() / k];
        let failed: u64 = batch.iter().map(|c| c.0).sum();
        let all: u64 = batch.iter().map(|c| c.1).sum();
        (failed as f64, all as f64)
    });
    let batches: Vec<(f64, f64)> = batches.collect();
    let (failed, ended) = batches.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    let share = failed / ended;
    let independent = ended * share * (1.0 - share);
    if independent.is_nan() || independent <= 0.0 {
        return (1.0, KNOWN);
    }
    let squares: f64 = batches.iter().map(|(f, n)| (f - share * n).powi(2)).sum();
    let k = k as f64;
    let effect = squares * k / (k - 1.0) / independent;
    // Where the failures come in a few bursts, the batches without any say nothing of how the
    // bursts vary.
    let failing = batches.iter().filter(|(failed, _)| *failed > 0.0).count() as f64;
    if effect > 1.0 { (effect, (failing - 1.0).max(1.0)) } else { (1.0, KNOWN) }
}

/// The interval of a rate per second, from the whole intervals of the series (batch means).
fn per_second(t: &Tally, rate: f64, of: impl Fn(&Cell) -> f64) -> Result<Interval, NoInterval> {
    let length = t.series.interval();
    let start = |i: usize| t.series.start() + length * i as u64;
    let whole = |i: usize| start(i) >= t.start && start(i) + length <= t.end;
    let cells = t.series.cells().iter().enumerate().filter(|(i, _)| whole(*i));
    let rates: Vec<f64> = cells.map(|(_, cell)| of(cell) / length.as_secs_f64()).collect();
    batch_means(&rates, rate)
}

fn session_rate(t: &Tally) -> Known {
    let (Some(sessions), Some(rate)) = (&t.sessions, t.session_rate()) else {
        return Known::NOTHING;
    };
    Known::estimate(rate, batch_means(&whole_seconds(t, &sessions.per_second, 1.0), rate))
}

/// A rate of replies of language models, of which `of` has the numbers by second.
fn by_second(
    t: &Tally,
    rate: Option<f64>,
    of: impl Fn(&TokenTally) -> &BTreeMap<u64, u64>,
    factor: f64,
) -> Known {
    let (Some(tokens), Some(rate)) = (t.tokens.as_deref(), rate) else { return Known::NOTHING };
    Known::estimate(rate, batch_means(&whole_seconds(t, of(tokens), factor), rate))
}

/// The numbers of the whole seconds of a section, times `factor`.
fn whole_seconds(t: &Tally, numbers: &BTreeMap<u64, u64>, factor: f64) -> Vec<f64> {
    let second = |at: Nanos| at.0 / 1_000_000_000;
    let seconds = second(t.start + Span(999_999_999))..second(t.end);
    seconds.map(|s| numbers.get(&s).copied().unwrap_or(0) as f64 * factor).collect()
}

/// The interval of a mean whose parts follow each other: from the means of at most 32 batches.
fn batch_means(parts: &[f64], value: f64) -> Result<Interval, NoInterval> {
    if parts.len() < CELLS_LEAST {
        return Err(NoInterval::TooShort);
    }
    let k = parts.len().min(BATCHES_MAX);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let batch = |i: usize| mean(&parts[i * parts.len() / k..(i + 1) * parts.len() / k]);
    let means: Vec<f64> = (0..k).map(batch).collect();
    let center = mean(&means);
    let k = k as f64;
    let variance = means.iter().map(|m| (m - center).powi(2)).sum::<f64>() / (k - 1.0);
    let reach = t_quantile(k - 1.0) * (variance / k).sqrt();
    Ok(Interval { lo: (value - reach).max(0.0), hi: value + reach })
}
