//! A tally held against the truth.

use std::collections::BTreeMap;

use prony_core::fault::Fault;
use prony_core::plan::{Load, Plan};
use prony_core::record::hist::Hist;
use prony_core::record::{NameTally, Tally};
use prony_core::schedule::Schedule;
use prony_core::units::{Nanos, Span};

use super::{Oracle, Seen};

/// What a tally must say, as far as the wires and the schedule determine it: a run of an open-loop
/// plan whose k-th request asks for `/k`, against a server that answers each with a content length
/// and breaks nothing.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Requests that the schedule asked for.
    pub started: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests given up after the timeout.
    pub timeouts: u64,
    /// Replies by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of the replies' heads.
    pub bytes_head: u64,
    /// Bytes of the replies' bodies.
    pub bytes_body: u64,
    /// Response times in nanoseconds: of replies, and the timeout of those that took longer.
    pub response: Vec<u64>,
    /// Service times of replies.
    pub service: Vec<u64>,
    /// From send to first byte of replies.
    pub first_byte: Vec<u64>,
    /// From first to last byte of replies.
    pub transfer: Vec<u64>,
    /// `sent - intended` of all that were sent: lag, queue and connect together.
    pub wait: Vec<u64>,
    /// Starts and replies in each second.
    pub seconds: Vec<(u64, u64)>,
}

impl Truth {
    /// The truth of a plan's measurement (`warmup`: of its warm-up). Panics where a request on the
    /// wire is none of the schedule's or comes twice: then the client is wrong before any figure
    /// is.
    pub fn of(oracle: &Oracle, plan: &Plan, warmup: bool) -> Self {
        assert!(matches!(plan.load, Load::Open { .. }), "only arrivals have intended times");
        let mut by_number: BTreeMap<u64, &Seen> = BTreeMap::new();
        for seen in oracle.seen() {
            let number = seen.number.expect("every request of a numbered plan has its number");
            assert!(by_number.insert(number, seen).is_none(), "request {number} was sent twice");
        }
        let mut truth = Self::default();
        let mut schedule = Schedule::new(plan);
        let begin = if warmup { Nanos::ZERO } else { Nanos::ZERO + plan.warmup };
        while let Some(arrival) = schedule.pop() {
            let seen = by_number.remove(&arrival.index);
            if arrival.warmup == warmup {
                truth.add(plan, begin, arrival.at, seen);
            }
        }
        assert!(by_number.is_empty(), "requests that the schedule never asked for: {by_number:?}");
        truth
    }

    fn add(&mut self, plan: &Plan, begin: Nanos, intended: Nanos, seen: Option<&Seen>) {
        self.started += 1;
        self.second(intended.since(begin)).0 += 1;
        if let Some(seen) = seen {
            assert!(seen.sent >= intended, "sent before it was intended: {seen:?}");
            self.sent += 1;
            self.wait.push(seen.sent.since(intended).0);
        }
        // A request whose connect has its own limit is not judged here: callers set it above the
        // timeout.
        let done = seen.and_then(|s| s.done.map(|done| (s, done)));
        let Some((seen, done)) = done.filter(|(_, done)| *done <= intended + plan.timeout) else {
            self.timeouts += 1;
            self.response.push(plan.timeout.0);
            return;
        };
        let first = seen.first.expect("what is done has begun");
        *self.statuses.entry(seen.status).or_default() += 1;
        self.bytes_head += seen.head_bytes;
        self.bytes_body += seen.body_bytes;
        self.response.push(done.since(intended).0);
        self.service.push(done.since(seen.sent).0);
        self.first_byte.push(first.since(seen.sent).0);
        self.transfer.push(done.since(first).0);
        self.second(done.since(begin)).1 += 1;
    }

    fn second(&mut self, since: Span) -> &mut (u64, u64) {
        let k = (since.0 / 1_000_000_000) as usize;
        if self.seconds.len() <= k {
            self.seconds.resize(k + 1, (0, 0));
        }
        &mut self.seconds[k]
    }

    /// Every figure of the tally that differs from the truth, one sentence each. All statuses must
    /// be expected ones.
    pub fn against(&self, tally: &Tally) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut same = |what: &str, truth: u64, told: u64| {
            if truth != told {
                wrong.push(format!("{what}: {told}, in truth {truth}"));
            }
        };
        let replies: u64 = self.statuses.values().sum();
        same("started", self.started, tally.started);
        same("sent", self.sent, tally.sent);
        same("replies", replies, tally.replies);
        same("failed", self.timeouts, tally.failed);
        same("timeouts", self.timeouts, tally.faults[Fault::RequestTimeout as usize]);
        same("unfinished", 0, tally.unfinished);
        same("bytes of heads", self.bytes_head, tally.bytes_head);
        same("bytes of bodies", self.bytes_body, tally.bytes_body);
        if self.statuses != tally.statuses {
            wrong.push(format!("statuses {:?}, in truth {:?}", tally.statuses, self.statuses));
        }
        let times = &tally.times;
        wrong.extend(differs("response", &times.response, &self.response));
        wrong.extend(differs("first byte", &times.first_byte, &self.first_byte));
        wrong.extend(differs("transfer", &times.transfer, &self.transfer));
        if self.timeouts == 0 {
            wrong.extend(differs("service", &times.service, &self.service));
        }
        let wait: u128 = self.wait.iter().map(|&w| u128::from(w)).sum();
        if times.lag.count() != self.sent || times.lag.sum_ns() > wait {
            let (n, sum) = (times.lag.count(), times.lag.sum_ns());
            wrong.push(format!("lag: {n} of {} sends, {sum} of {wait} ns waited", self.sent));
        }
        wrong.extend(self.series_differ(tally));
        wrong
    }

    fn series_differ(&self, tally: &Tally) -> Vec<String> {
        let told: Vec<(u64, u64)> =
            tally.series.cells().iter().map(|c| (c.started, c.replies)).collect();
        if tally.series.interval() != Span::from_secs(1) {
            return Vec::new();
        }
        let told_until = told.len().max(self.seconds.len());
        let at = |cells: &[(u64, u64)], k: usize| cells.get(k).copied().unwrap_or_default();
        (0..told_until)
            .filter(|&k| at(&told, k) != at(&self.seconds, k))
            .map(|k| {
                let (told, truth) = (at(&told, k), at(&self.seconds, k));
                format!("second {k}: (starts, replies) {told:?}, in truth {truth:?}")
            })
            .collect()
    }
}

/// Whether a histogram says what the samples are: count, sum, minimum and maximum exactly,
/// quantiles within 0.1 % of the exact sort (P11). `None`: it does.
pub fn differs(what: &str, hist: &Hist, samples: &[u64]) -> Option<String> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let sum: u128 = sorted.iter().map(|&s| u128::from(s)).sum();
    if hist.count() != sorted.len() as u64 {
        return Some(format!("{what}: {} samples, in truth {}", hist.count(), sorted.len()));
    }
    if hist.sum_ns() != sum {
        return Some(format!("{what}: sum {} ns, in truth {sum}", hist.sum_ns()));
    }
    let (min, max) = (sorted.first().copied(), sorted.last().copied());
    if (hist.min().map(|s| s.0), hist.max().map(|s| s.0)) != (min, max) {
        let told = (hist.min(), hist.max());
        return Some(format!("{what}: from and to {told:?}, in truth {min:?} and {max:?}"));
    }
    for q in [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999] {
        let Some(told) = hist.quantile(q) else { continue };
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        let exact = sorted[rank - 1] as f64;
        if (told.0 as f64 - exact).abs() > exact * 0.001 + 1.0 {
            return Some(format!("{what}: quantile {q} is {} ns, in truth {exact}", told.0));
        }
    }
    None
}

/// The sums that hold in every run, whatever the faults (P4). Every sentence is a broken one.
pub fn conserves(tally: &Tally) -> Vec<String> {
    let t = tally;
    let timeouts =
        t.faults[Fault::RequestTimeout as usize] + t.faults[Fault::ConnectTimeout as usize];
    let statuses: u64 = t.statuses.values().sum();
    let judged = t.replies
        + [
            Fault::UnexpectedStatus,
            Fault::BodyMismatch,
            Fault::ExtractMissing,
            Fault::ExtractTooLong,
            Fault::Surplus,
        ]
        .map(|f| t.faults[f as usize])
        .iter()
        .sum::<u64>()
        // A reply that is not as expected may give its request another try.
        + t.retries;
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
    // Little's law: both sides come from the same readings of the clock.
    if let Some(counted) = t.under_way() {
        let timed = t.concurrency();
        let equal = (counted - timed).abs() <= 1e-9 * counted.max(1.0);
        must(equal, format!("{counted} under way as counted, {timed} by their times"));
    }
    let h = &t.times;
    let counts = [
        ("response", h.response.count(), t.replies + timeouts),
        ("first byte", h.first_byte.count(), t.replies),
        ("transfer", h.transfer.count(), t.replies),
        ("failed", h.failed.count(), t.failed - timeouts),
        ("lag", h.lag.count(), t.sent),
        ("connect", h.connect.count(), t.connected),
    ];
    for (what, told, truth) in counts {
        must(told == truth, format!("{what}: {told} samples for {truth} requests"));
    }
    let service = h.service.count();
    must(
        (t.replies..=t.replies + timeouts).contains(&service),
        format!("service: {service} samples for {} replies and {timeouts} timeouts", t.replies),
    );
    let links = &t.links;
    let (lived, broken) = (links.lifetimes.count(), links.faults.iter().sum::<u64>());
    must(lived <= t.connected, format!("{lived} connections lived of {}", t.connected));
    must(broken <= t.connects, format!("{broken} connections broke of {}", t.connects));
    wrong.extend(sessions_conserve(t));
    wrong
}

/// The sums of sessions and names.
fn sessions_conserve(t: &Tally) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, told: u64, truth: u64| {
        if told != truth {
            wrong.push(format!("{what}: {told}, not {truth}"));
        }
    };
    if let Some(s) = &t.sessions {
        same("sessions started", s.started, s.completed + s.failed + s.unfinished);
        same("lifetimes", s.lifetime.count(), s.completed);
        same("failtimes", s.failtime.count(), s.failed);
        same("lengths", s.lengths.values().sum(), s.completed + s.failed);
        same("sessions per second", s.per_second.values().sum(), s.completed);
    }
    if !t.names.is_empty() {
        let sum = |of: fn(&NameTally) -> u64| t.names.iter().map(of).sum::<u64>();
        same("started by name", sum(|n| n.started), t.started);
        same("replies by name", sum(|n| n.replies), t.replies);
        same("failed by name", sum(|n| n.failed), t.failed);
        same("responses by name", sum(|n| n.response.count()), t.times.response.count());
        same("services by name", sum(|n| n.service.count()), t.times.service.count());
    }
    wrong
}
