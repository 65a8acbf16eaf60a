//! What the rules for the meter are applied to: the times that a run measures. A stream of messages
//! is one request, so its response time is no scale for what the meter adds to the times in it.

use prony_base::units::Span;
use prony_tally::record::hist::Hist;
use prony_tally::record::{StreamTime, Tally};
use serde::{Deserialize, Serialize};

use super::super::Summary;
use super::Reason;

/// With fewer measured times, nothing is said about the meter's processor time.
pub(super) const STATEMENT_MIN: u64 = 20;
/// The p99 of the send lag matters above this time ...
const LAG_MIN: Span = Span::from_micros(100);
/// ... and above this share of the median of what begins with the send.
const LAG_SHARE: f64 = 0.1;
/// The lag of messages of which no time is measured matters above this time ...
const UNMEASURED_LAG_MIN: Span = Span::from_millis(1);

/// What the meter sent late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LateSend {
    /// Requests.
    #[default]
    Requests,
    /// Messages with a schedule.
    Messages,
}

/// The times of one kind, without waits in the meter's own queue where these are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// How many there are, in warm-up and measurement.
    pub(super) count: f64,
    /// Their sum in nanoseconds.
    pub(super) sum_ns: f64,
    /// The median of those of the measurement; `None` if there are too few.
    pub(super) median: Option<Span>,
}

/// The times that begin with the send of a request.
const OF_REQUESTS: [StreamTime; 3] =
    [StreamTime::FirstMessage, StreamTime::FirstContent, StreamTime::Ttft];
/// The times that begin with the send of a message.
const OF_MESSAGES: [StreamTime; 2] = [StreamTime::Message, StreamTime::Delivery];

impl Summary {
    fn sections(&self) -> impl Iterator<Item = &Tally> {
        self.warmup.iter().chain([&self.main])
    }

    /// How many times of the kind with the most were measured, in warm-up and measurement.
    pub(super) fn measured(&self) -> u64 {
        let count = |hist: &dyn Fn(&Tally) -> u64| self.sections().map(hist).sum::<u64>();
        let of_streams = StreamTime::ALL
            .into_iter()
            .map(|time| count(&|t| t.times_in_streams(time).map_or(0, Hist::count)));
        let sent = count(&|t| t.times.message_lag.count());
        of_streams.chain([sent, count(&|t| t.started)]).max().unwrap_or_default()
    }

    /// The times of each kind that the run measured: the service times, and those in streams.
    pub(super) fn scales(&self) -> Vec<Scale> {
        // Not response times: a delayed meter makes requests wait in its own queue, and the delay
        // would look small in comparison.
        let service = self.scale(|t| Some(&t.times.service), |h| h.estimate(0.5));
        let in_streams = StreamTime::ALL.into_iter().filter_map(|time| {
            let scale = self.scale(|t| t.served_in_streams(time), median_apart);
            (scale.count >= STATEMENT_MIN as f64).then_some(scale)
        });
        std::iter::once(service).chain(in_streams).collect()
    }

    fn scale(
        &self,
        times: impl Fn(&Tally) -> Option<&Hist>,
        median: impl Fn(&Hist) -> Option<Span>,
    ) -> Scale {
        let all = || self.sections().filter_map(&times);
        Scale {
            count: all().map(|h| h.count() as f64).sum(),
            sum_ns: all().map(|h| h.sum_ns() as f64).sum(),
            median: times(&self.main).and_then(median),
        }
    }

    /// The meter sent requests or messages late, compared with the times that begin with a send.
    pub(super) fn send_lag_too_long(&self) -> impl Iterator<Item = Reason> {
        [self.requests_late(), self.messages_late()].into_iter().flatten()
    }

    fn requests_late(&self) -> Option<Reason> {
        let lag = Lag::of(&self.main.times.lag, LAG_MIN)?;
        let response = lag.typical(&self.main.times.response).map(|typical| (None, typical));
        let (time, typical) =
            self.shortest(&lag, &OF_REQUESTS).into_iter().chain(response).min_by_key(|of| of.1)?;
        lag.is_over(typical).then(|| lag.reason(LateSend::Requests, time, typical))
    }

    fn messages_late(&self) -> Option<Reason> {
        let t = &self.main.times;
        let lag = Lag::of(&t.message_lag, LAG_MIN)?;
        if let Some((time, typical)) = self.shortest(&lag, &OF_MESSAGES) {
            return lag.is_over(typical).then(|| lag.reason(LateSend::Messages, time, typical));
        }
        // Their times are not measured. The load is what their stream gets, so the scale is the
        // time between two of them.
        let lag = Lag::of(&t.message_lag, UNMEASURED_LAG_MIN)?;
        let lives = t.response.sum_ns() + t.failed.sum_ns();
        let interval = Span(u64::try_from(lives / u128::from(t.message_lag.count())).ok()?);
        let is_known = interval > Span::ZERO && lag.is_over(interval);
        is_known.then(|| lag.reason(LateSend::Messages, None, interval))
    }

    /// The kind of these whose typical time is the shortest.
    fn shortest(&self, lag: &Lag, kinds: &[StreamTime]) -> Option<(Option<StreamTime>, Span)> {
        let typical = |&time| Some((Some(time), lag.typical(self.main.times_in_streams(time)?)?));
        kinds.iter().filter_map(typical).min_by_key(|of| of.1)
    }
}

/// How late the meter sent.
struct Lag {
    /// The quantile, 0 to 1; `None`: the mean, as the sample is too small for any.
    quantile: Option<f64>,
    time: Span,
}

impl Lag {
    /// The p99, or, if the sample is too small for it, the highest quantile that it supports.
    /// `None` if it is at most `least`.
    fn of(lag: &Hist, least: Span) -> Option<Self> {
        let n = lag.count();
        let (quantile, time) = if n < STATEMENT_MIN {
            (None, mean(lag)?)
        } else {
            let q = (1.0 - 10.0 / n as f64).min(0.99);
            (Some(q), lag.estimate(q)?)
        };
        (time > least).then_some(Self { quantile, time })
    }

    /// The median of these times, or their mean if the lag is one.
    fn typical(&self, times: &Hist) -> Option<Span> {
        if self.quantile.is_some() { times.quantile(0.5) } else { mean(times) }
    }

    fn is_over(&self, typical: Span) -> bool {
        self.time.0 as f64 > LAG_SHARE * typical.0 as f64
    }

    fn reason(&self, sent: LateSend, time: Option<StreamTime>, typical: Span) -> Reason {
        let percentile = self.quantile.map(|q| (q * 1e4).round() / 1e2);
        Reason::SendLag { sent, percentile, lag: self.time, time, typical }
    }
}

fn mean(times: &Hist) -> Option<Span> {
    times.mean_ns().map(|ns| Span(ns.round() as u64))
}

/// The median of the times above zero: messages that arrived in one read have no time between them.
fn median_apart(times: &Hist) -> Option<Span> {
    let (all, zero) = (times.count(), times.count_in_bin(Span::ZERO));
    let apart = all - zero;
    (apart >= STATEMENT_MIN)
        .then(|| times.estimate((zero as f64 + apart as f64 / 2.0) / all as f64))
        .flatten()
}
