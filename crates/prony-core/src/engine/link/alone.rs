//! Exchanges that end without bytes of their peer: steps on the sockets of sessions.

use super::carried::Carried;
use super::sink::Sink;
use super::tap::Tapped;
use crate::engine::Engine;
use crate::engine::exchange::EndedRequest;
use prony_base::fault::Fault;
use prony_base::units::{ConnId, Nanos, RequestId};
use prony_proto::proto::{Carrier, Reply, Sink as _};

impl<P: Carrier> Engine<P> {
    /// End the exchanges of the connection that end by being sent, or by a deadline. Returns
    /// whether there were any.
    #[cold]
    pub(super) fn end_alone(&mut self, id: ConnId, now: Nanos) -> bool {
        if !self.links.live(id) {
            return false;
        }
        // What ends now was in flight until now.
        self.recorder.event(now);
        let (carrier, conn, mut sink) = self.sink(id.slot, now);
        let has_ended = carrier.report_ends(conn, now, &mut sink);
        if has_ended {
            self.settle_stopped(id.slot, now);
        }
        has_ended
    }

    /// A step on a socket, which is on no connection, ends with the code with which the peer has
    /// closed the socket before.
    #[cold]
    pub(in crate::engine) fn close_was_before(&mut self, id: RequestId, code: u16, now: Nanos) {
        let reply = Reply {
            status: code,
            head_bytes: 0,
            framing_bytes: 0,
            footer_bytes: 0,
            body_bytes: 0,
            interim: 0,
            keeps_open: true,
            fault: None,
        };
        let call = self.exchanges[id].call();
        // It is on a connection that carries nothing else, and ends at once.
        let mut carried = Carried::nothing();
        carried.push(&mut self.exchanges, id);
        carried.submit(&mut self.exchanges);
        let mut sink = Sink {
            carried: &mut carried,
            exchanges: &mut self.exchanges,
            tap: None,
            dynamic: self.dynamic.as_deref_mut(),
            trail: None,
            connect_began: now,
            calls: &self.calls,
            recorder: &mut self.recorder,
            outcome: &mut self.outcome,
            retries: 0,
            looks_closer: true,
            has_extras: true,
            now,
        };
        sink.sent(id);
        let (stamps, session) = (sink.exchanges[id].stamps(now), sink.exchanges[id].user());
        sink.done(id, &reply);
        let has_failed = std::mem::take(&mut self.outcome.missed);
        if has_failed {
            self.load.reply_missed(session);
        }
        self.outcome.is_rare = false;
        if let Some(Tapped(tap)) = &mut self.tap {
            tap.request_ended(&EndedRequest {
                id,
                stamps,
                was_sent: true,
                has_begun: true,
                call,
                conn: None,
                reply: Some(reply),
                fault: has_failed.then_some(Fault::UnexpectedStatus),
                stream: None,
            });
        }
    }
}
