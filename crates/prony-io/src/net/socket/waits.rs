//! Sockets whose calls wait.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use prony_core::units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::net::{Shutdown, shutdown};

use super::set_option;

/// Let calls on the socket wait: for as long as it takes, unless a limit is set.
pub(crate) fn begin(fd: &OwnedFd) {
    // A socket has no reason to refuse it.
    let _ = ioctl_fionbio(fd, false);
}

/// How long reads may wait; `None`: as long as it takes.
pub(crate) fn limit_reads(fd: &OwnedFd, limit: Option<Span>) {
    set_limit(fd, libc::SO_RCVTIMEO, limit);
}

/// How long writes may wait; `None`: as long as it takes.
pub(crate) fn limit_writes(fd: &OwnedFd, limit: Option<Span>) {
    set_limit(fd, libc::SO_SNDTIMEO, limit);
}

fn set_limit(fd: &OwnedFd, name: libc::c_int, limit: Option<Span>) {
    // To the kernel no time at all means for ever.
    let us = limit.map_or(0, |span| (span.as_nanos() / 1_000).max(1));
    let time = libc::timeval {
        tv_sec: (us / 1_000_000) as libc::time_t,
        tv_usec: (us % 1_000_000) as libc::suseconds_t,
    };
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, name, time);
}

/// Wait for at most so long until the socket is ready for one of `events`, or broken: what it is
/// ready for.
pub(crate) fn until_ready(fd: &OwnedFd, events: PollFlags, span: Span) -> PollFlags {
    let mut polled = [PollFd::new(fd, events)];
    let n = span.as_nanos();
    let limit = Timespec { tv_sec: (n / 1_000_000_000) as _, tv_nsec: (n % 1_000_000_000) as _ };
    match poll(&mut polled, Some(&limit)) {
        Ok(1) => polled[0].revents(),
        _ => PollFlags::empty(),
    }
}

/// Have all reads from the socket, also one that waits, find the end of what came.
pub(crate) fn end_reads(fd: impl AsFd) {
    // That a socket of datagrams has no peer makes the kernel complain, and do it nevertheless.
    let _ = shutdown(fd, Shutdown::Read);
}
