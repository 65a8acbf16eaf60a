//! Streams that are opened again after their connection has ended: which, and when.

use super::content::BodyMatch;
use super::messages::Messages;
use super::reading::{Stage, StreamBody, Waits};
use super::{At, Exchange};
use prony_base::fault::{Fault, FaultClass};
use prony_base::units::{Nanos, RequestId};
use prony_plan::events::Ending;
use prony_tally::record::{Recorder, Stamps};

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
