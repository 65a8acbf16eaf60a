//! The remote and local addresses of connections.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};

use prony_base::fault::{Fault, FaultClass};

use super::config::Config;
use crate::net::errno;
use crate::net::ports::Ports;
use crate::net::socket::options::SocketOptions;
use crate::net::socket::sctp::{Style, Tuning};
use crate::net::socket::{self, Mode, Remote};

/// The remote and local addresses of connections.
#[derive(Debug)]
pub(crate) struct Network {
    endpoints: Vec<Vec<Remote>>,
    /// Per endpoint, the index of the address that last accepted a connection. It is tried first.
    preferred: Vec<u32>,
    sources: Vec<IpAddr>,
    next_source: usize,
    sockets: SocketOptions,
    ports: Ports,
}

impl Network {
    /// Takes endpoints and sources out of the configuration.
    pub(crate) fn new(config: &mut Config) -> Self {
        let endpoints = std::mem::take(&mut config.endpoints);
        Self {
            preferred: vec![0; endpoints.len()],
            endpoints,
            sources: std::mem::take(&mut config.sources),
            next_source: 0,
            sockets: config.sockets,
            ports: Ports::new(config.worker.0, config.worker.1),
        }
    }

    /// The `tried`-th address to try for the endpoint; `None` after the last.
    pub(crate) fn remote(&self, endpoint: u32, tried: u16) -> Option<&Remote> {
        let all = &self.endpoints[endpoint as usize];
        let first = self.preferred[endpoint as usize] as usize;
        (usize::from(tried) < all.len()).then(|| &all[(first + usize::from(tried)) % all.len()])
    }

    /// The `tried`-th address has accepted a connection.
    pub(crate) fn accepted(&mut self, endpoint: u32, tried: u16) {
        if tried > 0 {
            let n = self.endpoints[endpoint as usize].len() as u32;
            let first = &mut self.preferred[endpoint as usize];
            *first = (*first + u32::from(tried)) % n;
        }
    }

    /// A new socket for this address, bound to the next source address of its family.
    pub(crate) fn socket(&mut self, endpoint: u32, tried: u16, mode: Mode) -> Result<OwnedFd, i32> {
        let source = self.source_for(endpoint, tried);
        let Some(remote) = self.remote(endpoint, tried) else { return Err(libc::EADDRNOTAVAIL) };
        if let Some(style) = remote.sctp() {
            return self.sctp_socket(remote, style, mode);
        }
        let to = remote.as_inet().filter(|_| self.sockets.all_ports);
        let port = self.sockets.port;
        let any = remote.as_inet().map_or_else(|| Ipv4Addr::UNSPECIFIED.into(), any_of);
        let fd = remote.socket(if to.is_some() || port != 0 { None } else { source }, mode)?;
        if let Some(to) = to {
            self.ports.bind(&fd, source, to)?;
        } else if port != 0 {
            let own = SocketAddr::new(source.unwrap_or(any), port);
            socket::bind(&fd, own)?;
        }
        self.set_up(&fd);
        Ok(fd)
    }

    /// An association uses all source addresses of its family at once.
    fn sctp_socket(&self, remote: &Remote, style: Style, mode: Mode) -> Result<OwnedFd, i32> {
        let Some(to) = remote.as_inet() else { return Err(libc::EAFNOSUPPORT) };
        let SocketOptions { port, nagle, rto, .. } = self.sockets;
        let fits = |s: &&IpAddr| s.is_ipv4() == to.is_ipv4();
        let mut sources: Vec<_> =
            self.sources.iter().filter(fits).map(|&s| SocketAddr::new(s, port)).collect();
        if sources.is_empty() && port != 0 {
            sources.push(SocketAddr::new(any_of(to), port));
        }
        let fd = remote
            .sctp_socket(style, &sources, mode, &Tuning { nagle, rto })
            .map_err(|e| e.raw_os_error().unwrap_or(libc::EINVAL))?;
        self.set_up(&fd);
        Ok(fd)
    }

    /// Set the requested options on a new socket.
    fn set_up(&self, fd: &OwnedFd) {
        if self.sockets.reset {
            socket::reset_on_close(fd);
        }
        socket::options::apply(fd.as_raw_fd(), &self.sockets);
    }

    /// Why the connection to this address failed. The kernel returns the same error if no port is
    /// free and if this host has no address to connect from.
    pub(crate) fn connect_fault(&self, endpoint: u32, tried: u16, e: i32) -> Fault {
        let to = self.remote(endpoint, tried).and_then(Remote::as_inet);
        match (e, to) {
            (libc::EADDRNOTAVAIL, Some(to)) if !self.has_address_for(to) => Fault::NoAddress,
            _ => errno::connect_fault(e),
        }
    }

    /// Whether this host has addresses to connect from. Tested with UDP: its ports are separate,
    /// and its connect sends nothing.
    #[cold]
    fn has_address_for(&self, to: SocketAddr) -> bool {
        let is_missing = |result: io::Result<()>| {
            result.is_err_and(|e| e.raw_os_error() == Some(libc::EADDRNOTAVAIL))
        };
        let fits = |source: &&IpAddr| source.is_ipv4() == to.is_ipv4();
        let mut sources = self.sources.iter().filter(fits).peekable();
        if sources.peek().is_none() {
            let any = UdpSocket::bind((any_of(to), 0));
            return !is_missing(any.and_then(|socket| socket.connect(to)));
        }
        !sources.any(|&source| is_missing(UdpSocket::bind((source, 0)).map(drop)))
    }

    /// The next source address of the target's family.
    pub(crate) fn source_for(&mut self, endpoint: u32, tried: u16) -> Option<IpAddr> {
        if self.sources.is_empty() {
            return None;
        }
        let to = self.remote(endpoint, tried)?.as_inet()?;
        let n = self.sources.len();
        let i = (0..n)
            .map(|k| (self.next_source + k) % n)
            .find(|&i| self.sources[i].is_ipv4() == to.is_ipv4())?;
        self.next_source = (i + 1) % n;
        Some(self.sources[i])
    }
}

/// The unspecified address of the same family.
fn any_of(addr: SocketAddr) -> IpAddr {
    match addr {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Whether another address of the endpoint may succeed. Shortages of this host affect all addresses
/// alike, but it may have addresses of one family only.
pub(crate) fn tries_next(fault: Fault) -> bool {
    fault.class() == FaultClass::Connect
        || matches!(fault, Fault::ConnectTimeout | Fault::NoAddress)
}

#[cfg(test)]
mod tests {
    use prony_plan::target::Carrier;

    use super::*;
    use crate::time::sleep::Precision;

    fn inet(s: &str) -> Remote {
        Remote::inet(s.parse().unwrap())
    }

    fn network(endpoints: Vec<Vec<Remote>>, sources: Vec<IpAddr>) -> Network {
        Network::new(&mut Config {
            endpoints,
            listeners: Vec::new(),
            dedicated: None,
            sources,
            sockets: SocketOptions::default(),
            worker: (0, 1),
            precision: Precision::Sleep,
            tcp_info: false,
            timestamps: false,
        })
    }

    #[test]
    fn addresses_are_tried_in_order_from_the_last_that_accepted() {
        let all = vec![inet("127.0.0.1:1"), inet("127.0.0.2:2"), inet("127.0.0.3:3")];
        let mut n = network(vec![all], Vec::new());
        let order = |n: &Network| {
            (0..4).map_while(|t| n.remote(0, t)).map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(order(&n), ["127.0.0.1:1", "127.0.0.2:2", "127.0.0.3:3"]);
        n.accepted(0, 1);
        assert_eq!(order(&n), ["127.0.0.2:2", "127.0.0.3:3", "127.0.0.1:1"]);
        n.accepted(0, 2);
        assert_eq!(order(&n), ["127.0.0.1:1", "127.0.0.2:2", "127.0.0.3:3"]);
    }

    #[test]
    fn connect_fault_distinguishes_missing_addresses_from_missing_ports() {
        let fault = |to, sources: &[&str], e| {
            let sources = sources.iter().map(|s| s.parse().unwrap()).collect();
            network(vec![vec![inet(to)]], sources).connect_fault(0, 0, e)
        };
        let e = libc::EADDRNOTAVAIL;
        // 192.0.2.0/24 and 2001:db8::/32 are reserved for documentation; no host has them.
        assert_eq!(fault("127.0.0.1:1", &[], e), Fault::NoPorts);
        assert_eq!(fault("127.0.0.1:1", &["127.0.0.2"], e), Fault::NoPorts);
        assert_eq!(fault("127.0.0.1:1", &["127.0.0.2", "192.0.2.1"], e), Fault::NoAddress);
        assert_eq!(fault("127.0.0.1:1", &["127.0.0.2", "2001:db8::1"], e), Fault::NoPorts);
        assert_eq!(fault("127.0.0.1:1", &["192.0.2.1"], libc::ECONNREFUSED), Fault::ConnectRefused);
        // Another address of the target may be of another family, but it has the same local ports.
        assert_eq!([Fault::NoAddress, Fault::NoPorts].map(tries_next), [true, false]);
    }

    /// On every kind of socket, not only on SCTP's.
    #[test]
    fn sockets_get_the_requested_options() {
        let all = [inet("127.0.0.1:1"), inet("127.0.0.1:1").over(Carrier::Udp)];
        let mut n = network(all.map(|one| vec![one]).to_vec(), vec!["127.0.0.2".parse().unwrap()]);
        n.sockets.nagle = true;
        n.sockets.tos = Some(40);
        n.sockets.send_buffer = Some(30_000);
        for endpoint in [0, 1] {
            let fd = n.socket(endpoint, 0, Mode::NonBlocking).unwrap();
            let socket = socket2::Socket::from(fd);
            assert_eq!(socket.tos_v4().unwrap(), 40);
            assert_eq!(socket.send_buffer_size().unwrap(), 60_000);
            let local = socket.local_addr().unwrap().as_socket().unwrap();
            assert_eq!(local.ip().to_string(), "127.0.0.2");
            if endpoint == 0 {
                assert!(!socket.tcp_nodelay().unwrap());
            }
        }
    }

    #[test]
    fn sources_rotate_within_the_family() {
        let sources = ["127.0.0.2", "::1", "127.0.0.3"].map(|s| s.parse().unwrap()).to_vec();
        let mut n = network(vec![vec![inet("127.0.0.1:1")]], sources);
        let picked: Vec<_> = (0..3).map(|_| n.source_for(0, 0).unwrap().to_string()).collect();
        assert_eq!(picked, ["127.0.0.2", "127.0.0.3", "127.0.0.2"]);
    }
}
