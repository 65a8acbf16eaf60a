//! Requests that fail and connections that are lost: by a fault, by the peer's will, or because
//! their time is up.

use super::conn::{NONE, State};
use super::flight::Flight;
use super::source::Source;
use super::{Engine, Stage};
use crate::fault::Fault;
use crate::machine::{Action, CloseHow};
use crate::plan::Lost;
use crate::proto::Protocol;
use crate::units::Nanos;

/// How often an idempotent request goes out again because connections were closed, without an
/// announcement, while others were before it. Each such connection had brought a reply.
const PASSED_OVER_MAX: u8 = 16;

/// How a connection was lost, as far as it matters to what it carried.
struct Loss {
    /// `None`: the peer ended the connection in good order.
    fault: Option<Fault>,
    /// It never opened.
    was_connecting: bool,
    /// Its last reply announced the close: the peer processes no request behind it (RFC 9112, 9.6).
    announced: bool,
    /// It had brought a reply before.
    reused: bool,
    /// A reply had begun, or bytes were kept for it: the peer has taken the oldest request up.
    touched: bool,
}

impl<P: Protocol> Engine<P> {
    /// The request has ended without a whole reply.
    pub(super) fn fail(&mut self, flight: &Flight, fault: Fault, sent: bool, now: Nanos) {
        let least = match fault {
            Fault::ConnectTimeout => self.plan.connect_timeout,
            _ => self.plan.timeout,
        };
        // The wait of one that was sent before is told already.
        if !sent && !flight.counted {
            self.recorder.queued_in_vain(flight.intended, flight.queue);
        }
        let stamps = flight.stamps(now);
        self.recorder.failed(&stamps, fault, sent, least);
        let name = self.calls.get(flight.call).name;
        if name != NONE {
            self.recorder.name_failed(name, &stamps, fault, sent, least);
        }
        self.source.missed(flight.user);
        if self.plan.replace_lost && fault.is_lost() {
            self.source.refund(flight.intended, self.plan.warmup);
        }
        self.freed.push(flight.user);
    }

    /// The connection is of no more use: its oldest request fails of `fault`, if that says so;
    /// requests that can go elsewhere do; the slot is freed. `None`: the peer ended the connection
    /// in good order.
    pub(super) fn abandon(&mut self, slot: u32, fault: Option<Fault>, how: CloseHow, now: Nanos) {
        self.note_missed(slot);
        if let Some(fault) = fault {
            self.link_fault(slot, fault);
        }
        let conn = &mut self.conns[slot];
        let loss = Loss {
            fault,
            was_connecting: conn.state != State::Open,
            announced: conn.retired,
            reused: conn.served > 0 || conn.excused,
            touched: conn.flights.front().is_some_and(|f| f.first != Nanos::MAX)
                || !conn.stash.is_empty(),
        };
        let sent = conn.sent as usize;
        let closed_by_peer = loss.announced || fault.is_some_and(is_loss);
        if sent > 0 && conn.served > 0 && closed_by_peer {
            self.depths.learn(conn.endpoint, conn.served);
        }
        let mut flights = std::mem::take(&mut conn.flights);
        for (i, mut flight) in flights.drain(..).enumerate() {
            let was_sent = i < sent;
            if self.goes_again(&flight, i == 0, was_sent, &loss) {
                flight.waited_in_queue(now);
                if was_sent {
                    flight.retried |= i == 0 && !loss.announced;
                    flight.passed_over += u8::from(i > 0 && !loss.announced);
                    flight.first = Nanos::MAX;
                    self.recorder.retried(flight.intended);
                }
                self.bounced.push(flight);
            } else {
                let fault = match fault {
                    Some(f) if loss.was_connecting || i == 0 || is_loss(f) => f,
                    _ if self.source.gives_up(flight.user) => Fault::GivenUp,
                    _ => Fault::ClosedEarly,
                };
                self.fail(&flight, fault, was_sent, now);
            }
        }
        self.conns[slot].flights = flights;
        let session = self.conns[slot].lane;
        if loss.was_connecting {
            self.session_connected(session, false);
        }
        self.requeue();
        self.part(slot, how, now);
        // Before those who have only waited: the next connection is theirs.
        let mut bounced = std::mem::take(&mut self.bounced);
        for flight in bounced.drain(..) {
            self.place(flight, now);
        }
        self.bounced = bounced;
        self.feed(session, now);
        self.pump_waiting(now);
        if loss.was_connecting {
            self.connect_failed(now);
        } else {
            self.restart_freed(now);
        }
    }

    /// If a reply that was just taken in is no success, its session knows.
    pub(super) fn note_missed(&mut self, slot: u32) {
        if std::mem::take(&mut self.missed) {
            self.source.missed(self.conns[slot].lane);
        }
    }

    /// Whether a request of a lost connection goes out (again) on another one. `oldest`: it is the
    /// one that a fault would be blamed on.
    fn goes_again(&self, flight: &Flight, oldest: bool, was_sent: bool, loss: &Loss) -> bool {
        if loss.was_connecting || self.source.gives_up(flight.user) {
            return false;
        }
        if loss.announced {
            return true;
        }
        let broken = loss.fault.is_some_and(|f| !is_loss(f));
        match self.source.lost() {
            Lost::Fail => false,
            Lost::Resend => {
                let cut = [Some(Fault::Truncated), Some(Fault::ShortBody)].contains(&loss.fault);
                loss.reused && !(oldest && broken && !cut)
            }
            Lost::Idempotent if oldest && (loss.touched || broken) => false,
            Lost::Idempotent if was_sent => {
                let may_again = match oldest {
                    true => !flight.retried,
                    false => flight.passed_over < PASSED_OVER_MAX,
                };
                loss.reused && may_again && self.calls.get(flight.call).idempotent
            }
            Lost::Idempotent => loss.reused,
        }
    }

    /// A connection ends by that fault. One that the driver was not even asked for is none.
    pub(super) fn link_fault(&mut self, slot: u32, fault: Fault) {
        let conn = &self.conns[slot];
        if conn.asked {
            self.recorder.link_fault(conn.connect_began, fault);
        }
    }

    /// Let go of a connection that has nothing in flight.
    pub(super) fn release(&mut self, slot: u32, how: CloseHow, now: Nanos) {
        let session = self.conns[slot].lane;
        self.part(slot, how, now);
        self.feed(session, now);
        self.pump_waiting(now);
    }

    /// The same, without a thought of those who wait for one.
    pub(super) fn part(&mut self, slot: u32, how: CloseHow, now: Nanos) {
        let conn = &self.conns[slot];
        if conn.served > 0 {
            self.recorder.link_lived(conn.connect_began, now);
        }
        let id = self.conns.id(slot);
        self.farewell(slot, how);
        self.unlist(slot);
        if let Some(trails) = &mut self.trails {
            trails.ended(slot, &mut self.recorder);
        }
        let asked = self.conns[slot].asked;
        self.conns.remove(slot);
        if asked {
            self.actions.push_back(Action::Close { id, how });
        }
    }

    /// When the request runs out of time as things stand.
    pub(super) fn flight_deadline(&self, flight: &Flight, sent: bool) -> Nanos {
        if !self.plan.timeout_from_send {
            flight.intended + self.plan.timeout
        } else if sent {
            flight.sent + self.plan.timeout
        } else {
            Nanos::MAX
        }
    }

    /// While the run drains: when it ends at the latest, which is when the last of the requests in
    /// flight has run out of time. `None` while requests still start, and once all is over.
    pub fn drain_end(&self) -> Option<Nanos> {
        let Stage::Draining(until) = self.stage else { return None };
        let mut last = Nanos::ZERO;
        for slot in self.conns.used() {
            let conn = &self.conns[slot];
            let sent = conn.sent as usize;
            for (i, flight) in conn.flights.iter().enumerate() {
                last = last.max(self.flight_deadline(flight, i < sent));
            }
        }
        for flight in self.source.waiting() {
            last = last.max(self.flight_deadline(flight, false));
        }
        Some(last.min(until))
    }

    /// When the connection runs out of time as things stand.
    fn slot_deadline(&self, slot: u32) -> Option<Nanos> {
        let conn = &self.conns[slot];
        let sent = conn.sent as usize;
        let deadlines =
            conn.flights.iter().enumerate().map(|(i, f)| self.flight_deadline(f, i < sent));
        let request = deadlines.min();
        match conn.state {
            State::Free => None,
            State::Open => request,
            // The meter has not come to it.
            State::Connecting if conn.in_line => request,
            State::Greeting => {
                let own = self.greeting_deadline(slot);
                // The closed loop's have not begun.
                let waits = matches!(self.source, Source::Closed(_));
                Some(request.filter(|_| !waits).map_or(own, |r| r.min(own)))
            }
            State::Connecting | State::Securing => {
                let connect = conn.connect_began + self.plan.connect_timeout;
                Some(request.map_or(connect, |r| r.min(connect)))
            }
        }
    }

    pub(super) fn expire_slot(&mut self, slot: u32, now: Nanos) {
        match self.slot_deadline(slot) {
            None => {}
            Some(at) if at > now => self.arm(slot, at),
            Some(_) => self.time_out(slot, now),
        }
    }

    /// The connection ran out of time: while connecting all its requests fail; else those whose
    /// time is up fail, and the others, which can't be answered before them, go elsewhere.
    fn time_out(&mut self, slot: u32, now: Nanos) {
        if self.conns[slot].state == State::Greeting && self.greeting_timed_out(slot, now) {
            return;
        }
        let conn = &mut self.conns[slot];
        let (began, asked, in_line) = (conn.connect_began, conn.asked, conn.in_line);
        let connects = matches!(conn.state, State::Connecting | State::Securing);
        if connects && !in_line && began + self.plan.connect_timeout <= now {
            self.not_secured_in_time(slot);
            self.abandon(slot, Some(Fault::ConnectTimeout), CloseHow::Reset, now);
            return;
        }
        let mut flights = std::mem::take(&mut conn.flights);
        let sent = conn.sent as usize;
        let mut late = Vec::new();
        let mut index = 0;
        flights.retain(|f| {
            let was_sent = index < sent;
            let keep = self.flight_deadline(f, was_sent) > now;
            if !keep {
                late.push((*f, was_sent, index));
            }
            index += 1;
            keep
        });
        let conn = &mut self.conns[slot];
        conn.flights = flights;
        conn.sent -= late.iter().filter(|(_, was_sent, _)| *was_sent).count() as u32;
        if self.proto.is_lossy() && conn.state == State::Open {
            self.lost(slot, &late, now);
            return;
        }
        conn.stash.clear();
        if conn.state == State::Open && conn.served == 0 {
            // The others waited behind a request that the server did not answer: they get their one
            // retry.
            conn.excused = true;
        }
        let expired = late.len() as u64;
        for (flight, was_sent, _) in late {
            if !asked && !flight.counted {
                self.recorder.overdue(flight.intended);
            }
            self.fail(&flight, Fault::RequestTimeout, was_sent, now);
        }
        let pooled = connects && matches!(self.source, Source::Open(_));
        if pooled {
            // Nothing was sent on it yet: it is as good for those who come later.
            self.conns[slot].given -= expired;
        }
        let awaited = self.conns[slot].state != State::Open && !self.conns[slot].flights.is_empty();
        if pooled || awaited {
            self.expire_slot(slot, now);
            self.restart_freed(now);
        } else {
            self.not_secured_in_time(slot);
            self.link_fault(slot, Fault::RequestTimeout);
            self.abandon(slot, None, CloseHow::Reset, now);
        }
    }
}

/// Whether the fault is the loss of a connection, which a request that was not taken up survives.
fn is_loss(fault: Fault) -> bool {
    matches!(fault, Fault::Reset | Fault::ClosedEarly)
}
