//! Secured connections: the handshake between connect and first request, records instead of bytes,
//! and the last word of TLS before a close.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{NOBODY, State};
use crate::engine::Engine;
use crate::fault::Fault;
use crate::layer::{ClientConfig, Layer, Reason, Tls, TlsContext};
use crate::machine::{Action, CloseHow};
use crate::proto::{Carrier, Out};
use crate::record::Secured;
use crate::units::{ConnId, Nanos};

/// What the secured connections of an engine share.
#[derive(Debug, Default)]
pub(in crate::engine) struct Secure {
    context: Option<TlsContext>,
    /// Where sessions are resumed only within one place: the configuration of each.
    places: Vec<Option<Arc<ClientConfig>>>,
    /// The last bytes of connections that are about to be closed.
    farewells: BTreeMap<ConnId, Vec<u8>>,
    /// Scratch: what records said.
    plain: Vec<u8>,
    /// Scratch: records to send.
    sealed: Vec<u8>,
}

impl Secure {
    pub(in crate::engine) fn new(context: Option<TlsContext>) -> Self {
        Self { context, ..Self::default() }
    }

    /// Turn what is in `out` into records. A request is sent when
    /// the record in which it begins is.
    pub(in crate::engine) fn seal(&mut self, tls: &mut Tls, out: &mut Out) -> Result<(), Reason> {
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
        // A stream of records has no other boundaries.
        cuts.clear();
        Ok(())
    }

    /// Whether a connection that is gone still has something to say.
    pub(in crate::engine) fn has_farewell(&self, id: ConnId) -> bool {
        self.farewells.contains_key(&id)
    }

    /// The last bytes of a connection, if there are any and they were not given before.
    pub(in crate::engine) fn take_farewell(&mut self, id: ConnId) -> Option<Vec<u8>> {
        self.farewells.remove(&id)
    }

    /// Another session of the plan begins at that place: it resumes nothing of the one before.
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
    /// With what secured endpoints need; a plan that has some cannot be run without.
    #[must_use]
    pub fn with_tls(mut self, context: Option<TlsContext>) -> Self {
        self.secure = Secure::new(context);
        self
    }

    /// Whether the connection is to be secured.
    pub(in crate::engine) fn is_secured(&self, slot: u32) -> bool {
        self.plan.endpoints[self.links[slot].endpoint as usize].tls_name().is_some()
    }

    /// The connection has opened: begin the handshake.
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

    /// Within what TLS sessions are resumed, where they are not by all: the session of the plan,
    /// the user of a closed loop, or the slot.
    fn tls_place(&self, slot: u32) -> u32 {
        let owner = self.links[slot].owner;
        if owner == NOBODY { slot } else { owner }
    }

    /// Records have come.
    pub(in crate::engine) fn received_records(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let slot = id.slot;
        let mut plain = std::mem::take(&mut self.secure.plain);
        plain.clear();
        let Layer::Tls(tls) = &mut self.links[slot].layer else { return };
        let result = tls.receive(data, &mut plain);
        let is_open = tls.is_open();
        if is_open && self.links[slot].state == State::Securing {
            self.secured(slot, now);
        }
        if self.links[slot].layer.wants_send() {
            self.transmit(slot);
        }
        if !plain.is_empty() {
            self.received(slot, &plain, now);
        }
        self.secure.plain = plain;
        // What was said may have been all that the connection was good for.
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

    /// The handshake is done.
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

    /// TLS gives the connection up.
    fn tls_failed(&mut self, slot: u32, reason: &Reason, now: Nanos) {
        let conn = &mut self.links[slot];
        self.recorder.not_secured(conn.connect_began, reason.as_str());
        // A server that refuses the client's certificate says so (TLS 1.3) when the client has
        // long taken the handshake for done.
        let refused = reason.is_alert() && conn.carried.served == 0;
        let fault = if conn.state == State::Securing || refused {
            Fault::TlsHandshake
        } else {
            Fault::TlsRecord
        };
        if conn.state == State::Open && conn.carried.sent == 0 {
            self.recorder.stray(now, fault);
            self.link_fault(slot, fault);
            self.links[slot].stash.clear();
            self.abandon(slot, None, CloseHow::Orderly, now);
        } else {
            self.abandon(slot, Some(fault), CloseHow::Orderly, now);
        }
    }

    /// The connect timeout has passed; if that was in the handshake, it is one of those that
    /// failed.
    pub(in crate::engine) fn not_secured_in_time(&mut self, slot: u32) {
        let conn = &self.links[slot];
        if conn.state == State::Securing {
            self.recorder.not_secured(conn.connect_began, Reason::timed_out().as_str());
        }
    }

    /// What the end of the stream (`why`: of the whole connection) means for a secured connection
    /// whose peer has not said that it sends nothing more. `None`: for the oldest request nothing.
    pub(in crate::engine) fn cut_off(&mut self, slot: u32, why: Option<Fault>) -> Option<Fault> {
        let conn = &mut self.links[slot];
        // There is nobody left to say farewell to.
        conn.layer = Layer::Plain;
        let left = std::mem::take(&mut conn.stash);
        if conn.state == State::Securing {
            let reason = match why {
                Some(fault) if fault.is_meters_own() => return why,
                Some(_) => Reason::broken(),
                None => Reason::cut_off(),
            };
            self.recorder.not_secured(conn.connect_began, reason.as_str());
            return Some(Fault::TlsHandshake);
        }
        let sent = conn.carried.sent;
        match why {
            Some(_) => {
                // What was kept of a reply still says that the request was taken up.
                conn.stash = left;
                why
            }
            // Even a body that ends with the connection must be ended by TLS first, or anyone on
            // the way could end it.
            None if self.has_begun(slot) || !left.is_empty() => Some(Fault::Truncated),
            None if sent > 0 => Some(Fault::ClosedEarly),
            None => None,
        }
    }

    /// Keep what TLS has to say at the end of a connection that is about to be closed in good
    /// order.
    pub(in crate::engine) fn farewell(&mut self, slot: u32, how: CloseHow) {
        let id = self.links.id(slot);
        let conn = &mut self.links[slot];
        // Behind half a record nothing can be said.
        if how == CloseHow::Reset || conn.tail.is_some() {
            return;
        }
        if let Layer::Tls(tls) = std::mem::take(&mut conn.layer)
            && !tls.has_ended()
        {
            let bytes = tls.farewell();
            if !bytes.is_empty() {
                self.secure.farewells.insert(id, bytes);
                self.agenda.ask(Action::Transmit { id });
            }
        }
    }
}

#[cfg(test)]
mod tests;
