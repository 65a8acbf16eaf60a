//! Streams that are opened again after their connection has ended: when, and whether messages came
//! twice or were missed.

use super::content::BodyMatch;
use super::messages::Messages;
use super::streams::{Stage, StreamBody};
use super::{At, Exchange};
use crate::events::Ending;
use crate::fault::{Fault, FaultClass};
use crate::plan::StreamPlan;
use crate::record::{Recorder, Stamps};
use crate::units::{Nanos, RequestId, Span};

/// What a stream needs to be opened again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reconnect {
    /// When its connection was lost, until the next message arrives.
    lost_at: Option<Nanos>,
    /// When it is to be opened again.
    due: Option<Nanos>,
    /// The waits of its request before the first connection was lost.
    waits: Waits,
    sequence: Sequence,
}

/// The waits of an exchange before its send.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Waits {
    pub(super) queue: Span,
    pub(super) connect: Span,
    pub(super) stream: Span,
    pub(super) late: Span,
}

/// The IDs of the messages of a stream, as far as they are numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    /// The greatest one.
    last: Option<u64>,
    order: Order,
    /// The stream was opened again, and no later message than before has arrived yet.
    is_behind: bool,
}

/// How the IDs of successive messages of one connection differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// There was no second one.
    #[default]
    Unknown,
    /// Each is greater by one than that before it.
    ByOne,
    /// Each is greater than that before it.
    Rising,
    /// They have no order, or are no numbers.
    None,
}

impl Sequence {
    /// A message has arrived. Returns whether it came before, and how many were missed before it.
    fn arrived(&mut self, id: Option<u64>) -> (bool, u64) {
        let Some(id) = id else {
            self.order = Order::None;
            return (false, 0);
        };
        let Some(last) = self.last else {
            (self.last, self.is_behind) = (Some(id), false);
            return (false, 0);
        };
        if self.is_behind && id <= last {
            return (self.order != Order::None, 0);
        }
        self.last = Some(id);
        let missed = match id.checked_sub(last) {
            Some(step) if step > 0 => step - 1,
            _ => {
                self.order = Order::None;
                0
            }
        };
        if std::mem::take(&mut self.is_behind) {
            return (false, if self.order == Order::ByOne { missed } else { 0 });
        }
        self.order = match (self.order, missed) {
            (Order::Unknown | Order::ByOne, 0) => Order::ByOne,
            (Order::Unknown | Order::ByOne | Order::Rising, _) => Order::Rising,
            (Order::None, _) => Order::None,
        };
        (false, 0)
    }
}

impl Exchange {
    /// It is opened again at `at`: its stream has ended before its bound. Its first send and the
    /// first byte of its first reply stay what they are.
    pub(in crate::engine) fn reopens(&mut self, at: Nanos) {
        self.at = At::Waiting;
        self.body = BodyMatch::default();
        self.capture = None;
        self.blocked = false;
        self.waits_until = self.waits_until.max(at);
    }

    /// Its waits so far.
    pub(in crate::engine) fn waits(&self) -> Waits {
        Waits { queue: self.queue, connect: self.connect, stream: self.stream, late: self.late }
    }

    /// Its waits are these. Those before it was opened again are no waits for its first send.
    pub(in crate::engine) fn set_waits(&mut self, waits: Waits) {
        let Waits { queue, connect, stream, late } = waits;
        (self.queue, self.connect, self.stream, self.late) = (queue, connect, stream, late);
    }
}

impl Reconnect {
    /// A message has arrived.
    pub(super) fn arrived(&mut self, id: Option<u64>, intended: Nanos, recorder: &mut Recorder) {
        let (is_repeated, missed) = self.sequence.arrived(id);
        if is_repeated || missed > 0 {
            recorder.stream_disagrees(intended, is_repeated, missed);
        }
    }

    /// A message has arrived: when the connection before was lost, if it is the first since then.
    pub(super) fn take_lost_at(&mut self) -> Option<Nanos> {
        self.lost_at.take()
    }
}

impl StreamBody {
    /// The stream continues on another connection.
    pub(super) fn continues(&mut self, intended: Nanos, recorder: &mut Recorder) {
        self.stage = Stage::Open;
        self.reader.continues();
        if let Some(reconnect) = self.reconnect.as_deref_mut() {
            reconnect.sequence.is_behind = true;
        }
        recorder.stream_resumed(intended);
    }

    /// How long it waits before it is opened again.
    fn retry(&self) -> Span {
        self.reader.position().and_then(|position| position.retry()).unwrap_or(StreamPlan::RETRY)
    }

    /// Its connection ended at `now`, before its bound. Returns whether it can be opened again
    /// before its time is over. Its first request was sent at `sent`.
    fn may_reopen(&self, plan: &StreamPlan, sent: Nanos, now: Nanos) -> bool {
        let due = now + self.retry();
        self.over.is_none() && plan.time.is_none_or(|time| due < sent + time)
    }

    fn leaves(&mut self, now: Nanos) {
        self.stage = Stage::Between;
        if let Some(reconnect) = self.reconnect.as_deref_mut() {
            reconnect.lost_at.get_or_insert(now);
        }
    }
}

impl Messages {
    /// A reply is complete, with a success. Returns whether its stream has ended before its bound
    /// and is opened again later.
    pub(in crate::engine) fn ends_early(
        &mut self,
        id: RequestId,
        status: u16,
        stamps: &Stamps,
        recorder: &mut Recorder,
    ) -> bool {
        let Some((stream, reading)) = self.unfinished(id) else { return false };
        let Some(body) = stream.body.as_deref_mut() else { return false };
        // With 204 the server says that there is nothing more. Other statuses have no stream.
        if !reading.plan.reconnect
            || status == 204
            || !(200..=299).contains(&status)
            || !body.may_reopen(&reading.plan, stamps.sent, stamps.done)
        {
            return false;
        }
        if body.stage == Stage::Open && body.reader.end(&reading.rules) == Ending::Incomplete {
            recorder.stream_incomplete(stream.intended);
        }
        body.leaves(stamps.done);
        true
    }

    /// The request of a stream has this fault. Returns whether its stream is opened again later
    /// nevertheless.
    pub(in crate::engine) fn breaks(
        &mut self,
        id: RequestId,
        fault: Fault,
        stamps: &Stamps,
        recorder: &mut Recorder,
    ) -> bool {
        let Some((stream, reading)) = self.unfinished(id) else { return false };
        let Some(body) = stream.body.as_deref_mut() else { return false };
        if !reading.plan.reconnect
            || !is_break(fault)
            || !body.may_reopen(&reading.plan, stamps.sent, stamps.done)
        {
            return false;
        }
        recorder.stream_broke(stream.intended);
        body.leaves(stamps.done);
        true
    }

    /// The stream of the exchange is to be opened again. Returns when, which is before `deadline`.
    pub(in crate::engine) fn reopens(
        &mut self,
        id: RequestId,
        waits: Waits,
        deadline: Nanos,
        now: Nanos,
    ) -> Option<Nanos> {
        let (stream, _) = self.unfinished(id)?;
        let body = stream.body.as_deref_mut()?;
        let due = (now + body.retry()).min(deadline);
        let reconnect = body.reconnect.as_deref_mut()?;
        if reconnect.due.is_none() {
            reconnect.waits = waits;
        }
        reconnect.due = Some(due);
        Some(due)
    }

    /// The exchange in this slot, if its stream was to be opened again at `at`.
    pub(in crate::engine) fn is_due(&mut self, slot: u32, at: Nanos) -> Option<RequestId> {
        let id = self.streams.get(slot as usize)?.id;
        let (stream, _) = self.unfinished(id)?;
        let body = stream.body.as_deref_mut()?;
        let waits = body.stage == Stage::Between;
        let due = body.reconnect.as_deref_mut()?.due.filter(|due| waits && *due == at);
        due.map(|_| id)
    }

    /// The waits of the exchange before its first send, if its stream was opened again.
    pub(in crate::engine) fn first_waits(&mut self, id: RequestId) -> Option<Waits> {
        let (stream, _) = self.unfinished(id)?;
        let reconnect = stream.body.as_deref()?.reconnect.as_deref()?;
        reconnect.due.map(|_| reconnect.waits)
    }

    /// The ID of the last event of the exchange's stream; empty: it has none.
    pub(in crate::engine) fn last_event(&self, id: RequestId) -> &[u8] {
        let stream = self.streams.get(id.slot as usize).filter(|stream| stream.id == id);
        let body = stream.and_then(|stream| stream.body.as_deref());
        body.and_then(|body| body.reader.position()).map_or(&[], |position| position.id())
    }

    /// Whether the exchange has no body since its stream was to be opened again.
    pub(in crate::engine) fn is_between(&self, id: RequestId) -> bool {
        let stream = self.streams.get(id.slot as usize).filter(|stream| stream.id == id);
        let body = stream.and_then(|stream| stream.body.as_deref());
        body.is_some_and(|body| body.stage == Stage::Between)
    }

    /// The exchanges whose streams were opened again, or will be, and have no body yet.
    pub(in crate::engine) fn between(&self) -> impl Iterator<Item = RequestId> + '_ {
        let is_between = |body: &StreamBody| body.stage == Stage::Between;
        let streams = self.streams.iter();
        streams
            .filter(move |stream| stream.body.as_deref().is_some_and(is_between))
            .map(|stream| stream.id)
    }
}

/// Whether the fault is one of the connection, which another may not have.
fn is_break(fault: Fault) -> bool {
    match fault {
        Fault::GivenUp => false,
        Fault::ConnectTimeout => true,
        _ => matches!(fault.class(), FaultClass::Connection | FaultClass::Connect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The repeated and the missed messages of a stream; 0 is an end of its connection.
    fn counts(ids: &[u64]) -> (u64, u64) {
        let (mut sequence, mut repeated, mut missed) = (Sequence::default(), 0, 0);
        for &id in ids {
            if id == 0 {
                sequence.is_behind = true;
                continue;
            }
            let id = (id != u64::MAX).then_some(id);
            let (again, between) = sequence.arrived(id);
            repeated += u64::from(again);
            missed += between;
        }
        (repeated, missed)
    }

    #[test]
    fn messages_that_came_twice_or_were_missed_are_counted() {
        for (expected, ids) in [
            ((0, 0), &[1, 2, 3, 0, 4, 5][..]),
            ((2, 0), &[1, 2, 3, 0, 2, 3, 4]),
            ((0, 3), &[1, 2, 3, 0, 7, 8]),
            ((1, 2), &[1, 2, 3, 0, 3, 0, 6, 7]),
            ((3, 0), &[1, 2, 3, 0, 1, 2, 3, 0, 4]),
            // Nobody knows what was between them.
            ((0, 0), &[10, 20, 30, 0, 50]),
            ((1, 0), &[10, 20, 30, 0, 30, 40]),
            ((0, 0), &[1, 0, 5]),
            // They are no numbers, or have no order.
            ((0, 0), &[1, 2, u64::MAX, 3, 0, 2, 3, 9]),
            ((0, 0), &[5, 3, 4, 0, 3, 9]),
        ] {
            assert_eq!(counts(ids), expected, "{ids:?}");
        }
    }
}
