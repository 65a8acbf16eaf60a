//! The recorder: counters and histograms of one worker, and the meaning of each timestamp.
//! `docs/terms.md` defines the figures for users.

pub mod bins;
mod broadcast;
mod by_fault;
mod bytes;
mod checks;
mod clients;
mod connections;
mod drain;
mod figures;
mod finish;
mod first_failures;
mod groups;
pub mod hist;
mod in_flight;
mod in_streams;
mod live;
mod lower_bounds;
mod messages;
mod meter;
mod of_figure;
mod over_time;
mod phases;
mod pings;
mod proxy;
mod redirects;
mod section;
pub mod series;
mod sessions;
mod stamps;
mod streams;
mod tls;
mod tokens;
mod waits;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use broadcast::Broadcast;
pub use by_fault::ByFault;
pub use checks::CheckTally;
pub use clients::ClientTally;
pub use connections::Connections;
pub use figures::{Row, per_second};
use first_failures::{FailedBody, Unreadable};
pub use first_failures::{FirstFailure, FirstFailures};
pub use groups::{GroupEnd, GroupKey, GroupTally};
use hist::Hist;
use in_flight::InFlightIntegral;
pub use in_streams::{CallStart, Reconnects, StreamBodies, StreamEnd, StreamMessages, StreamSizes};
pub use live::LagSoFar;
pub use lower_bounds::TimeLowerBound;
pub use messages::{Messages, Observer};
use meter::Polls;
pub use over_time::{StreamSeries, StreamTime};
pub use phases::{KernelTimes, MissingTime, Phases};
pub use pings::Pings;
use prony_base::fault::Fault;
use prony_base::merge::{Merge, add_if_both, append, greatest, least};
use prony_base::units::{Nanos, Span};
use prony_proto::proto::{Reply, StreamCounts};
pub use proxy::ProxyTally;
pub use redirects::RedirectTally;
use section::Section;
use series::Series;
pub use sessions::{KindTally, NameTally, SessionEnd, SessionTally, StepTally};
pub use stamps::Stamps;
pub use tls::{FirstHandshake, Secured, TlsTally};
pub use tokens::{Finished, TokenReply, TokenTally};

/// Minimum send lag of a request that counts as sent late, after the load. An arrival due just
/// before the end of the load is sent just after it even if the meter is punctual.
const LATE: Span = Span::from_millis(1);

/// The histograms of one section of a run.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// From the intended start to the last byte of the reply; successes, and timeouts with at least
    /// the timeout (P15).
    pub response: Hist,
    /// From the send to the last byte of the reply; successes, and timeouts that were sent.
    pub service: Hist,
    /// From the send to the first byte of the reply; successes.
    pub first_byte: Hist,
    /// From the first to the last byte of the reply; successes.
    pub transfer: Hist,
    /// The send lag: how late the meter sent a request; every request that was sent.
    #[serde(rename = "send_lag")]
    pub lag: Hist,
    /// Time in the client's queue; only requests that waited.
    pub queue: Hist,
    /// Time at the peer's limit of concurrent streams; only requests that waited.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub stream_wait: Hist,
    /// Time waiting for the peer's flow-control window to send the rest of a request, summed over
    /// the request; only requests that waited. Part of the service time.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub flow_wait: Hist,
    /// From the intended time of a message with a schedule to its reply.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub message: Hist,
    /// From the send of such a message to its reply.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub message_service: Hist,
    /// How late the meter sent such a message; all that were sent.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub message_lag: Hist,
    /// From the intended start of a call to the first message of its reply.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub first_message: Hist,
    /// From the intended start of a request to the first message with content.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub first_content: Hist,
    /// Between two messages of such a reply, one after the other.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub message_gap: Hist,
    /// From the end of a stream's connection to the first message after its reconnect.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub reconnect: Hist,
    /// From the start of a connect to the open connection; every connection that opened.
    pub connect: Hist,
    /// From the open connection to the proxy to the open tunnel; every tunnel that opened.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub tunnel: Hist,
    /// From the open TCP connection to the end of the TLS handshake; every completed handshake.
    #[serde(default)]
    pub handshake: Hist,
    /// From the intended start to the failure; failed requests, except timeouts.
    pub failed: Hist,
}

/// The counters and histograms of one section (warm-up or measurement), of one worker or merged
/// over all workers.
///
/// Invariants: `started == replies + failed + unfinished`, `response.count() == replies +
/// timeouts`, and `failed.count() == failed - timeouts` (P4).
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Requests with their intended start in the section.
    pub started: u64,
    /// Requests with at least their first byte passed to the kernel; a retried request counts once.
    pub sent: u64,
    /// Requests among them that went out after the end of the load because the meter itself lagged
    /// by more than 1 ms. Zero if a count ended the load.
    pub sent_late: u64,
    /// Requests that were never sent because they timed out before the meter came to them.
    #[serde(default)]
    pub overdue: u64,
    /// Requests with a reply that the plan expects.
    pub replies: u64,
    /// Replies among them that arrived after the end of the load, in the drain.
    pub replies_in_drain: u64,
    /// Failed requests.
    pub failed: u64,
    /// Requests that had not ended when the run ended.
    pub unfinished: u64,
    /// How often requests were sent again because the peer closed their connection.
    pub retries: u64,
    /// Failed requests, by fault.
    pub faults: ByFault,
    /// Protocol violations by the peer while no request was waiting, for example bytes on an idle
    /// connection; by fault.
    pub stray: ByFault,
    /// Complete replies, expected or not, by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Those among them that arrived after the end of the load, in the drain.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statuses_in_drain: BTreeMap<u16, u64>,
    /// Interim (1xx) replies.
    pub interim: u64,
    /// Connections attempted.
    pub connects: u64,
    /// Connections that opened.
    pub connected: u64,
    /// Bytes passed to the kernel.
    pub bytes_sent: u64,
    /// Bytes read from connections, those of failed replies included. Over TLS, the decrypted
    /// bytes.
    #[serde(default)]
    pub bytes_received: u64,
    /// Bytes of the heads and of the framing of replies.
    pub bytes_head: u64,
    /// Those among them that are framing of chunked bodies.
    #[serde(default)]
    pub bytes_framing: u64,
    /// Those among them after the last chunk.
    #[serde(default)]
    pub bytes_footer: u64,
    /// Bytes of the bodies of replies.
    pub bytes_body: u64,
    /// Bytes received after the end of the load, in the drain.
    pub bytes_in_drain: u64,
    /// The maximum number of requests in flight (when merged, the sum of the workers' maxima).
    pub in_flight_max: u64,
    /// Total time in flight within the drain, of requests that ended in it.
    pub time_in_drain: Span,
    /// Total time in flight up to the end of the window, of unfinished requests.
    pub time_unfinished: Span,
    /// Total time added to timeouts beyond their time in flight: each counts as at least the
    /// timeout.
    #[serde(default)]
    pub time_assumed: Span,
    /// Integral over the window of the number of requests in flight, computed from events and
    /// counters only, independent of the requests' timestamps. `None` in a warm-up and in results
    /// of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[merge(add_if_both)]
    pub time_in_flight: Option<Span>,
    /// When the section started.
    #[merge(least)]
    pub start: Nanos,
    /// When its load ended: at the planned time, or with the last completion if a count ended it.
    #[merge(greatest)]
    pub end: Nanos,
    /// The histograms.
    pub times: Times,
    /// The same, over time.
    pub series: Series,
    /// The service times over time, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_series: Option<Box<Series>>,
    /// The times of messages in streams over time, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_series: Option<Box<StreamSeries>>,
    /// Statistics of connections.
    #[serde(default)]
    pub connections: Connections,
    /// Statistics of TLS handshakes, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Box<TlsTally>>,
    /// Tunnels through a proxy, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Box<ProxyTally>>,
    /// Events and sizes of heads of connections with HTTP/2, if the plan wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<Box<StreamCounts>>,
    /// Duplicate, reordered, late and unexpected messages, if the network may lose messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Box<Messages>>,
    /// Counters of messages in streams, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_messages: Option<Box<StreamMessages>>,
    /// The messages of a broadcast, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast: Option<Box<Broadcast>>,
    /// Pings of WebSocket, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pings: Option<Box<Pings>>,
    /// Replies of language models, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<TokenTally>>,
    /// Lower bounds of the true response times, if the driver reported its polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_meter: Option<Box<TimeLowerBound>>,
    /// The same of the times in streams, as far as there were any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub streams_without_meter: BTreeMap<StreamTime, TimeLowerBound>,
    /// The parts of response times from the kernel's timestamps, if they were enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Box<Phases>>,
    /// Statistics of sessions, if the plan has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Box<SessionTally>>,
    /// Statistics for each request name of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NameTally>,
    /// The results of each check of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckTally>,
    /// The groups of steps of each name in the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTally>,
    /// What redirects came to, if the plan follows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirects: Option<Box<RedirectTally>>,
    /// The first failed request of each kind of error.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub first_failures: FirstFailures,
    /// The timestamps of every success, in the order in which each worker's ended. Empty unless the
    /// engine was configured to keep them. Never saved.
    #[serde(skip)]
    #[merge(append)]
    pub kept: Vec<Stamps>,
    /// What each independent client of a closed loop did, if the plan has any. Never saved.
    #[serde(skip)]
    #[merge(append)]
    pub clients: Vec<ClientTally>,
}

/// Records the run of one worker, in two sections: warm-up and measurement. A request belongs to
/// the section of its intended start.
#[derive(Debug)]
pub struct Recorder {
    main: Section,
    warm: Section,
    /// The start of the measurement.
    start: Nanos,
    /// When the load ends or ended, if known; else `Nanos::MAX`.
    load_end: Nanos,
    /// Bytes received since `bytes_since` and not assigned to a section yet. Bytes received before
    /// `bytes_until` belong to the same section and to the same side of the end of the load.
    bytes: u64,
    bytes_since: Nanos,
    bytes_until: Nanos,
    /// The number of requests of the measurement in flight, over time.
    in_flight: InFlightIntegral,
    /// The open streams, over time.
    streams: streams::OpenStreams,
    /// The driver's polls of its sockets.
    polls: Polls,
    /// Whether successes are processed one by one, as `each` says.
    keeps: bool,
    /// How each success is processed.
    each: messages::PerSuccess,
    /// When the first connection of a closed loop was ready, if connecting is not part of the
    /// measurement; else `Nanos::MAX`.
    ready: Nanos,
    /// The body of a failed reply, while it arrives.
    failed_body: FailedBody,
    /// What came last in place of a reply.
    unreadable: Unreadable,
}

impl Tally {
    /// An empty tally that starts at `start`.
    pub fn new(start: Nanos) -> Self {
        Self { start, end: start, series: Series::new(start), ..Self::default() }
    }

    /// Lost requests, see [`Fault::is_lost`].
    pub fn lost(&self) -> u64 {
        Fault::ALL.into_iter().filter(|f| f.is_lost()).map(|f| self.fault(f)).sum()
    }

    /// Requests that failed with `fault`.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}

impl Recorder {
    /// A recorder with a measurement that starts at `start`, the end of the warm-up.
    pub fn new(start: Nanos) -> Self {
        Self {
            main: Section::new(start).allocated(),
            warm: Section::new(Nanos::ZERO),
            start,
            load_end: Nanos::MAX,
            bytes: 0,
            bytes_since: Nanos::ZERO,
            bytes_until: Nanos::ZERO,
            in_flight: InFlightIntegral::default(),
            streams: streams::OpenStreams::default(),
            polls: Polls::default(),
            keeps: false,
            each: messages::PerSuccess::default(),
            ready: Nanos::MAX,
            failed_body: FailedBody::default(),
            unreadable: Unreadable::default(),
        }
    }

    /// The same, for a plan with or without sessions and with this number of request names.
    #[must_use]
    pub fn of(mut self, sessions: bool, names: usize) -> Self {
        for section in [&mut self.main, &mut self.warm] {
            section.tally.sessions = sessions.then(Box::default);
            section.tally.names = vec![NameTally::default(); names];
        }
        self
    }

    /// Keep the timestamps of every success ([`Tally::kept`]). Memory grows with the run.
    pub fn keep_requests(&mut self) {
        self.keeps = true;
        self.each.kept = true;
    }

    /// Also keep the service times of the measurement over time ([`Tally::service_series`]).
    pub fn keep_service(&mut self) {
        self.keeps = true;
        self.main.tally.service_series = Some(Box::new(Series::new(self.start)));
    }

    #[inline]
    fn section(&mut self, intended: Nanos) -> &mut Section {
        if intended >= self.start { &mut self.main } else { &mut self.warm }
    }

    /// Number of requests that have ended.
    pub fn ended(&self) -> u64 {
        [&self.warm, &self.main].iter().map(|s| s.tally.replies + s.tally.failed).sum()
    }

    /// A request is due since `intended`.
    #[inline]
    pub fn started(&mut self, intended: Nanos) {
        if intended < self.in_flight.seen() {
            self.noticed_late(intended, 1);
        }
        let s = self.section(intended);
        s.tally.started += 1;
        s.tally.series.started(intended);
    }

    /// `n` requests are due since `intended`.
    #[inline]
    pub fn started_together(&mut self, intended: Nanos, n: u64) {
        let s = self.section(intended);
        s.tally.started += n;
        s.tally.series.started_together(intended, n);
    }

    /// The first bytes of `n` requests due at `now` were passed to the kernel at `now`:
    /// [`Recorder::sent`] for each of them.
    #[inline]
    pub fn sent_on_time(&mut self, now: Nanos, n: u64) {
        let s = self.section(now);
        s.tally.sent += n;
        s.on_time += n;
    }

    /// The first byte of a request was passed to the kernel.
    #[inline]
    pub fn sent(&mut self, stamps: &Stamps) {
        let lag = stamps.lag();
        let ready = stamps.intended + stamps.queue + stamps.connect + stamps.stream;
        let late = lag > LATE && stamps.sent > self.load_end && ready <= self.load_end;
        let s = self.section(stamps.intended);
        s.tally.sent += 1;
        s.tally.sent_late += u64::from(late);
        if lag == Span::ZERO {
            s.on_time += 1;
        } else {
            s.tally.times.lag.record(lag);
        }
        if stamps.queue > Span::ZERO {
            s.tally.times.queue.record(stamps.queue);
        }
        if stamps.stream > Span::ZERO {
            s.tally.times.stream_wait.record(stamps.stream);
        }
    }

    /// A complete reply has arrived; `fault` is the reason if it is not a success.
    #[inline(always)]
    pub fn replied(&mut self, stamps: &Stamps, reply: &Reply, fault: Option<Fault>) {
        if stamps.done > self.load_end {
            self.drained(*stamps, reply.status, fault);
        }
        if self.keeps && fault.is_none() {
            self.keep(*stamps);
        }
        let s = self.section(stamps.intended);
        s.status(reply.status);
        s.last_done = s.last_done.max(stamps.done);
        let t = &mut s.tally;
        t.bytes_head += reply.head_bytes;
        t.bytes_body += reply.body_bytes;
        if reply.framing_bytes > 0 || reply.interim > 0 {
            t.interim += u64::from(reply.interim);
            t.bytes_framing += reply.framing_bytes;
            t.bytes_footer += reply.footer_bytes;
        }
        if let Some(fault) = fault {
            t.failed += 1;
            t.faults[fault as usize] += 1;
            t.times.failed.record(stamps.response());
            t.series.failed(stamps.done);
            return;
        }
        t.replies += 1;
        let response = stamps.response();
        t.series.replied(stamps.done, response, reply.head_bytes + reply.body_bytes);
        if stamps.first != stamps.done {
            t.times.response.record(response);
            t.times.service.record(stamps.service());
            t.times.first_byte.record(stamps.first_byte());
            t.times.transfer.record(stamps.transfer());
            self.polls.other(stamps);
        } else if stamps.sent == stamps.intended {
            self.plain(stamps.done, response);
        } else {
            t.times.response.record(response);
            s.whole.record(stamps.service());
            self.polls.other(stamps);
        }
    }

    /// A request failed without a complete reply. `sent`: whether its first byte was passed to the
    /// kernel. A timeout is recorded as at least `timeout`.
    pub fn failed(&mut self, stamps: &Stamps, fault: Fault, sent: bool, timeout: Span) {
        self.step_failed(stamps, sent);
        self.failed_first(stamps, fault);
        let in_drain = self.in_drain(stamps);
        let s = self.section(stamps.intended);
        s.last_done = s.last_done.max(stamps.done);
        let t = &mut s.tally;
        t.time_in_drain += in_drain;
        t.failed += 1;
        t.faults[fault as usize] += 1;
        if fault.class() == prony_base::fault::FaultClass::Timeout {
            let response = stamps.response().max(timeout);
            t.time_assumed += response - stamps.response();
            t.times.response.record(response);
            if sent {
                t.times.service.record(stamps.service());
                if let Some(served) = &mut t.service_series {
                    served.timed_out(stamps.done, stamps.service());
                }
            }
            t.series.timed_out(stamps.done, response);
            self.timeout_bound(stamps, sent, response);
        } else {
            t.times.failed.record(stamps.response());
            t.series.failed(stamps.done);
        }
    }

    /// `n` requests due at `intended` or a little later are dropped: the meter will not start them.
    #[cold]
    pub fn dropped(&mut self, intended: Nanos, n: u64, now: Nanos) {
        if intended < self.in_flight.seen() {
            self.noticed_late(intended, n);
        }
        let in_drain = now.since(self.load_end.max(intended));
        let s = self.section(intended);
        s.last_done = s.last_done.max(now);
        let t = &mut s.tally;
        t.started += n;
        t.failed += n;
        t.faults[Fault::Dropped as usize] += n;
        t.time_in_drain += in_drain * n;
        t.times.failed.record_n(now.since(intended), n);
        t.series.started_together(intended, n);
        t.series.failed_together(now, n);
    }

    /// A request is sent again on a new connection.
    pub fn retried(&mut self, intended: Nanos) {
        self.section(intended).tally.retries += 1;
    }

    /// Set the maximum number of requests in flight.
    pub fn in_flight_max(&mut self, n: u64) {
        self.main.tally.in_flight_max = n;
    }

    /// The load ends at `at`, in the future or now: no request starts after that. The earliest end
    /// counts.
    pub fn load_ended(&mut self, at: Nanos) {
        // The next bytes may fall on the other side of the new end.
        self.sort_bytes(self.bytes_since);
        self.bytes_until = Nanos::ZERO;
        self.load_end = self.load_end.min(at);
    }
}

/// Whether a counter need not be saved.
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests;
