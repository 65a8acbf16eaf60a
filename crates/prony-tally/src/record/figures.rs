//! Figures derived from a tally: rates, shares and means over its window.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use super::Tally;
use prony_base::fault::{Fault, FaultClass};
use prony_base::units::Span;

/// One interval of the run in reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Its start, counted from the start of the section.
    pub at: Span,
    /// Its length. The last interval may extend beyond the end of the run.
    pub length: Span,
    /// Intended starts in it.
    pub started: u64,
    /// Successes in it.
    pub replies: u64,
    /// Failures in it.
    pub failed: u64,
    /// Bytes of the successes.
    pub bytes: u64,
    /// Median response time, to 1.6 %.
    pub p50: Option<Span>,
    /// 99th percentile of the response time, to 1.6 %.
    pub p99: Option<Span>,
    /// The exact maximum of the response time; `None` if no request ended in the interval.
    pub max: Option<Span>,
}

impl Tally {
    /// The load window: from the start of the section to the end of its load.
    pub fn window(&self) -> Span {
        self.end.since(self.start)
    }

    /// Complete replies inside the window with a status in this range.
    pub fn statuses_inside(&self, range: impl RangeBounds<u16> + Clone) -> u64 {
        let of = |all: &BTreeMap<u16, u64>| all.range(range.clone()).map(|(_, n)| n).sum::<u64>();
        of(&self.statuses).saturating_sub(of(&self.statuses_in_drain))
    }

    /// `n` per second of that window; 0 if it is empty.
    pub fn per_second(&self, n: u64) -> f64 {
        per_second(n as f64, self.window())
    }

    /// The completed rate: successes inside the window per second. 0 if the window is empty.
    pub fn rate(&self) -> f64 {
        self.per_second(self.replies - self.replies_in_drain)
    }

    /// Sessions completed inside the window per second. `None` without sessions.
    pub fn session_rate(&self) -> Option<f64> {
        let sessions = self.sessions.as_ref()?;
        Some(self.per_second(sessions.completed - sessions.completed_in_drain))
    }

    /// Bytes received inside the window per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.bytes_received() - self.bytes_in_drain)
    }

    /// Bytes received, those of failed replies included. Results of versions that did not count
    /// these have the bytes of complete replies.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received.max(self.bytes_head + self.bytes_body)
    }

    /// The share of failed requests among those that ended; `None` if none ended.
    pub fn error_share(&self) -> Option<f64> {
        let ended = self.replies + self.failed;
        (ended > 0).then(|| self.failed as f64 / ended as f64)
    }

    /// Requests that timed out, while connecting or waiting for the reply.
    pub fn timeouts(&self) -> u64 {
        let timeouts = Fault::ALL.into_iter().filter(|f| f.class() == FaultClass::Timeout);
        timeouts.map(|f| self.fault(f)).sum()
    }

    /// Requests that were never sent.
    pub fn unsent(&self) -> u64 {
        self.started - self.sent
    }

    /// The concurrency: the mean number of requests in flight, computed as the total time that
    /// requests spent in flight inside the window, divided by the window (Little's law; Little,
    /// Operations Research 9, 1961). In a closed loop without think time it is close to the number
    /// of users.
    pub fn concurrency(&self) -> f64 {
        let ended = self.times.response.sum_ns() + self.times.failed.sum_ns();
        let inside = ended as f64 + self.time_unfinished.0 as f64
            - (self.time_in_drain + self.time_assumed).0 as f64;
        per_second(inside.max(0.0) / 1e9, self.window())
    }

    /// The other side of Little's law: the integral over the window of the number of requests in
    /// flight, divided by the window. `None` if it was not recorded.
    pub fn in_flight_mean(&self) -> Option<f64> {
        Some(per_second(self.time_in_flight?.as_secs_f64(), self.window()))
    }

    /// The mean number of open streams over the window, on all connections together. `None` without
    /// HTTP/2.
    pub fn streams_mean(&self) -> Option<f64> {
        let open = self.http2.as_deref()?.open_time;
        Some(per_second(open.as_secs_f64(), self.window()))
    }

    /// Upper bound of the time that the meter added to the quantile `q` of the response times (1:
    /// the maximum). `None` if the driver did not report its polls, or the sample is too small for
    /// the quantile.
    pub fn meter_added(&self, q: f64) -> Option<Span> {
        self.without_meter.as_ref()?.added(&self.times.response, q)
    }

    /// The section over time.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let length = self.series.interval();
        self.series.cells().iter().enumerate().map(move |(i, c)| Row {
            at: length * i as u64,
            length,
            started: c.started,
            replies: c.replies,
            failed: c.failed,
            bytes: c.bytes,
            p50: c.quantile(0.5),
            p99: c.quantile(0.99),
            max: c.quantile(1.0),
        })
    }
}

/// Figures of the replies of language models.
impl Tally {
    /// Messages with output that arrived inside the window, per second; `None` if no reply is one
    /// of a language model.
    pub fn chunk_rate(&self) -> Option<f64> {
        let tokens = self.tokens.as_deref()?;
        let inside = tokens.chunks.saturating_sub(tokens.chunks_in_drain);
        Some(per_second(inside as f64, self.window()))
    }

    /// The mean number of tokens in a message with output, of the replies that say how many tokens
    /// they have; `None` if none does.
    pub fn tokens_per_chunk(&self) -> Option<f64> {
        let tokens = self.tokens.as_deref()?;
        (tokens.counted_chunks > 0)
            .then(|| tokens.output_tokens as f64 / tokens.counted_chunks as f64)
    }

    /// Tokens of all replies per second: messages with output inside the window, times the tokens
    /// in each.
    pub fn token_rate(&self) -> Option<f64> {
        Some(self.chunk_rate()? * self.tokens_per_chunk()?)
    }

    /// Tokens per second of one reply while it arrives: the reciprocal of the mean time between
    /// its tokens.
    pub fn token_rate_of_one(&self) -> Option<f64> {
        let mean = self.tokens.as_deref()?.itl.mean_ns()?;
        (mean > 0.0).then(|| 1e9 / mean)
    }

    /// Replies inside the window that keep all limits, per second.
    pub fn goodput(&self) -> Option<f64> {
        let tokens = self.tokens.as_deref()?;
        let inside = tokens.good.saturating_sub(tokens.good_in_drain);
        Some(per_second(inside as f64, self.window()))
    }

    /// The tokens of the replies that say how many they have, or were counted; `None` without any.
    pub fn output_tokens(&self) -> Option<u64> {
        let tokens = self.tokens.as_deref()?;
        (tokens.counted > 0).then_some(tokens.output_tokens)
    }

    /// The tokens of the requests, as their replies say; `None` if none does.
    pub fn input_tokens(&self) -> Option<u64> {
        let tokens = self.tokens.as_deref()?;
        (tokens.counted > tokens.tokenized).then_some(tokens.input_tokens)
    }
}

/// `n` per second of this time; 0 if it is empty.
pub fn per_second(n: f64, window: Span) -> f64 {
    if window == Span::ZERO { 0.0 } else { n / window.as_secs_f64() }
}
