//! Sockets for SCTP packets: over UDP (RFC 6951) or directly over IP.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixDatagram;

use socket2::{Domain, Protocol, Socket, Type};

use super::Via;

/// The IP protocol number of SCTP.
const PROTOCOL: u16 = 132;
/// The requested size of the receive buffer: a long message arrives as a burst of packets.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A socket for SCTP packets.
#[derive(Debug)]
pub(super) struct PacketSocket {
    socket: UdpSocket,
    via: Via,
    is_connected: bool,
    is_ipv6: bool,
}

/// An SCTP port reserved for this process. Over IP the kernel does not reserve it.
#[derive(Debug)]
pub(super) struct ReservedPort {
    _lock: UnixDatagram,
}

impl PacketSocket {
    /// A socket bound to `local`. With a `peer` it is connected, and also reports errors.
    pub(super) fn open(via: Via, local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Self> {
        let domain = Domain::for_address(local);
        let socket = match via {
            Via::Udp => Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?,
            Via::Raw => Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(PROTOCOL))))?,
        };
        socket.set_nonblocking(true)?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        socket.bind(&local.into())?;
        if let Some(peer) = peer {
            socket.connect(&peer.into())?;
        }
        let is_connected = peer.is_some();
        Ok(Self { socket: socket.into(), via, is_connected, is_ipv6: local.is_ipv6() })
    }

    /// The socket address for a peer; `port` is its UDP port.
    pub(super) fn address(via: Via, peer: IpAddr, port: u16) -> SocketAddr {
        match via {
            Via::Udp => SocketAddr::new(peer, port),
            Via::Raw => SocketAddr::new(peer, PROTOCOL),
        }
    }

    /// The local address.
    pub(super) fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Send one packet.
    pub(super) fn send(&self, packet: &[u8], to: SocketAddr) -> io::Result<()> {
        let sent = if self.is_connected {
            self.socket.send(packet)
        } else {
            self.socket.send_to(packet, to)
        };
        sent.map(drop)
    }

    /// Receive one packet. Returns its range in `buf` and its sender.
    pub(super) fn receive(&self, buf: &mut [u8]) -> io::Result<(Range<usize>, SocketAddr)> {
        let (n, from) = self.socket.recv_from(buf)?;
        let (skip, from) = match self.via {
            Via::Udp => (0, from),
            Via::Raw if self.is_ipv6 => (0, Self::address(self.via, from.ip(), 0)),
            // Raw IPv4 sockets return the IP header; its length is in the first byte.
            Via::Raw => {
                let head = usize::from(buf.first().map_or(0, |first| first & 15)) * 4;
                (head.min(n), Self::address(self.via, from.ip(), 0))
            }
        };
        Ok((skip..n, from))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl ReservedPort {
    /// Reserve the port for this process. Fails with `AddrInUse` if another process has it. The
    /// lock is an abstract unix socket, which belongs to the network namespace, as ports do.
    pub(super) fn new(port: u16) -> io::Result<Self> {
        let name = format!("prony-sctp-{port}");
        let addr = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        Ok(Self { _lock: UnixDatagram::bind_addr(&addr)? })
    }
}
