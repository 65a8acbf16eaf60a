//! The epoll system calls, with waits of nanosecond resolution.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use prony_base::units::{Nanos, Span};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::net::errno;
use crate::time::pace::Poll;

/// The maximum number of events per wait.
pub(crate) const EVENTS: usize = 1024;

/// The tag of the timer's events.
pub(crate) const TIMER: u64 = u64::MAX;

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// An epoll instance.
pub(crate) struct Poller {
    ep: OwnedFd,
    /// A timer in the interest list.
    timer: OwnedFd,
    /// When the timer expires; `None`: unknown.
    alarm: Option<Nanos>,
    /// Whether the kernel lacks `epoll_pwait2` (before 5.11), so that the timer must end all waits.
    is_old: bool,
    events: Box<[epoll::Event]>,
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Poller")
    }
}

impl Poller {
    /// `old_kernel`: do not use `epoll_pwait2` even if it exists.
    pub(crate) fn new(old_kernel: bool) -> io::Result<Self> {
        let ep = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let none =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let events = vec![none; EVENTS].into_boxed_slice();
        let mut poller = Self { ep, timer, alarm: None, is_old: old_kernel, events };
        // Edge-triggered: an expiry is reported once and need not be read.
        poller
            .add(&poller.timer, TIMER, (libc::EPOLLIN | libc::EPOLLET) as u32)
            .map_err(io::Error::from_raw_os_error)?;
        poller.is_old |= poller.pwait2(Span::ZERO) == Err(libc::ENOSYS);
        Ok(poller)
    }

    /// Watch `fd`; its events carry `tag`.
    pub(crate) fn add(&self, fd: impl AsFd, tag: u64, interest: u32) -> Result<(), i32> {
        let data = epoll::EventData::new_u64(tag);
        epoll::add(&self.ep, fd, data, epoll::EventFlags::from_bits_retain(interest))
            .map_err(Errno::raw_os_error)
    }

    /// Change the events or the tag of `fd`. Reports current readiness again.
    pub(crate) fn modify(&self, fd: impl AsFd, tag: u64, interest: u32) -> Result<(), i32> {
        let data = epoll::EventData::new_u64(tag);
        epoll::modify(&self.ep, fd, data, epoll::EventFlags::from_bits_retain(interest))
            .map_err(Errno::raw_os_error)
    }

    /// Stop watching `fd`.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        // It fails only if `fd` is not watched.
        let _ = epoll::delete(&self.ep, fd);
    }

    /// The tag and flags of the `i`-th event of the last wait.
    #[inline]
    pub(crate) fn event(&self, i: usize) -> (u64, u32) {
        let epoll::Event { flags, data } = self.events[i];
        (data.u64(), flags.bits())
    }

    /// The raw system call: rustix rounds timeouts up to milliseconds to support old kernels.
    fn pwait2(&mut self, at_most: Span) -> Result<usize, i32> {
        let t = timespec(at_most);
        // SAFETY: `events` is writable for EVENTS entries, which have the kernel's layout and for
        // which any bytes are valid; `t` lives until the call returns; there is no signal mask.
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

    /// Wait without a timeout, or with a timeout of zero.
    fn wait(&mut self, limit: Option<&Timespec>) -> Result<usize, i32> {
        epoll::wait(&self.ep, &mut self.events[..], limit).map_err(Errno::raw_os_error)
    }

    /// Set the timer to expire after `span`, which is not zero.
    fn arm(&self, span: Span) {
        let times = Itimerspec { it_interval: NO_TIME, it_value: timespec(span) };
        // The timer exists, and the times are valid.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times);
    }

    /// The number of events. The timer's event only clears the alarm, so that the next wait sets
    /// the timer again. Alone it does not count as an event.
    #[inline]
    fn event_count(&mut self, n: Result<usize, i32>) -> usize {
        // EINTR: a signal. The caller checks the stop flag.
        let n = n.unwrap_or(0);
        if (0..n).any(|i| self.event(i).0 == TIMER) {
            self.alarm = None;
            return if n == 1 { 0 } else { n };
        }
        n
    }
}

impl Poll for Poller {
    fn poll(&mut self, at_most: Span) -> usize {
        let n = match (self.is_old, at_most) {
            (_, Span::ZERO) => self.wait(Some(&NO_TIME)),
            (false, _) => self.pwait2(at_most),
            (true, _) => {
                self.arm(at_most);
                self.alarm = None;
                self.wait(None)
            }
        };
        self.event_count(n)
    }

    /// Use one timer for consecutive waits with the same end. A timeout for each wait would cost as
    /// much as a short system call.
    fn poll_until(&mut self, now: Nanos, at: Nanos) -> usize {
        if at <= now {
            return self.poll(Span::ZERO);
        }
        if self.alarm != Some(at) {
            self.arm(at.since(now));
            self.alarm = Some(at);
        }
        let n = self.wait(None);
        self.event_count(n)
    }
}

fn timespec(span: Span) -> Timespec {
    let n = span.as_nanos();
    Timespec { tv_sec: (n / 1_000_000_000) as _, tv_nsec: (n % 1_000_000_000) as _ }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::time::clock::Clock;

    #[test]
    fn waits_have_microsecond_resolution_also_on_old_kernels() {
        for old_kernel in [false, true] {
            let mut p = Poller::new(old_kernel).unwrap();
            let (mut shortest, begin) = (Duration::MAX, Instant::now());
            // No wait is that short with a resolution of milliseconds. Beside other work, most
            // waits take longer.
            while shortest >= Duration::from_micros(900) && begin.elapsed().as_secs() < 20 {
                let start = Instant::now();
                p.poll(Span::from_micros(200));
                let took = start.elapsed();
                assert!(took >= Duration::from_micros(199), "{old_kernel} {took:?}");
                shortest = shortest.min(took);
            }
            assert!(shortest < Duration::from_micros(900), "{old_kernel} {shortest:?}");
        }
    }

    #[test]
    fn consecutive_waits_share_one_deadline() {
        let mut p = Poller::new(false).unwrap();
        let clock = Clock::starting_now();
        let at = Nanos::ZERO + Span::from_millis(30);
        let (mut a, b) = UnixStream::pair().unwrap();
        p.add(&b, 77, (libc::EPOLLIN | libc::EPOLLET) as u32).unwrap();
        for _ in 0..3 {
            a.write_all(b"x").unwrap();
            assert_eq!((p.poll_until(clock.now(), at), p.event(0).0), (1, 77));
        }
        assert_eq!(p.poll_until(clock.now(), at), 0);
        assert!(clock.now() >= at);
        // A moment in the past ends the wait at once, also if the timer was set for that moment
        // before.
        assert_eq!(p.poll_until(clock.now(), at), 0);
        assert_eq!(p.poll_until(Nanos::ZERO, at), 0);
    }

    #[test]
    fn events_end_waits_also_on_old_kernels() {
        for old_kernel in [false, true] {
            let mut p = Poller::new(old_kernel).unwrap();
            let (mut a, b) = UnixStream::pair().unwrap();
            let interest = (libc::EPOLLIN | libc::EPOLLET) as u32;
            p.add(&b, 77, interest).unwrap();
            assert_eq!(p.poll(Span::ZERO), 0);
            a.write_all(b"x").unwrap();
            // A wait that reaches its end has no event.
            assert_eq!(p.poll(Span::from_secs(20)), 1);
            assert_eq!(p.event(0), (77, libc::EPOLLIN as u32));
            // The edge was reported; there is no new one.
            assert_eq!(p.poll(Span::ZERO), 0);
            p.modify(&b, 78, interest).unwrap();
            assert_eq!(p.poll(Span::ZERO), 1);
            assert_eq!(p.event(0).0, 78);
            p.remove(&b);
            a.write_all(b"x").unwrap();
            assert_eq!(p.poll(Span::ZERO), 0);
        }
    }
}
