//! Sockets: create, bind, connect, accept, read, write, close. Thin and without allocation;
//! everything is non-blocking.

pub(crate) mod options;
pub mod sctp;
pub(crate) mod waits;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use prony_core::machine::CloseHow;
use prony_core::summary::Transport;
use prony_core::target::Carrier;
use prony_core::units::Span;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, accept_with,
    recv, send, shutdown, socket_with,
};
use socket2::{SockAddr, SockRef};

use crate::net::errno;
use crate::time::timer;

/// How long an association may take to open where its caller waits for it.
const ASSOCIATION_LIMIT: Duration = Duration::from_secs(5);

/// An address that connections can be opened to, ready for the kernel.
#[derive(Clone, Debug)]
pub struct Remote {
    addr: SockAddr,
    kind: Kind,
    /// Further addresses of the same host, in one association with the first (SCTP).
    further: Vec<SocketAddr>,
}

/// What the socket is, besides the family of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    ty: libc::c_int,
    protocol: libc::c_int,
}

impl Kind {
    const STREAM: Self = Self { ty: libc::SOCK_STREAM, protocol: 0 };
}

/// How far a connect has come when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connecting {
    /// Open already.
    Open,
    /// On its way; the socket becomes writable when it is decided.
    Underway,
}

/// Whether what was sent together arrives together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundaries {
    /// A stream of bytes.
    None,
    /// Messages of a connection that has an end. An empty read is that end.
    Packets,
    /// Messages that stand for themselves. An empty read is an empty message.
    Datagrams,
}

/// Whether calls on a socket may wait. io_uring waits by itself, and only for sockets that may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They wait.
    Blocking,
    /// They return `EAGAIN`.
    NonBlocking,
}

/// What one read has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes, at least one.
    Data(usize),
    /// The peer has ended its stream.
    End,
    /// Nothing there now.
    Empty,
    /// The connection is dead.
    Dead(i32),
}

/// What one write has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// So many bytes were taken.
    Taken(usize),
    /// None: the socket's buffer is full.
    Full,
    /// The connection is dead.
    Dead(i32),
}

impl Read {
    #[inline]
    fn of(told: Result<usize, i32>) -> Self {
        match told {
            Ok(0) => Self::End,
            Ok(n) => Self::Data(n),
            // What waited has waited long enough, or a signal has come.
            Err(libc::EAGAIN | libc::EINTR) => Self::Empty,
            Err(e) => Self::Dead(e),
        }
    }
}

impl Written {
    #[inline]
    fn of(told: Result<usize, i32>) -> Self {
        match told {
            Ok(n) => Self::Taken(n),
            Err(libc::EAGAIN | libc::EINTR) => Self::Full,
            Err(e) => Self::Dead(e),
        }
    }
}

impl Remote {
    /// An internet address.
    pub fn inet(addr: SocketAddr) -> Self {
        Self { addr: addr.into(), kind: Kind::STREAM, further: Vec::new() }
    }

    /// A unix socket's path; an error where it is too long for the kernel.
    pub fn unix(path: &std::path::Path) -> io::Result<Self> {
        Ok(Self { addr: SockAddr::unix(path)?, kind: Kind::STREAM, further: Vec::new() })
    }

    /// The same unix socket, keeping the boundaries of messages.
    #[must_use]
    pub fn seqpacket(self) -> Self {
        Self { kind: Kind { ty: libc::SOCK_SEQPACKET, protocol: 0 }, ..self }
    }

    /// The same internet address, over something else than TCP.
    #[must_use]
    pub fn over(self, carrier: Carrier) -> Self {
        let kind = match carrier {
            Carrier::Udp => Kind { ty: libc::SOCK_DGRAM, protocol: libc::IPPROTO_UDP },
            Carrier::Mptcp => Kind { ty: libc::SOCK_STREAM, protocol: libc::IPPROTO_MPTCP },
            Carrier::Sctp => Kind { ty: libc::SOCK_STREAM, protocol: libc::IPPROTO_SCTP },
            Carrier::SctpSeqpacket => {
                Kind { ty: libc::SOCK_SEQPACKET, protocol: libc::IPPROTO_SCTP }
            }
        };
        Self { kind, ..self }
    }

    /// Whether it is a stream that every kernel has.
    pub(crate) fn is_usual(&self) -> bool {
        self.kind == Kind::STREAM
    }

    /// Addresses that are all one host's, for an association that uses them all; `None` where there
    /// are none.
    pub(crate) fn with_paths(all: Vec<Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let first = all.next()?;
        let further = all.filter_map(|other| other.as_inet()).collect();
        Some(Self { further, ..first })
    }

    /// What kind of SCTP socket, if it is one.
    pub(crate) fn sctp(&self) -> Option<sctp::Style> {
        let style = match self.kind.ty {
            libc::SOCK_STREAM => sctp::Style::OneToOne,
            _ => sctp::Style::OneToMany,
        };
        (self.kind.protocol == libc::IPPROTO_SCTP).then_some(style)
    }

    /// What it goes over, where the kernel does not note when that is sent (`SO_TIMESTAMPING`).
    pub(crate) fn without_stamps(&self) -> Option<&'static str> {
        match self.kind.protocol {
            _ if self.is_unix() => Some("a unix socket"),
            libc::IPPROTO_SCTP => Some("SCTP"),
            libc::IPPROTO_MPTCP => Some("Multipath TCP"),
            _ => None,
        }
    }

    /// What its messages are, as far as a driver must know.
    pub(crate) fn boundaries(&self) -> Boundaries {
        match self.kind.ty {
            // A short read of theirs is the end of a message, and not of what there is.
            _ if self.sctp().is_some() => Boundaries::Packets,
            libc::SOCK_STREAM => Boundaries::None,
            libc::SOCK_DGRAM => Boundaries::Datagrams,
            _ => Boundaries::Packets,
        }
    }

    /// Whether it is a unix socket.
    pub fn is_unix(&self) -> bool {
        self.addr.is_unix()
    }

    /// The internet address, if it is one.
    pub fn as_inet(&self) -> Option<SocketAddr> {
        self.addr.as_socket()
    }

    fn as_ptr(&self) -> *const libc::sockaddr {
        self.addr.as_ptr().cast()
    }

    fn len(&self) -> libc::socklen_t {
        self.addr.len()
    }

    /// The address as the kernel has it.
    pub(crate) fn bytes(&self) -> &[u8] {
        let len = self.len() as usize;
        // SAFETY: the address lives in `self`, and its first `len` bytes were written.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), len) }
    }

    /// A new socket fit for this address, bound to `source` where one is given, with `TCP_NODELAY`.
    pub(crate) fn socket(&self, source: Option<IpAddr>, mode: Mode) -> Result<OwnedFd, i32> {
        let mut flags = SocketFlags::CLOEXEC;
        flags.set(SocketFlags::NONBLOCK, mode == Mode::NonBlocking);
        let family = AddressFamily::from_raw(self.addr.family());
        let ty = SocketType::from_raw(self.kind.ty as u32);
        let protocol = NonZero::new(self.kind.protocol as u32).map(Protocol::from_raw);
        let fd = socket_with(family, ty, flags, protocol).map_err(Errno::raw_os_error)?;
        if !self.is_unix() && self.kind.ty == libc::SOCK_STREAM {
            set_option(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        }
        if let Some(source) = source {
            bind_source(&fd, source)?;
        }
        Ok(fd)
    }

    /// A new SCTP socket, bound to all of `sources`. One-to-many sockets wait in any case
    /// ([`Remote::connect_sctp`]).
    pub(crate) fn sctp_socket(
        &self,
        style: sctp::Style,
        sources: &[SocketAddr],
        mode: Mode,
        tuning: &sctp::Tuning,
    ) -> io::Result<OwnedFd> {
        let mode = if style == sctp::Style::OneToMany { Mode::Blocking } else { mode };
        let is_ipv6 = self.as_inet().is_some_and(|a| a.is_ipv6());
        let fd = sctp::socket(style, is_ipv6, mode)?;
        sctp::tune(fd.as_raw_fd(), tuning)?;
        sctp::bind(&fd, sources)?;
        Ok(fd)
    }

    /// Open an association on a socket made by [`Remote::sctp_socket`]. One of a one-to-many socket
    /// takes that socket's place; until it is open the caller waits, for as long as a connect may
    /// take at most. `mode` is that of later calls.
    pub(crate) fn connect_sctp(&self, fd: &OwnedFd, mode: Mode) -> Result<Connecting, i32> {
        let all: Vec<_> = self.as_inet().into_iter().chain(self.further.clone()).collect();
        let opened = match self.sctp() {
            Some(sctp::Style::OneToMany) => {
                // Half-way through, it can be neither waited for nor begun again.
                timer::held(|| {
                    sctp::connect_and_peel_off(fd.as_raw_fd(), &all, mode, ASSOCIATION_LIMIT)
                })
            }
            _ => sctp::connect(fd.as_raw_fd(), &all).map(drop),
        };
        match opened.map_err(number) {
            Ok(()) => Ok(Connecting::Open),
            Err(libc::EINPROGRESS) => Ok(Connecting::Underway),
            Err(e) => Err(e),
        }
    }

    /// Connect a socket made by [`Remote::socket`].
    pub(crate) fn connect(&self, fd: &OwnedFd) -> Result<Connecting, i32> {
        if self.sctp().is_some() {
            return self.connect_sctp(fd, Mode::NonBlocking);
        }
        match SockRef::from(fd).connect(&self.addr).map_err(number) {
            Ok(()) => Ok(Connecting::Open),
            // A connect that a signal interrupts goes on by itself.
            Err(libc::EINPROGRESS | libc::EINTR) => Ok(Connecting::Underway),
            Err(e) => Err(e),
        }
    }
}

impl std::fmt::Display for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.addr.as_socket(), self.addr.as_pathname()) {
            (Some(a), _) => write!(f, "{a}"),
            (None, Some(p)) => write!(f, "{}", p.display()),
            (None, None) => f.write_str("(unnamed)"),
        }
    }
}

/// Read once into `buf`.
#[inline]
pub(crate) fn read(fd: impl AsFd, buf: &mut [u8]) -> Read {
    loop {
        match received(fd.as_fd(), buf, RecvFlags::empty()) {
            Err(libc::EINTR) => {}
            told => return Read::of(told),
        }
    }
}

/// The same with flags of recv(2), and without a second try after a signal, which may be what the
/// caller waits for besides.
#[inline]
pub(crate) fn read_with(fd: impl AsFd, buf: &mut [u8], flags: RecvFlags) -> Read {
    Read::of(received(fd.as_fd(), buf, flags))
}

/// Straight to the kernel: the C library's functions are points at which a thread may be cancelled,
/// and cost four locked instructions a request to say so. Nothing here is ever cancelled.
#[inline]
fn received(fd: BorrowedFd<'_>, buf: &mut [u8], flags: RecvFlags) -> Result<usize, i32> {
    recv(fd, buf, flags).map(|(n, _)| n).map_err(Errno::raw_os_error)
}

/// Write `data` once.
#[inline]
pub(crate) fn write(fd: impl AsFd, data: &[u8]) -> Written {
    loop {
        match sent(fd.as_fd(), data, SendFlags::empty()) {
            Err(libc::EINTR) => {}
            told => return Written::of(told),
        }
    }
}

/// The same with flags of send(2), and without a second try after a signal.
#[inline]
pub(crate) fn write_with(fd: impl AsFd, data: &[u8], flags: SendFlags) -> Written {
    Written::of(sent(fd.as_fd(), data, flags))
}

/// Straight to the kernel, as in [`received`].
#[inline]
fn sent(fd: BorrowedFd<'_>, data: &[u8], flags: SendFlags) -> Result<usize, i32> {
    send(fd, data, SendFlags::NOSIGNAL | flags).map_err(Errno::raw_os_error)
}

/// Accept one connection: its socket, or `None` where there is none now, or the errno.
pub(crate) fn accept(listener: &OwnedFd) -> Result<Option<OwnedFd>, i32> {
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match accept_with(listener, flags).map_err(Errno::raw_os_error) {
            Ok(fd) => return Ok(Some(fd)),
            // The errors of a connection that died in the queue belong to it, not to the listener
            // (accept(2)).
            Err(
                libc::EINTR
                | libc::ECONNABORTED
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH,
            ) => {}
            Err(libc::EAGAIN) => return Ok(None),
            // A one-to-many socket of SCTP.
            Err(libc::EOPNOTSUPP) => return accept_association(listener),
            Err(e) => return Err(e),
        }
    }
}

#[cold]
fn accept_association(listener: &OwnedFd) -> Result<Option<OwnedFd>, i32> {
    match sctp::accept_from_many(listener.as_raw_fd(), Mode::NonBlocking) {
        Ok(fd) => Ok(Some(fd)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(number(e)),
    }
}

/// The kernel's number of an error.
fn number(e: io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EINVAL)
}

/// What the messages of an accepted socket are.
pub(crate) fn boundaries_of(fd: RawFd) -> Boundaries {
    let mut ty: libc::c_int = 0;
    option(fd, libc::SOL_SOCKET, libc::SO_TYPE, &mut ty);
    let is_stream = ty == libc::SOCK_STREAM && !is_sctp(fd);
    if is_stream { Boundaries::None } else { Boundaries::Packets }
}

/// Whether a socket of SCTP is a one-to-many one.
pub(crate) fn is_one_to_many(fd: RawFd) -> bool {
    let mut ty: libc::c_int = 0;
    option(fd, libc::SOL_SOCKET, libc::SO_TYPE, &mut ty);
    ty == libc::SOCK_SEQPACKET
}

/// Whether the socket is one of SCTP.
pub(crate) fn is_sctp(fd: RawFd) -> bool {
    let mut protocol: libc::c_int = 0;
    option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, &mut protocol);
    protocol == libc::IPPROTO_SCTP
}

/// Whether the socket is a unix one.
pub(crate) fn is_unix(fd: RawFd) -> bool {
    let mut domain: libc::c_int = 0;
    option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, &mut domain);
    domain == libc::AF_UNIX
}

/// Close a socket; with `Reset` nothing more is delivered and no port is left in TIME_WAIT.
pub(crate) fn close_how(fd: OwnedFd, how: CloseHow) {
    if how == CloseHow::Reset {
        reset_on_close(&fd);
    }
    drop(fd);
}

/// Have the kernel note times of what goes over the socket; `flags` say which
/// (`SOF_TIMESTAMPING_*`).
pub(crate) fn ask_for_stamps(fd: RawFd, flags: libc::c_uint) -> Result<(), i32> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags).ok_or_else(errno::last)
}

/// Make the close of a socket reset its connection.
pub(crate) fn reset_on_close(fd: &OwnedFd) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, linger);
}

/// Tell the peer that nothing more will be sent.
pub(crate) fn shutdown_write(fd: &OwnedFd) {
    // It fails harmlessly on a socket that is not connected.
    let _ = shutdown(fd, Shutdown::Write);
}

/// The socket's pending error, cleared by asking; 0 = none.
pub(crate) fn pending_error(fd: RawFd) -> i32 {
    let mut e: libc::c_int = 0;
    if option(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut e).is_some() { e } else { errno::last() }
}

/// Add what the kernel knows of a TCP connection or an SCTP association to `sum`.
pub(crate) fn add_transport(fd: RawFd, sum: &mut Transport) {
    // SAFETY: tcp_info is a plain C struct of integers, for which all zeros is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    // An older kernel fills a shorter prefix; `tcpi_total_retrans` has been in it since 2.6.
    if option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).is_none() {
        if let Ok((facts, _)) = sctp::facts(fd) {
            sum.sctp = Some(sum.sctp.unwrap_or_default().and(facts));
        }
        return;
    }
    let rtt = Span::from_micros(u64::from(info.tcpi_rtt));
    sum.sampled += 1;
    sum.retransmits += u64::from(info.tcpi_total_retrans);
    sum.rtt_sum += rtt;
    sum.rtt_max = sum.rtt_max.max(rtt);
}

fn bind_source(fd: &OwnedFd, source: IpAddr) -> Result<(), i32> {
    // The kernel then picks the port at connect, so that one port serves many destinations.
    set_option(fd.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
    bind(fd, SocketAddr::new(source, 0))
}

/// Give the socket a local address.
pub(crate) fn bind(fd: &OwnedFd, addr: SocketAddr) -> Result<(), i32> {
    SockRef::from(fd).bind(&addr.into()).map_err(number)
}

/// Types that the kernel may read and write byte by byte, as the values of socket options. The
/// trait is private to this crate, so that nobody else can add a type.
///
/// # Safety
/// The type has a C layout and is made of integers only, so that any bytes are a value of it.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for libc::c_int {}
// SAFETY: an integer.
unsafe impl Plain for libc::c_uint {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::linger {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::timeval {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::tcp_info {}

/// Set a socket option; `None` where the kernel refuses. Most callers set tuning options of sockets
/// that they made, where a refusal (a missing feature of the kernel) costs speed, not correctness,
/// and is not looked at.
pub(crate) fn set_option<T: Plain>(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> Option<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is readable for `len` bytes, of which only the kernel sees padding.
    let r = unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(&value).cast(), len) };
    (r == 0).then_some(())
}

/// Read a socket option into `value`; `None` where the kernel refuses.
fn option<T: Plain>(fd: RawFd, level: libc::c_int, name: libc::c_int, value: &mut T) -> Option<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `len` bytes, and any bytes are a value of it (`Plain`).
    let r =
        unsafe { libc::getsockopt(fd, level, name, std::ptr::from_mut(value).cast(), &mut len) };
    (r == 0).then_some(())
}
