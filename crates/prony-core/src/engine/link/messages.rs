//! Messages that are sent at their time, in streams that are open.

use crate::engine::Engine;
use crate::engine::agenda::{Agenda, Timer};
use crate::engine::exchange::{Exchange, Exchanges, ToSend};
use prony_base::units::{Nanos, RequestId};
use prony_proto::proto::Carrier;

/// An exchange was submitted on the connection in slot `conn`: its messages start.
#[cold]
pub(super) fn start_messages<P: Carrier>(
    (exchanges, agenda): (&mut Exchanges, &mut Agenda),
    (carrier, conn): (&mut P, &mut P::Conn),
    (id, slot): (RequestId, u32),
    now: Nanos,
) {
    let exchange = &exchanges[id];
    let of_call = (exchange.call(), exchange.intended());
    let Some(messages) = exchanges.messages.as_deref_mut() else { return };
    if let Some(due) = messages.start(id, slot, of_call, now) {
        give((due, messages.due_times()), carrier, conn, agenda);
    }
}

/// Give the messages that are due to the carrier, and set the time of the next.
fn give<P: Carrier>(
    (due, times): (ToSend, &[Nanos]),
    carrier: &mut P,
    conn: &mut P::Conn,
    agenda: &mut Agenda,
) {
    if due.messages > 0 || due.ends {
        if !times.is_empty() {
            carrier.messages_due(conn, due.id, times);
        }
        carrier.send_messages(conn, due.id, due.messages, due.ends);
    }
    if let Some(at) = due.next {
        agenda.wake(at, Timer::Message(due.id.slot));
    }
}

impl<P: Carrier> Engine<P> {
    /// A message of the exchange in this slot is due, unless the exchange has ended or waits to be
    /// sent again.
    #[inline(never)]
    pub(in crate::engine) fn message_is_due(&mut self, slot: u32, now: Nanos) {
        let Some(messages) = self.exchanges.messages.as_deref_mut() else { return };
        let Some(id) = messages.waiting(slot, now) else { return };
        if !self.exchanges.get(id).is_some_and(|exchange| exchange.is_submitted()) {
            return;
        }
        let Some(messages) = self.exchanges.messages.as_deref_mut() else { return };
        let Some(due) = messages.due(slot, now) else { return };
        let conn = &mut self.links[due.conn].carrier;
        give((due, messages.due_times()), &mut self.carrier, conn, &mut self.agenda);
        self.transmit(due.conn);
    }

    /// The user has ended the load: streams with a schedule of messages send no further ones, and
    /// end as they do after their last.
    pub(in crate::engine) fn stop_messages(&mut self, now: Nanos) {
        let slots = self.exchanges.messages.as_deref_mut().map_or(0, |all| all.stop(now));
        for slot in 0..slots {
            let messages = self.exchanges.messages.as_deref();
            match messages.and_then(|messages| messages.next_in(slot)) {
                Some(at) if at > now => self.agenda.wake(at, Timer::Message(slot)),
                Some(_) => self.message_is_due(slot, now),
                None => {}
            }
        }
    }

    /// End the streams that have enough messages or cannot be read, and set the times of those that
    /// have begun, after bytes of the connection in this slot were read.
    pub(super) fn stop_streams(&mut self, slot: u32, now: Nanos) {
        while let Some(messages) = self.exchanges.messages.as_deref_mut()
            && let Some((id, time)) = messages.take_begun(slot)
        {
            if let Some(exchange) = self.exchanges.get(id) {
                self.agenda.wake(exchange.sent_at() + time, Timer::Stream(id.slot));
            }
        }
        while let Some(messages) = self.exchanges.messages.as_deref_mut()
            && let Some(id) = messages.take_stopped()
        {
            if self.exchanges.get(id).is_some_and(Exchange::is_submitted) {
                let (carrier, conn, mut sink) = self.sink(slot, now);
                carrier.stop(conn, id, &mut sink);
            }
        }
    }

    /// The stream of the exchange in this slot has lasted its time, unless it has ended and another
    /// has its place.
    #[cold]
    pub(in crate::engine) fn stream_has_lasted(&mut self, slot: u32, now: Nanos) {
        let Some(messages) = self.exchanges.messages.as_deref() else { return };
        let Some((id, conn)) = messages.open_in(slot) else { return };
        let Some(time) = self.plan.stream.as_deref().and_then(|stream| stream.time) else { return };
        let is_due = |exchange: &Exchange| exchange.is_sent() && exchange.sent_at() + time <= now;
        let is_on =
            |conn| self.exchanges.of(&self.links[conn].carried.all).any(|other| other == id);
        if !self.exchanges.get(id).is_some_and(is_due) || !is_on(conn) {
            return;
        }
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            messages.has_lasted(id);
        }
        self.outcome.is_rare = true;
        self.settle_stopped(conn, now);
    }
}
