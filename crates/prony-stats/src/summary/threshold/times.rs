//! Figures of durations.

use prony_base::units::Span;
use prony_plan::threshold::{Figure, Statistic, Threshold, Timed};
use prony_tally::record::hist::Hist;
use prony_tally::record::{NameTally, StreamTime, Tally, TimeLowerBound};

use super::super::Summary;
use super::super::confidence::{Confidence, Effect, Effects, Interval, NoInterval};
use super::known::{Evidence, Known, Percentile};

/// Times, and how they depend on each other.
pub(super) struct Times<'a> {
    pub(super) hist: &'a Hist,
    /// How much shorter they can be than these.
    pub(super) shift: Span,
    /// The series of these times, if they have one.
    series: Option<Confidence<'a>>,
    /// The series of times that depend on each other as much; `None`: they are independent.
    alike: Option<Confidence<'a>>,
}

impl<'a> Times<'a> {
    /// Times that are as correlated as the response times of the run.
    pub(super) fn like_responses(t: &'a Tally, hist: &'a Hist) -> Self {
        Self { hist, shift: Span::ZERO, series: None, alike: Some(Confidence::of(t)) }
    }

    /// The times of a kind; `None` where the run has no such thing.
    fn of(t: &'a Tally, timed: Timed) -> Option<Self> {
        let hist = t.times_of(timed)?;
        // Connections do not follow the requests: their times count as independent.
        if matches!(timed, Timed::Connect | Timed::Tunnel | Timed::Handshake) {
            return Some(Self { hist, shift: Span::ZERO, series: None, alike: None });
        }
        Some(Self { series: Confidence::of_times(t, timed), ..Self::like_responses(t, hist) })
    }

    /// The same times without what the meter can have added to them: as far as it is known of each
    /// of them, or the most that it is of any request. `None` if nothing is known of it.
    pub(super) fn without_meter(
        &self,
        each: Option<&'a TimeLowerBound>,
        of_requests: Option<&'a TimeLowerBound>,
    ) -> Option<Self> {
        let (series, alike) = (self.series.clone(), self.alike.clone());
        if let Some(bound) = each.filter(|bound| bound.times.count() == self.hist.count()) {
            return Some(Self { hist: &bound.times, shift: Span::ZERO, series, alike });
        }
        let shift = of_requests?.added_max;
        Some(Self { hist: self.hist, shift, series, alike })
    }

    fn effects(&self, q: f64) -> Result<Effects, NoInterval> {
        if let Some(own) = &self.series {
            return own.effects(q);
        }
        // There may be too few of these, such as one reply for each stream of messages.
        let alike = self.alike.as_ref().and_then(|alike| alike.effect(q).ok());
        Ok(Effects::alike(alike.unwrap_or(Effect::NONE)))
    }

    /// The effect for the interval of times without a series of their own.
    fn effect_of_whole(&self, q: f64) -> Effect {
        let inflation = self.alike.as_ref().and_then(|alike| alike.inflation(q));
        inflation.map_or(Effect::NONE, Effect::of_whole)
    }

    /// A statistic of them.
    pub(super) fn known(&self, statistic: Statistic) -> Known<'a> {
        if self.hist.is_empty() {
            return Known::NOTHING;
        }
        let shift = self.shift.0 as f64;
        let exact = |value: Option<f64>| {
            value.map_or(Known::NOTHING, |value| Known::exact((value - shift).max(0.0)))
        };
        let ns = |time: Option<Span>| time.map(|time| time.0 as f64);
        match statistic {
            Statistic::Min => exact(ns(self.hist.min())),
            Statistic::Max => exact(ns(self.hist.max())),
            Statistic::Stdev => self.hist.stdev_ns().map_or(Known::NOTHING, Known::exact),
            Statistic::Mean => self.mean(),
            Statistic::Percentile(p) => self.percentile(p / 100.0),
        }
    }

    fn percentile(&self, q: f64) -> Known<'a> {
        let effects = self.effects(q).ok();
        let percentile = Percentile { times: self.hist, shift: self.shift, q, effects };
        let needs = Hist::samples_needed(q);
        let interval = match &self.series {
            Some(own) => own.quantile(q),
            None if self.hist.count() < needs => Err(NoInterval::TooFewSamples { needs }),
            None => self.effect_of_whole(q).quantile(self.hist, q),
        };
        let value = self.hist.estimate(q).map(|value| value.0 as f64);
        Known { value, interval: interval.map(Some), evidence: Evidence::Percentile(percentile) }
    }

    fn mean(&self) -> Known<'a> {
        let Some(mean) = self.hist.mean_ns() else { return Known::NOTHING };
        let (interval, center) = match &self.series {
            Some(own) => (own.mean(), own.mean_ns().unwrap_or(mean)),
            None => (self.effect_of_whole(0.5).mean(self.hist), mean),
        };
        // These may be shorter than the times of the series.
        let shorter = |ns: f64| (ns - (center - mean) - self.shift.0 as f64).max(0.0);
        let interval =
            interval.map(|Interval { lo, hi }| Interval { lo: shorter(lo), hi: shorter(hi) });
        Known::estimate(shorter(center), interval)
    }
}

impl Summary {
    /// The times that a threshold is about; `None` if it is not about times, or there are none.
    pub(crate) fn times_of(&self, threshold: &Threshold) -> Option<&Hist> {
        let Figure::Time(timed, _) = threshold.figure else { return None };
        self.times_of_figure(threshold, timed).map(|times| times.hist)
    }

    pub(super) fn times_of_figure(&self, threshold: &Threshold, timed: Timed) -> Option<Times<'_>> {
        if timed == Timed::Group {
            let group = self.group_of(threshold)?;
            return Some(Times::like_responses(&self.main, &group.duration));
        }
        let Some(request) = &threshold.request else { return Times::of(&self.main, timed) };
        let index = self.plan.names.iter().position(|name| name == request)?;
        let named = self.main.names.get(index)?;
        let hist = if timed == Timed::Service { &named.service } else { &named.response };
        Some(Times::like_responses(&self.main, hist))
    }

    /// The same times without what the meter can have added to them.
    pub(super) fn times_without_meter<'a>(
        &'a self,
        threshold: &Threshold,
        timed: Timed,
        times: &Times<'a>,
        is_late: bool,
    ) -> Option<Times<'a>> {
        let of_requests = self.main.without_meter.as_deref();
        let is_whole = threshold.request.is_none();
        let each = match timed {
            Timed::Response if is_whole => of_requests,
            _ => StreamTime::of(timed).and_then(|time| self.main.streams_without_meter.get(&time)),
        };
        // What ends with the last byte of a reply was read as late as the reply.
        let ends_with_reply =
            matches!(timed, Timed::Response | Timed::Service | Timed::TtftService);
        times.without_meter(each, of_requests.filter(|_| is_late && ends_with_reply))
    }
}

/// The 95 % confidence interval of a quantile of the response times of one name. These
/// are taken to be as correlated as those of the whole run.
///
/// # Errors
/// Why there is none.
pub fn interval_of_name(t: &Tally, name: &NameTally, q: f64) -> Result<Interval, NoInterval> {
    let known = Times::like_responses(t, &name.response).percentile(q);
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
    let effect = Effect::of_whole(whole.inflation(q.unwrap_or(0.5)).unwrap_or(1.0));
    q.map_or_else(|| effect.mean(part), |q| effect.quantile(part, q))
}
