//! Connections with TLS: the handshake between connect and first request, records instead of plain
//! bytes, and the close_notify alert before a close.

use std::sync::Arc;

use super::{NOBODY, State};
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::{ConnId, Nanos};
use prony_proto::layer::{ClientConfig, Layer, NoTunnel, Tls, TlsContext, TlsError};
use prony_proto::proto::{Carrier, Out};
use prony_tally::record::Secured;

/// State that the TLS connections of an engine share.
#[derive(Debug, Default)]
pub(in crate::engine) struct Secure {
    context: Option<TlsContext>,
    /// The configuration of each scope, if TLS sessions are resumed only within one scope.
    places: Vec<Option<Arc<ClientConfig>>>,
    /// Scratch: decrypted bytes.
    plain: Vec<u8>,
    /// Scratch: records to send.
    sealed: Vec<u8>,
}

impl Secure {
    pub(in crate::engine) fn new(context: Option<TlsContext>) -> Self {
        Self { context, ..Self::default() }
    }

    /// Encrypt the contents of `out` into records. A request counts as sent when the record in
    /// which it starts is sent.
    pub(in crate::engine) fn seal(&mut self, tls: &mut Tls, out: &mut Out) -> Result<(), TlsError> {
        self.sealed.clear();
        let (bytes, begins, cuts) = out.parts();
        let mut next = 0;
        for (i, piece) in bytes.chunks(Tls::RECORD).enumerate() {
            let at = self.sealed.len();
            while next < begins.len() && begins[next].at < (i + 1) * Tls::RECORD {
                begins[next].at = at;
                next += 1;
            }
            tls.encrypt(piece, &mut self.sealed)?;
        }
        std::mem::swap(bytes, &mut self.sealed);
        // Boundaries of pieces have no meaning in a stream of records.
        cuts.clear();
        Ok(())
    }

    /// Another session of the plan starts in this scope: it must not resume TLS sessions of the one
    /// before.
    pub(in crate::engine) fn new_session(&mut self, place: u32) {
        if let Some(config) = self.places.get_mut(place as usize) {
            *config = None;
        }
    }

    fn config(&mut self, place: u32) -> Option<Arc<ClientConfig>> {
        let context = self.context.as_ref()?;
        if !context.resumes_by_place() {
            return Some(Arc::clone(context.shared()));
        }
        let place = place as usize;
        if self.places.len() <= place {
            self.places.resize(place + 1, None);
        }
        Some(Arc::clone(self.places[place].get_or_insert_with(|| context.place())))
    }
}

impl<P: Carrier> Engine<P> {
    /// Set the TLS context. A plan with TLS endpoints cannot run without it.
    #[must_use]
    pub fn with_tls(mut self, context: Option<TlsContext>) -> Self {
        self.secure = Secure::new(context);
        self
    }

    /// Whether the connection uses TLS.
    pub(in crate::engine) fn is_secured(&self, slot: u32) -> bool {
        self.plan.endpoints[self.links[slot].endpoint as usize].tls_name().is_some()
    }

    /// The connection has opened: start the TLS handshake.
    pub(in crate::engine) fn secure(&mut self, slot: u32, now: Nanos) {
        let endpoint = self.links[slot].endpoint;
        let config = self.secure.config(self.tls_place(slot));
        let context = self.secure.context.as_ref();
        let (Some(config), Some(context)) = (config, context) else {
            panic!("a plan with TLS needs Engine::with_tls");
        };
        let begun = context.begin(endpoint, config);
        let conn = &mut self.links[slot];
        conn.state = State::Securing;
        match begun {
            Ok(tls) => {
                conn.layer = Layer::Tls(Box::new(tls));
                self.transmit(slot);
            }
            Err(reason) => self.tls_failed(slot, &reason, now),
        }
    }

    /// The scope of TLS session resumption, if it is not global: the session of the plan, the group
    /// of users of a closed loop, or the slot.
    fn tls_place(&self, slot: u32) -> u32 {
        let owner = self.links[slot].owner;
        if owner == NOBODY { slot } else { owner }
    }

    /// Records have arrived.
    pub(in crate::engine) fn received_records(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let slot = id.slot;
        let mut plain = std::mem::take(&mut self.secure.plain);
        plain.clear();
        let Layer::Tls(tls) = &mut self.links[slot].layer else { return };
        let result = tls.receive(data, &mut plain);
        let is_open = tls.is_open();
        if is_open && self.links[slot].state == State::Securing {
            self.secured(slot, now);
            // The carrier may have refused the protocol.
            if !self.links.live(id) {
                self.secure.plain = plain;
                return;
            }
        }
        if self.links[slot].layer.wants_send() {
            self.transmit(slot);
        }
        if !plain.is_empty() {
            self.received(slot, &plain, now);
        }
        self.secure.plain = plain;
        // The decrypted bytes may have ended the connection.
        if !self.links.live(id) {
            return;
        }
        match result {
            Err(reason) => self.tls_failed(slot, &reason, now),
            Ok(()) if self.links[slot].layer.tls().is_some_and(|tls| tls.has_ended()) => {
                let fault = self.ended(slot, now);
                self.abandon(slot, fault, CloseHow::Orderly, now);
            }
            Ok(()) => {}
        }
    }

    /// The handshake is complete.
    fn secured(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        let (took, asked) = (now.since(conn.opened), now.since(conn.connect_began));
        if let Some(h) = conn.layer.tls().and_then(|tls| tls.handshake()) {
            let secured = Secured {
                resumed: h.resumed,
                version: h.version,
                suite: h.suite,
                group: h.group,
                key_bits: h.key_bits,
            };
            self.recorder.secured(now, took, asked, secured);
        }
        self.opened(slot, now);
    }

    /// The TLS connection has failed.
    fn tls_failed(&mut self, slot: u32, reason: &TlsError, now: Nanos) {
        let conn = &mut self.links[slot];
        self.recorder.not_secured(conn.connect_began, reason.as_str());
        // With TLS 1.3, the handshake is already complete for the client when the server rejects
        // the client's certificate.
        let refused = reason.is_alert() && conn.carried.served == 0;
        let fault = if conn.state == State::Securing || refused {
            Fault::TlsHandshake
        } else {
            Fault::TlsRecord
        };
        if conn.state == State::Open && conn.carried.sent == 0 {
            self.recorder.stray(now, fault);
            self.link_fault(slot, fault, now);
            self.links[slot].stash.clear();
            self.abandon(slot, None, CloseHow::Orderly, now);
        } else {
            self.abandon(slot, Some(fault), CloseHow::Orderly, now);
        }
    }

    /// The connect timeout has passed. During the handshake, this counts as a failed handshake, and
    /// before the tunnel is open, as one that was not opened.
    pub(in crate::engine) fn not_opened_in_time(&mut self, slot: u32) {
        let conn = &self.links[slot];
        match conn.state {
            State::Securing => {
                self.recorder.not_secured(conn.connect_began, TlsError::timed_out().as_str());
            }
            State::Tunneling => {
                self.recorder.no_tunnel(conn.connect_began, NoTunnel::TimedOut);
            }
            _ => {}
        }
    }

    /// Process the end of the stream (`None`) or of the connection (`why`) that TLS has not
    /// announced. Returns the fault of the oldest request, if any.
    pub(in crate::engine) fn end_without_close_notify(
        &mut self,
        slot: u32,
        why: Option<Fault>,
    ) -> Option<Fault> {
        let conn = &mut self.links[slot];
        // No close_notify can be sent any more.
        conn.layer = Layer::Plain;
        let left = std::mem::take(&mut conn.stash);
        if conn.state == State::Securing {
            let reason = match why {
                Some(fault) if fault.is_meters_own() => return why,
                Some(_) => TlsError::broken(),
                None => TlsError::cut_off(),
            };
            self.recorder.not_secured(conn.connect_began, reason.as_str());
            return Some(Fault::TlsHandshake);
        }
        let sent = conn.carried.sent;
        match why {
            Some(_) => {
                // The unread bytes of a reply still show that the server has processed the request.
                conn.stash = left;
                why
            }
            // Even a body that ends with the connection must be ended by TLS first: otherwise an
            // attacker on the network could truncate it.
            None if self.has_begun(slot) || !left.is_empty() => Some(Fault::Truncated),
            None if sent > 0 => Some(Fault::ClosedEarly),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests;
