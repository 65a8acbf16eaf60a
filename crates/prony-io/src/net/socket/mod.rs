//! Sockets: create, bind, connect, accept, read, write, close. Thin wrappers, non-blocking, without
//! allocation.

pub(crate) mod options;
pub mod sctp;
pub(crate) mod waits;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use prony_base::machine::CloseHow;
use prony_base::meter::Transport;
use prony_base::units::Span;
use prony_plan::target::Carrier;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, accept_with,
    recv, send, shutdown, socket_with,
};
use socket2::{SockAddr, SockRef};

use crate::net::errno;
use crate::time::timer;

/// The time limit for opening an association with a blocking call.
const ASSOCIATION_LIMIT: Duration = Duration::from_secs(5);

/// A remote address in the form that the kernel needs.
#[derive(Clone, Debug)]
pub struct Remote {
    addr: SockAddr,
    kind: Kind,
    /// Further addresses of the same host for one association (SCTP).
    further: Vec<SocketAddr>,
}

/// The type and protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    ty: libc::c_int,
    protocol: libc::c_int,
}

impl Kind {
    const STREAM: Self = Self { ty: libc::SOCK_STREAM, protocol: 0 };
}

/// The state of a connect when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connecting {
    /// The connection is open.
    Open,
    /// In progress; the socket becomes writable when it succeeds or fails.
    InProgress,
}

/// Whether a transport preserves message boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundaries {
    /// A byte stream.
    None,
    /// Messages in a connection. An empty read is the end of the connection.
    Packets,
    /// Independent messages. An empty read is an empty message.
    Datagrams,
}

/// Whether calls on a socket block. io_uring waits by itself, and only on blocking sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Calls block.
    Blocking,
    /// Calls return `EAGAIN` instead of blocking.
    NonBlocking,
}

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// This many bytes, at least one.
    Data(usize),
    /// The end of the peer's stream.
    End,
    /// No data now.
    Empty,
    /// The connection is dead: the errno.
    Dead(i32),
}

/// The result of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// This many bytes were written.
    Taken(usize),
    /// The socket's buffer is full.
    Full,
    /// The connection is dead: the errno.
    Dead(i32),
}

impl Read {
    #[inline]
    fn from_result(result: Result<usize, i32>) -> Self {
        match result {
            Ok(0) => Self::End,
            Ok(n) => Self::Data(n),
            // No data, a timeout, or a signal.
            Err(libc::EAGAIN | libc::EINTR) => Self::Empty,
            Err(e) => Self::Dead(e),
        }
    }
}

impl Written {
    #[inline]
    fn from_result(result: Result<usize, i32>) -> Self {
        match result {
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

    /// A unix socket's path; an error if it is too long for the kernel.
    pub fn unix(path: &std::path::Path) -> io::Result<Self> {
        Ok(Self { addr: SockAddr::unix(path)?, kind: Kind::STREAM, further: Vec::new() })
    }

    /// The same unix socket with message boundaries.
    #[must_use]
    pub fn seqpacket(self) -> Self {
        Self { kind: Kind { ty: libc::SOCK_SEQPACKET, protocol: 0 }, ..self }
    }

    /// The same internet address over another transport.
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

    /// Whether it is a plain stream socket, which every kernel has.
    pub(crate) fn is_plain_stream(&self) -> bool {
        self.kind == Kind::STREAM
    }

    /// Combines the addresses of one host for an association that uses them all; `None` if there
    /// are none.
    pub(crate) fn with_paths(all: Vec<Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let first = all.next()?;
        let further = all.filter_map(|other| other.as_inet()).collect();
        Some(Self { further, ..first })
    }

    /// The style of the SCTP socket, if it is one.
    pub(crate) fn sctp(&self) -> Option<sctp::Style> {
        let style = match self.kind.ty {
            libc::SOCK_STREAM => sctp::Style::OneToOne,
            _ => sctp::Style::OneToMany,
        };
        (self.kind.protocol == libc::IPPROTO_SCTP).then_some(style)
    }

    /// The name of its transport, if the kernel takes no timestamps of it (`SO_TIMESTAMPING`).
    pub(crate) fn without_timestamps(&self) -> Option<&'static str> {
        match self.kind.protocol {
            _ if self.is_unix() => Some("a unix socket"),
            libc::IPPROTO_SCTP => Some("SCTP"),
            libc::IPPROTO_MPTCP => Some("Multipath TCP"),
            _ => None,
        }
    }

    /// Its message boundaries, for the driver.
    pub(crate) fn boundaries(&self) -> Boundaries {
        match self.kind.ty {
            // A short read is the end of a message and does not mean that the socket is empty.
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

    /// The address in the kernel's layout.
    pub(crate) fn bytes(&self) -> &[u8] {
        let len = self.len() as usize;
        // SAFETY: the address lives in `self`, and its first `len` bytes are initialized.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), len) }
    }

    /// A new socket for this address with `TCP_NODELAY`, bound to `source` if given.
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

    /// A new SCTP socket, bound to all of `sources`. One-to-many sockets are always blocking
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

    /// Open an association on a socket made by [`Remote::sctp_socket`]. The association of a
    /// one-to-many socket replaces that socket; this call blocks until it is open, within the time
    /// limit. `mode` is that of later calls.
    pub(crate) fn connect_sctp(&self, fd: &OwnedFd, mode: Mode) -> Result<Connecting, i32> {
        let all: Vec<_> = self.as_inet().into_iter().chain(self.further.clone()).collect();
        let opened = match self.sctp() {
            Some(sctp::Style::OneToMany) => {
                // A signal must not interrupt it, because it could not be resumed.
                timer::without_ticks(|| {
                    sctp::connect_and_peel_off(fd.as_raw_fd(), &all, mode, ASSOCIATION_LIMIT)
                })
            }
            _ => sctp::connect(fd.as_raw_fd(), &all).map(drop),
        };
        match opened.map_err(errno_of) {
            Ok(()) => Ok(Connecting::Open),
            Err(libc::EINPROGRESS) => Ok(Connecting::InProgress),
            Err(e) => Err(e),
        }
    }

    /// Connect a socket made by [`Remote::socket`].
    pub(crate) fn connect(&self, fd: &OwnedFd) -> Result<Connecting, i32> {
        if self.sctp().is_some() {
            return self.connect_sctp(fd, Mode::NonBlocking);
        }
        match SockRef::from(fd).connect(&self.addr).map_err(errno_of) {
            Ok(()) => Ok(Connecting::Open),
            // A connect interrupted by a signal continues by itself.
            Err(libc::EINPROGRESS | libc::EINTR) => Ok(Connecting::InProgress),
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
            result => return Read::from_result(result),
        }
    }
}

/// Like [`read`], with flags of recv(2), and without a retry after a signal, because the caller may
/// wait for the signal, too.
#[inline]
pub(crate) fn read_with(fd: impl AsFd, buf: &mut [u8], flags: RecvFlags) -> Read {
    Read::from_result(received(fd.as_fd(), buf, flags))
}

/// A direct system call: the C library's functions are thread cancellation points, which costs four
/// locked instructions per request. prony cancels no threads.
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
            result => return Written::from_result(result),
        }
    }
}

/// Like [`write`], with flags of send(2), and without a retry after a signal.
#[inline]
pub(crate) fn write_with(fd: impl AsFd, data: &[u8], flags: SendFlags) -> Written {
    Written::from_result(sent(fd.as_fd(), data, flags))
}

/// A direct system call, as in [`received`].
#[inline]
fn sent(fd: BorrowedFd<'_>, data: &[u8], flags: SendFlags) -> Result<usize, i32> {
    send(fd, data, SendFlags::NOSIGNAL | flags).map_err(Errno::raw_os_error)
}

/// Accept one connection. Returns its socket, `None` if there is none now, or the errno.
pub(crate) fn accept(listener: &OwnedFd) -> Result<Option<OwnedFd>, i32> {
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match accept_with(listener, flags).map_err(Errno::raw_os_error) {
            Ok(fd) => return Ok(Some(fd)),
            // These errors belong to a connection that failed in the queue, not to the listener
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
            // A one-to-many SCTP socket.
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
        Err(e) => Err(errno_of(e)),
    }
}

/// The errno of an error.
fn errno_of(e: io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EINVAL)
}

/// The message boundaries of an accepted socket.
pub(crate) fn boundaries_of(fd: RawFd) -> Boundaries {
    let mut ty: libc::c_int = 0;
    option(fd, libc::SOL_SOCKET, libc::SO_TYPE, &mut ty);
    let is_stream = ty == libc::SOCK_STREAM && !is_sctp(fd);
    if is_stream { Boundaries::None } else { Boundaries::Packets }
}

/// Whether an SCTP socket is a one-to-many socket.
pub(crate) fn is_one_to_many(fd: RawFd) -> bool {
    let mut ty: libc::c_int = 0;
    option(fd, libc::SOL_SOCKET, libc::SO_TYPE, &mut ty);
    ty == libc::SOCK_SEQPACKET
}

/// Whether the socket is an SCTP socket.
pub(crate) fn is_sctp(fd: RawFd) -> bool {
    let mut protocol: libc::c_int = 0;
    option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, &mut protocol);
    protocol == libc::IPPROTO_SCTP
}

/// Whether the socket is a unix socket.
pub(crate) fn is_unix(fd: RawFd) -> bool {
    let mut domain: libc::c_int = 0;
    option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, &mut domain);
    domain == libc::AF_UNIX
}

/// Close a socket. With `Reset`, undelivered data is discarded and no port is left in TIME_WAIT.
pub(crate) fn close_how(fd: OwnedFd, how: CloseHow) {
    if how == CloseHow::Reset {
        reset_on_close(&fd);
    }
    drop(fd);
}

/// Enable timestamps on the socket; `flags`: `SOF_TIMESTAMPING_*`.
pub(crate) fn enable_timestamps(fd: RawFd, flags: libc::c_uint) -> Result<(), i32> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags).ok_or_else(errno::last)
}

/// Make closing the socket reset its connection.
pub(crate) fn reset_on_close(fd: &OwnedFd) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, linger);
}

/// Close the sending side of the connection.
pub(crate) fn shutdown_write(fd: &OwnedFd) {
    // It fails harmlessly on a socket that is not connected.
    let _ = shutdown(fd, Shutdown::Write);
}

/// Returns and clears the socket's pending error; 0 = none.
pub(crate) fn pending_error(fd: RawFd) -> i32 {
    let mut e: libc::c_int = 0;
    if option(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut e).is_some() { e } else { errno::last() }
}

/// Add the kernel's statistics of a TCP connection or an SCTP association to `sum`.
pub(crate) fn add_transport(fd: RawFd, sum: &mut Transport) {
    // SAFETY: tcp_info is a plain C struct of integers, for which all zeros is a valid value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    // Older kernels fill a shorter prefix, which contains `tcpi_total_retrans` since 2.6.
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
    // The kernel then chooses the port at connect, so that one port serves many destinations.
    set_option(fd.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
    bind(fd, SocketAddr::new(source, 0))
}

/// Bind the socket to a local address.
pub(crate) fn bind(fd: &OwnedFd, addr: SocketAddr) -> Result<(), i32> {
    SockRef::from(fd).bind(&addr.into()).map_err(errno_of)
}

/// Types that the kernel may read and write bytewise, as values of socket options. The trait is
/// private to this crate, so that no other crate can implement it.
///
/// # Safety
/// The type has a C layout and consists of integers only, so that any bytes are a valid value.
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

/// Set a socket option; `None` if the kernel refuses. Most callers set tuning options on their own
/// sockets and ignore the result, because a missing feature of the kernel costs only speed.
pub(crate) fn set_option<T: Plain>(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> Option<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is readable for `len` bytes; only the kernel sees its padding.
    let r = unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(&value).cast(), len) };
    (r == 0).then_some(())
}

/// Read a socket option into `value`; `None` if the kernel refuses.
fn option<T: Plain>(fd: RawFd, level: libc::c_int, name: libc::c_int, value: &mut T) -> Option<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `len` bytes, and any bytes are a valid value of it (`Plain`).
    let r =
        unsafe { libc::getsockopt(fd, level, name, std::ptr::from_mut(value).cast(), &mut len) };
    (r == 0).then_some(())
}
