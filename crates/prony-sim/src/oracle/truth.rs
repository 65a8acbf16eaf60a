//! Compares a tally with the true figures.

use std::collections::BTreeMap;

use prony_base::fault::{Fault, FaultClass};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Load, Plan};
use prony_plan::schedule::Schedule;
use prony_tally::record::hist::Hist;
use prony_tally::record::{NameTally, Reconnects, Tally};

use super::{ObservedRequest, Oracle};

/// The true figures of a run, from the schedule and the observed network. The plan must be an open
/// loop with request k for `/k`, and the server must reply to each request correctly, with a
/// content length.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Requests in the schedule.
    pub started: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that timed out.
    pub timeouts: u64,
    /// Replies by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of the replies' heads.
    pub bytes_head: u64,
    /// Bytes of the replies' bodies.
    pub bytes_body: u64,
    /// Response times in nanoseconds: of the replies, and the timeout for each request that timed
    /// out.
    pub response: Vec<u64>,
    /// Service times of replies.
    pub service: Vec<u64>,
    /// From the send to the first byte of the reply.
    pub first_byte: Vec<u64>,
    /// From the first to the last byte of the reply.
    pub transfer: Vec<u64>,
    /// `sent - intended` of the requests that were sent: send lag, queue and connect together.
    pub wait: Vec<u64>,
    /// Starts and replies in each second.
    pub seconds: Vec<(u64, u64)>,
}

impl Truth {
    /// The true figures of a plan's measurement (`warmup`: of its warm-up). Panics if a request is
    /// not in the schedule, or was sent twice.
    pub fn of(oracle: &Oracle, plan: &Plan, warmup: bool) -> Self {
        assert!(matches!(plan.load, Load::Open { .. }), "only arrivals have intended times");
        let mut by_number: BTreeMap<u64, &ObservedRequest> = BTreeMap::new();
        for seen in oracle.requests() {
            let number = seen.number.expect("every request of a numbered plan has a number");
            assert!(by_number.insert(number, seen).is_none(), "request {number} was sent twice");
        }
        let mut truth = Self::default();
        let mut schedule = Schedule::new(plan);
        let start = if warmup { Nanos::ZERO } else { Nanos::ZERO + plan.warmup };
        while let Some(arrival) = schedule.pop() {
            let seen = by_number.remove(&arrival.index);
            if arrival.warmup == warmup {
                truth.add(plan, start, arrival.at, seen);
            }
        }
        assert!(by_number.is_empty(), "requests that are not in the schedule: {by_number:?}");
        truth
    }

    fn add(&mut self, plan: &Plan, start: Nanos, intended: Nanos, seen: Option<&ObservedRequest>) {
        self.started += 1;
        self.second(intended.since(start)).0 += 1;
        if let Some(seen) = seen {
            assert!(seen.sent >= intended, "sent before it was intended: {seen:?}");
            self.sent += 1;
            self.wait.push(seen.sent.since(intended).0);
        }
        // The connect timeout is not considered: callers set it above the timeout.
        let done = seen.and_then(|s| s.done.map(|done| (s, done)));
        let Some((seen, done)) = done.filter(|(_, done)| *done <= intended + plan.timeout) else {
            self.timeouts += 1;
            self.response.push(plan.timeout.0);
            return;
        };
        let first = seen.first.expect("a complete reply has a first byte");
        *self.statuses.entry(seen.status).or_default() += 1;
        self.bytes_head += seen.head_bytes;
        self.bytes_body += seen.body_bytes;
        self.response.push(done.since(intended).0);
        self.service.push(done.since(seen.sent).0);
        self.first_byte.push(first.since(seen.sent).0);
        self.transfer.push(done.since(first).0);
        self.second(done.since(start)).1 += 1;
    }

    fn second(&mut self, since: Span) -> &mut (u64, u64) {
        let k = (since.0 / 1_000_000_000) as usize;
        if self.seconds.len() <= k {
            self.seconds.resize(k + 1, (0, 0));
        }
        &mut self.seconds[k]
    }

    /// One message for each figure of the tally that differs from the true one. The plan must
    /// expect all statuses that the server sends.
    pub fn mismatches(&self, tally: &Tally) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut same = |what: &str, truth: u64, reported: u64| {
            if truth != reported {
                wrong.push(format!("{what}: {reported}, expected {truth}"));
            }
        };
        let replies: u64 = self.statuses.values().sum();
        same("started", self.started, tally.started);
        same("sent", self.sent, tally.sent);
        same("replies", replies, tally.replies);
        same("failed", self.timeouts, tally.failed);
        let timeouts = [Fault::RequestTimeout, Fault::FlowTimeout].map(|f| tally.fault(f));
        same("timeouts", self.timeouts, timeouts.iter().sum());
        same("unfinished", 0, tally.unfinished);
        same("bytes of heads", self.bytes_head, tally.bytes_head);
        same("bytes of bodies", self.bytes_body, tally.bytes_body);
        if self.statuses != tally.statuses {
            wrong.push(format!("statuses {:?}, expected {:?}", tally.statuses, self.statuses));
        }
        let times = &tally.times;
        wrong.extend(histogram_mismatch("response", &times.response, &self.response));
        wrong.extend(histogram_mismatch("first byte", &times.first_byte, &self.first_byte));
        wrong.extend(histogram_mismatch("transfer", &times.transfer, &self.transfer));
        if self.timeouts == 0 {
            wrong.extend(histogram_mismatch("service", &times.service, &self.service));
        }
        let wait: u128 = self.wait.iter().map(|&w| u128::from(w)).sum();
        if times.lag.count() != self.sent || times.lag.sum_ns() > wait {
            let (n, sum) = (times.lag.count(), times.lag.sum_ns());
            wrong.push(format!("lag: {n} samples of {} sends, {sum} ns of {wait} ns", self.sent));
        }
        wrong.extend(self.series_differ(tally));
        wrong
    }

    fn series_differ(&self, tally: &Tally) -> Vec<String> {
        let reported: Vec<(u64, u64)> =
            tally.series.cells().iter().map(|c| (c.started, c.replies)).collect();
        if tally.series.interval() != Span::from_secs(1) {
            return Vec::new();
        }
        let until = reported.len().max(self.seconds.len());
        let at = |cells: &[(u64, u64)], k: usize| cells.get(k).copied().unwrap_or_default();
        (0..until)
            .filter(|&k| at(&reported, k) != at(&self.seconds, k))
            .map(|k| {
                let (reported, truth) = (at(&reported, k), at(&self.seconds, k));
                format!("second {k}: (starts, replies) {reported:?}, expected {truth:?}")
            })
            .collect()
    }
}

/// Compare a histogram with the samples: count, sum, minimum and maximum must be exact, quantiles
/// within 0.1 % of those of the sorted sample (P11). Returns the first difference.
pub fn histogram_mismatch(what: &str, hist: &Hist, samples: &[u64]) -> Option<String> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let sum: u128 = sorted.iter().map(|&s| u128::from(s)).sum();
    if hist.count() != sorted.len() as u64 {
        return Some(format!("{what}: {} samples, expected {}", hist.count(), sorted.len()));
    }
    if hist.sum_ns() != sum {
        return Some(format!("{what}: sum {} ns, expected {sum}", hist.sum_ns()));
    }
    let (min, max) = (sorted.first().copied(), sorted.last().copied());
    if (hist.min().map(|s| s.0), hist.max().map(|s| s.0)) != (min, max) {
        let reported = (hist.min(), hist.max());
        return Some(format!(
            "{what}: minimum and maximum {reported:?}, expected {min:?}, {max:?}"
        ));
    }
    for q in [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999] {
        let Some(reported) = hist.quantile(q) else { continue };
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        let exact = sorted[rank - 1] as f64;
        if (reported.0 as f64 - exact).abs() > exact * 0.001 + 1.0 {
            return Some(format!("{what}: quantile {q} is {} ns, expected {exact}", reported.0));
        }
    }
    None
}

/// The faults of complete replies.
const JUDGED: [Fault; 13] = [
    Fault::NoGrpcStatus,
    Fault::BadMessage,
    Fault::GrpcStatus,
    Fault::UnexpectedStatus,
    Fault::BodyMismatch,
    Fault::TooManyRedirects,
    Fault::NotAStream,
    Fault::MessageTooLong,
    Fault::ErrorMessage,
    Fault::TruncatedStream,
    Fault::ExtractMissing,
    Fault::ExtractTooLong,
    Fault::Surplus,
];

/// Check the equations between counters that hold in every run, whatever fails (P4). Returns one
/// message for each that does not hold.
pub fn violated_invariants(t: &Tally) -> Vec<String> {
    let is_timeout = |fault: &Fault| fault.class() == FaultClass::Timeout;
    let timeouts: u64 = Fault::ALL.into_iter().filter(is_timeout).map(|f| t.fault(f)).sum();
    let statuses: u64 = t.statuses.values().sum();
    let judged = t.replies
        + JUDGED
        .map(|f| t.faults[f as usize])
        .iter()
        .sum::<u64>()
        // A request may be sent again after an unexpected reply, or because its stream has ended.
        + t.retries
        + reconnects(t).ended;
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    let ended = t.replies + t.failed + t.unfinished;
    must(t.started == ended, format!("{} started, {ended} ended", t.started));
    let faults: u64 = t.faults.iter().sum();
    must(t.failed == faults, format!("{} failed, {faults} faults", t.failed));
    must(t.sent <= t.started, format!("{} sent of {} started", t.sent, t.started));
    must(t.replies <= t.sent, format!("{} replies to {} sent", t.replies, t.sent));
    must(t.connected <= t.connects, format!("{} of {} connects", t.connected, t.connects));
    must(t.replies_in_drain <= t.replies, "more replies in the drain than in all".to_owned());
    must(
        statuses >= t.replies && statuses <= judged,
        format!("{statuses} statuses, {judged} judged"),
    );
    // Little's law is exact here: both sides use the same readings of the clock.
    if let Some(counted) = t.in_flight_mean() {
        let timed = t.concurrency();
        let equal = (counted - timed).abs() <= 1e-9 * counted.max(1.0);
        must(equal, format!("{counted} in flight as counted, {timed} from the times"));
    }
    let h = &t.times;
    let counts = [
        ("response", h.response.count(), t.replies + timeouts),
        ("first byte", h.first_byte.count(), t.replies),
        ("transfer", h.transfer.count(), t.replies),
        ("failed", h.failed.count(), t.failed - timeouts),
        ("send_lag", h.lag.count(), t.sent),
        ("connect", h.connect.count(), t.connected),
    ];
    for (what, reported, truth) in counts {
        must(reported == truth, format!("{what}: {reported} samples for {truth} requests"));
    }
    let service = h.service.count();
    must(
        (t.replies..=t.replies + timeouts).contains(&service),
        format!("service: {service} samples for {} replies and {timeouts} timeouts", t.replies),
    );
    let links = &t.connections;
    let (lived, broken) = (links.lifetimes.count(), links.faults.iter().sum::<u64>());
    must(lived <= t.connected, format!("{lived} lifetimes of {} connections", t.connected));
    must(broken <= t.connects, format!("{broken} of {} connections failed", t.connects));
    wrong.extend(sessions_conserve(t));
    wrong
}

/// What the tally has about streams that were opened again.
fn reconnects(t: &Tally) -> Reconnects {
    let bodies = t.stream_messages.as_deref().and_then(|messages| messages.bodies.as_deref());
    bodies.and_then(|bodies| bodies.reconnects).unwrap_or_default()
}

/// The equations between the counters of sessions and names.
fn sessions_conserve(t: &Tally) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, reported: u64, truth: u64| {
        if reported != truth {
            wrong.push(format!("{what}: {reported}, expected {truth}"));
        }
    };
    if let Some(s) = &t.sessions {
        same("sessions started", s.started, s.completed + s.failed + s.unfinished);
        same("lifetimes", s.lifetime.count(), s.completed);
        same("failtimes", s.failtime.count(), s.failed);
        same("lengths", s.lengths.values().sum(), s.completed + s.failed);
        same("sessions per second", s.per_second.values().sum(), s.completed);
    }
    for group in &t.groups {
        same("groups", group.started, group.completed + group.failed + group.unfinished);
        same("durations", group.duration.count(), group.completed);
        same("durations without pauses", group.without_pauses.count(), group.completed);
    }
    if !t.names.is_empty() {
        let sum = |of: fn(&NameTally) -> u64| t.names.iter().map(of).sum::<u64>();
        same("started by name", sum(|n| n.started), t.started);
        same("replies by name", sum(|n| n.replies), t.replies);
        let replied = |n: &NameTally| n.statuses.values().sum::<u64>();
        // Replies that were not expected, and whose requests were sent again, ended none.
        if t.retries == 0 {
            same("statuses by name", t.names.iter().map(replied).sum(), t.statuses.values().sum());
        }
        same("failed by name", sum(|n| n.failed), t.failed);
        same("responses by name", sum(|n| n.response.count()), t.times.response.count());
        same("services by name", sum(|n| n.service.count()), t.times.service.count());
    }
    wrong
}
