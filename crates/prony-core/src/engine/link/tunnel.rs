//! Connections through a proxy: the tunnel between connect and TLS handshake or first request.

use super::State;
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::{ConnId, Nanos};
use prony_proto::layer::{Layer, NoTunnel, Tunnel};
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    /// The connection to the proxy has opened. Ask for a tunnel if the connection goes through one;
    /// returns whether it does.
    #[cold]
    pub(super) fn begin_tunnel(&mut self, slot: u32) -> bool {
        let Some(to) = self.plan.tunnel_to(self.links[slot].endpoint) else { return false };
        let proxy = self.plan.proxy.as_deref();
        let authorization = proxy.and_then(|proxy| proxy.authorization.as_ref());
        let tunnel = Tunnel::new(&to, authorization.map(|secret| secret.expose()));
        let conn = &mut self.links[slot];
        conn.state = State::Tunneling;
        conn.layer = Layer::Tunnel(Box::new(tunnel));
        self.transmit(slot);
        true
    }

    /// Bytes have arrived from the proxy.
    #[cold]
    pub(super) fn received_from_proxy(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let slot = id.slot;
        let conn = &mut self.links[slot];
        let Layer::Tunnel(tunnel) = &mut conn.layer else { return };
        let (asked, took) = (conn.connect_began, now.since(conn.opened));
        match tunnel.receive(data) {
            Ok(None) => self.recorder.bytes_received(now, data.len() as u64),
            Ok(Some(used)) => {
                conn.layer = Layer::Plain;
                // The handshake starts now.
                conn.opened = now;
                self.recorder.bytes_received(now, used as u64);
                self.recorder.tunnel_opened(asked, took);
                self.reached(slot, now);
                // Not by `link_received`: it is not inlined any more if it can call itself.
                if used < data.len() && self.links.live(id) {
                    match self.links[slot].layer {
                        Layer::Plain => self.received(slot, &data[used..], now),
                        _ => self.received_records(id, &mut data[used..], now),
                    }
                }
            }
            Err(why) => {
                self.recorder.bytes_received(now, data.len() as u64);
                self.recorder.no_tunnel(asked, why);
                self.abandon(slot, Some(Fault::NoTunnel), CloseHow::Orderly, now);
            }
        }
    }

    /// The proxy has closed the connection before the tunnel was open. Returns the fault of the
    /// requests that waited for it.
    #[cold]
    pub(super) fn tunnel_ended(&mut self, slot: u32, why: Option<Fault>) -> Fault {
        if let Some(fault) = why.filter(|fault| fault.is_meters_own()) {
            return fault;
        }
        self.recorder.no_tunnel(self.links[slot].connect_began, NoTunnel::Closed);
        Fault::NoTunnel
    }
}
