//! What is counted, when, and what each time stamp means. The definitions for users are in
//! `docs/terms.md`.

pub mod bins;
mod bytes;
pub mod hist;
mod links;
mod live;
mod merge;
mod messages;
mod phases;
mod section;
pub mod series;
mod sessions;
mod stamps;
mod tls;
mod under_way;
mod waits;
mod wire;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::proto::Reply;
use crate::units::{Nanos, Span};
use hist::Hist;
pub use links::Links;
pub use live::LagSoFar;
pub use messages::{Messages, Observer};
pub use phases::{Noted, Phases, Unnoted};
use section::Section;
use series::Series;
pub use sessions::{NameTally, SessionEnd, SessionTally};
pub use stamps::Stamps;
pub use tls::{FirstHandshake, Secured, TlsTally};
use under_way::UnderWay;

/// A lag that counts as lateness where the end of the load cuts it off; below it, an arrival just
/// before the end is sent just after it without anything being wrong.
const LATE: Span = Span::from_millis(1);

/// The histograms of one section of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// From the intended start to the last byte; successes, and timeouts with at least the timeout
    /// (P15).
    pub response: Hist,
    /// From the send to the last byte; successes, and timeouts that were sent.
    pub service: Hist,
    /// From the send to the first byte of the reply; successes.
    pub first_byte: Hist,
    /// From the first to the last byte of the reply; successes.
    pub transfer: Hist,
    /// How late the meter sent; every request that was sent.
    pub lag: Hist,
    /// Waits in the client's queue; only requests that waited.
    pub queue: Hist,
    /// Waits on an open connection for the peer's limit of streams; only requests that waited.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub stream_wait: Hist,
    /// Waits for the peer's permission (a window) to send what is left of a request, summed over
    /// the request; only requests that waited. Part of the service time.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub flow_wait: Hist,
    /// From the start of a connect to the open connection; every connection that opened.
    pub connect: Hist,
    /// From the open TCP connection to the end of the TLS handshake; every handshake that was done.
    #[serde(default)]
    pub handshake: Hist,
    /// From the intended start to the failure; requests that failed otherwise than by a timeout.
    pub failed: Hist,
}

/// All that is counted over one section (warm-up or measurement) of a run by one or, merged, all
/// workers.
///
/// `started == replies + failed + unfinished` always. `response.count() == replies + timeouts`, and
/// `failed.count() == failed - timeouts` (P4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Requests whose intended start fell into the section.
    pub started: u64,
    /// Requests whose first byte was given to the kernel (a retried request once).
    pub sent: u64,
    /// Requests among them sent only after the load had ended because the meter itself lagged by
    /// more than 1 ms. None where a count ended the load.
    pub sent_late: u64,
    /// Requests never sent, as their time was up before the meter came to them.
    #[serde(default)]
    pub overdue: u64,
    /// Requests answered as the plan expects.
    pub replies: u64,
    /// Replies among them that came after the load had ended (in the drain).
    pub replies_in_drain: u64,
    /// Requests that failed, by whatever fault.
    pub failed: u64,
    /// Requests given up because the run ended.
    pub unfinished: u64,
    /// Requests sent a second time because the peer closed an idle connection under them.
    pub retries: u64,
    /// Failed requests by fault.
    #[serde(with = "wire::by_fault")]
    pub faults: [u64; Fault::COUNT],
    /// Bytes or closes that broke the protocol with no request to blame (junk on an idle
    /// connection), by fault.
    #[serde(with = "wire::by_fault")]
    pub stray: [u64; Fault::COUNT],
    /// Whole replies by status, expected or not.
    pub statuses: BTreeMap<u16, u64>,
    /// Interim (1xx) replies.
    pub interim: u64,
    /// Connections asked for.
    pub connects: u64,
    /// Connections that opened.
    pub connected: u64,
    /// Bytes given to the kernel.
    pub bytes_sent: u64,
    /// Bytes that connections brought, whatever became of the replies that they were part of. Of
    /// TLS what is inside the records.
    #[serde(default)]
    pub bytes_received: u64,
    /// Bytes of replies' heads and framing.
    pub bytes_head: u64,
    /// Those among them that are the framing of chunks.
    #[serde(default)]
    pub bytes_framing: u64,
    /// Those among them that follow the last chunk.
    #[serde(default)]
    pub bytes_footer: u64,
    /// Bytes of replies' bodies.
    pub bytes_body: u64,
    /// Bytes received after the load had ended (in the drain).
    pub bytes_in_drain: u64,
    /// The most requests in flight at once (sum over workers when merged).
    pub in_flight_max: u64,
    /// How long those that ended in the drain were under way in it, added up.
    pub time_in_drain: Span,
    /// How long the unfinished ones had been under way when the window ended, added up.
    pub time_unfinished: Span,
    /// How much longer timeouts were recorded than they were under way, added up: each counts as at
    /// least the timeout.
    #[serde(default)]
    pub time_assumed: Span,
    /// The integral over the window of how many requests were under way, which owes nothing to
    /// their stamps: added up from event to event. `None` in a warm-up, and where nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_under_way: Option<Span>,
    /// When the section began.
    pub begin: Nanos,
    /// When its load ended: the stop rule's moment, or the last completion where a count ended it.
    pub end: Nanos,
    /// The histograms.
    pub times: Times,
    /// The same over time.
    pub series: Series,
    /// The service times over time, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Box<Series>>,
    /// The connections.
    #[serde(default)]
    pub links: Links,
    /// The TLS handshakes, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Box<TlsTally>>,
    /// What a network did to messages, where they are exchanged over one that may lose them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Box<Messages>>,
    /// The parts of response times that the kernel tells apart, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Box<Phases>>,
    /// The sessions, where the plan has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Box<SessionTally>>,
    /// One for each of the plan's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NameTally>,
    /// The life of every success, in the order in which each worker's ended; nothing unless the
    /// engine was told to keep them. It is never saved.
    #[serde(skip)]
    pub kept: Vec<Stamps>,
}

/// Counts one worker's run. Two sections: warm-up and measurement; a request belongs to the one in
/// which its intended start falls.
#[derive(Debug)]
pub struct Recorder {
    main: Section,
    warm: Section,
    /// Measurement begins here.
    begin: Nanos,
    /// When the load ends, or ended, where that is known; else `Nanos::MAX`.
    load_end: Nanos,
    /// Bytes received that are in no section yet, from when on, and until when the next ones are of
    /// the same place: before, in or after the window.
    bytes: u64,
    bytes_since: Nanos,
    bytes_until: Nanos,
    /// How many requests of the measurement were under way, over time.
    under_way: UnderWay,
    /// Whether the stamps of every success are kept.
    keeps: bool,
    /// What is done with it.
    each: messages::Each,
    /// When the first connection could carry requests, where that is no part of them.
    ready: Nanos,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new(Nanos::ZERO)
    }
}

impl Tally {
    /// Nothing counted yet, from `begin` on.
    pub fn new(begin: Nanos) -> Self {
        Self {
            started: 0,
            sent: 0,
            sent_late: 0,
            overdue: 0,
            replies: 0,
            replies_in_drain: 0,
            failed: 0,
            unfinished: 0,
            retries: 0,
            faults: [0; Fault::COUNT],
            stray: [0; Fault::COUNT],
            statuses: BTreeMap::new(),
            interim: 0,
            connects: 0,
            connected: 0,
            bytes_sent: 0,
            bytes_received: 0,
            bytes_head: 0,
            bytes_framing: 0,
            bytes_footer: 0,
            bytes_body: 0,
            bytes_in_drain: 0,
            in_flight_max: 0,
            time_in_drain: Span::ZERO,
            time_unfinished: Span::ZERO,
            time_assumed: Span::ZERO,
            time_under_way: None,
            begin,
            end: begin,
            times: Times::default(),
            series: Series::new(begin),
            served: None,
            links: Links::default(),
            tls: None,
            messages: None,
            phases: None,
            sessions: None,
            names: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Failed requests that were lost, see [`Fault::is_lost`].
    pub fn lost(&self) -> u64 {
        Fault::ALL.into_iter().filter(|f| f.is_lost()).map(|f| self.fault(f)).sum()
    }

    /// Failed requests of one fault.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}

impl Recorder {
    /// A recorder whose measurement begins at `begin` (the end of the warm-up).
    pub fn new(begin: Nanos) -> Self {
        Self {
            main: Section::new(begin),
            warm: Section::new(Nanos::ZERO),
            begin,
            load_end: Nanos::MAX,
            bytes: 0,
            bytes_since: Nanos::ZERO,
            bytes_until: Nanos::ZERO,
            under_way: UnderWay::default(),
            keeps: false,
            each: messages::Each::default(),
            ready: Nanos::MAX,
        }
    }

    /// The same, for a plan that has sessions, or so many names.
    #[must_use]
    pub fn of(mut self, sessions: bool, names: usize) -> Self {
        for section in [&mut self.main, &mut self.warm] {
            section.tally.sessions = sessions.then(Box::default);
            section.tally.names = vec![NameTally::default(); names];
        }
        self
    }

    /// Keep the stamps of every success ([`Tally::kept`]), which takes memory without end.
    pub fn keep_requests(&mut self) {
        self.keeps = true;
        self.each.kept = true;
    }

    /// Keep the measurement's service times over time too ([`Tally::served`]).
    pub fn keep_service(&mut self) {
        self.keeps = true;
        self.main.tally.served = Some(Box::new(Series::new(self.begin)));
    }

    #[inline]
    fn section(&mut self, intended: Nanos) -> &mut Section {
        if intended >= self.begin { &mut self.main } else { &mut self.warm }
    }

    /// Requests that have ended.
    pub fn ended(&self) -> u64 {
        [&self.warm, &self.main].iter().map(|s| s.tally.replies + s.tally.failed).sum()
    }

    /// A request is wanted from `intended` on.
    #[inline]
    pub fn started(&mut self, intended: Nanos) {
        if intended < self.under_way.seen() {
            self.noticed_late(intended, 1);
        }
        let s = self.section(intended);
        s.tally.started += 1;
        s.tally.series.started(intended);
    }

    /// So many requests are wanted from `intended` on.
    #[inline]
    pub fn started_together(&mut self, intended: Nanos, n: u64) {
        let s = self.section(intended);
        s.tally.started += n;
        s.tally.series.started_together(intended, n);
    }

    /// So many requests, wanted from `now` on, had their first byte given to the kernel now:
    /// [`Recorder::sent`] for each of them.
    #[inline]
    pub fn sent_on_time(&mut self, now: Nanos, n: u64) {
        let s = self.section(now);
        s.tally.sent += n;
        s.on_time += n;
    }

    /// A request's first byte was given to the kernel.
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

    /// A whole reply has come; `fault` says why it is no success, if it is none.
    #[inline]
    pub fn replied(&mut self, stamps: &Stamps, reply: &Reply, fault: Option<Fault>) {
        if stamps.done > self.load_end {
            self.drained(*stamps, fault);
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
        } else if stamps.sent == stamps.intended {
            s.plain.record(response);
        } else {
            t.times.response.record(response);
            s.whole.record(stamps.service());
        }
    }

    /// A reply has come after the end of the load.
    #[cold]
    fn drained(&mut self, stamps: Stamps, fault: Option<Fault>) {
        let in_drain = self.in_drain(&stamps);
        if in_drain > Span::ZERO {
            let t = &mut self.section(stamps.intended).tally;
            t.time_in_drain += in_drain;
            t.replies_in_drain += u64::from(fault.is_none());
        }
    }

    /// A request has failed without a whole reply. `sent`: whether any of it was. A timeout enters
    /// the latency record as at least `timeout`.
    pub fn failed(&mut self, stamps: &Stamps, fault: Fault, sent: bool, timeout: Span) {
        let in_drain = self.in_drain(stamps);
        let s = self.section(stamps.intended);
        s.last_done = s.last_done.max(stamps.done);
        let t = &mut s.tally;
        t.time_in_drain += in_drain;
        t.failed += 1;
        t.faults[fault as usize] += 1;
        if fault.class() == crate::fault::FaultClass::Timeout {
            let response = stamps.response().max(timeout);
            t.time_assumed += response - stamps.response();
            t.times.response.record(response);
            if sent {
                t.times.service.record(stamps.service());
                if let Some(served) = &mut t.served {
                    served.timed_out(stamps.done, stamps.service());
                }
            }
            t.series.timed_out(stamps.done, response);
        } else {
            t.times.failed.record(stamps.response());
            t.series.failed(stamps.done);
        }
    }

    /// A request's time was up before the meter came to it.
    pub fn overdue(&mut self, intended: Nanos) {
        self.section(intended).tally.overdue += 1;
    }

    /// `n` requests that were wanted from `intended` on, or a little later, are dropped: the
    /// meter neither started nor will start them.
    #[cold]
    pub fn dropped(&mut self, intended: Nanos, n: u64, now: Nanos) {
        if intended < self.under_way.seen() {
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

    /// The part of a request's time that lies behind the end of the load.
    #[inline]
    fn in_drain(&self, stamps: &Stamps) -> Span {
        stamps.done.since(self.load_end.max(stamps.intended))
    }

    /// A request is given up because the run ends.
    pub fn unfinished(&mut self, intended: Nanos) {
        let time = match self.load_end {
            Nanos::MAX => Span::ZERO,
            end => end.since(intended),
        };
        self.given_up(intended);
        let t = &mut self.section(intended).tally;
        t.unfinished += 1;
        t.time_unfinished += time;
    }

    /// A request goes out again on a fresh connection.
    pub fn retried(&mut self, intended: Nanos) {
        self.section(intended).tally.retries += 1;
    }

    /// A connect begins.
    pub fn connecting(&mut self, now: Nanos) {
        self.section(now).tally.connects += 1;
    }

    /// A connection is wanted.
    pub fn wants_connection(&mut self, now: Nanos) {
        let s = self.section(now);
        let (last, n) = s.connects;
        s.connects = (now, if last == now { n + 1 } else { 1 });
        s.tally.links.burst_max = s.tally.links.burst_max.max(s.connects.1);
    }

    /// A connection has opened, `took` after its connect began. It belongs to the section in which
    /// it was asked for.
    pub fn connected(&mut self, now: Nanos, took: Span) {
        let t = &mut self.section(Nanos(now.0.saturating_sub(took.0))).tally;
        t.connected += 1;
        t.times.connect.record(took);
    }

    /// A connection is secured, `took` after it had opened and `since_asked` after its connect
    /// began.
    pub fn secured(&mut self, now: Nanos, took: Span, since_asked: Span, handshake: Secured<'_>) {
        let t = &mut self.section(Nanos(now.0.saturating_sub(since_asked.0))).tally;
        t.times.handshake.record(took);
        let tls = t.tls.get_or_insert_default();
        tls.handshake(handshake);
    }

    /// TLS has ended a connection whose connect began at `asked`, or has never opened it.
    pub fn not_secured(&mut self, asked: Nanos, reason: &str) {
        self.section(asked).tally.tls.get_or_insert_default().failed(reason, 1);
    }

    /// The peer broke the protocol with no request to blame.
    pub fn stray(&mut self, now: Nanos, fault: Fault) {
        self.section(now).tally.stray[fault as usize] += 1;
    }

    /// Bytes were given to the kernel.
    #[inline]
    pub fn bytes_sent(&mut self, now: Nanos, n: u64) {
        self.section(now).tally.bytes_sent += n;
    }

    /// The most requests that were in flight at once.
    pub fn in_flight_max(&mut self, n: u64) {
        self.main.tally.in_flight_max = n;
    }

    /// The load ends at `at`, known beforehand or now: no request starts from then on. The earliest
    /// counts.
    pub fn load_ended(&mut self, at: Nanos) {
        // The next bytes may be of another place than was thought.
        self.sort_bytes(self.bytes_since);
        self.bytes_until = Nanos::ZERO;
        self.load_end = self.load_end.min(at);
    }

    /// The tallies: warm-up (none where the plan has none) and measurement. The measurement ends
    /// where the load ended, if that was by time; else with the last completion, and then nothing
    /// came after its end.
    pub fn finish(mut self, by_time: bool) -> (Option<Tally>, Tally) {
        self.sort_bytes(Nanos::MAX);
        let ended = Some(self.load_end).filter(|&end| by_time && end < Nanos::MAX);
        let end = ended.unwrap_or(self.main.last_done).max(self.begin);
        if !by_time {
            let t = &mut self.main.tally;
            (t.sent_late, t.replies_in_drain, t.bytes_in_drain) = (0, 0, 0);
            (t.time_in_drain, t.time_unfinished) = (Span::ZERO, self.under_way.given_up());
            if let Some(sessions) = &mut t.sessions {
                sessions.completed_in_drain = 0;
            }
        }
        self.main.tally.time_under_way = Some(self.under_way.total(by_time));
        // A load that is stopped in its warm-up has no measurement, and no more warm-up than that.
        let warm_end = self.load_end.min(self.begin);
        if self.ready < Nanos::MAX {
            self.main.tally.begin = self.begin.max(self.ready.min(end));
        }
        let warm = (self.begin > Nanos::ZERO).then(|| self.warm.finish(warm_end));
        (warm, self.main.finish(end))
    }
}

#[cfg(test)]
mod tests;
