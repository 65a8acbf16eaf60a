//! Sockets whose calls wait.

use std::os::fd::RawFd;

use prony_core::units::Span;

use super::set_option;

/// Let calls on the socket wait: for as long as it takes, unless a limit is set.
pub(crate) fn begin(fd: RawFd) {
    // SAFETY: no pointers are passed; the descriptor is the caller's.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK);
    }
}

/// How long reads may wait; `None`: as long as it takes.
pub(crate) fn limit_reads(fd: RawFd, limit: Option<Span>) {
    set_limit(fd, libc::SO_RCVTIMEO, limit);
}

/// How long writes may wait; `None`: as long as it takes.
pub(crate) fn limit_writes(fd: RawFd, limit: Option<Span>) {
    set_limit(fd, libc::SO_SNDTIMEO, limit);
}

fn set_limit(fd: RawFd, name: libc::c_int, limit: Option<Span>) {
    // To the kernel no time at all means for ever.
    let us = limit.map_or(0, |span| (span.as_nanos() / 1_000).max(1));
    let time = libc::timeval {
        tv_sec: (us / 1_000_000) as libc::time_t,
        tv_usec: (us % 1_000_000) as libc::suseconds_t,
    };
    set_option(fd, libc::SOL_SOCKET, name, time);
}

/// Wait for at most so long until the socket is ready for one of `events` of poll(2), or broken:
/// what it is ready for.
pub(crate) fn until_ready(fd: RawFd, events: libc::c_short, span: Span) -> libc::c_short {
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    let ms = libc::c_int::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX);
    // SAFETY: `poll` is one writable pollfd.
    if unsafe { libc::poll(&mut poll, 1, ms) } == 1 { poll.revents } else { 0 }
}

/// Have all reads from the socket, also one that waits, find the end of what came.
pub(crate) fn end_reads(fd: RawFd) {
    // SAFETY: no pointers. That a socket of datagrams has no peer makes the kernel complain, and do
    // it nevertheless.
    unsafe { libc::shutdown(fd, libc::SHUT_RD) };
}
