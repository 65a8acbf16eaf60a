//! What carries SCTP's packets: UDP (RFC 6951), or IP itself.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixDatagram;

use socket2::{Domain, Protocol, Socket, Type};

use super::Via;

/// SCTP's number among the protocols over IP.
const PROTOCOL: u16 = 132;
/// Bytes of packets that may wait to be read, as far as the kernel allows: a long message is a
/// burst of packets.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A socket for SCTP's packets.
#[derive(Debug)]
pub(super) struct Link {
    socket: UdpSocket,
    via: Via,
    is_connected: bool,
    is_ipv6: bool,
}

/// A port of SCTP that this process alone uses; over IP nobody else would watch over that.
#[derive(Debug)]
pub(super) struct Reserved {
    _guard: UnixDatagram,
}

impl Link {
    /// A socket of that address, for all peers or for one alone, of which errors are told, too.
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

    /// Where a peer of that address is reached; `port` is its UDP port.
    pub(super) fn place(via: Via, peer: IpAddr, port: u16) -> SocketAddr {
        match via {
            Via::Udp => SocketAddr::new(peer, port),
            Via::Raw => SocketAddr::new(peer, PROTOCOL),
        }
    }

    /// The address of the socket.
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

    /// Receive one packet: where it lies in `buf`, and whose it is.
    pub(super) fn receive(&self, buf: &mut [u8]) -> io::Result<(Range<usize>, SocketAddr)> {
        let (n, from) = self.socket.recv_from(buf)?;
        let (skip, from) = match self.via {
            Via::Udp => (0, from),
            Via::Raw if self.is_ipv6 => (0, Self::place(self.via, from.ip(), 0)),
            // Raw IPv4 sockets are given the header of IP, whose length is told in its first byte.
            Via::Raw => {
                let head = usize::from(buf.first().map_or(0, |first| first & 15)) * 4;
                (head.min(n), Self::place(self.via, from.ip(), 0))
            }
        };
        Ok((skip..n, from))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Reserved {
    /// Take the port for this process, or fail with `AddrInUse` where another has it. What stands
    /// guard is a name among those of this network namespace, as ports are.
    pub(super) fn new(port: u16) -> io::Result<Self> {
        let name = format!("prony-sctp-{port}");
        let addr = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        Ok(Self { _guard: UnixDatagram::bind_addr(&addr)? })
    }
}
