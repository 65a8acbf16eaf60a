//! The kernel's time stamps of what a socket sends and receives (`SO_TIMESTAMPING`).
//!
//! The kernel notes when the last byte of a write was given to the packet scheduler, when to the
//! network device, and (TCP) when the peer has acknowledged it; these come over the socket's error
//! queue, numbered. When it received what a read brings comes with the read. Where a network card
//! notes times too, its stamps come the same ways. They are of the card's own clock, so that only
//! what lies between two of them means something.
//!
//! The kernel's are of `CLOCK_REALTIME`, while all else here is of `CLOCK_MONOTONIC`. The two run
//! at the same speed and differ by an offset that changes only when somebody sets the clock. It is
//! taken before every use: the one clock read between two readings of the other, so its error is at
//! most half of the time between these. Where it has changed since the last use, nobody knows which
//! of the stamps between are of which clock, and they are thrown away.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::{Duration, Instant};

use prony_core::machine::{KernelStamp, Passed};
use prony_core::summary::StampClock;
use prony_core::units::{Nanos, Span};

use crate::error::Unstamped;
use crate::net::errno;
use crate::net::socket::{self, Read, Remote};
use crate::time::clock::{self, Clock};

/// What is asked of the kernel. `OPT_TSONLY`: only the stamps come back, and not the data.
const WANTED: libc::c_uint = libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_ACK
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// What is asked of the network card besides. It answers where its driver can and somebody has
/// switched it on (`SIOCSHWTSTAMP`, for the whole machine). `OPT_TX_SWHW`: the kernel's own stamps
/// come all the same.
const OF_THE_CARD: libc::c_uint = libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_RX_HARDWARE
    | libc::SOF_TIMESTAMPING_RAW_HARDWARE
    | libc::SOF_TIMESTAMPING_OPT_TX_SWHW;

/// Kinds of stamps, as the error queue names them (linux/errqueue.h).
const SCM_TSTAMP_SND: u32 = 0;
const SCM_TSTAMP_SCHED: u32 = 1;
const SCM_TSTAMP_ACK: u32 = 2;

/// Stamps read with one call.
const BATCH: usize = 8;
/// Words of a message's control data: the stamps, and the error that numbers them, with an address.
const CONTROL: usize = 32;
/// An offset is taken again until it is known this well ...
const PRECISE: u64 = 500;
/// ... but no more often than that.
const TRIES: u32 = 20;
/// For how long the first stamps are awaited: the kernel begins to take them a while after it was
/// first asked.
const PATIENCE: Duration = Duration::from_millis(500);

/// One worker's reader of stamps.
#[derive(Debug)]
pub(crate) struct Stamps {
    clock: Clock,
    offset: Option<Offset>,
    told: StampClock,
    /// When what the last read has brought was received.
    received: Times,
    control: Box<[[u64; CONTROL]; BATCH]>,
}

/// By how much `CLOCK_REALTIME` is ahead, in nanoseconds, give or take the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    ahead: i64,
    error: u64,
}

/// A moment on two clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    /// On the kernel's clock.
    kernel: Option<u64>,
    /// On the network card's.
    card: Option<u64>,
}

/// One message of an error queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    at: Times,
    /// Kind and number.
    of: Option<(u32, u32)>,
}

/// Keeps the kernel taking stamps of what arrives for as long as it lives. Without it those of the
/// first connections would be missing, and of each that comes after a pause.
#[derive(Debug)]
pub(crate) struct Keeper {
    _socket: UdpSocket,
}

impl Keeper {
    /// Ask the kernel for stamps of a datagram to ourselves, until it has made all that are needed.
    fn new() -> Result<Self, Unstamped> {
        Self::awake().map_err(Unstamped::Kernel)
    }

    fn awake() -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        let fd = socket.as_raw_fd();
        enable(fd)?;
        let mut stamps = Stamps::new(Clock::starting_now());
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            socket.send(&[0])?;
            let (mut sent, mut received, mut buffer) = (false, false, [0; 8]);
            std::thread::sleep(Duration::from_millis(1));
            stamps.drain(fd, &mut |stamp| {
                sent |= matches!(stamp, KernelStamp::Sent { passed: Passed::Device, .. });
            });
            while let Read::Data(_) = stamps.read(fd, &mut buffer, 0) {
                stamps.tell_received(&mut |stamp| {
                    received |= matches!(stamp, KernelStamp::Received(Some(_)));
                });
                if sent && received {
                    return Ok(Self { _socket: socket });
                }
            }
        }
        Err(io::Error::other("it has stamped nothing for half a second"))
    }
}

/// Whether the kernel notes times of what is sent to all of these and received from them; it does
/// while the keeper lives.
pub(crate) fn ready(endpoints: &[Vec<Remote>]) -> Result<Keeper, Unstamped> {
    for remote in endpoints.iter().flatten() {
        if let Some(over) = remote.without_stamps() {
            return Err(Unstamped::Socket { to: remote.to_string(), over });
        }
    }
    Keeper::new()
}

/// Have the kernel note times of what goes over the socket from now on. One of TCP must be
/// connected.
pub(crate) fn enable(fd: RawFd) -> io::Result<()> {
    // Kernels before 4.14 do not know all that is asked of the card.
    socket::ask_for_stamps(fd, WANTED | OF_THE_CARD)
        .or_else(|_| socket::ask_for_stamps(fd, WANTED))
        .map_err(io::Error::from_raw_os_error)
}

impl Stamps {
    /// A reader that tells times of that clock.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            offset: None,
            told: StampClock::default(),
            received: Times::default(),
            control: Box::new([[0; CONTROL]; BATCH]),
        }
    }

    /// How well the kernel's clock was known.
    pub(crate) fn told(&self) -> StampClock {
        self.told
    }

    /// Read once into `buf`, and keep when the kernel received it.
    pub(crate) fn read(&mut self, fd: RawFd, buf: &mut [u8], flags: libc::c_int) -> Read {
        self.received = Times::default();
        loop {
            let mut part = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
            let mut message = message(&mut self.control[0]);
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            // SAFETY: the message names one piece, which is `buf`, and control data, which is
            // `self.control[0]`; both are writable for the lengths that it says.
            let n = unsafe { libc::recvmsg(fd, &raw mut message, flags) };
            if n > 0 {
                // SAFETY: the kernel has filled in the message.
                self.received = unsafe { told(&message) }.at;
                return Read::Data(n as usize);
            }
            if n == 0 {
                return Read::End;
            }
            match errno::last() {
                libc::EINTR => {}
                libc::EAGAIN => return Read::Empty,
                e => return Read::Dead(e),
            }
        }
    }

    /// Tell when what the last read has brought was received.
    pub(crate) fn tell_received(&mut self, tell: &mut dyn FnMut(KernelStamp)) {
        let Times { kernel, card } = std::mem::take(&mut self.received);
        let kernel = kernel.filter(|_| self.measure()).and_then(|at| self.translated(at));
        tell(KernelStamp::Received(kernel));
        if let Some(at) = card {
            tell(KernelStamp::CardReceived(at));
        }
    }

    /// Tell of all stamps that wait in the socket's error queue. Whether the last one there was
    /// that of the device.
    pub(crate) fn drain(&mut self, fd: RawFd, tell: &mut dyn FnMut(KernelStamp)) -> bool {
        let mut sent = false;
        loop {
            let (all, n) = self.batch(fd);
            let known = n > 0 && self.measure();
            for Told { at, of } in all.into_iter().take(n) {
                let Some((kind, number)) = of else { continue };
                if let Some(at) = at.card.filter(|_| kind == SCM_TSTAMP_SND) {
                    tell(KernelStamp::CardSent { number, at });
                }
                let at = at.kernel.filter(|_| known).and_then(|at| self.translated(at));
                let Some(at) = at else { continue };
                let passed = match kind {
                    SCM_TSTAMP_SCHED => Passed::Scheduler,
                    SCM_TSTAMP_SND => Passed::Device,
                    SCM_TSTAMP_ACK => Passed::Acknowledged,
                    _ => continue,
                };
                sent |= passed == Passed::Device;
                tell(KernelStamp::Sent { passed, number, at });
            }
            if n < BATCH {
                return sent;
            }
        }
    }

    /// What one call brings from the error queue, and how many messages that were.
    fn batch(&mut self, fd: RawFd) -> ([Told; BATCH], usize) {
        let mut headers = self
            .control
            .each_mut()
            .map(|control| libc::mmsghdr { msg_hdr: message(control), msg_len: 0 });
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let none = std::ptr::null_mut();
        // SAFETY: there are `BATCH` headers; each names control data of its own in `self.control`,
        // writable for the length that it says, and no piece of memory for data.
        let n =
            unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), BATCH as libc::c_uint, flags, none) };
        let n = usize::try_from(n).unwrap_or(0);
        let mut all = [Told::default(); BATCH];
        for (to, header) in all.iter_mut().zip(&headers).take(n) {
            // SAFETY: the kernel has filled in the first `n` headers.
            *to = unsafe { told(&header.msg_hdr) };
        }
        (all, n)
    }

    /// Take the offset between the clocks. False where the stamps that are about to be translated
    /// may be from before the clock was set.
    fn measure(&mut self) -> bool {
        let mut best = Offset::now();
        for _ in 1..TRIES {
            if best.error <= PRECISE {
                break;
            }
            let again = Offset::now();
            if again.error < best.error {
                best = again;
            }
        }
        self.told.error = self.told.error.max(Span(best.error));
        let before = self.offset.replace(best);
        let stepped = before.is_some_and(|before| !before.agrees(best));
        self.told.steps += u64::from(stepped);
        !stepped
    }

    /// A stamp on the run's clock.
    fn translated(&self, at: u64) -> Option<Nanos> {
        let monotonic = i64::try_from(at).ok()?.checked_sub(self.offset?.ahead)?;
        Some(self.clock.at(u64::try_from(monotonic).ok()?))
    }
}

impl Offset {
    fn now() -> Self {
        let before = clock::monotonic();
        let between = clock::realtime();
        let after = clock::monotonic();
        Self::between(before, between, after)
    }

    /// The offset, if `between` was read between the two others.
    fn between(before: u64, between: u64, after: u64) -> Self {
        let around = after.saturating_sub(before);
        let middle = before + around / 2;
        Self { ahead: between as i64 - middle as i64, error: around.div_ceil(2) }
    }

    /// Whether both can be the same offset.
    fn agrees(self, other: Self) -> bool {
        self.ahead.abs_diff(other.ahead) <= self.error + other.error
    }
}

/// A message without data, whose control data come there.
fn message(control: &mut [u64; CONTROL]) -> libc::msghdr {
    // SAFETY: a msghdr is made of pointers and integers, for which all zeros is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(control) as _;
    message
}

/// The stamp in a message's control data, and what it is of.
///
/// # Safety
/// The control data must be what the kernel has written, and still there.
unsafe fn told(message: &libc::msghdr) -> Told {
    let mut told = Told::default();
    // SAFETY: the caller says that the control data are the kernel's, so its headers follow each
    // other as they say; the data of each are read unaligned and only where they are long enough.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(h) = header.as_ref() {
            let length = h.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = libc::CMSG_DATA(header);
            match (h.cmsg_level, h.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING)
                    if length >= size_of::<[libc::timespec; 3]>() =>
                {
                    // The one between is of no use any more.
                    let [kernel, _, card] = data.cast::<[libc::timespec; 3]>().read_unaligned();
                    told.at = Times { kernel: nanoseconds(kernel), card: nanoseconds(card) };
                }
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                    if length >= size_of::<libc::sock_extended_err>() =>
                {
                    let e = data.cast::<libc::sock_extended_err>().read_unaligned();
                    let is_stamp = e.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING
                        && e.ee_errno == libc::ENOMSG as u32;
                    told.of = is_stamp.then_some((e.ee_info, e.ee_data));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    told
}

/// `None`: none was taken.
fn nanoseconds(t: libc::timespec) -> Option<u64> {
    let ns = (t.tv_sec as u64).checked_mul(1_000_000_000)?.checked_add(t.tv_nsec as u64)?;
    (ns > 0).then_some(ns)
}

#[cfg(test)]
mod tests;
