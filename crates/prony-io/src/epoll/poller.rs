//! The epoll system calls, with waits in nanoseconds.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use prony_core::units::{Nanos, Span};

use crate::errno;
use crate::pace::Poll;

/// The most events that one wait brings.
const EVENTS: usize = 1024;

/// The tag under which the timer reports.
pub(crate) const TIMER: u64 = u64::MAX;

/// An epoll instance.
#[derive(Debug)]
pub(crate) struct Poller {
    ep: OwnedFd,
    /// A timer in the interest list.
    timer: OwnedFd,
    /// When it goes off; `None`: nobody knows.
    alarm: Option<Nanos>,
    /// Whether the kernel has no `epoll_pwait2` (before 5.11), so that the timer ends all waits.
    is_old: bool,
    events: Box<[libc::epoll_event]>,
}

impl Poller {
    /// `old_kernel`: do without `epoll_pwait2` even where it exists.
    pub(crate) fn new(old_kernel: bool) -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let ep = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if ep < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, nobody else owns it.
        let ep = unsafe { OwnedFd::from_raw_fd(ep) };
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS].into_boxed_slice();
        let mut poller = Self { ep, timer: timer()?, alarm: None, is_old: old_kernel, events };
        // Edge-triggered: an expiry is reported once and never has to be read.
        poller
            .add(poller.timer.as_raw_fd(), TIMER, (libc::EPOLLIN | libc::EPOLLET) as u32)
            .map_err(io::Error::from_raw_os_error)?;
        poller.is_old |= poller.pwait2(Span::ZERO) == Err(libc::ENOSYS);
        Ok(poller)
    }

    /// Watch `fd`; its events carry `tag`.
    pub(crate) fn add(&self, fd: RawFd, tag: u64, interest: u32) -> Result<(), i32> {
        self.ctl(libc::EPOLL_CTL_ADD, fd, tag, interest)
    }

    /// Watch `fd` for something else, or under another tag. Reports anew what is already there.
    pub(crate) fn modify(&self, fd: RawFd, tag: u64, interest: u32) -> Result<(), i32> {
        self.ctl(libc::EPOLL_CTL_MOD, fd, tag, interest)
    }

    /// Watch `fd` no more.
    pub(crate) fn remove(&self, fd: RawFd) {
        // It fails only where `fd` is not watched, which is what is wanted.
        let _ = self.ctl(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    /// The `i`-th event of the last wait: its tag and flags.
    #[inline]
    pub(crate) fn event(&self, i: usize) -> (u64, u32) {
        let e = self.events[i];
        (e.u64, e.events)
    }

    fn ctl(&self, op: libc::c_int, fd: RawFd, tag: u64, interest: u32) -> Result<(), i32> {
        let mut e = libc::epoll_event { events: interest, u64: tag };
        // SAFETY: `e` lives until the call returns.
        if unsafe { libc::epoll_ctl(self.ep.as_raw_fd(), op, fd, &mut e) } < 0 {
            return Err(errno::last());
        }
        Ok(())
    }

    fn pwait2(&mut self, at_most: Span) -> Result<usize, i32> {
        let t = timespec(at_most);
        // SAFETY: `events` is writable for EVENTS entries, `t` lives until the call returns, and
        // there is no signal mask.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.ep.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS,
                std::ptr::from_ref(&t),
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        if n < 0 { Err(errno::last()) } else { Ok(n as usize) }
    }

    fn wait_ms(&mut self, ms: libc::c_int) -> Result<usize, i32> {
        let max = EVENTS as libc::c_int;
        // SAFETY: `events` is writable for EVENTS entries.
        let n = unsafe { libc::epoll_wait(self.ep.as_raw_fd(), self.events.as_mut_ptr(), max, ms) };
        if n < 0 { Err(errno::last()) } else { Ok(n as usize) }
    }
}

impl Poller {
    /// How many events came. The timer tells only once that it has gone off: it is set anew for
    /// whoever waits on, and alone it is no event.
    #[inline]
    fn came(&mut self, n: Result<usize, i32>) -> usize {
        // EINTR: a signal; its effect is seen by whoever looks at the stop flag.
        let n = n.unwrap_or(0);
        if self.events[..n].iter().any(|e| e.u64 == TIMER) {
            self.alarm = None;
            return if n == 1 { 0 } else { n };
        }
        n
    }
}

impl Poll for Poller {
    fn poll(&mut self, at_most: Span) -> usize {
        let n = match (self.is_old, at_most) {
            (false, _) => self.pwait2(at_most),
            (true, Span::ZERO) => self.wait_ms(0),
            (true, _) => {
                arm(&self.timer, at_most);
                self.alarm = None;
                self.wait_ms(-1)
            }
        };
        self.came(n)
    }

    /// One timer for all these waits: a timeout of its own would cost each of them as much as a
    /// short system call.
    fn poll_until(&mut self, now: Nanos, at: Nanos) -> usize {
        if at <= now {
            return self.poll(Span::ZERO);
        }
        if self.alarm != Some(at) {
            arm(&self.timer, at.since(now));
            self.alarm = Some(at);
        }
        let n = self.wait_ms(-1);
        self.came(n)
    }
}

fn timer() -> io::Result<OwnedFd> {
    let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn timespec(span: Span) -> libc::timespec {
    let n = span.as_nanos();
    libc::timespec { tv_sec: (n / 1_000_000_000) as _, tv_nsec: (n % 1_000_000_000) as _ }
}

fn arm(timer: &OwnedFd, span: Span) {
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let t = libc::itimerspec { it_interval: zero, it_value: timespec(span) };
    // SAFETY: `t` lives until the call returns; the old value is not wanted.
    unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &t, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn waits_are_finer_than_milliseconds_on_old_kernels_too() {
        for old_kernel in [false, true] {
            let mut p = Poller::new(old_kernel).unwrap();
            let mut shortest = Duration::MAX;
            for _ in 0..50 {
                let begin = Instant::now();
                p.poll(Span::from_micros(200));
                let took = begin.elapsed();
                assert!(took >= Duration::from_micros(199), "{old_kernel} {took:?}");
                shortest = shortest.min(took);
            }
            assert!(shortest < Duration::from_micros(900), "{old_kernel} {shortest:?}");
        }
    }

    #[test]
    fn many_waits_have_one_end() {
        let mut p = Poller::new(false).unwrap();
        let clock = Clock::starting_now();
        let at = Nanos::ZERO + Span::from_millis(30);
        let (mut a, b) = UnixStream::pair().unwrap();
        p.add(b.as_raw_fd(), 77, (libc::EPOLLIN | libc::EPOLLET) as u32).unwrap();
        for _ in 0..3 {
            a.write_all(b"x").unwrap();
            assert_eq!((p.poll_until(clock.now(), at), p.event(0).0), (1, 77));
        }
        assert_eq!(p.poll_until(clock.now(), at), 0);
        assert!(clock.now() >= at);
        // Where the moment is past, nothing is waited for; nor for ever where it is still to come
        // and was announced before.
        assert_eq!(p.poll_until(clock.now(), at), 0);
        assert_eq!(p.poll_until(Nanos::ZERO, at), 0);
    }

    #[test]
    fn events_end_waits_on_old_kernels_too() {
        for old_kernel in [false, true] {
            let mut p = Poller::new(old_kernel).unwrap();
            let (mut a, b) = UnixStream::pair().unwrap();
            let interest = (libc::EPOLLIN | libc::EPOLLET) as u32;
            p.add(b.as_raw_fd(), 77, interest).unwrap();
            assert_eq!(p.poll(Span::ZERO), 0);
            a.write_all(b"x").unwrap();
            let begin = Instant::now();
            assert_eq!(p.poll(Span::from_secs(20)), 1);
            assert!(begin.elapsed() < Duration::from_secs(10));
            assert_eq!(p.event(0), (77, libc::EPOLLIN as u32));
            // The edge was told; nothing new is.
            assert_eq!(p.poll(Span::ZERO), 0);
            p.modify(b.as_raw_fd(), 78, interest).unwrap();
            assert_eq!(p.poll(Span::ZERO), 1);
            assert_eq!(p.event(0).0, 78);
            p.remove(b.as_raw_fd());
            a.write_all(b"x").unwrap();
            assert_eq!(p.poll(Span::ZERO), 0);
        }
    }
}
