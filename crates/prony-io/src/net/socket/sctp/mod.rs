//! The kernel's SCTP sockets (RFC 6458).
//!
//! A one-to-one socket works like a TCP socket: connect, listen, accept; but each write is a
//! message. A one-to-many socket has many associations. Drivers wait for descriptors, so each of
//! its associations is peeled off to a descriptor of its own ([`peel_off`]). Without that, [`send`]
//! and [`receive`] use the one-to-many socket itself.

mod abi;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};
use prony_base::meter::Sctp;
use socket2::{SockAddr, SockAddrStorage};

use super::{Mode, Plain};

/// The size of an address list in bytes: larger than any association needs.
const LIST: usize = 8192;
/// The backlog of listeners; the kernel limits it to net.core.somaxconn.
const BACKLOG: c_int = 65_535;
/// The size of one message's ancillary data.
const CONTROL: usize = 128;

/// The ID of an association on its socket; 0 if there is only one.
pub type Assoc = i32;

/// The style of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `SOCK_STREAM`: one association.
    OneToOne,
    /// `SOCK_SEQPACKET`: any number of associations.
    OneToMany,
}

/// Retransmission timeouts in milliseconds; when set, 0 = kernel default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rto {
    /// The initial timeout, before the first round trip is measured.
    pub initial: u32,
    /// The minimum.
    pub min: u32,
    /// The maximum.
    pub max: u32,
}

/// Options of a socket. The defaults change nothing but `SCTP_NODELAY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Whether small messages are delayed (the kernel's default) instead of sent at once.
    pub nagle: bool,
    /// Retransmission timeouts of this side.
    pub rto: Rto,
}

/// Parameters of the handshake; 0 = kernel default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The number of outbound streams.
    pub out_streams: u16,
    /// The maximum number of inbound streams.
    pub in_streams_max: u16,
    /// How often to send the INIT before giving up.
    pub attempts: u16,
    /// The maximum interval between two attempts, in milliseconds.
    pub timeout_ms: u16,
}

/// When received messages are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack {
    /// After this many milliseconds at the latest.
    pub delay_ms: u32,
    /// After this many packets.
    pub packets: u32,
}

/// The kernel's statistics of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The numbers of inbound and outbound streams.
    pub streams: (u16, u16),
    /// The primary path.
    pub primary: Path,
    /// All paths.
    pub paths: Vec<Path>,
    /// The number of retransmitted data chunks.
    pub retransmitted: u64,
}

/// A path to one address of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The address.
    pub addr: SocketAddr,
    /// The state.
    pub state: PathState,
    /// The smoothed round-trip time in milliseconds.
    pub srtt_ms: u32,
    /// The current retransmission timeout in milliseconds.
    pub rto_ms: u32,
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// The peer replies on it.
    Active,
    /// It has had timeouts, but fewer than needed to fail (RFC 7829). Linux resets this state only
    /// when a heartbeat is acknowledged, and sends no heartbeats while there is data to send.
    PotentiallyFailed,
    /// It has failed: more consecutive timeouts than `net.sctp.path_max_retrans`.
    Failed,
    /// It has not been probed yet.
    Unconfirmed,
}

/// What a one-to-many socket has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message, or a part of one.
    Data {
        /// The number of bytes, from the start of the buffer.
        bytes: usize,
        /// The association.
        assoc: Assoc,
        /// Whether this is the end of the message.
        is_end: bool,
    },
    /// An association has opened.
    Opened(Assoc),
    /// Another notification.
    Other,
}

/// A new socket.
pub fn socket(style: Style, is_ipv6: bool, mode: Mode) -> io::Result<OwnedFd> {
    let family = if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    let mut kind = libc::SOCK_CLOEXEC
        | match style {
            Style::OneToOne => libc::SOCK_STREAM,
            Style::OneToMany => libc::SOCK_SEQPACKET,
        };
    if mode == Mode::NonBlocking {
        kind |= libc::SOCK_NONBLOCK;
    }
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(family, kind, libc::IPPROTO_SCTP) })?;
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Set the options of a new socket.
pub fn tune(fd: RawFd, tuning: &Tuning) -> io::Result<()> {
    set_nodelay(fd, !tuning.nagle)?;
    if tuning.rto == Rto::default() { Ok(()) } else { set_rto(fd, tuning.rto) }
}

/// A socket that listens on all of the addresses, with the port of the first. A `OneToMany` socket
/// reports its associations ([`accept_from_many`]).
pub fn listen(
    style: Style,
    addrs: &[SocketAddr],
    mode: Mode,
    tuning: &Tuning,
) -> io::Result<OwnedFd> {
    let is_ipv6 = addrs.first().is_some_and(SocketAddr::is_ipv6);
    let fd = socket(style, is_ipv6, mode)?;
    // Associations inherit the options.
    tune(fd.as_raw_fd(), tuning)?;
    if style == Style::OneToMany {
        watch_associations(fd.as_raw_fd())?;
    }
    bind(&fd, addrs)?;
    socket2::SockRef::from(&fd).listen(BACKLOG)?;
    Ok(fd)
}

/// Bind to several local addresses, with the port of the first.
pub fn bind(fd: &OwnedFd, addrs: &[SocketAddr]) -> io::Result<()> {
    let Some((&first, further)) = addrs.split_first() else { return Ok(()) };
    super::bind(fd, first).map_err(io::Error::from_raw_os_error)?;
    if further.is_empty() {
        return Ok(());
    }
    let fd = fd.as_raw_fd();
    let port = local_addrs(fd, 0)?.first().map_or_else(|| first.port(), SocketAddr::port);
    let further: Vec<_> = further.iter().map(|a| SocketAddr::new(a.ip(), port)).collect();
    bind_more(fd, &further)
}

/// The option that small messages are sent at once (`SCTP_NODELAY`).
pub fn set_nodelay(fd: RawFd, on: bool) -> io::Result<()> {
    set(fd, abi::NODELAY, &c_int::from(on)).map(drop)
}

/// The option that small messages are sent at once (`SCTP_NODELAY`).
pub fn nodelay(fd: RawFd) -> io::Result<bool> {
    let mut on: c_int = 0;
    get(fd, abi::NODELAY, &mut on)?;
    Ok(on != 0)
}

/// Set the retransmission timeouts that are not 0, for future associations. They affect only what
/// this side sends.
pub fn set_rto(fd: RawFd, rto: Rto) -> io::Result<()> {
    let Rto { initial, min, max } = rto;
    set(fd, abi::RTOINFO, &abi::RtoInfo { assoc: 0, initial, max, min }).map(drop)
}

/// The retransmission timeouts.
pub fn rto(fd: RawFd) -> io::Result<Rto> {
    let mut info = abi::RtoInfo::default();
    get(fd, abi::RTOINFO, &mut info)?;
    Ok(Rto { initial: info.initial, min: info.min, max: info.max })
}

/// Set the handshake parameters of future associations.
pub fn set_opening(fd: RawFd, opening: Opening) -> io::Result<()> {
    let Opening { out_streams, in_streams_max, attempts, timeout_ms } = opening;
    set(fd, abi::INITMSG, &abi::InitMsg { out_streams, in_streams_max, attempts, timeout_ms })
        .map(drop)
}

/// When the peer's messages are acknowledged.
pub fn sack(fd: RawFd) -> io::Result<Sack> {
    let mut info = abi::SackInfo::default();
    get(fd, abi::DELAYED_SACK, &mut info)?;
    Ok(Sack { delay_ms: info.delay_ms, packets: info.frequency })
}

/// Bind to further local addresses, which must have the port of the first.
pub fn bind_more(fd: RawFd, addrs: &[SocketAddr]) -> io::Result<()> {
    set_bytes(fd, abi::BINDX_ADD, &packed(addrs)).map(drop)
}

/// Unbind local addresses.
pub fn unbind(fd: RawFd, addrs: &[SocketAddr]) -> io::Result<()> {
    set_bytes(fd, abi::BINDX_REMOVE, &packed(addrs)).map(drop)
}

/// Open an association to a peer with these addresses. On a non-blocking socket, `EINPROGRESS`
/// means that it is in progress.
pub fn connect(fd: RawFd, addrs: &[SocketAddr]) -> io::Result<Assoc> {
    set_bytes(fd, abi::CONNECTX, &packed(addrs))
}

/// Peel an association off a one-to-many socket: it gets a descriptor of its own, with the data
/// that has arrived for it.
pub fn peel_off(fd: RawFd, assoc: Assoc, mode: Mode) -> io::Result<OwnedFd> {
    let wait = if mode == Mode::NonBlocking { libc::SOCK_NONBLOCK } else { 0 };
    let flags = (libc::SOCK_CLOEXEC | wait) as u32;
    let mut arg = abi::PeelOff { assoc, fd: -1, flags };
    get(fd, abi::PEELOFF_FLAGS, &mut arg)?;
    // SAFETY: the kernel has created the descriptor for us.
    let own = unsafe { OwnedFd::from_raw_fd(arg.fd) };
    // It has inherited notifications, which would be read as messages.
    let off = abi::Event { assoc: abi::ALL_ASSOCS, kind: abi::ASSOC_CHANGE, on: 0 };
    set(own.as_raw_fd(), abi::EVENT, &off)?;
    Ok(own)
}

/// Open an association on a one-to-many socket and replace that socket by it, under the same
/// descriptor. Blocks until the association is open, at most for `limit`.
pub fn connect_and_peel_off(
    fd: RawFd,
    addrs: &[SocketAddr],
    mode: Mode,
    limit: Duration,
) -> io::Result<()> {
    let time = libc::timeval {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_usec: libc::suseconds_t::from(limit.subsec_micros()),
    };
    super::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, time);
    let assoc = connect(fd, addrs).map_err(|e| match e.raw_os_error() {
        // The errors of a timeout.
        Some(libc::EINPROGRESS | libc::EAGAIN) => io::Error::from_raw_os_error(libc::ETIMEDOUT),
        _ => e,
    })?;
    let own = peel_off(fd, assoc, mode)?;
    // SAFETY: no pointers; we own both descriptors. This closes the old socket, which has no
    // association left.
    check(unsafe { libc::dup3(own.as_raw_fd(), fd, libc::O_CLOEXEC) }).map(drop)
}

/// Enable notifications of associations that open and close.
pub fn watch_associations(fd: RawFd) -> io::Result<()> {
    set(fd, abi::EVENT, &abi::Event { assoc: 0, kind: abi::ASSOC_CHANGE, on: 1 }).map(drop)
}

/// Enable the association ID of each message, which [`receive`] needs.
pub fn enable_senders(fd: RawFd) -> io::Result<()> {
    set(fd, abi::RECVRCVINFO, &1_i32).map(drop)
}

/// The next association that a peer has opened on a listening one-to-many socket, on its own
/// descriptor; an error of the kind `WouldBlock` if there is none now.
pub fn accept_from_many(fd: RawFd, mode: Mode) -> io::Result<OwnedFd> {
    let mut buf = [0; 512];
    loop {
        if let Received::Opened(assoc) = receive(fd, &mut buf)? {
            match peel_off(fd, assoc, mode) {
                // It has ended already.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
                peeled => return peeled,
            }
        }
    }
}

/// Send one message on an association.
pub fn send(fd: RawFd, assoc: Assoc, data: &[u8]) -> io::Result<usize> {
    let info = abi::SndInfo { assoc, ..abi::SndInfo::default() };
    let mut control = Control::new();
    let mut part = iovec(data.as_ptr().cast_mut(), data.len());
    let mut message = control.message(&mut part);
    // SAFETY: the control buffer is large enough for one SndInfo, aligned for a cmsghdr, and lives
    // until the call returns, as does the data.
    let sent = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = abi::LEVEL;
        (*head).cmsg_type = abi::CMSG_SNDINFO;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<abi::SndInfo>() as u32) as _;
        libc::CMSG_DATA(head).cast::<abi::SndInfo>().write_unaligned(info);
        message.msg_controllen = libc::CMSG_SPACE(size_of::<abi::SndInfo>() as u32) as _;
        libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL)
    };
    length(sent)
}

/// Receive once, at most `buf.len()` bytes.
pub fn receive(fd: RawFd, buf: &mut [u8]) -> io::Result<Received> {
    let mut control = Control::new();
    let mut part = iovec(buf.as_mut_ptr(), buf.len());
    let mut message = control.message(&mut part);
    // SAFETY: the buffers are writable for the lengths in the message.
    let bytes = length(unsafe { libc::recvmsg(fd, &raw mut message, 0) })?;
    if message.msg_flags & abi::MSG_NOTIFICATION != 0 {
        return Ok(notification(&buf[..bytes]));
    }
    let is_end = message.msg_flags & libc::MSG_EOR != 0;
    Ok(Received::Data { bytes, assoc: sender(&message).unwrap_or(0), is_end })
}

/// The kernel's statistics of an association.
pub fn status(fd: RawFd, assoc: Assoc) -> io::Result<Status> {
    // SAFETY: the struct consists of integers, for which all zeros is a valid value.
    let mut raw: abi::AssocStatus = unsafe { std::mem::zeroed() };
    raw.assoc = assoc;
    get(fd, abi::STATUS, &mut raw)?;
    // SAFETY: as above.
    let mut stats: abi::AssocStats = unsafe { std::mem::zeroed() };
    stats.assoc = assoc;
    // Kernels before 3.8 have no such counter.
    let retransmitted =
        get(fd, abi::GET_ASSOC_STATS, &mut stats).map_or(0, |()| stats.retransmitted);
    let paths = peer_addrs(fd, assoc)?.into_iter().map(|addr| path(fd, assoc, addr));
    Ok(Status {
        streams: (raw.in_streams, raw.out_streams),
        primary: path_of(&raw.primary)?,
        paths: paths.collect::<io::Result<_>>()?,
        retransmitted,
    })
}

/// The peer's addresses.
pub fn peer_addrs(fd: RawFd, assoc: Assoc) -> io::Result<Vec<SocketAddr>> {
    addrs(fd, abi::GET_PEER_ADDRS, assoc)
}

/// The addresses of this side.
pub fn local_addrs(fd: RawFd, assoc: Assoc) -> io::Result<Vec<SocketAddr>> {
    addrs(fd, abi::GET_LOCAL_ADDRS, assoc)
}

/// The settings of a socket and, while its association is open, the association's statistics and
/// paths.
pub(crate) fn facts(fd: RawFd) -> io::Result<(Sctp, Vec<Path>)> {
    let (rto, sack) = (rto(fd)?, sack(fd)?);
    let settings = Sctp {
        associations: 1,
        rto_initial_ms: rto.initial,
        rto_min_ms: rto.min,
        rto_max_ms: rto.max,
        sack_delay_ms: sack.delay_ms,
        sack_packets: sack.packets,
        nodelay: nodelay(fd)?,
        ..Sctp::default()
    };
    let Ok(status) = status(fd, 0) else { return Ok((settings, Vec::new())) };
    let count_of = |state| status.paths.iter().filter(|p| p.state == state).count() as u64;
    let facts = Sctp {
        retransmits: status.retransmitted,
        paths: u32::try_from(status.paths.len()).unwrap_or(u32::MAX),
        paths_failed: count_of(PathState::Failed),
        paths_potentially_failed: count_of(PathState::PotentiallyFailed),
        ..settings
    };
    Ok((facts, status.paths))
}

/// The current paths of an association; empty after its end.
pub(crate) fn paths(fd: RawFd, assoc: Assoc) -> Vec<Path> {
    let addrs = peer_addrs(fd, assoc).unwrap_or_default().into_iter();
    addrs.filter_map(|addr| path(fd, assoc, addr).ok()).collect()
}

fn path(fd: RawFd, assoc: Assoc, addr: SocketAddr) -> io::Result<Path> {
    // SAFETY: the struct consists of integers, for which all zeros is a valid value.
    let mut raw: abi::PathInfo = unsafe { std::mem::zeroed() };
    raw.assoc = assoc;
    let bytes = packed(&[addr]);
    // SAFETY: the struct has room for an address of any family.
    unsafe {
        let to = (&raw mut raw.addr).cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
    }
    get(fd, abi::GET_PEER_ADDR_INFO, &mut raw)?;
    path_of(&raw)
}

fn path_of(raw: &abi::PathInfo) -> io::Result<Path> {
    let addr = raw.addr;
    let size = size_of_addr(addr.ss_family)?;
    // SAFETY: the storage contains an address of that family.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const addr).cast::<u8>(), size) };
    let state = match raw.state {
        abi::PATH_ACTIVE => PathState::Active,
        abi::PATH_UNCONFIRMED => PathState::Unconfirmed,
        abi::PATH_POTENTIALLY_FAILED => PathState::PotentiallyFailed,
        _ => PathState::Failed,
    };
    Ok(Path { addr: read_addr(bytes)?, state, srtt_ms: raw.srtt_ms, rto_ms: raw.rto_ms })
}

fn addrs(fd: RawFd, name: c_int, assoc: Assoc) -> io::Result<Vec<SocketAddr>> {
    let mut buf = [0_u8; LIST];
    buf[..4].copy_from_slice(&assoc.to_ne_bytes());
    get_bytes(fd, name, &mut buf)?;
    let count = u32::from_ne_bytes([buf[4], buf[5], buf[6], buf[7]]);
    let mut rest = &buf[size_of::<abi::AddrsHead>()..];
    let mut list = Vec::new();
    for _ in 0..count {
        let [a, b, ..] = *rest else { return Err(unknown_family()) };
        let size = size_of_addr(u16::from_ne_bytes([a, b]))?;
        let (one, more) = rest.split_at_checked(size).ok_or_else(unknown_family)?;
        list.push(read_addr(one)?);
        rest = more;
    }
    Ok(list)
}

/// Parses a `sockaddr_in` or `sockaddr_in6`. An IPv4 address mapped to IPv6 is returned as IPv4.
fn read_addr(bytes: &[u8]) -> io::Result<SocketAddr> {
    let mut storage = SockAddrStorage::zeroed();
    assert!(bytes.len() <= size_of::<SockAddrStorage>(), "a socket address has at most 128 bytes");
    // SAFETY: the storage has room, any bytes are a valid value of it, and the length is the filled
    // part.
    let addr = unsafe {
        let to = (&raw mut storage).cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        SockAddr::new(storage, bytes.len() as socklen_t)
    };
    let addr = addr.as_socket().ok_or_else(unknown_family)?;
    Ok(SocketAddr::new(addr.ip().to_canonical(), addr.port()))
}

/// Concatenates addresses, each with the size of its family.
fn packed(addrs: &[SocketAddr]) -> Vec<u8> {
    let mut all = Vec::new();
    for addr in addrs {
        let addr = SockAddr::from(*addr);
        // SAFETY: the address is readable for its length.
        let bytes =
            unsafe { std::slice::from_raw_parts(addr.as_ptr().cast::<u8>(), addr.len() as usize) };
        all.extend_from_slice(bytes);
    }
    all
}

fn size_of_addr(family: u16) -> io::Result<usize> {
    match c_int::from(family) {
        libc::AF_INET => Ok(size_of::<libc::sockaddr_in>()),
        libc::AF_INET6 => Ok(size_of::<libc::sockaddr_in6>()),
        _ => Err(unknown_family()),
    }
}

fn unknown_family() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the kernel returned an address of an unknown family",
    )
}

/// The association of a message, from its ancillary data.
fn sender(message: &libc::msghdr) -> Option<Assoc> {
    // SAFETY: recvmsg has filled in the message, whose headers CMSG_* walk; a header for an RcvInfo
    // is followed by a complete one.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while !head.is_null() {
            if ((*head).cmsg_level, (*head).cmsg_type) == (abi::LEVEL, abi::CMSG_RCVINFO) {
                return Some(libc::CMSG_DATA(head).cast::<abi::RcvInfo>().read_unaligned().assoc);
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
    None
}

fn notification(bytes: &[u8]) -> Received {
    if bytes.len() < size_of::<abi::AssocChange>() {
        return Received::Other;
    }
    // SAFETY: there are enough bytes, and any are a valid value of the struct.
    let change = unsafe { bytes.as_ptr().cast::<abi::AssocChange>().read_unaligned() };
    match (change.kind, change.state) {
        (abi::ASSOC_CHANGE, abi::COMM_UP) => Received::Opened(change.assoc),
        _ => Received::Other,
    }
}

/// A buffer for ancillary data with the required alignment.
#[repr(C, align(8))]
struct Control {
    bytes: [u8; CONTROL],
}

impl Control {
    fn new() -> Self {
        Self { bytes: [0; CONTROL] }
    }

    fn message(&mut self, part: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: all zeros is an empty message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = part;
        message.msg_iovlen = 1;
        message.msg_control = self.bytes.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        message
    }
}

fn iovec(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast::<c_void>(), iov_len: len }
}

fn set<T: Plain>(fd: RawFd, name: c_int, value: &T) -> io::Result<c_int> {
    let data = std::ptr::from_ref(value).cast();
    // SAFETY: the value is readable for its size.
    check(unsafe { libc::setsockopt(fd, abi::LEVEL, name, data, size_of::<T>() as socklen_t) })
}

fn set_bytes(fd: RawFd, name: c_int, value: &[u8]) -> io::Result<c_int> {
    let data = value.as_ptr().cast();
    // SAFETY: the value is readable for its length.
    check(unsafe { libc::setsockopt(fd, abi::LEVEL, name, data, value.len() as socklen_t) })
}

/// Read an option; `value` selects the association for the kernel.
fn get<T: Plain>(fd: RawFd, name: c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as socklen_t;
    let data = std::ptr::from_mut(value).cast();
    // SAFETY: the value is writable for its size, and any bytes are a valid value of it (`Plain`).
    check(unsafe { libc::getsockopt(fd, abi::LEVEL, name, data, &raw mut len) }).map(drop)
}

fn get_bytes(fd: RawFd, name: c_int, value: &mut [u8]) -> io::Result<()> {
    let mut len = value.len() as socklen_t;
    let data = value.as_mut_ptr().cast();
    // SAFETY: the bytes are writable.
    check(unsafe { libc::getsockopt(fd, abi::LEVEL, name, data, &raw mut len) }).map(drop)
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn length(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
