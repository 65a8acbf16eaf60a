//! Blocking calls on sockets, and their timeouts.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use prony_base::units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::net::{Shutdown, shutdown};

use super::set_option;

/// Make calls on the socket block, without a time limit.
pub(crate) fn set_blocking(fd: &OwnedFd) {
    // This does not fail on sockets.
    let _ = ioctl_fionbio(fd, false);
}

/// Set the timeout of reads; `None`: no timeout.
pub(crate) fn limit_reads(fd: &OwnedFd, limit: Option<Span>) {
    set_limit(fd, libc::SO_RCVTIMEO, limit);
}

/// Set the timeout of writes; `None`: no timeout.
pub(crate) fn limit_writes(fd: &OwnedFd, limit: Option<Span>) {
    set_limit(fd, libc::SO_SNDTIMEO, limit);
}

fn set_limit(fd: &OwnedFd, name: libc::c_int, limit: Option<Span>) {
    // For the kernel, zero means no timeout.
    let us = limit.map_or(0, |span| (span.as_nanos() / 1_000).max(1));
    let time = libc::timeval {
        tv_sec: (us / 1_000_000) as libc::time_t,
        tv_usec: (us % 1_000_000) as libc::suseconds_t,
    };
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, name, time);
}

/// Wait at most `span` until the socket is ready for one of `events`, or broken. Returns the
/// events.
pub(crate) fn until_ready(fd: &OwnedFd, events: PollFlags, span: Span) -> PollFlags {
    let mut polled = [PollFd::new(fd, events)];
    let n = span.as_nanos();
    let limit = Timespec { tv_sec: (n / 1_000_000_000) as _, tv_nsec: (n % 1_000_000_000) as _ };
    match poll(&mut polled, Some(&limit)) {
        Ok(1) => polled[0].revents(),
        _ => PollFlags::empty(),
    }
}

/// Make all reads from the socket, including a blocked one, return the end of the stream.
pub(crate) fn end_reads(fd: impl AsFd) {
    // On an unconnected datagram socket, the kernel returns an error but wakes the reader.
    let _ = shutdown(fd, Shutdown::Read);
}
