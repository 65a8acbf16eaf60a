//! Whether thresholds are met.
//!
//! A figure that is a fact of the run (a count, a maximum, the load on the meter) is compared as it
//! is. Any other one is an estimate of how the target behaves, with two kinds of error. Its
//! sampling error is that of a one-sided test at 5 %, or of its 95 % confidence interval; its meter
//! error has a sign: `meter` says on which side of the measured figure the true one can lie.
//! `docs/terms.md` says where each interval comes from.

mod binomial;
mod certain;
mod deciding;
mod known;
mod meter;
mod parts;
mod rates;
mod sequential;
mod shares;
#[cfg(test)]
mod tests;
mod times;

use prony_base::units::Span;
use prony_plan::threshold::{Counted, Figure, Relation, Scalar, Threshold, Unit};
use serde::{Deserialize, Serialize};

use super::Summary;
use super::confidence::{Interval, NoInterval};
use binomial::{LEVEL, multiple};
pub use certain::{Between, Certain};
pub use deciding::Deciding;
use known::{Evidence, Known, Test};
use meter::{Error, Faults};
pub use parts::share_of_check;
use rates::{by_second, per_second, session_rate};
pub use sequential::Sequential;
use shares::{counts, of_meter, share};
pub use times::interval_of_name;
pub(crate) use times::interval_of_part;

/// What a threshold comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The figure certainly keeps to it.
    Met,
    /// The figure certainly does not, or it has ended the load ([`Sequential`]).
    Missed,
    /// Neither is certain.
    Undecided,
}

/// Why a threshold is undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Doubt {
    /// The sample is too small.
    Sample,
    /// What the meter may have added, lost or not offered.
    Meter,
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
    /// How many times do not keep to a percentile's limit (at most), or how many of a share are of
    /// its kind; and of how many.
    pub counted: Option<(u64, u64)>,
    /// The most that the meter can have added to the value, if it was late.
    pub added: Option<f64>,
    /// Whether the threshold is met.
    pub outcome: Outcome,
    /// Why it is undecided.
    pub doubt: Option<Doubt>,
    /// How much longer the run must be for a decision, if all goes on as it was; `None` if it is
    /// decided, or if even a run a thousand times as long would not do.
    pub more: Option<Span>,
}

/// What is known of a figure: as it was measured, and the sides on which the true one cannot lie.
struct Sides<'a> {
    measured: Known<'a>,
    /// The true figure is not larger than that of this evidence.
    upper: Option<Evidence<'a>>,
    /// It is not smaller than that of this evidence.
    lower: Option<Evidence<'a>>,
    /// The most that the meter can have added, if it was late.
    added: Option<f64>,
}

impl Sides<'_> {
    /// Whether the threshold is certainly met, or missed.
    fn keeps(&self, threshold: &Threshold, test: Test) -> Option<bool> {
        let keeps = |evidence: &Option<Evidence<'_>>| {
            let evidence = evidence.as_ref()?;
            evidence.keeps(threshold.relation, threshold.limit, test)
        };
        let (upper, lower) = (keeps(&self.upper), keeps(&self.lower));
        let (good, bad) = match threshold.relation {
            Relation::Below | Relation::AtMost => (upper, lower),
            Relation::Above | Relation::AtLeast => (lower, upper),
            Relation::Equal if upper == lower => (upper, lower),
            Relation::Equal => (None, None),
        };
        good.filter(|keeps| *keeps).or_else(|| bad.filter(|keeps| !keeps))
    }
}

impl Checked {
    fn of(threshold: &Threshold, sides: &Sides<'_>, window: Span, level: f64) -> Self {
        let known = &sides.measured;
        let test = Test { multiple: 1.0, level };
        let keeps = sides.keeps(threshold, test);
        let outcome = match keeps {
            Some(true) => Outcome::Met,
            Some(false) => Outcome::Missed,
            None => Outcome::Undecided,
        };
        let doubt = keeps.is_none().then(|| {
            let is_certain = known.evidence.keeps(threshold.relation, threshold.limit, test);
            if is_certain.is_some() { Doubt::Meter } else { Doubt::Sample }
        });
        let more = (doubt == Some(Doubt::Sample)).then(|| {
            let longer = |multiple| sides.keeps(threshold, Test { multiple, level }).is_some();
            let multiple = multiple(longer)?;
            Some(Span::from_secs_f64(window.as_secs_f64() * (multiple - 1.0)))
        });
        Self {
            threshold: threshold.clone(),
            value: known.value,
            interval: known.interval.ok().flatten(),
            no_interval: known.interval.err(),
            counted: known.evidence.counted(threshold),
            added: sides.added,
            outcome,
            doubt,
            more: more.flatten(),
        }
    }
}

impl Summary {
    /// The run's thresholds, decided by its measurement. A share of a run decides nothing.
    pub fn thresholds(&self) -> Vec<Checked> {
        if self.run.part.is_some() || self.plan.thresholds.is_empty() {
            return Vec::new();
        }
        // Who accepts an invalid run takes its figures as they are.
        let faults = match self.run.accepted.invalid {
            true => Faults::default(),
            false => self.faults_of_meter(),
        };
        let thresholds = self.plan.thresholds.iter();
        thresholds.map(|threshold| self.checked_with(threshold, faults)).collect()
    }

    /// One threshold, decided by the measurement of the whole run.
    pub fn checked(&self, threshold: &Threshold) -> Checked {
        self.checked_with(threshold, self.faults_of_meter())
    }

    fn checked_with(&self, threshold: &Threshold, faults: Faults) -> Checked {
        let sides = self.sides(threshold, faults);
        let mut checked = Checked::of(threshold, &sides, self.main.window(), self.level());
        // The sequential test has looked at it while the load ran.
        let has_ended = self.run.ended_by.as_ref() == Some(threshold);
        if checked.doubt == Some(Doubt::Sample) && has_ended {
            (checked.outcome, checked.doubt, checked.more) = (Outcome::Missed, None, None);
        }
        checked
    }

    /// The chance of a wrong decision about a figure that lies just at its limit.
    fn level(&self) -> f64 {
        self.run.level.unwrap_or(LEVEL)
    }

    fn sides(&self, threshold: &Threshold, faults: Faults) -> Sides<'_> {
        let error = Error::of(threshold.figure);
        let measured = self.known(threshold);
        let as_it_is = self.run.accepted.invalid;
        let without_meter =
            if as_it_is { None } else { self.known_without_meter(threshold, faults) };
        let least = match (&without_meter, error) {
            // Nothing is known of what a late meter added.
            (None, Error::Larger) if faults.late => None,
            (None, _) => Some(measured.evidence.clone()),
            (Some(known), _) => Some(known.evidence.clone()),
        };
        let difference = || Some(measured.value? - without_meter.as_ref()?.value?);
        Sides {
            upper: faults.leaves_upper(error).then(|| measured.evidence.clone()),
            lower: least.filter(|_| faults.leaves_lower(error)),
            added: difference().filter(|_| faults.late && error == Error::Larger),
            measured,
        }
    }

    /// The same figure without what the meter can have added; `None` if that is not known.
    fn known_without_meter(&self, threshold: &Threshold, faults: Faults) -> Option<Known<'_>> {
        match threshold.figure {
            Figure::Time(timed, statistic) => {
                let times = self.times_of_figure(threshold, timed)?;
                let without = self.times_without_meter(threshold, timed, &times, faults.late)?;
                Some(without.known(statistic))
            }
            // Without a fault of the meter, its timeouts are the target's.
            Figure::Count(counted) if faults.late || faults.short => {
                let whole = threshold.request.is_none() && !threshold.figure.is_of_group();
                let (n, of) = counts(&self.main, counted).filter(|_| whole)?;
                let n = n.saturating_sub(of_meter(&self.main, counted));
                let is_share = threshold.unit == Unit::Share;
                Some(if is_share { share(&self.main, n, of) } else { Known::exact(n as f64) })
            }
            Figure::Count(_) | Figure::Scalar(_) => None,
        }
    }

    fn known(&self, threshold: &Threshold) -> Known<'_> {
        let t = &self.main;
        if let Figure::Time(timed, statistic) = threshold.figure {
            let times = self.times_of_figure(threshold, timed);
            return times.map_or(Known::NOTHING, |times| times.known(statistic));
        }
        if let Some(request) = &threshold.request {
            return self.known_of_request(request, threshold);
        }
        if threshold.figure.is_of_check() || threshold.figure == Figure::Count(Counted::Checks) {
            return self.known_of_checks(threshold);
        }
        if threshold.figure.is_of_group() {
            return self.known_of_group(threshold);
        }
        match threshold.figure {
            Figure::Count(counted) => {
                let Some((n, of)) = counts(t, counted) else { return Known::NOTHING };
                if threshold.unit == Unit::Share { share(t, n, of) } else { Known::exact(n as f64) }
            }
            Figure::Scalar(scalar) => self.scalar(scalar),
            Figure::Time(..) => Known::NOTHING,
        }
    }

    fn known_of_request(&self, request: &str, threshold: &Threshold) -> Known<'static> {
        let index = self.plan.names.iter().position(|name| name == request);
        let Some(named) = index.and_then(|i| self.main.names.get(i)) else { return Known::NOTHING };
        match threshold.figure {
            Figure::Count(_) if threshold.unit == Unit::Share => {
                share(&self.main, named.failed, named.replies + named.failed)
            }
            Figure::Count(_) => Known::exact(named.failed as f64),
            Figure::Scalar(Scalar::Replies) => Known::exact(named.replies as f64),
            Figure::Scalar(_) | Figure::Time(..) => Known::exact(named.started as f64),
        }
    }

    fn scalar(&self, scalar: Scalar) -> Known<'static> {
        let t = &self.main;
        let value = t.number(scalar);
        let or_none = |value: Option<f64>| value.map_or(Known::NOTHING, Known::exact);
        match scalar {
            Scalar::Rate => Known::estimate(t.rate(), self.rate_interval()),
            Scalar::SessionRate => session_rate(t),
            Scalar::Throughput => {
                let rate = t.bytes_per_second();
                Known::estimate(rate, per_second(t, rate, |cell| cell.bytes as f64))
            }
            Scalar::TokenRate => {
                let per_chunk = t.tokens_per_chunk().unwrap_or(0.0);
                by_second(t, value, |tokens| &tokens.chunks_by_second, per_chunk)
            }
            Scalar::ChunkRate => by_second(t, value, |tokens| &tokens.chunks_by_second, 1.0),
            Scalar::Goodput => by_second(t, value, |tokens| &tokens.good_by_second, 1.0),
            // These are of the whole run.
            Scalar::SentRate => or_none(self.sent_rate()),
            Scalar::Busy => or_none(self.busiest().map(|(_, share)| share)),
            Scalar::CpuPerRequest => {
                let ended = self.ended();
                or_none((ended > 0).then(|| self.cpu().0 as f64 / ended as f64))
            }
            _ => or_none(value),
        }
    }

    /// A figure that is one number, with its 95 % confidence interval if it is an estimate and has
    /// one. `None` where the run has no such thing.
    pub fn number(&self, scalar: Scalar) -> Option<(f64, Option<Interval>)> {
        let known = self.scalar(scalar);
        Some((known.value?, known.interval.ok().flatten()))
    }
}
