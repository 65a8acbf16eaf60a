//! Requests that fail and connections that are lost: by a fault, by the peer, or by a timeout.

use super::State;
use super::tap::Tapped;
use crate::engine::Engine;
use crate::engine::exchange::EndedRequest;
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::plan::Lost;
use prony_proto::proto::Carrier;
use prony_tally::record::SessionEnd;

/// How often an idempotent request is sent again because connections were closed, without an
/// announcement, while other requests were before it (each of these connections had received a
/// reply), and how often any request is sent again because the peer had not processed it.
pub(super) const PASSED_OVER_MAX: u8 = 16;

/// Faults with which the client itself ends a connection.
const OWN: [Fault; 4] =
    [Fault::RequestTimeout, Fault::ConnectTimeout, Fault::WaitTimeout, Fault::GivenUp];

/// How a connection was lost, as far as it matters to its exchanges.
struct Loss {
    /// `None`: the peer closed the connection in an orderly way.
    fault: Option<Fault>,
    /// It never opened.
    was_connecting: bool,
    /// Its last reply announced the close: the peer processes no request after it (RFC 9112, 9.6).
    announced: bool,
    /// It had received a reply before.
    reused: bool,
    /// A reply had started, or unread bytes were kept: the peer has processed the oldest request.
    touched: bool,
}

impl<P: Carrier> Engine<P> {
    /// The request, which is on no connection any more, has ended without a complete reply.
    pub(in crate::engine) fn fail(&mut self, id: RequestId, fault: Fault, now: Nanos) {
        let least = match fault {
            Fault::ConnectTimeout => self.plan.connect_timeout,
            // It has lasted as long as its step says.
            Fault::WaitTimeout => Span::ZERO,
            _ => self.plan.timeout,
        };
        let exchange = &self.exchanges[id];
        let (call, user, intended) = (exchange.call(), exchange.user(), exchange.intended());
        let (sent, counted) = (exchange.is_sent(), exchange.is_counted());
        let (stamps, window) = (exchange.stamps(now), exchange.window());
        let has_begun = exchange.has_begun();
        if let Some(Tapped(tap)) = &mut self.tap {
            let messages = self.exchanges.messages.as_deref_mut();
            let stream = messages.and_then(|messages| messages.ended_stream(id, false));
            tap.request_ended(&EndedRequest {
                id,
                stamps,
                was_sent: sent,
                has_begun,
                call,
                conn: None,
                reply: None,
                fault: Some(fault),
                stream,
            });
        }
        self.exchanges.give_up(id);
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            messages.schedule_ended(id, now, &mut self.recorder);
            messages.stream_failed(id, now, &mut self.recorder);
        }
        // If it was sent before, its wait is already recorded.
        if !sent && !counted {
            self.recorder.record_unsent_waits(&stamps);
        }
        self.recorder.failed(&stamps, fault, sent, least);
        if window > Span::ZERO {
            self.recorder.waited_for_window(intended, window);
        }
        if let Some(name) = self.calls.name(call) {
            self.recorder.name_failed(name, &stamps, fault, sent, least);
        }
        self.load.request_failed(user, fault, now);
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.failed(user, fault);
            if let Some(chain) = dynamic.ended(id, SessionEnd::Failed) {
                self.recorder.group_ended(chain, now);
            }
        }
        if self.plan.replace_lost && fault.is_lost() {
            self.load.refund(intended, self.plan.warmup);
        }
        self.outcome.ended.push(user);
    }

    /// Close a connection that cannot be used again. Its oldest request fails with `fault`, if that
    /// applies to it. Other requests are sent on another connection, if possible. The slot is
    /// freed. `None`: the peer closed the connection in an orderly way.
    pub(in crate::engine) fn abandon(
        &mut self,
        slot: u32,
        fault: Option<Fault>,
        how: CloseHow,
        now: Nanos,
    ) {
        self.note_rare(slot, now);
        if let Some(fault) = fault {
            self.link_fault(slot, fault, now);
        }
        let has_begun = self.has_begun(slot);
        let conn = &mut self.links[slot];
        let loss = Loss {
            fault,
            was_connecting: conn.state != State::Open,
            announced: conn.carried.retired,
            reused: conn.carried.served > 0 || conn.resend_allowed,
            touched: has_begun || !conn.stash.is_empty(),
        };
        let carried = &conn.carried;
        let closed_by_peer = loss.announced || fault.is_some_and(is_loss);
        if carried.sent > 0 && carried.served > 0 && closed_by_peer {
            self.depths.learn(conn.endpoint, carried.served);
        }
        // What the client itself has cut, or has not used, says nothing about the peer.
        let was_cut = fault.is_some_and(|fault| OWN.contains(&fault));
        let excused = loss.touched || was_cut || self.links.in_flight(slot) == 0;
        let is_fruitless = self.comes_to_nothing(slot, excused, now);
        let endpoint = self.links.of(slot).0;
        self.detach_all(slot, &loss, now);
        // Streams can have failed alone in the same read.
        if !self.outcome.failed.is_empty() {
            self.fail_alone(now);
        }
        let session = self.links[slot].owner;
        if loss.was_connecting {
            self.load.connected(session, false);
        }
        let wait = if is_fruitless { self.wait_after(endpoint, now) } else { Span::ZERO };
        if wait > Span::ZERO {
            self.load.connected(session, false);
        }
        self.hold_connects(is_fruitless);
        self.requeue();
        self.close_slot(slot, how, now);
        // These go before requests that have only waited: the next connection is theirs.
        let mut again = std::mem::take(&mut self.outcome.again);
        for id in again.drain(..) {
            self.place(id, now);
        }
        self.outcome.again = again;
        self.feed(session, now);
        self.hold_connects(false);
        self.pump_waiting(now);
        if loss.was_connecting {
            self.connect_failed(now);
        } else if wait > Span::ZERO {
            self.restart_later(wait, now);
        } else {
            self.restart_ended(now);
        }
    }

    /// Take the exchanges off the lost connection: they are sent again, or fail.
    fn detach_all(&mut self, slot: u32, loss: &Loss, now: Nanos) {
        let mut lost = std::mem::take(&mut self.lost);
        self.links[slot].carried.take_all(&self.exchanges, &mut lost);
        for (i, id) in lost.drain(..).enumerate() {
            // If replies come in order, a fault belongs to the oldest request; otherwise to each
            // request with a partial reply.
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
                    Some(f) if loss.was_connecting || blamed || is_loss(f) || is_of_all(f) => f,
                    // The time of its client is over.
                    Some(f @ Fault::RequestTimeout) if self.plan.clients.is_some() => f,
                    _ if self.load.gives_up(self.exchanges[id].user()) => Fault::GivenUp,
                    _ => Fault::ClosedEarly,
                };
                if !self.breaks(id, fault, now) {
                    self.fail(id, fault, now);
                }
            }
        }
        self.lost = lost;
    }

    /// Do what only few replies need. Returns whether there was something.
    #[inline]
    pub(in crate::engine) fn note_rare(&mut self, slot: u32, now: Nanos) -> bool {
        let is_rare = std::mem::take(&mut self.outcome.is_rare);
        if is_rare {
            self.note(slot, now);
        }
        is_rare
    }

    /// End the streams that have enough messages. If a reply that was just read is not a success,
    /// report it to its user or session.
    #[cold]
    fn note(&mut self, slot: u32, now: Nanos) {
        if self.exchanges.messages.is_some() {
            self.stop_streams(slot, now);
            self.reopen_streams(now);
            self.outcome.is_rare = false;
        }
        if let Some(code) = self.outcome.closed.take() {
            self.socket_was_closed(slot, code);
        }
        if std::mem::take(&mut self.outcome.missed) {
            self.load.reply_missed(self.links[slot].owner);
        }
    }

    /// Whether the reply to the connection's oldest request has started.
    pub(in crate::engine) fn has_begun(&self, slot: u32) -> bool {
        let oldest = self.exchanges.first(&self.links[slot].carried.all);
        oldest.is_some_and(|id| self.exchanges[id].has_begun())
    }

    /// Whether a request of a lost connection is sent (again) on another one. `blamed`: the request
    /// to which a fault belongs.
    fn goes_again(&self, id: RequestId, blamed: bool, loss: &Loss) -> bool {
        let exchange = &self.exchanges[id];
        if loss.was_connecting || self.load.gives_up(exchange.user()) {
            return false;
        }
        if self.calls.get(exchange.call()).socket.is_some() {
            return false;
        }
        // A stream that is opened again waits before each attempt.
        let messages = self.exchanges.messages.as_deref();
        if messages.is_some_and(|messages| messages.is_between(id)) {
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

    /// Count the fault that ends a connection, unless the driver was never asked to open it.
    pub(in crate::engine) fn link_fault(&mut self, slot: u32, fault: Fault, now: Nanos) {
        let conn = &self.links[slot];
        if conn.asked {
            self.recorder.connection_failed(conn.connect_began, fault);
            self.contact_failed(slot, fault, now);
        }
    }

    /// Close a connection that has nothing in flight, and let waiting requests open another.
    pub(in crate::engine) fn release(&mut self, slot: u32, how: CloseHow, now: Nanos) {
        let session = self.links[slot].owner;
        self.close_slot(slot, how, now);
        self.feed(session, now);
        self.pump_waiting(now);
    }

    /// Close a connection that has nothing in flight.
    pub(in crate::engine) fn close_slot(&mut self, slot: u32, how: CloseHow, now: Nanos) {
        let conn = &self.links[slot];
        if conn.carried.served > 0 {
            self.recorder.connection_closed(conn.connect_began, now);
            self.pacing.fruitless.reset(conn.endpoint);
        }
        let id = self.links.id(slot);
        self.unlist(slot);
        if let Some(trails) = &mut self.trails {
            trails.ended(slot, &mut self.recorder);
        }
        if self.tap.is_some() {
            self.show_closed(id);
        }
        if P::MULTIPLEXES {
            self.count_streams(id, now);
        }
        let asked = self.links[slot].asked;
        self.end_slot(slot, asked, how, now);
    }
}

/// Whether the fault is the loss of a connection, after which an unprocessed request can be sent
/// again.
fn is_loss(fault: Fault) -> bool {
    matches!(fault, Fault::Reset | Fault::ClosedEarly)
}

/// Whether the fault explains why every request of the connection fails.
fn is_of_all(fault: Fault) -> bool {
    let of_streams = [Fault::BadHttp2, Fault::BadHpack, Fault::FlowControl];
    matches!(fault, Fault::NotHttp2 | Fault::NoPong) || of_streams.contains(&fault)
}
