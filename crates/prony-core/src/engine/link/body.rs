//! Bodies that are sent from their files: a piece at a time, before anything else on their
//! connection.

use super::NOBODY;
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::Nanos;
use prony_proto::layer::Layer;
use prony_proto::proto::{BodyRest, Carrier};

impl<P: Carrier> Engine<P> {
    /// Keep what was encoded and is not sent: the bytes that the kernel has not accepted, and the
    /// body that is incomplete. Returns whether there is nothing to keep, as the file of the body
    /// cannot be read, which ends the connection.
    #[cold]
    pub(super) fn keep_unsent(&mut self, slot: u32, taken: usize, now: Nanos) -> bool {
        let is_whole = taken == self.out.len();
        if !is_whole {
            self.keep_rest(slot, taken, now);
        }
        match self.out.take_body() {
            Some(BodyRest { at: 0, .. }) if is_whole => {
                self.body_is_lost(slot, now);
                return true;
            }
            None => {}
            body => self.links[slot].tail.get_or_insert_default().body = body,
        }
        false
    }

    /// A body cannot be completed, and nothing can follow it.
    fn body_is_lost(&mut self, slot: u32, now: Nanos) {
        self.recorder.event(now);
        self.abandon(slot, Some(Fault::BodyFile), CloseHow::Reset, now);
        self.fail_unsent(now);
    }

    /// Send the next piece of the body that the connection is in. Returns whether it is in none any
    /// more. Otherwise the driver asks for the next piece, after what is due on other connections.
    pub(super) fn send_piece(
        &mut self,
        slot: u32,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let Some(mut body) = self.links[slot].tail.take().and_then(|tail| tail.body) else {
            return true;
        };
        self.out.clear();
        self.prepared = NOBODY;
        match self.carrier.append_body(&mut body, self.out.bytes()) {
            Some(true) => {}
            Some(false) => self.out.continue_later(body),
            None => {
                self.body_is_lost(slot, now);
                return false;
            }
        }
        if !matches!(self.links[slot].layer, Layer::Plain) && !self.seal(slot, now) {
            return false;
        }
        let taken = send(self.out.as_bytes());
        self.recorder.bytes_sent(now, taken as u64);
        if self.trails.is_some() {
            self.follow(slot, 0, taken);
        }
        let is_sent = taken == self.out.len() && !self.out.has_body();
        if !is_sent {
            self.keep_unsent(slot, taken, now);
        }
        is_sent
    }
}
