//! A hub: one socket and all its associations. It assigns packets to associations, and rejects
//! other packets.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use prony_base::units::{ConnId, Nanos};
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig,
    EndpointEvent, ServerConfig,
};

use super::association::{Assoc, State};
use super::packet_socket::{PacketSocket, ReservedPort};
use super::settings::STREAMS;
use super::wire::{self, Header, kind};
use super::{Listener, Settings, Via};

/// The maximum number of associations of a listener; further ones are rejected.
const ASSOCIATIONS_MAX: usize = 1_024;
/// The first dynamic port (RFC 6335), and the number of dynamic ports.
const DYNAMIC_PORTS: u16 = 49_152;
const DYNAMIC_PORT_COUNT: u16 = 16_384;
/// How many ports to try if some are in use.
const PORT_TRIES: u16 = 64;

/// The hub of an association, and its handle there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) hub: u32,
    pub(super) handle: u32,
}

/// The effect of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketEffect {
    /// No effect on an association.
    None,
    /// An association has received it.
    Received(u32),
    /// The peer has aborted the association.
    Aborted(u32),
    /// The peer has violated the protocol: abort the association.
    Violation(u32),
}

/// A socket and its associations.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) socket: PacketSocket,
    endpoint: Endpoint,
    via: Via,
    /// The index and port of a listener.
    listening: Option<(u32, u16)>,
    /// Otherwise the endpoint in the plan.
    endpoint_index: u32,
    /// Whether further associations to this endpoint use it, too.
    pub(super) is_shared: bool,
    assocs: Vec<Option<Box<Assoc>>>,
    open: usize,
    is_closed: bool,
    next_port: u16,
    /// The reservation of a listener's port.
    _port: Option<ReservedPort>,
}

/// The parts of a packet that decide how to handle it.
struct PacketInfo {
    header: Header,
    first: u8,
    aborts: bool,
    reflected: bool,
    violates: bool,
}

impl Hub {
    /// A hub for associations to one host.
    pub(super) fn connecting(
        settings: &Settings,
        endpoint_index: u32,
        source: Option<IpAddr>,
        to: IpAddr,
    ) -> io::Result<Self> {
        let any = match to {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let local = SocketAddr::new(source.unwrap_or(any), 0);
        let peer = PacketSocket::address(settings.via, to, settings.udp_port);
        let socket = PacketSocket::open(settings.via, local, Some(peer))?;
        let mut endpoint = endpoint(settings, 1);
        endpoint.reject_new_associations();
        Ok(Self {
            socket,
            endpoint,
            via: settings.via,
            listening: None,
            endpoint_index,
            is_shared: false,
            assocs: Vec::new(),
            open: 0,
            is_closed: false,
            next_port: (RandomState::new().build_hasher().finish() % u64::from(DYNAMIC_PORT_COUNT))
                as u16,
            _port: None,
        })
    }

    /// A hub for a listener.
    pub(super) fn listening(listener: Listener, index: u32) -> Self {
        let Listener { socket, settings, port, reserved, .. } = listener;
        Self {
            socket,
            endpoint: endpoint(&settings, port),
            via: settings.via,
            listening: Some((index, port)),
            endpoint_index: 0,
            is_shared: false,
            assocs: Vec::new(),
            open: 0,
            is_closed: false,
            next_port: 0,
            _port: reserved,
        }
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening.is_some()
    }

    /// The index of the listener.
    pub(super) fn listener(&self) -> Option<u32> {
        self.listening.map(|(index, _)| index)
    }

    /// Whether associations to this endpoint share it.
    pub(super) fn is_shared_by(&self, endpoint: u32) -> bool {
        self.is_shared && self.listening.is_none() && self.endpoint_index == endpoint
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// The handles of all associations.
    pub(super) fn handles(&self) -> Vec<u32> {
        let all = self.assocs.iter().enumerate();
        all.filter(|(_, a)| a.is_some()).map(|(i, _)| i as u32).collect()
    }

    pub(super) fn assoc(&mut self, handle: u32) -> Option<&mut Assoc> {
        self.assocs.get_mut(handle as usize)?.as_deref_mut()
    }

    /// Start to open an association; `port`: the local port, 0 = any.
    pub(super) fn connect(
        &mut self,
        settings: &Settings,
        to: SocketAddr,
        port: u16,
        id: ConnId,
        now: Nanos,
    ) -> io::Result<u32> {
        let (port, reserved) = self.free_port(port)?;
        let mut config = ClientConfig::new();
        config.transport = settings.transport(port, to.port());
        let remote = PacketSocket::address(self.via, to.ip(), settings.udp_port);
        let opened = self.endpoint.connect(config, remote);
        let (handle, proto) =
            opened.map_err(|_| io::Error::from_raw_os_error(libc::EADDRNOTAVAIL))?;
        Ok(self.insert(handle, proto, Some(id), remote, now, reserved))
    }

    /// Handle a packet.
    pub(super) fn receive(
        &mut self,
        packet: &[u8],
        from: SocketAddr,
        at: Instant,
        now: Nanos,
    ) -> PacketEffect {
        let Some(info) = PacketInfo::at(packet) else { return PacketEffect::None };
        if info.reflected {
            // The crate finds associations only by their own tag.
            return self.reflected(packet, info.header);
        }
        let is_first = info.first == kind::INIT && info.header.tag == 0;
        if is_first && !self.accepts(info.header) {
            self.reject(packet, from, info.header);
            return PacketEffect::None;
        }
        let handled = self.endpoint.handle(at, from, None, None, Bytes::copy_from_slice(packet));
        match handled {
            None => {
                self.reject(packet, from, info.header);
                PacketEffect::None
            }
            Some((handle, DatagramEvent::NewAssociation(proto))) => {
                let handle = self.insert(handle, proto, None, from, now, None);
                self.assoc(handle).into_iter().for_each(|a| a.on_received(packet));
                PacketEffect::Received(handle)
            }
            Some((handle, DatagramEvent::AssociationEvent(event))) => {
                let handle = handle.0 as u32;
                let Some(a) = self.assoc(handle) else { return PacketEffect::None };
                if info.violates {
                    return PacketEffect::Violation(handle);
                }
                // A duplicate of the packet that opened it: the crate would end the association.
                if info.first == kind::INIT && a.state != State::Opening {
                    return PacketEffect::None;
                }
                a.since = now;
                a.on_received(packet);
                a.proto.handle_event(event);
                if info.aborts {
                    PacketEffect::Aborted(handle)
                } else {
                    PacketEffect::Received(handle)
                }
            }
        }
    }

    /// Send the packets of an association. Returns whether the last packet was among them, and the
    /// kernel's error if sending failed permanently.
    pub(super) fn flush(&mut self, handle: u32, now: Instant) -> Option<(bool, Option<i32>)> {
        let (socket, mut error) = (&self.socket, None);
        let a = self.assocs.get_mut(handle as usize)?.as_deref_mut()?;
        let remote = a.remote;
        let is_last = a.packets(now, &mut |packet| {
            if let Err(e) = socket.send(packet, remote) {
                let e = e.raw_os_error().unwrap_or(libc::EINVAL);
                // A packet for which the socket has no room is lost, as in the network.
                if !matches!(e, libc::EAGAIN | libc::ENOBUFS | libc::EINTR) {
                    error = Some(e);
                }
            }
        });
        Some((is_last, error))
    }

    /// Send an ABORT to the peer.
    pub(super) fn send_abort(&mut self, handle: u32) {
        let Some(a) = self.assoc(handle) else { return };
        let remote = a.remote;
        if let Some(packet) = a.abort() {
            // If it is lost, the peer will time out.
            drop(self.socket.send(&packet, remote));
        }
    }

    pub(super) fn remove(&mut self, handle: u32) -> Option<Box<Assoc>> {
        let a = self.assocs.get_mut(handle as usize)?.take()?;
        self.open -= 1;
        // The crate returns nothing for this event.
        let event = EndpointEvent::drained();
        drop(self.endpoint.handle_event(AssociationHandle(handle as usize), event));
        Some(a)
    }

    fn insert(
        &mut self,
        handle: AssociationHandle,
        proto: Association,
        id: Option<ConnId>,
        remote: SocketAddr,
        now: Nanos,
        port: Option<ReservedPort>,
    ) -> u32 {
        let slot = handle.0;
        if slot >= self.assocs.len() {
            self.assocs.resize_with(slot + 1, || None);
        }
        self.assocs[slot] = Some(Box::new(Assoc::new(proto, id, remote, now, port)));
        self.open += 1;
        slot as u32
    }

    /// Accept no more associations.
    pub(super) fn stop_accepting(&mut self) {
        self.is_closed = true;
    }

    /// Whether to accept a new association.
    fn accepts(&self, header: Header) -> bool {
        let is_own_port = self.listening.is_some_and(|(_, port)| port == header.destination);
        is_own_port && !self.is_closed && header.source != 0 && self.open < ASSOCIATIONS_MAX
    }

    /// Reply to a packet of no association. Over IP, every process gets every packet, so it may
    /// belong to another process.
    fn reject(&self, packet: &[u8], from: SocketAddr, header: Header) {
        let is_own_port = self.listening.is_some_and(|(_, port)| port == header.destination);
        if (self.via == Via::Udp || is_own_port)
            && let Some(reply) = wire::stray_reply(packet)
        {
            drop(self.socket.send(&reply, from));
        }
    }

    /// Handle an ABORT with a reflected tag: the peer has no such association, because it was
    /// removed or the peer restarted.
    fn reflected(&self, packet: &[u8], header: Header) -> PacketEffect {
        if !wire::is_intact(packet) {
            return PacketEffect::None;
        }
        let is_reflected =
            |a: &Option<Box<Assoc>>| a.as_ref().is_some_and(|a| a.is_reflected(header));
        let found = self.assocs.iter().position(is_reflected);
        found.map_or(PacketEffect::None, |handle| PacketEffect::Aborted(handle as u32))
    }

    fn free_port(&mut self, requested: u16) -> io::Result<(u16, Option<ReservedPort>)> {
        let mut tries = 0;
        loop {
            let port = if requested == 0 { DYNAMIC_PORTS + self.next_port } else { requested };
            self.next_port = (self.next_port + 1) % DYNAMIC_PORT_COUNT;
            if self.via == Via::Udp {
                return Ok((port, None));
            }
            tries += 1;
            match ReservedPort::new(port) {
                Err(e)
                    if e.kind() == io::ErrorKind::AddrInUse
                        && requested == 0
                        && tries < PORT_TRIES => {}
                reserved => return reserved.map(|reserved| (port, Some(reserved))),
            }
        }
    }
}

impl PacketInfo {
    fn at(packet: &[u8]) -> Option<Self> {
        let (header, first) = (Header::read(packet)?, wire::first(packet)?);
        let mut info = Self { header, first, aborts: false, reflected: false, violates: false };
        for chunk in wire::chunks(packet) {
            if chunk.kind == kind::ABORT {
                info.aborts = true;
                info.reflected |= chunk.is_reflected();
            }
            // The crate would allocate state for each stream.
            info.violates |= chunk.data().is_some_and(|(_, stream)| stream >= STREAMS);
        }
        Some(info)
    }
}

fn endpoint(settings: &Settings, port: u16) -> Endpoint {
    // Needed even without a listener: the crate panics without a server configuration when a peer
    // opens an association.
    let mut server = ServerConfig::new();
    server.transport = settings.transport(port, port);
    Endpoint::new(Arc::new(EndpointConfig::new()), Some(Arc::new(server)))
}
