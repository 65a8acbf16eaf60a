//! What the drivers have in common: what they are given, what they tell, and how connections are
//! opened.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use prony_core::fault::{Fault, FaultClass};
use prony_core::summary::{Sctp, Stalls, StampClock, Transport};
use prony_core::units::{Nanos, Span};

use crate::desk::Desk;
use crate::errno;
use crate::ports::Ports;
use crate::sleep::Precision;
use crate::sock::options::SocketOptions;
use crate::sock::sctp::{self, Path, PathState, Style, Tuning};
use crate::sock::{self, Mode, Remote};

/// Associations whose paths are looked at in one pulse: with some calls of the kernel for each, it
/// stays far below what would be felt.
const ASSOCIATIONS_PER_LOOK: usize = 8;

/// Which driver is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring where it is measured to be at least as fast and the kernel allows it, else epoll.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// epoll.
    Epoll,
    /// Calls that wait, for machines that have one connection and one thing at a time to wait for:
    /// two system calls for an exchange.
    Direct,
}

/// What a driver is given.
#[derive(Debug)]
pub struct Config {
    /// The addresses of each of the plan's endpoints, in the order in which they are tried.
    pub endpoints: Vec<Vec<Remote>>,
    /// Listening sockets (non-blocking); `on_accepted` names them by their index.
    pub listeners: Vec<OwnedFd>,
    /// Where accepted connections may find a thread of their own; epoll alone asks there.
    pub desk: Option<Arc<Desk>>,
    /// Local addresses that connections go out from, in turn; empty = the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// How sockets are made.
    pub sockets: SocketOptions,
    /// Which worker this is, and of how many: ports that are named are shared out.
    pub worker: (usize, usize),
    /// How waits end.
    pub precision: Precision,
    /// Whether to ask the kernel about connections when they close.
    pub tcp_info: bool,
    /// Whether to have the kernel note times of what connections send and receive. io_uring has no
    /// such thing.
    pub timestamps: bool,
}

/// What a driver tells about its run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriverStats {
    /// Turns of the event loop.
    pub turns: u64,
    /// Time spent spinning.
    pub spin: Span,
    /// What the kernel knew of the connections.
    pub transport: Transport,
    /// How late the loop came back to what it had set itself.
    pub stalls: Stalls,
    /// How well the clock of its time stamps was known, where they were taken.
    pub stamps: Option<StampClock>,
    /// When the run ended.
    pub end: Nanos,
    /// Accepts that had to wait because no descriptor was free.
    pub accept_pauses: u64,
}

/// Called about every 50 ms with the machine, the time, and how long the driver has spun so far.
pub type Pulse<'a, M> = &'a mut dyn FnMut(&mut M, Nanos, Span);

/// Where connections go and come from.
#[derive(Debug)]
pub(crate) struct Network {
    endpoints: Vec<Vec<Remote>>,
    /// Per endpoint, the address that answered last: it is tried first.
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

    /// The `tried`-th address has answered.
    pub(crate) fn answered(&mut self, endpoint: u32, tried: u16) {
        if tried > 0 {
            let n = self.endpoints[endpoint as usize].len() as u32;
            let first = &mut self.preferred[endpoint as usize];
            *first = (*first + u32::from(tried)) % n;
        }
    }

    /// A new socket for that address, from the next source address of its family.
    pub(crate) fn socket(&mut self, endpoint: u32, tried: u16, mode: Mode) -> Result<RawFd, i32> {
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
            self.ports.bind(fd, source, to).inspect_err(|_| sock::close(fd))?;
        } else if port != 0 {
            let own = SocketAddr::new(source.unwrap_or(any), port);
            sock::bind(fd, own).inspect_err(|_| sock::close(fd))?;
        }
        self.set_up(fd);
        Ok(fd)
    }

    /// An association has all source addresses of its family at once.
    fn sctp_socket(&self, remote: &Remote, style: Style, mode: Mode) -> Result<RawFd, i32> {
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
        self.set_up(fd);
        Ok(fd)
    }

    /// What was asked for beyond an address, on a new socket.
    fn set_up(&self, fd: RawFd) {
        if self.sockets.reset {
            sock::reset_on_close(fd);
        }
        sock::options::apply(fd, &self.sockets);
    }

    /// Why a connection to that address could not be made. The kernel says the same where no port
    /// is left and where this host has no address to connect from.
    pub(crate) fn connect_fault(&self, endpoint: u32, tried: u16, e: i32) -> Fault {
        let to = self.remote(endpoint, tried).and_then(Remote::as_inet);
        match (e, to) {
            (libc::EADDRNOTAVAIL, Some(to)) if !self.has_address_for(to) => Fault::NoAddress,
            _ => errno::connect_fault(e),
        }
    }

    /// Whether this host has the addresses to connect from. UDP is asked, whose ports are others,
    /// and whose connect sends nothing.
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

    /// The next source address that fits.
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

/// Any address of the family of that one.
fn any_of(addr: SocketAddr) -> IpAddr {
    match addr {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Whether another address of the endpoint may do better. The meter's own shortages are the same
/// for all, but this host may have addresses of one family only.
pub(crate) fn tries_next(fault: Fault) -> bool {
    fault.class() == FaultClass::Connect
        || matches!(fault, Fault::ConnectTimeout | Fault::NoAddress)
}

/// Asks the kernel about connections that close: about each that carried more than one batch, and
/// about one in 16 of the others, which may close a hundred thousand times a second. Of
/// associations with several paths it asks while they are open, too: a path that breaks may come
/// back.
#[derive(Debug)]
pub(crate) struct Sampler {
    on: bool,
    short_lived: u32,
    opened: BTreeMap<RawFd, Association>,
    /// Where the next look at paths goes on.
    next_look: RawFd,
    sum: Transport,
}

/// An association that is open.
#[derive(Debug)]
struct Association {
    /// What was known when it opened: of one that the peer has ended nothing else is known.
    before: Sctp,
    /// The paths that had failed, really or potentially, when they were looked at.
    failed: BTreeSet<IpAddr>,
    potentially_failed: BTreeSet<IpAddr>,
}

impl Sampler {
    pub(crate) fn new(on: bool) -> Self {
        let sum = Transport::default();
        Self { on, short_lived: 0, opened: BTreeMap::new(), next_look: 0, sum }
    }

    /// An association of ours is open.
    #[cold]
    pub(crate) fn opened(&mut self, fd: RawFd) {
        if let Some((facts, _)) = sctp::facts(fd).ok().filter(|_| self.on) {
            self.opened.insert(fd, Association::new(facts));
        }
    }

    /// Look at the paths of some associations. Called with every pulse.
    #[inline]
    pub(crate) fn pulse(&mut self) {
        if !self.opened.is_empty() {
            self.look_at_paths();
        }
    }

    #[cold]
    fn look_at_paths(&mut self) {
        let mut next = 0;
        let some = self.opened.range_mut(self.next_look..).take(ASSOCIATIONS_PER_LOOK);
        for (&fd, association) in some {
            if association.before.paths > 1 {
                association.look(&sctp::paths(fd, 0));
            }
            next = fd + 1;
        }
        let is_last = self.opened.range(next..).next().is_none();
        self.next_look = if is_last { 0 } else { next };
    }

    pub(crate) fn closing(&mut self, fd: RawFd, kept_alive: bool) {
        if !self.on {
            return;
        }
        if !self.opened.is_empty()
            && let Some(association) = self.opened.remove(&fd)
        {
            let facts = association.end(sctp::facts(fd).ok());
            self.sum.sctp = Some(self.sum.sctp.unwrap_or_default().and(facts));
            return;
        }
        if !kept_alive {
            self.short_lived = self.short_lived.wrapping_add(1);
            if self.short_lived % 16 != 1 {
                return;
            }
        }
        sock::add_transport(fd, &mut self.sum);
    }

    pub(crate) fn sum(&self) -> Transport {
        self.sum
    }
}

impl Association {
    fn new(before: Sctp) -> Self {
        Self { before, failed: BTreeSet::new(), potentially_failed: BTreeSet::new() }
    }

    fn look(&mut self, paths: &[Path]) {
        for path in paths {
            match path.state {
                PathState::Failed => self.failed.insert(path.addr.ip()),
                PathState::PotentiallyFailed => self.potentially_failed.insert(path.addr.ip()),
                PathState::Active | PathState::Unconfirmed => false,
            };
        }
    }

    /// All that is known of it, with what the kernel still knows.
    fn end(mut self, known: Option<(Sctp, Vec<Path>)>) -> Sctp {
        let (facts, paths) = known
            .filter(|(_, paths)| !paths.is_empty())
            .unwrap_or((Sctp { ended_by_peer: 1, ..self.before }, Vec::new()));
        self.look(&paths);
        let potentially_failed = self.potentially_failed.difference(&self.failed).count() as u64;
        let failed = self.failed.len() as u64;
        Sctp { paths_failed: failed, paths_potentially_failed: potentially_failed, ..facts }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd as _;

    use prony_core::target::Carrier;

    use super::*;

    fn inet(s: &str) -> Remote {
        Remote::inet(s.parse().unwrap())
    }

    fn network(endpoints: Vec<Vec<Remote>>, sources: Vec<IpAddr>) -> Network {
        Network::new(&mut Config {
            endpoints,
            listeners: Vec::new(),
            desk: None,
            sources,
            sockets: SocketOptions::default(),
            worker: (0, 1),
            precision: Precision::Sleep,
            tcp_info: false,
            timestamps: false,
        })
    }

    #[test]
    fn addresses_are_tried_in_order_from_the_one_that_answered() {
        let all = vec![inet("127.0.0.1:1"), inet("127.0.0.2:2"), inet("127.0.0.3:3")];
        let mut n = network(vec![all], Vec::new());
        let order = |n: &Network| {
            (0..4).map_while(|t| n.remote(0, t)).map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(order(&n), ["127.0.0.1:1", "127.0.0.2:2", "127.0.0.3:3"]);
        n.answered(0, 1);
        assert_eq!(order(&n), ["127.0.0.2:2", "127.0.0.3:3", "127.0.0.1:1"]);
        n.answered(0, 2);
        assert_eq!(order(&n), ["127.0.0.1:1", "127.0.0.2:2", "127.0.0.3:3"]);
    }

    #[test]
    fn a_missing_address_is_told_from_missing_ports() {
        let fault = |to, sources: &[&str], e| {
            let sources = sources.iter().map(|s| s.parse().unwrap()).collect();
            network(vec![vec![inet(to)]], sources).connect_fault(0, 0, e)
        };
        let e = libc::EADDRNOTAVAIL;
        // 192.0.2.0/24 and 2001:db8::/32 are for examples, and no host has them.
        assert_eq!(fault("127.0.0.1:1", &[], e), Fault::NoPorts);
        assert_eq!(fault("127.0.0.1:1", &["127.0.0.2"], e), Fault::NoPorts);
        assert_eq!(fault("127.0.0.1:1", &["127.0.0.2", "192.0.2.1"], e), Fault::NoAddress);
        assert_eq!(fault("127.0.0.1:1", &["127.0.0.2", "2001:db8::1"], e), Fault::NoPorts);
        assert_eq!(fault("127.0.0.1:1", &["192.0.2.1"], libc::ECONNREFUSED), Fault::ConnectRefused);
        // The target may have an address of another family, but no other ports.
        assert_eq!([Fault::NoAddress, Fault::NoPorts].map(tries_next), [true, false]);
    }

    /// On every kind of socket, and not on SCTP's alone.
    #[test]
    fn sockets_are_set_up_as_asked() {
        let all = [inet("127.0.0.1:1"), inet("127.0.0.1:1").over(Carrier::Udp)];
        let mut n = network(all.map(|one| vec![one]).to_vec(), vec!["127.0.0.2".parse().unwrap()]);
        n.sockets.nagle = true;
        n.sockets.tos = Some(40);
        n.sockets.send_buffer = Some(30_000);
        for endpoint in [0, 1] {
            let fd = n.socket(endpoint, 0, Mode::NonBlocking).unwrap();
            // SAFETY: the descriptor is new and nobody else's.
            let socket = socket2::Socket::from(unsafe { OwnedFd::from_raw_fd(fd) });
            assert_eq!(socket.tos_v4().unwrap(), 40);
            assert_eq!(socket.send_buffer_size().unwrap(), 60_000);
            let local = socket.local_addr().unwrap().as_socket().unwrap();
            assert_eq!(local.ip().to_string(), "127.0.0.2");
            if endpoint == 0 {
                assert!(!socket.tcp_nodelay().unwrap());
            }
        }
    }

    /// One path was given up and came back, another had a timeout and was given up later; each
    /// counts once, and so they do where the kernel knows nothing more of the association.
    #[test]
    fn paths_count_in_their_worst_state() {
        use PathState::{Active, Failed, PotentiallyFailed, Unconfirmed};
        let paths = |states: [PathState; 4]| {
            let path = |(i, state)| {
                let addr = SocketAddr::from(([10, 0, 0, i], 9));
                Path { addr, state, srtt_ms: 1, rto_ms: 20 }
            };
            (0_u8..).zip(states).map(path).collect::<Vec<_>>()
        };
        let one = Sctp { associations: 1, ..Sctp::default() };
        for (known, failed, maybe) in [(true, 2, 1), (false, 1, 2)] {
            let mut association = Association::new(one);
            association.look(&paths([Failed, PotentiallyFailed, Active, Unconfirmed]));
            association.look(&paths([Active, PotentiallyFailed, PotentiallyFailed, Active]));
            let end = known.then(|| (one, paths([Active, Failed, Active, Active])));
            let told = association.end(end);
            assert_eq!((told.paths_failed, told.paths_potentially_failed), (failed, maybe));
            assert_eq!((told.associations, told.ended_by_peer), (1, u64::from(!known)));
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
