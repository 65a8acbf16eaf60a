//! Requests that fail and connections that are lost: by a fault, by the peer's will, or because
//! their time is up.

use super::State;
use crate::engine::Engine;
use crate::fault::Fault;
use crate::machine::{Action, CloseHow};
use crate::plan::Lost;
use crate::proto::Carrier;
use crate::units::{Nanos, RequestId, Span};

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

impl<P: Carrier> Engine<P> {
    /// The request, which is on no connection any more, has ended without a whole reply.
    pub(in crate::engine) fn fail(&mut self, id: RequestId, fault: Fault, now: Nanos) {
        let least = match fault {
            Fault::ConnectTimeout => self.plan.connect_timeout,
            _ => self.plan.timeout,
        };
        let exchange = &self.exchanges[id];
        let (call, user, intended) = (exchange.call(), exchange.user(), exchange.intended());
        let (sent, counted) = (exchange.is_sent(), exchange.is_counted());
        let (stamps, window) = (exchange.stamps(now), exchange.window());
        self.exchanges.give_up(id);
        // The wait of one that was sent before is recorded already.
        if !sent && !counted {
            self.recorder.waited_in_vain(&stamps);
        }
        self.recorder.failed(&stamps, fault, sent, least);
        if window > Span::ZERO {
            self.recorder.waited_for_window(intended, window);
        }
        if let Some(name) = self.calls.name(call) {
            self.recorder.name_failed(name, &stamps, fault, sent, least);
        }
        self.load.missed(user);
        if self.plan.replace_lost && fault.is_lost() {
            self.load.refund(intended, self.plan.warmup);
        }
        self.outcome.ended.push(user);
    }

    /// The connection is of no more use: its oldest request fails of `fault`, if that says so;
    /// requests that can go elsewhere do; the slot is freed. `None`: the peer ended the connection
    /// in good order.
    pub(in crate::engine) fn abandon(
        &mut self,
        slot: u32,
        fault: Option<Fault>,
        how: CloseHow,
        now: Nanos,
    ) {
        self.note_missed(slot);
        if let Some(fault) = fault {
            self.link_fault(slot, fault);
        }
        let has_begun = self.has_begun(slot);
        let conn = &mut self.links[slot];
        let loss = Loss {
            fault,
            was_connecting: conn.state != State::Open,
            announced: conn.carried.retired,
            reused: conn.carried.served > 0 || conn.excused,
            touched: has_begun || !conn.stash.is_empty(),
        };
        let carried = &conn.carried;
        let closed_by_peer = loss.announced || fault.is_some_and(is_loss);
        if carried.sent > 0 && carried.served > 0 && closed_by_peer {
            self.depths.learn(conn.endpoint, carried.served);
        }
        self.part_with_all(slot, &loss, now);
        let session = self.links[slot].owner;
        if loss.was_connecting {
            self.load.connected(session, false);
        }
        self.requeue();
        self.part(slot, how, now);
        // Before those who have only waited: the next connection is theirs.
        let mut again = std::mem::take(&mut self.outcome.again);
        for id in again.drain(..) {
            self.place(id, now);
        }
        self.outcome.again = again;
        self.feed(session, now);
        self.pump_waiting(now);
        if loss.was_connecting {
            self.connect_failed(now);
        } else {
            self.restart_ended(now);
        }
    }

    /// What the lost connection carried leaves it: to go out again, or failed.
    fn part_with_all(&mut self, slot: u32, loss: &Loss, now: Nanos) {
        let mut lost = std::mem::take(&mut self.lost);
        self.links[slot].carried.take_all(&self.exchanges, &mut lost);
        for (i, id) in lost.drain(..).enumerate() {
            // Where replies come in order, a fault is the oldest request's; where they do not, it
            // is that of each whose reply had begun.
            let blamed = match P::MULTIPLEXES {
                false => i == 0,
                true => self.exchanges[id].has_begun(),
            };
            if self.goes_again(id, blamed, loss) {
                let exchange = &mut self.exchanges[id];
                exchange.waited_in_queue(now);
                if exchange.is_sent() {
                    if !loss.announced {
                        exchange.resend(blamed);
                    }
                    self.recorder.retried(exchange.intended());
                }
                exchange.goes_again();
                self.outcome.again.push(id);
            } else {
                let fault = match loss.fault {
                    Some(f) if loss.was_connecting || blamed || is_loss(f) => f,
                    _ if self.load.gives_up(self.exchanges[id].user()) => Fault::GivenUp,
                    _ => Fault::ClosedEarly,
                };
                self.fail(id, fault, now);
            }
        }
        self.lost = lost;
    }

    /// If a reply that was just taken in is no success, its session knows.
    pub(in crate::engine) fn note_missed(&mut self, slot: u32) {
        if std::mem::take(&mut self.outcome.missed) {
            self.load.missed(self.links[slot].owner);
        }
    }

    /// Whether the reply to the connection's oldest request has begun.
    pub(in crate::engine) fn has_begun(&self, slot: u32) -> bool {
        let oldest = self.exchanges.first(&self.links[slot].carried.all);
        oldest.is_some_and(|id| self.exchanges[id].has_begun())
    }

    /// Whether a request of a lost connection goes out (again) on another one. `blamed`: it is one
    /// that a fault would be blamed on.
    fn goes_again(&self, id: RequestId, blamed: bool, loss: &Loss) -> bool {
        let exchange = &self.exchanges[id];
        if loss.was_connecting || self.load.gives_up(exchange.user()) {
            return false;
        }
        if loss.announced {
            return true;
        }
        let broken = loss.fault.is_some_and(|f| !is_loss(f));
        match self.load.lost() {
            Lost::Fail => false,
            Lost::Resend => {
                let cut = [Some(Fault::Truncated), Some(Fault::ShortBody)].contains(&loss.fault);
                loss.reused && !(blamed && broken && !cut)
            }
            Lost::Idempotent if blamed && (loss.touched || broken) => false,
            Lost::Idempotent if exchange.is_sent() => {
                let (retried, passed_over) = exchange.resent();
                let may_again = match blamed {
                    true => !retried,
                    false => passed_over < PASSED_OVER_MAX,
                };
                loss.reused && may_again && self.calls.get(exchange.call()).idempotent
            }
            Lost::Idempotent => loss.reused,
        }
    }

    /// A connection ends by that fault. One that the driver was not even asked for is none.
    pub(in crate::engine) fn link_fault(&mut self, slot: u32, fault: Fault) {
        let conn = &self.links[slot];
        if conn.asked {
            self.recorder.link_fault(conn.connect_began, fault);
        }
    }

    /// Let go of a connection that has nothing in flight.
    pub(in crate::engine) fn release(&mut self, slot: u32, how: CloseHow, now: Nanos) {
        let session = self.links[slot].owner;
        self.part(slot, how, now);
        self.feed(session, now);
        self.pump_waiting(now);
    }

    /// The same, without a thought of those who wait for one.
    pub(in crate::engine) fn part(&mut self, slot: u32, how: CloseHow, now: Nanos) {
        let conn = &self.links[slot];
        if conn.carried.served > 0 {
            self.recorder.link_lived(conn.connect_began, now);
        }
        let id = self.links.id(slot);
        self.farewell(slot, how);
        self.unlist(slot);
        if let Some(trails) = &mut self.trails {
            trails.ended(slot, &mut self.recorder);
        }
        if self.tap.is_some() {
            self.show_closed(id);
        }
        let asked = self.links[slot].asked;
        self.links.remove(slot);
        if asked {
            self.agenda.ask(Action::Close { id, how });
        }
    }
}

/// Whether the fault is the loss of a connection, which a request that was not taken up survives.
fn is_loss(fault: Fault) -> bool {
    matches!(fault, Fault::Reset | Fault::ClosedEarly)
}
