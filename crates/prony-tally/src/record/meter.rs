//! An upper bound of the time that the meter itself added to each response time, to each time that
//! is measured in streams, and to the duration of each group of steps (`groups`).
//!
//! A request can have been sent late; the send lag is that part. And a reply can have waited in the
//! kernel's buffer: at most since the poll that would have reported it if it had been there. If a
//! poll slept, the time asleep does not count, but the run-queue delay at its end does (the thread
//! was ready to run and had no CPU). Drivers read the run-queue delay less often than they poll, so
//! replies of such polls stay pending until it is known.
//!
//! `docs/terms.md`, *What the meter added*, defines the bound.

use super::groups::{GroupKey, GroupStep, GroupSums};
use super::lower_bounds::Bound;
use super::{Recorder, Stamps, StreamTime, Tally};
use prony_base::units::{Nanos, Poll, PreviousPoll, Span};

/// A poll slept if it took longer than the run-queue delay plus this.
const SLEPT_MIN: Span = Span::from_micros(10);
/// The most replies that stay pending until the run-queue delay is known.
const PENDING_MAX: usize = 1 << 16;

impl Tally {
    /// The most by which the meter can have made the quantile `q` of a time in streams too long (1:
    /// the maximum). `None` if there is no such time, if the driver did not report its polls, or if
    /// the sample is too small for the quantile.
    pub fn meter_added_in_streams(&self, kind: StreamTime, q: f64) -> Option<Span> {
        self.streams_without_meter.get(&kind)?.added(self.times_in_streams(kind)?, q)
    }
}

/// The polls that the driver reported, and the times for which the bound is not known yet.
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
    /// Pending times that were measured in streams, and what happened to groups.
    in_streams: Vec<InStream>,
    pub(super) groups: GroupSums,
    /// The longest time for which anything read in a stream can have waited in the kernel.
    unread_max: Span,
    /// Earlier polls with an unknown run-queue delay, oldest first, each with the numbers of what
    /// was pending at its end.
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

/// Numbers of pending times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pending {
    plain: usize,
    others: usize,
    in_streams: usize,
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

/// A time that ended with what was read at `done`.
#[derive(Clone, Copy, Debug)]
struct InStream {
    what: What,
    /// Whether it belongs to the measurement.
    is_main: bool,
    done: Nanos,
    time: Span,
    bound: Bound,
}

/// What a pending time is.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// It was measured in a stream.
    Time(StreamTime),
    /// It belongs to a group.
    Group(GroupKey, GroupStep),
}

impl From<(GroupKey, GroupStep)> for What {
    fn from((key, step): (GroupKey, GroupStep)) -> Self {
        Self::Group(key, step)
    }
}

impl From<StreamTime> for What {
    fn from(kind: StreamTime) -> Self {
        Self::Time(kind)
    }
}

impl Default for Polls {
    fn default() -> Self {
        Self {
            are_reported: false,
            current: PollTimes { since: Nanos::ZERO, asked: Nanos::ZERO, back: Nanos::MAX },
            delay: None,
            plain: Vec::new(),
            others: Vec::new(),
            in_streams: Vec::new(),
            groups: GroupSums::default(),
            unread_max: Span::ZERO,
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
        let (plain, others) = (self.plain.len(), self.others.len());
        Pending { plain, others, in_streams: self.in_streams.len() }
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

    /// A time ended with what was read at `done`. It belongs to the section of `from`.
    #[inline]
    pub(super) fn bound(
        &mut self,
        what: impl Into<What>,
        (from, done): (Nanos, Nanos),
        time: Span,
        bound: Bound,
    ) {
        if self.polls.are_reported {
            let is_main = from >= self.start;
            let what = what.into();
            self.polls.in_streams.push(InStream { what, is_main, done, time, bound });
        }
    }

    /// The mean of this many gaps of a stream that has ended is `time`. What a late read of the
    /// last message added is spread over all of them.
    pub(super) fn mean_gap_bound(&mut self, times: (Nanos, Nanos), time: Span, gaps: u32) {
        let bound = Bound { before: Span::ZERO, read: Span::MAX, parts: gaps };
        self.bound(StreamTime::Itl, times, time, bound);
    }

    /// The driver delivers an event.
    #[inline]
    pub fn event_delivered(&mut self, now: Nanos) {
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
        self.polls.in_streams.drain(..from.in_streams);
        self.polls.pending = pending;
    }

    /// End the current poll: count its successes, or keep them pending until the run-queue delay is
    /// known.
    fn end_poll(&mut self) {
        let polls = &mut self.polls;
        let (poll, end) = (polls.current, polls.pending_counts());
        let from = polls.pending.last().map(|&(_, end)| end).unwrap_or_default();
        if end == from {
            return;
        }
        let is_full = end.plain + end.others + end.in_streams > PENDING_MAX;
        if polls.delay.is_none() && !poll.cannot_have_slept() && !is_full {
            polls.pending.push((poll, end));
            return;
        }
        self.settle(from, end, poll.absent(self.polls.delay.unwrap_or(Span::MAX)));
        self.polls.plain.truncate(from.plain);
        self.polls.others.truncate(from.others);
        self.polls.in_streams.truncate(from.in_streams);
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
        for place in from.in_streams..end.in_streams {
            let InStream { what, is_main, done, time, bound } = self.polls.in_streams[place];
            let section = if is_main { &mut *main } else { &mut *warm };
            let unread = done.since(absent);
            match what {
                // It ended with an earlier read.
                What::Time(kind @ StreamTime::Itl) => {
                    let added = bound.added(self.polls.unread_max);
                    section.stream_bounds.of(kind).record(time, added, 1);
                }
                What::Time(kind) => {
                    self.polls.unread_max = self.polls.unread_max.max(unread);
                    section.stream_bounds.of(kind).record(time, bound.added(unread), 1);
                }
                What::Group(key, step) => {
                    let times = (time, bound.added(unread));
                    self.polls.groups.settle((key, step), section, times);
                }
            }
        }
    }

    /// The longest time for which an event that is delivered now can have waited in the kernel.
    pub fn unread_time(&self, now: Nanos) -> Span {
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
                section.tally.streams_without_meter = section.stream_bounds.finish();
                for (group, bounds) in section.tally.groups.iter_mut().zip(&section.group_bounds) {
                    group.without_meter = Some(Box::new(bounds.finish()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
