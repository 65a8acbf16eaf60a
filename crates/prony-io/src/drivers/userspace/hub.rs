//! One socket with all associations that go over it: packets find theirs, or are turned away.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use prony_core::units::{ConnId, Nanos};
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig,
    EndpointEvent, ServerConfig,
};

use super::association::{Assoc, STREAMS, State};
use super::link::{Link, Reserved};
use super::wire::{self, Header, kind};
use super::{Listener, Settings, Via};

/// Associations of a listener; who comes when there are so many is refused.
const ASSOCIATIONS_MAX: usize = 1_024;
/// The first of the ports that are for whoever comes (RFC 6335), and how many there are.
const FIRST: u16 = 49_152;
const COUNT: u16 = 16_384;
/// How many of them are tried where others have some.
const TRIES: u16 = 64;

/// Where an association is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) hub: u32,
    pub(super) handle: u32,
}

/// What a packet has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing that matters.
    Nothing,
    /// The association has heard something.
    Heard(u32),
    /// The peer has ended it at once.
    Aborted(u32),
    /// The peer does what it must not: it is to be ended at once.
    Violated(u32),
}

/// A socket and its associations.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) link: Link,
    endpoint: Endpoint,
    via: Via,
    /// Of a listener: its index and its port.
    listening: Option<(u32, u16)>,
    /// Of the others: where its associations go to, as the plan counts.
    towards: u32,
    /// Whether further associations to there use it, too.
    pub(super) is_shared: bool,
    assocs: Vec<Option<Box<Assoc>>>,
    open: usize,
    is_shut: bool,
    next_port: u16,
    /// A listener's port is its own.
    _port: Option<Reserved>,
}

/// What is to be known of a packet before it is handed on.
struct Look {
    header: Header,
    first: u8,
    aborts: bool,
    reflected: bool,
    violates: bool,
}

impl Hub {
    /// One for associations to that host.
    pub(super) fn connecting(
        settings: &Settings,
        towards: u32,
        source: Option<IpAddr>,
        to: IpAddr,
    ) -> io::Result<Self> {
        let any = match to {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let local = SocketAddr::new(source.unwrap_or(any), 0);
        let peer = Link::place(settings.via, to, settings.udp_port);
        let link = Link::open(settings.via, local, Some(peer))?;
        let mut endpoint = endpoint(settings, 1);
        endpoint.reject_new_associations();
        Ok(Self {
            link,
            endpoint,
            via: settings.via,
            listening: None,
            towards,
            is_shared: false,
            assocs: Vec::new(),
            open: 0,
            is_shut: false,
            next_port: (RandomState::new().build_hasher().finish() % u64::from(COUNT)) as u16,
            _port: None,
        })
    }

    /// One for whoever comes.
    pub(super) fn listening(listener: Listener, index: u32) -> Self {
        let Listener { link, settings, port, reserved, .. } = listener;
        Self {
            link,
            endpoint: endpoint(&settings, port),
            via: settings.via,
            listening: Some((index, port)),
            towards: 0,
            is_shared: false,
            assocs: Vec::new(),
            open: 0,
            is_shut: false,
            next_port: 0,
            _port: reserved,
        }
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening.is_some()
    }

    /// The listener's index.
    pub(super) fn listener(&self) -> Option<u32> {
        self.listening.map(|(index, _)| index)
    }

    /// Whether associations to that endpoint share it.
    pub(super) fn is_shared_by(&self, endpoint: u32) -> bool {
        self.is_shared && self.listening.is_none() && self.towards == endpoint
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// All associations that there are.
    pub(super) fn handles(&self) -> Vec<u32> {
        let all = self.assocs.iter().enumerate();
        all.filter(|(_, a)| a.is_some()).map(|(i, _)| i as u32).collect()
    }

    pub(super) fn assoc(&mut self, handle: u32) -> Option<&mut Assoc> {
        self.assocs.get_mut(handle as usize)?.as_deref_mut()
    }

    /// Begin to open an association; `port`: its own, 0 = any.
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
        let remote = Link::place(self.via, to.ip(), settings.udp_port);
        let opened = self.endpoint.connect(config, remote);
        let (handle, proto) =
            opened.map_err(|_| io::Error::from_raw_os_error(libc::EADDRNOTAVAIL))?;
        Ok(self.insert(handle, proto, Some(id), remote, now, reserved))
    }

    /// What a packet is for.
    pub(super) fn receive(
        &mut self,
        packet: &[u8],
        from: SocketAddr,
        at: Instant,
        now: Nanos,
    ) -> Fate {
        let Some(look) = Look::at(packet) else { return Fate::Nothing };
        if look.reflected {
            // The crate knows associations by their own tag only.
            return self.reflected(packet, look.header);
        }
        let is_first = look.first == kind::INIT && look.header.tag == 0;
        if is_first && !self.lets_in(look.header) {
            self.turn_away(packet, from, look.header);
            return Fate::Nothing;
        }
        let handed = self.endpoint.handle(at, from, None, None, Bytes::copy_from_slice(packet));
        match handed {
            None => {
                self.turn_away(packet, from, look.header);
                Fate::Nothing
            }
            Some((handle, DatagramEvent::NewAssociation(proto))) => {
                let handle = self.insert(handle, proto, None, from, now, None);
                self.assoc(handle).into_iter().for_each(|a| a.hear(packet));
                Fate::Heard(handle)
            }
            Some((handle, DatagramEvent::AssociationEvent(event))) => {
                let handle = handle.0 as u32;
                let Some(a) = self.assoc(handle) else { return Fate::Nothing };
                if look.violates {
                    return Fate::Violated(handle);
                }
                // A late double of the packet that opened it: the crate would end it.
                if look.first == kind::INIT && a.state != State::Opening {
                    return Fate::Nothing;
                }
                a.since = now;
                a.hear(packet);
                a.proto.handle_event(event);
                if look.aborts { Fate::Aborted(handle) } else { Fate::Heard(handle) }
            }
        }
    }

    /// Send what an association has to send: whether that was its last word, and what the kernel
    /// said where it took nothing for good.
    pub(super) fn flush(&mut self, handle: u32, now: Instant) -> Option<(bool, Option<i32>)> {
        let (link, mut trouble) = (&self.link, None);
        let a = self.assocs.get_mut(handle as usize)?.as_deref_mut()?;
        let remote = a.remote;
        let is_last = a.packets(now, &mut |packet| {
            if let Err(e) = link.send(packet, remote) {
                let e = e.raw_os_error().unwrap_or(libc::EINVAL);
                // A packet for which there is no room is lost, as on the way.
                if !matches!(e, libc::EAGAIN | libc::ENOBUFS | libc::EINTR) {
                    trouble = Some(e);
                }
            }
        });
        Some((is_last, trouble))
    }

    /// Tell the peer that the association is over.
    pub(super) fn say_abort(&mut self, handle: u32) {
        let Some(a) = self.assoc(handle) else { return };
        let remote = a.remote;
        if let Some(packet) = a.abort() {
            // If it is lost, the peer finds out by itself.
            drop(self.link.send(&packet, remote));
        }
    }

    pub(super) fn remove(&mut self, handle: u32) -> Option<Box<Assoc>> {
        let a = self.assocs.get_mut(handle as usize)?.take()?;
        self.open -= 1;
        // Asked for by us alone, so the crate has nothing to answer.
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
        port: Option<Reserved>,
    ) -> u32 {
        let slot = handle.0;
        if slot >= self.assocs.len() {
            self.assocs.resize_with(slot + 1, || None);
        }
        self.assocs[slot] = Some(Box::new(Assoc::new(proto, id, remote, now, port)));
        self.open += 1;
        slot as u32
    }

    /// Let nobody in from now on.
    pub(super) fn shut(&mut self) {
        self.is_shut = true;
    }

    /// Whether somebody who wants to open an association may.
    fn lets_in(&self, header: Header) -> bool {
        let here = self.listening.is_some_and(|(_, port)| port == header.destination);
        here && !self.is_shut && header.source != 0 && self.open < ASSOCIATIONS_MAX
    }

    /// Answer a packet that belongs to nobody. Over IP everybody hears every packet, so that it may
    /// belong to somebody else.
    fn turn_away(&self, packet: &[u8], from: SocketAddr, header: Header) {
        let mine = self.listening.is_some_and(|(_, port)| port == header.destination);
        if (self.via == Via::Udp || mine)
            && let Some(answer) = wire::stray_answer(packet)
        {
            drop(self.link.send(&answer, from));
        }
    }

    /// The peer knows nothing of the association: it has forgotten it, or has begun anew.
    fn reflected(&self, packet: &[u8], header: Header) -> Fate {
        if !wire::is_intact(packet) {
            return Fate::Nothing;
        }
        let is_it = |a: &Option<Box<Assoc>>| a.as_ref().is_some_and(|a| a.is_to(header));
        let found = self.assocs.iter().position(is_it);
        found.map_or(Fate::Nothing, |handle| Fate::Aborted(handle as u32))
    }

    fn free_port(&mut self, wish: u16) -> io::Result<(u16, Option<Reserved>)> {
        let mut tries = 0;
        loop {
            let port = if wish == 0 { FIRST + self.next_port } else { wish };
            self.next_port = (self.next_port + 1) % COUNT;
            if self.via == Via::Udp {
                return Ok((port, None));
            }
            tries += 1;
            match Reserved::new(port) {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse && wish == 0 && tries < TRIES => {}
                reserved => return reserved.map(|reserved| (port, Some(reserved))),
            }
        }
    }
}

impl Look {
    fn at(packet: &[u8]) -> Option<Self> {
        let (header, first) = (Header::read(packet)?, wire::first(packet)?);
        let mut look = Self { header, first, aborts: false, reflected: false, violates: false };
        for chunk in wire::chunks(packet) {
            if chunk.kind == kind::ABORT {
                look.aborts = true;
                look.reflected |= chunk.is_reflected();
            }
            // The crate would keep something for each stream that is named.
            look.violates |= chunk.data().is_some_and(|(_, stream)| stream >= STREAMS);
        }
        Some(look)
    }
}

fn endpoint(settings: &Settings, port: u16) -> Endpoint {
    // Also where nobody is let in: without it, the crate would fall over the first who wants in.
    let mut server = ServerConfig::new();
    server.transport = settings.transport(port, port);
    Endpoint::new(Arc::new(EndpointConfig::new()), Some(Arc::new(server)))
}
