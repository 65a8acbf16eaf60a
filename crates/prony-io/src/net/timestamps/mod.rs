//! The kernel's timestamps of what a socket sends and receives (`SO_TIMESTAMPING`).
//!
//! The kernel records when the last byte of a write was passed to the packet scheduler and to the
//! network device, and (TCP) when the peer acknowledged it. These transmit timestamps arrive,
//! numbered, in the socket's error queue. The receive timestamp comes with the read itself. If the
//! network card takes timestamps too, they arrive in the same ways. They are from the card's own
//! clock, so only differences between two of them are meaningful.
//!
//! The kernel's timestamps are from `CLOCK_REALTIME`, while prony uses `CLOCK_MONOTONIC`. The two
//! run at the same rate and differ by an offset that changes only when the clock is set. The
//! offset is measured before every use: one clock is read between two readings of the other, so the
//! error is at most half of the time between these. If the offset has changed since the last use,
//! the timestamps in between may be from before or after the change, so they are discarded.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::{Duration, Instant};

use prony_base::machine::{KernelStamp, Passed};
use prony_base::meter::StampClock;
use prony_base::units::{Nanos, Span};

use crate::error::Unstamped;
use crate::net::errno;
use crate::net::socket::{self, Read, Remote};
use crate::time::clock::{self, Clock};

/// The requested kernel timestamps. `OPT_TSONLY`: return only the timestamps, without the data.
const WANTED: libc::c_uint = libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_ACK
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// The requested timestamps of the network card. They require support in its driver, and that
/// they are enabled for the machine (`SIOCSHWTSTAMP`). `OPT_TX_SWHW`: deliver the kernel's
/// timestamps as well.
const WANTED_OF_CARD: libc::c_uint = libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_RX_HARDWARE
    | libc::SOF_TIMESTAMPING_RAW_HARDWARE
    | libc::SOF_TIMESTAMPING_OPT_TX_SWHW;

/// Kinds of timestamps in the error queue (linux/errqueue.h).
const SCM_TSTAMP_SND: u32 = 0;
const SCM_TSTAMP_SCHED: u32 = 1;
const SCM_TSTAMP_ACK: u32 = 2;

/// Messages per system call.
const BATCH: usize = 8;
/// Words of a message's control data: the timestamps, and the extended error with their number and
/// an address.
const CONTROL_WORDS: usize = 32;
/// The offset is measured again until its error is at most this ...
const OFFSET_ERROR_MAX: u64 = 500;
/// ... but at most this many times.
const OFFSET_TRIES: u32 = 20;
/// How long to wait for the first timestamps: the kernel starts to take them some time after the
/// first request.
const WARM_UP_LIMIT: Duration = Duration::from_secs(5);

/// Reads the timestamps of one worker's connections.
#[derive(Debug)]
pub(crate) struct TimestampReader {
    clock: Clock,
    offset: Option<Offset>,
    quality: StampClock,
    /// When the kernel received the data of the last read.
    received: Times,
    control: Box<[[u64; CONTROL_WORDS]; BATCH]>,
}

/// How far `CLOCK_REALTIME` is ahead, in nanoseconds, and the error of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    ahead: i64,
    error: u64,
}

/// One moment on two clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    /// On the kernel's clock.
    kernel: Option<u64>,
    /// On the network card's clock.
    card: Option<u64>,
}

/// The control data of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Control {
    at: Times,
    /// The kind and number of a transmit timestamp.
    of: Option<(u32, u32)>,
}

/// Keeps receive timestamps enabled in the kernel while it lives. Without it, the first
/// connections, and each one after a pause, would lack timestamps.
#[derive(Debug)]
pub(crate) struct Keeper {
    _socket: UdpSocket,
}

impl Keeper {
    /// Send datagrams to ourselves until the kernel has taken all required timestamps.
    fn new() -> Result<Self, Unstamped> {
        Self::warm_up().map_err(Unstamped::Kernel)
    }

    fn warm_up() -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        let fd = socket.as_raw_fd();
        enable(fd)?;
        let mut stamps = TimestampReader::new(Clock::starting_now());
        let start = Instant::now();
        while start.elapsed() < WARM_UP_LIMIT {
            socket.send(&[0])?;
            let (mut sent, mut received, mut buffer) = (false, false, [0; 8]);
            std::thread::sleep(Duration::from_millis(1));
            stamps.drain(fd, &mut |stamp| {
                sent |= matches!(stamp, KernelStamp::Sent { passed: Passed::Device, .. });
            });
            while let Read::Data(_) = stamps.read(fd, &mut buffer, 0) {
                stamps.report_received(&mut |stamp| {
                    received |= matches!(stamp, KernelStamp::Received(Some(_)));
                });
                if sent && received {
                    return Ok(Self { _socket: socket });
                }
            }
        }
        Err(io::Error::other("no timestamps within five seconds"))
    }
}

/// Check that the kernel takes timestamps of these connections, and have it do so while the keeper
/// lives.
pub(crate) fn ready(endpoints: &[Vec<Remote>]) -> Result<Keeper, Unstamped> {
    for remote in endpoints.iter().flatten() {
        if let Some(over) = remote.without_timestamps() {
            return Err(Unstamped::Socket { to: remote.to_string(), over });
        }
    }
    Keeper::new()
}

/// Enable timestamps on the socket. A TCP socket must be connected.
pub(crate) fn enable(fd: RawFd) -> io::Result<()> {
    // Kernels before 4.14 do not support all flags for the card.
    socket::enable_timestamps(fd, WANTED | WANTED_OF_CARD)
        .or_else(|_| socket::enable_timestamps(fd, WANTED))
        .map_err(io::Error::from_raw_os_error)
}

impl TimestampReader {
    /// A reader that reports times on this clock.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            offset: None,
            quality: StampClock::default(),
            received: Times::default(),
            control: Box::new([[0; CONTROL_WORDS]; BATCH]),
        }
    }

    /// The error and the steps of the clock offset.
    pub(crate) fn clock_quality(&self) -> StampClock {
        self.quality
    }

    /// Read once into `buf`, and keep the receive timestamp.
    pub(crate) fn read(&mut self, fd: RawFd, buf: &mut [u8], flags: libc::c_int) -> Read {
        self.received = Times::default();
        loop {
            let mut part = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
            let mut message = message(&mut self.control[0]);
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            // SAFETY: the message refers to one piece, `buf`, and to control data,
            // `self.control[0]`; both are writable for the given lengths.
            let n = unsafe { libc::recvmsg(fd, &raw mut message, flags) };
            if n > 0 {
                // SAFETY: the kernel has filled in the message.
                self.received = unsafe { parse_control(&message) }.at;
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

    /// Report when the data of the last read was received.
    pub(crate) fn report_received(&mut self, report: &mut dyn FnMut(KernelStamp)) {
        let Times { kernel, card } = std::mem::take(&mut self.received);
        let kernel = kernel.filter(|_| self.measure()).and_then(|at| self.to_run_clock(at));
        report(KernelStamp::Received(kernel));
        if let Some(at) = card {
            report(KernelStamp::CardReceived(at));
        }
    }

    /// Report all timestamps in the socket's error queue. Returns whether the last one was that of
    /// the device.
    pub(crate) fn drain(&mut self, fd: RawFd, report: &mut dyn FnMut(KernelStamp)) -> bool {
        let mut sent = false;
        loop {
            let (all, n) = self.batch(fd);
            let known = n > 0 && self.measure();
            for Control { at, of } in all.into_iter().take(n) {
                let Some((kind, number)) = of else { continue };
                if let Some(at) = at.card.filter(|_| kind == SCM_TSTAMP_SND) {
                    report(KernelStamp::CardSent { number, at });
                }
                let at = at.kernel.filter(|_| known).and_then(|at| self.to_run_clock(at));
                let Some(at) = at else { continue };
                let passed = match kind {
                    SCM_TSTAMP_SCHED => Passed::Scheduler,
                    SCM_TSTAMP_SND => Passed::Device,
                    SCM_TSTAMP_ACK => Passed::Acknowledged,
                    _ => continue,
                };
                sent |= passed == Passed::Device;
                report(KernelStamp::Sent { passed, number, at });
            }
            if n < BATCH {
                return sent;
            }
        }
    }

    /// Read up to `BATCH` messages from the error queue with one call. Returns them and their
    /// number.
    fn batch(&mut self, fd: RawFd) -> ([Control; BATCH], usize) {
        let mut headers = self
            .control
            .each_mut()
            .map(|control| libc::mmsghdr { msg_hdr: message(control), msg_len: 0 });
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let none = std::ptr::null_mut();
        // SAFETY: there are `BATCH` headers; each refers to its own control data in `self.control`,
        // writable for the given length, and to no memory for data.
        let n =
            unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), BATCH as libc::c_uint, flags, none) };
        let n = usize::try_from(n).unwrap_or(0);
        let mut all = [Control::default(); BATCH];
        for (to, header) in all.iter_mut().zip(&headers).take(n) {
            // SAFETY: the kernel has filled in the first `n` headers.
            *to = unsafe { parse_control(&header.msg_hdr) };
        }
        (all, n)
    }

    /// Measure the offset between the clocks. Returns false if the clock may have been set since
    /// the timestamps that are about to be converted.
    fn measure(&mut self) -> bool {
        let mut best = Offset::now();
        for _ in 1..OFFSET_TRIES {
            if best.error <= OFFSET_ERROR_MAX {
                break;
            }
            let again = Offset::now();
            if again.error < best.error {
                best = again;
            }
        }
        self.quality.error = self.quality.error.max(Span(best.error));
        let before = self.offset.replace(best);
        let stepped = before.is_some_and(|before| !before.agrees_with(best));
        self.quality.steps += u64::from(stepped);
        !stepped
    }

    /// Converts a timestamp to the run's clock.
    fn to_run_clock(&self, at: u64) -> Option<Nanos> {
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
        let elapsed = after.saturating_sub(before);
        let middle = before + elapsed / 2;
        Self { ahead: between as i64 - middle as i64, error: elapsed.div_ceil(2) }
    }

    /// Whether both are the same offset within their errors.
    fn agrees_with(self, other: Self) -> bool {
        self.ahead.abs_diff(other.ahead) <= self.error + other.error
    }
}

/// A message without data that receives control data into `control`.
fn message(control: &mut [u64; CONTROL_WORDS]) -> libc::msghdr {
    // SAFETY: a msghdr is made of pointers and integers, for which all zeros is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(control) as _;
    message
}

/// Parses the timestamps in a message's control data.
///
/// # Safety
/// The control data must have been written by the kernel and still exist.
unsafe fn parse_control(message: &libc::msghdr) -> Control {
    let mut parsed = Control::default();
    // SAFETY: the caller guarantees that the kernel wrote the control data, so the headers' lengths
    // are correct. The data of each is read unaligned and only if it is long enough.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(h) = header.as_ref() {
            let length = h.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = libc::CMSG_DATA(header);
            match (h.cmsg_level, h.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING)
                    if length >= size_of::<[libc::timespec; 3]>() =>
                {
                    // The second is obsolete.
                    let [kernel, _, card] = data.cast::<[libc::timespec; 3]>().read_unaligned();
                    parsed.at = Times { kernel: nanoseconds(kernel), card: nanoseconds(card) };
                }
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                    if length >= size_of::<libc::sock_extended_err>() =>
                {
                    let e = data.cast::<libc::sock_extended_err>().read_unaligned();
                    let is_stamp = e.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING
                        && e.ee_errno == libc::ENOMSG as u32;
                    parsed.of = is_stamp.then_some((e.ee_info, e.ee_data));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    parsed
}

/// The time in nanoseconds; `None`: no timestamp was taken.
fn nanoseconds(t: libc::timespec) -> Option<u64> {
    let ns = (t.tv_sec as u64).checked_mul(1_000_000_000)?.checked_add(t.tv_nsec as u64)?;
    (ns > 0).then_some(ns)
}

#[cfg(test)]
mod tests;
