//! The times that a run is about: those of its requests, or of what their replies stream.

use prony_base::units::Span;
use prony_stats::summary::Summary;
use prony_stats::summary::confidence::{Confidence, Interval, NoInterval};
use prony_tally::record::hist::Hist;
use prony_tally::record::{StreamTime, Tally};

/// The percentiles that reports show first.
pub(crate) const SHOWN: [(&str, f64); 3] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];

/// The times of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MainTime<'a> {
    /// Its name, as in tables.
    pub(crate) name: &'static str,
    /// All of them.
    pub(crate) times: &'a Hist,
    tally: &'a Tally,
    /// `None`: the response time.
    kind: Option<StreamTime>,
}

/// The kinds that answer what the run was for, the most important first. Without any times, the
/// response time.
pub(crate) fn of(summary: &Summary) -> Vec<MainTime<'_>> {
    let (tally, plan) = (&summary.main, &summary.plan);
    let response = MainTime { name: "response", times: &tally.times.response, tally, kind: None };
    let kinds: &[StreamTime] = if tally.tokens.is_some() {
        &[StreamTime::Ttft, StreamTime::Itl]
    } else {
        &[
            StreamTime::Delivery,
            StreamTime::Message,
            StreamTime::FirstMessage,
            StreamTime::MessageGap,
        ]
    };
    let of_streams = |&kind: &StreamTime| {
        let times = tally.times_in_streams(kind).filter(|times| !times.is_empty())?;
        Some(MainTime { name: kind.timed().label(), times, tally, kind: Some(kind) })
    };
    let mut all: Vec<MainTime<'_>> = kinds.iter().filter_map(of_streams).collect();
    // The reply of a stream takes as long as the plan keeps it open.
    let is_stream = plan.websocket.is_some() || plan.stream.is_some();
    if all.is_empty() || !is_stream || tally.tokens.is_some() {
        all.push(response);
    }
    all
}

impl MainTime<'_> {
    /// Upper bound of what the meter added to the quantile `q` (1: the maximum); `None` if unknown.
    pub(crate) fn added(&self, q: f64) -> Option<Span> {
        match self.kind {
            None => self.tally.meter_added(q),
            Some(kind) => self.tally.meter_added_in_streams(kind, q),
        }
    }

    /// The 95 % confidence interval of the quantile `q`, in nanoseconds.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn interval(&self, q: f64) -> Result<Interval, NoInterval> {
        match self.kind {
            None => Confidence::of(self.tally).quantile(q),
            Some(kind) => Confidence::of_stream(self.tally, kind)
                .map_or(Err(NoInterval::NotRecorded), |all| all.quantile(q)),
        }
    }
}
