//! Streams that are opened again on another connection, or on the same one.

use crate::engine::Engine;
use crate::engine::agenda::Timer;
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    /// The request has left its connection with this fault. Returns whether its stream is opened
    /// again later, so that it has not failed.
    pub(super) fn breaks(&mut self, id: RequestId, fault: Fault, now: Nanos) -> bool {
        if self.exchanges.messages.is_none() {
            return false;
        }
        let stamps = self.exchanges[id].stamps(now);
        let messages = self.exchanges.messages.as_deref_mut();
        let recorder = &mut self.recorder;
        let breaks = messages.is_some_and(|all| all.breaks(id, fault, &stamps, recorder));
        if breaks {
            self.reopen_later(id, now);
        }
        breaks
    }

    /// Set the times at which streams are opened again that have ended before their bounds.
    pub(super) fn reopen_streams(&mut self, now: Nanos) {
        while let Some(id) = self.outcome.reopens.pop() {
            self.reopen_later(id, now);
        }
    }

    fn reopen_later(&mut self, id: RequestId, now: Nanos) {
        let (waits, deadline) = (self.exchanges[id].waits(), self.request_deadline(id));
        let messages = self.exchanges.messages.as_deref_mut();
        let due = messages.and_then(|messages| messages.reopens(id, waits, deadline, now));
        let due = due.expect("the stream has begun and not ended");
        self.exchanges[id].reopens(due);
        self.agenda.wake(due, Timer::Reopen(id.slot));
    }

    /// The stream of the exchange in this slot is to be opened again, unless its exchange has ended
    /// and another has its place.
    #[cold]
    pub(in crate::engine) fn reopen(&mut self, slot: u32, at: Nanos, now: Nanos) {
        let Some(messages) = self.exchanges.messages.as_deref_mut() else { return };
        let Some(id) = messages.is_due(slot, at) else { return };
        let Some(exchange) = self.exchanges.get(id).filter(|exchange| exchange.is_counted()) else {
            return;
        };
        let (user, intended) = (exchange.user(), exchange.intended());
        let fault = if self.load.gives_up(user) {
            Some(Fault::GivenUp)
        } else {
            (self.request_deadline(id) <= now).then_some(Fault::RequestTimeout)
        };
        if let Some(fault) = fault {
            self.fail(id, fault, now);
            return self.restart_ended(now);
        }
        self.recorder.stream_reconnects(intended);
        let Some(messages) = self.exchanges.messages.as_deref_mut() else { return };
        if let Some(dynamic) = self.dynamic.as_deref_mut() {
            dynamic.resume(id, messages.last_event(id));
        }
        self.place(id, now);
    }
}
