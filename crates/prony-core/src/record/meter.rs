//! An upper bound of the time that the meter itself added to each response time.
//!
//! A request can have been sent late; the send lag is that part. And a reply can have waited in the
//! kernel's buffer: at most since the poll that would have reported it if it had been there. If a
//! poll slept, the time asleep does not count, but the run-queue delay at its end does (the thread
//! was ready to run and had no CPU). Drivers read the run-queue delay less often than they poll, so
//! replies of such polls stay pending until it is known.
//!
//! `docs/terms.md`, *What the meter added*, defines the bound.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::{Recorder, Stamps};
use crate::units::{Nanos, Poll, PreviousPoll, Span};

/// A poll slept if it took longer than the run-queue delay plus this.
const SLEPT_MIN: Span = Span::from_micros(10);
/// The most replies that stay pending until the run-queue delay is known.
const PENDING_MAX: usize = 1 << 16;
/// Each power of two has 2^9 bins in [`LowerBounds`].
const BITS: u32 = 9;

/// Lower bounds of the true response times: the measured times less what the meter can have added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseLowerBound {
    /// One lower bound for each response time, rounded down by up to 0.2 %.
    pub response: Hist,
    /// The most that the meter can have added to any of them.
    pub added_max: Span,
}

impl ResponseLowerBound {
    pub(super) fn merge(&mut self, other: &Self) {
        self.response.merge(&other.response);
        self.added_max = self.added_max.max(other.added_max);
    }

    /// The most by which the meter can have made the quantile `q` of these response times too long.
    /// `None` if the sample is too small for the quantile.
    ///
    /// No true time is below its lower bound, so no quantile of the true times is below that
    /// quantile of the lower bounds.
    pub fn added(&self, response: &Hist, q: f64) -> Option<Span> {
        if self.response.count() != response.count() {
            return None;
        }
        let (whole, least) = (response.quantile(q)?, self.response.quantile(q)?);
        // A quantile is rounded up to the end of its bin.
        let least = Hist::bin_start(least);
        Some((whole - least).min(self.added_max))
    }
}

/// Builds a [`ResponseLowerBound`]. Its bins cost less to update than a histogram, which also keeps
/// exact sums.
#[derive(Debug, Default)]
pub(super) struct LowerBounds {
    bins: Vec<u64>,
    added_max: Span,
}

impl LowerBounds {
    #[inline]
    fn record(&mut self, response: Span, added: Span, n: u64) {
        let added = added.min(response);
        self.added_max = self.added_max.max(added);
        let ns = (response - added).0;
        let shift = (ns | 1 << BITS).ilog2() - BITS;
        let bin = ((shift as usize) << BITS) + (ns >> shift) as usize;
        match self.bins.get_mut(bin) {
            Some(count) => *count += n,
            None => self.grow(bin, n),
        }
    }

    #[cold]
    fn grow(&mut self, bin: usize, n: u64) {
        self.bins.resize(bin + 1, 0);
        self.bins[bin] += n;
    }

    pub(super) fn finish(&self) -> ResponseLowerBound {
        let mut response = Hist::new();
        for (bin, &n) in self.bins.iter().enumerate() {
            let shift = (bin >> BITS).saturating_sub(1);
            response.record_n(Span(((bin - (shift << BITS)) as u64) << shift), n);
        }
        ResponseLowerBound { response, added_max: self.added_max }
    }
}

/// The polls that the driver reported, and the successes for which the bound is not known yet.
#[derive(Debug)]
pub(super) struct Polls {
    /// Whether the driver reports its polls.
    are_reported: bool,
    current: PollTimes,
    /// The run-queue delay at the end of the current poll, if it is known already.
    delay: Option<Span>,
    /// Pending successes, sent at their intended time, with replies that came in one read.
    plain: Vec<Plain>,
    /// The other pending successes.
    others: Vec<Other>,
    /// Earlier polls with an unknown run-queue delay, oldest first, each with the number of
    /// successes that were pending at its end.
    pending: Vec<(PollTimes, Pending)>,
    /// The next failure is a request that timed out before the meter came to it.
    overdue: bool,
}

/// The times of one poll.
#[derive(Clone, Copy, Debug)]
struct PollTimes {
    /// Events that this poll reports occurred after this; otherwise an earlier poll would have
    /// reported them.
    since: Nanos,
    /// When the driver asked the kernel.
    asked: Nanos,
    /// When the first event was delivered; `Nanos::MAX` if none was yet.
    back: Nanos,
}

/// Numbers of pending successes.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    plain: usize,
    others: usize,
}

/// Successes with equal times.
#[derive(Clone, Copy, Debug)]
struct Plain {
    done: Nanos,
    response: Span,
    n: u64,
}

#[derive(Clone, Copy, Debug)]
struct Other {
    done: Nanos,
    service: Span,
    response: Span,
    /// What the meter added before the send.
    before: Span,
}

impl Default for Polls {
    fn default() -> Self {
        Self {
            are_reported: false,
            current: PollTimes { since: Nanos::ZERO, asked: Nanos::ZERO, back: Nanos::MAX },
            delay: None,
            plain: Vec::new(),
            others: Vec::new(),
            pending: Vec::new(),
            overdue: false,
        }
    }
}

impl PollTimes {
    /// The latest time at which the reported events had certainly not occurred yet, if the
    /// run-queue delay at the end of the poll was at most `delay`.
    fn absent(&self, delay: Span) -> Nanos {
        let slept = self.back < Nanos::MAX
            && self.back.since(self.asked) > Span(delay.0.saturating_add(SLEPT_MIN.0));
        if slept { Nanos(self.back.0 - delay.0) } else { self.since }
    }

    /// Whether the poll returned too quickly to have slept.
    fn cannot_have_slept(&self) -> bool {
        self.back == Nanos::MAX || self.back.since(self.asked) <= SLEPT_MIN
    }
}

impl Polls {
    /// Any other success.
    #[inline]
    pub(super) fn other(&mut self, stamps: &Stamps) {
        if self.are_reported {
            self.others.push(Other {
                done: stamps.done,
                service: stamps.service(),
                response: stamps.response(),
                before: stamps.lag() + stamps.late,
            });
        }
    }

    fn pending_counts(&self) -> Pending {
        Pending { plain: self.plain.len(), others: self.others.len() }
    }
}

impl Recorder {
    /// A success, sent at its intended time, with a reply that came in one read. Its time is
    /// recorded when its poll is settled, once for all such replies with the same times.
    #[inline(always)]
    pub(super) fn plain(&mut self, done: Nanos, response: Span) {
        if !self.polls.are_reported {
            self.section(Nanos(done.0 - response.0)).plain.record(response);
            return;
        }
        let pending = &mut self.polls.plain;
        // Replies to pipelined requests that came in one read.
        if let Some(last) = pending.last_mut()
            && last.done == done
            && last.response == response
        {
            last.n += 1;
            return;
        }
        pending.push(Plain { done, response, n: 1 });
    }

    /// The driver delivers an event.
    #[inline]
    pub(crate) fn event_delivered(&mut self, now: Nanos) {
        let back = &mut self.polls.current.back;
        if *back == Nanos::MAX {
            *back = now;
        }
    }

    /// The driver has polled its sockets; the resulting events follow.
    pub fn polled(&mut self, poll: Poll) {
        self.end_poll();
        let polls = &mut self.polls;
        polls.are_reported = true;
        let current = &mut polls.current;
        current.since = match poll.previous {
            PreviousPoll::Drained if current.back < Nanos::MAX => current.back,
            PreviousPoll::Drained => current.asked,
            PreviousPoll::Partial => current.since,
            PreviousPoll::Empty => poll.at,
        };
        (current.asked, current.back) = (poll.at, Nanos::MAX);
        polls.delay = None;
    }

    /// The run-queue delay since the last call: the thread was ready to run and had no CPU.
    pub fn sched_delay(&mut self, delay: Span) {
        self.polls.delay = Some(delay);
        if self.polls.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.polls.pending);
        let mut from = Pending::default();
        for (poll, end) in pending.drain(..) {
            self.settle(from, end, poll.absent(delay));
            from = end;
        }
        self.polls.plain.drain(..from.plain);
        self.polls.others.drain(..from.others);
        self.polls.pending = pending;
    }

    /// End the current poll: count its successes, or keep them pending until the run-queue delay is
    /// known.
    fn end_poll(&mut self) {
        let polls = &mut self.polls;
        let (poll, end) = (polls.current, polls.pending_counts());
        let from = polls.pending.last().map(|&(_, end)| end).unwrap_or_default();
        if end.plain == from.plain && end.others == from.others {
            return;
        }
        let is_full = end.plain + end.others > PENDING_MAX;
        if polls.delay.is_none() && !poll.cannot_have_slept() && !is_full {
            polls.pending.push((poll, end));
            return;
        }
        self.settle(from, end, poll.absent(self.polls.delay.unwrap_or(Span::MAX)));
        self.polls.plain.truncate(from.plain);
        self.polls.others.truncate(from.others);
    }

    /// Count the successes of a poll. Their replies had certainly not arrived at `absent`.
    fn settle(&mut self, from: Pending, end: Pending, absent: Nanos) {
        let (warm, main, start) = (&mut self.warm, &mut self.main, self.start);
        for &Plain { done, response, n } in &self.polls.plain[from.plain..end.plain] {
            let section = if done.0 - response.0 >= start.0 { &mut *main } else { &mut *warm };
            section.plain.record_n(response, n);
            section.lower_bounds.record(response, done.since(absent), n);
        }
        for success in &self.polls.others[from.others..end.others] {
            let &Other { done, service, response, before } = success;
            let section = if done.0 - response.0 >= start.0 { &mut *main } else { &mut *warm };
            let added = before + done.since(absent).min(service);
            section.lower_bounds.record(response, added, 1);
        }
    }

    /// The longest time for which an event that is delivered now can have waited in the kernel.
    pub(crate) fn unread_time(&self, now: Nanos) -> Span {
        let polls = &self.polls;
        if !polls.are_reported {
            return Span::ZERO;
        }
        now.since(polls.current.absent(polls.delay.unwrap_or(Span::MAX)))
    }

    /// Count a timeout, recorded as `response`: its reply may have been in the kernel already.
    pub(super) fn timeout_bound(&mut self, stamps: &Stamps, sent: bool, response: Span) {
        let overdue = std::mem::take(&mut self.polls.overdue);
        if !self.polls.are_reported {
            return;
        }
        let unread = stamps.done.since(self.polls.current.since);
        let added = match sent {
            true => stamps.lag() + stamps.late + unread.min(stamps.service()),
            false if overdue => response,
            false => stamps.late + unread,
        };
        self.section(stamps.intended).lower_bounds.record(response, added, 1);
    }

    /// A request timed out before the meter came to it. It fails next.
    pub fn overdue(&mut self, intended: Nanos) {
        self.section(intended).tally.overdue += 1;
        self.polls.overdue = true;
    }

    /// End the last poll and store the lower bounds in the tallies.
    pub(super) fn finish_polls(&mut self) {
        self.end_poll();
        // The run-queue delay was no longer than the poll.
        self.sched_delay(Span::MAX);
        if self.polls.are_reported {
            for section in [&mut self.main, &mut self.warm] {
                section.tally.without_meter = Some(Box::new(section.lower_bounds.finish()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::record::tests::reply;

    const US: u64 = 1_000;

    fn stamps(sent: u64, done: u64) -> Stamps {
        let (sent, done) = (Nanos(sent * US), Nanos(done * US));
        Stamps { intended: sent, sent, first: done, done, ..Stamps::default() }
    }

    fn poll(at: u64, previous: PreviousPoll) -> Poll {
        Poll { at: Nanos(at * US), previous }
    }

    fn success(r: &mut Recorder, stamps: Stamps) {
        r.event_delivered(stamps.done);
        r.replied(&stamps, &reply(200, 0), None);
    }

    /// The largest bound of any request, and the smallest lower bound of a response time, in
    /// microseconds.
    fn finished(r: Recorder) -> (u64, u64) {
        let (_, main) = r.finish(false);
        let without = main.without_meter.expect("the driver reported its polls");
        assert_eq!(without.response.count(), main.times.response.count());
        (without.added_max.0 / US, without.response.min().expect("some").0.div_ceil(US))
    }

    #[test]
    fn has_no_bound_if_the_driver_reports_no_polls() {
        let mut r = Recorder::new(Nanos::ZERO);
        success(&mut r, stamps(0, 50));
        assert_eq!(r.finish(false).1.without_meter, None);
    }

    /// The poll starts at 10 us and returns at 510 us.
    #[test]
    fn sleeping_poll_adds_only_the_run_queue_delay() {
        for (delay, added) in [(0, 0), (30, 30), (495, 505)] {
            let mut r = Recorder::new(Nanos::ZERO);
            r.polled(poll(5, PreviousPoll::Empty));
            r.polled(poll(10, PreviousPoll::Drained));
            success(&mut r, stamps(0, 510));
            r.sched_delay(Span(delay * US));
            assert_eq!(finished(r).0, added, "{delay}");
        }
    }

    /// The run-queue delay is read after two polls: each of them can have waited that long.
    #[test]
    fn replies_stay_pending_until_the_run_queue_delay_is_known() {
        let mut r = Recorder::new(Nanos::ZERO);
        for (asked, done) in [(10, 110), (120, 220)] {
            r.polled(poll(asked, PreviousPoll::Drained));
            success(&mut r, stamps(asked, done));
            success(&mut r, Stamps { intended: Nanos((asked - 5) * US), ..stamps(asked, done) });
        }
        r.sched_delay(Span(40 * US));
        r.polled(poll(230, PreviousPoll::Drained));
        success(&mut r, stamps(230, 330));
        r.sched_delay(Span(7 * US));
        let without = r.finish(false).1.without_meter.expect("polls were reported");
        let least: Vec<u64> = without.response.recorded().map(|(_, n)| n).collect();
        assert_eq!((without.added_max, least), (Span(45 * US), vec![4, 1]), "60 us and 93 us");
    }

    /// In a turn of 300 us replies are read one after the other, and more arrive meanwhile.
    #[test]
    fn busy_loop_adds_the_time_since_the_previous_poll() {
        let mut r = Recorder::new(Nanos::ZERO);
        r.polled(poll(100, PreviousPoll::Empty));
        success(&mut r, stamps(0, 100));
        success(&mut r, stamps(0, 400));
        r.polled(poll(400, PreviousPoll::Drained));
        success(&mut r, stamps(0, 400));
        assert_eq!(finished(r), (300, 100));
    }

    #[test]
    fn events_left_by_a_partial_poll_count_from_that_poll() {
        let mut r = Recorder::new(Nanos::ZERO);
        r.polled(poll(100, PreviousPoll::Empty));
        success(&mut r, stamps(0, 100));
        r.polled(poll(200, PreviousPoll::Partial));
        success(&mut r, stamps(0, 205));
        assert_eq!(finished(r).0, 105);
    }

    /// A reply cannot arrive before its request was sent.
    #[test]
    fn bound_is_at_most_service_time_plus_send_lag() {
        let mut r = Recorder::new(Nanos::ZERO);
        r.polled(poll(0, PreviousPoll::Drained));
        let late = Stamps { intended: Nanos(30 * US), ..stamps(40, 60) };
        success(&mut r, late);
        assert_eq!(finished(r), (30, 0));
    }

    #[test]
    fn timeout_counts_an_unread_reply() {
        let mut r = Recorder::new(Nanos::ZERO);
        r.polled(poll(900, PreviousPoll::Empty));
        r.failed(&stamps(0, 1_200), Fault::RequestTimeout, true, Span(1_000 * US));
        assert_eq!(finished(r), (300, 900));
        let mut r = Recorder::new(Nanos::ZERO);
        r.polled(poll(900, PreviousPoll::Empty));
        r.overdue(Nanos::ZERO);
        r.failed(&stamps(0, 1_200), Fault::RequestTimeout, false, Span(1_000 * US));
        assert_eq!(finished(r), (1_200, 0));
    }

    #[test]
    fn bins_round_down_by_at_most_a_512th() {
        for shift in 0..42 {
            for ns in [(1_u64 << shift) - 1, 1 << shift, (1 << shift) + 1, (3 << shift) / 2 + 1] {
                let mut least = LowerBounds::default();
                least.record(Span(ns), Span::ZERO, 1);
                let kept = least.finish().response.max().expect("one").0;
                assert!(kept <= ns && ns - kept <= ns / 512, "{ns}: {kept}");
            }
        }
    }

    /// Every tenth of a hundred requests of 500 us may have been read 400 us late. That changes the
    /// fastest tenth, and neither the median nor the maximum.
    #[test]
    fn bound_of_a_quantile_depends_on_requests_near_it() {
        let mut r = Recorder::new(Nanos::ZERO);
        for i in 0..100 {
            let done = 1_000 * (i + 1);
            let asked = if i % 10 == 0 { done - 400 } else { done };
            r.polled(poll(asked, PreviousPoll::Empty));
            success(&mut r, stamps(done - 500, done));
            r.sched_delay(Span(400 * US));
        }
        let (_, main) = r.finish(false);
        let share = |q| main.meter_added(q).map(|t| t.0 / US);
        assert_eq!([0.1, 0.5, 1.0].map(share), [Some(400), Some(0), Some(0)]);
        assert_eq!(share(0.99), None, "100 samples are too few for a p99");
    }
}
