//! Periodic signals that interrupt whatever the thread waits for.
//!
//! For a read with a timeout, the kernel sets and removes a timer, for every message. One periodic
//! timer costs messages nothing.

use std::ptr;

use prony_base::units::Span;

/// Interrupts the waits of the thread that created it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticks(libc::timer_t);

/// By default this signal is ignored.
const SIGNAL: libc::c_int = libc::SIGURG;

impl Ticks {
    /// From now on, no wait of the calling thread lasts longer than `every`; a wait that starts at
    /// the moment of a signal may last twice as long. `None` if the kernel cannot create such a
    /// timer.
    pub(crate) fn new(every: Span) -> Option<Self> {
        install_handler()?;
        // SAFETY: zero is a valid value of all its fields.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        // SAFETY: no pointers.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: both pointers are valid; the kernel reads one and fills in the other.
        let made =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        if made != 0 {
            return None;
        }
        let ticks = Self(timer);
        let n = every.as_nanos();
        let each = libc::timespec {
            tv_sec: (n / 1_000_000_000) as libc::time_t,
            tv_nsec: (n % 1_000_000_000) as libc::c_long,
        };
        let times = libc::itimerspec { it_interval: each, it_value: each };
        // SAFETY: the timer exists, `times` lives until the call returns, and the old times are not
        // requested.
        let set = unsafe { libc::timer_settime(ticks.0, 0, &raw const times, ptr::null_mut()) };
        (set == 0).then_some(ticks)
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and nothing else refers to it.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Do work that the calling thread's ticks must not interrupt. A tick that is due comes afterwards.
pub(crate) fn without_ticks<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: zero is a valid set of signals, which the kernel's library fills in.
    let (mut ticks, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: all pointers are valid until the calls return, and the signal number is valid.
    let is_blocked = unsafe {
        libc::sigemptyset(&raw mut ticks);
        libc::sigaddset(&raw mut ticks, SIGNAL);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const ticks, &raw mut before) == 0
    };
    let done = work();
    if is_blocked {
        // SAFETY: the set is the previous one, and the old one is not requested.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    }
    done
}

/// Install a handler that does nothing, so that the signal interrupts system calls.
fn install_handler() -> Option<()> {
    // SAFETY: zero is a valid value of all its fields. Without SA_RESTART, the signal interrupts
    // system calls.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int) = ignore;
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the handler does nothing, and lives as long as the process.
    let set = unsafe { libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) };
    (set == 0).then_some(())
}

extern "C" fn ignore(_signal: libc::c_int) {}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use rustix::net::RecvFlags;

    use super::*;
    use crate::net::socket::{self, Read};

    #[test]
    fn ticks_interrupt_waits_until_dropped() {
        let (a, _b) = UnixStream::pair().unwrap();
        let read = || socket::read_with(&a, &mut [0; 10], RecvFlags::empty());
        let ticks = Ticks::new(Span::from_millis(5)).unwrap();
        let begin = Instant::now();
        for _ in 0..10 {
            assert_eq!(read(), Read::Empty);
        }
        // With ticks blocked, the read waits for its own timeout.
        socket::set_option(
            a.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            libc::timeval { tv_sec: 0, tv_usec: 60_000 },
        );
        let start = Instant::now();
        assert_eq!(without_ticks(read), Read::Empty);
        assert!(start.elapsed() >= Duration::from_millis(60));
        // Ticks that came while the signal was blocked count as one.
        assert!(begin.elapsed() < Duration::from_secs(10));
        drop(ticks);
        a.set_read_timeout(Some(Duration::from_millis(60))).unwrap();
        let begin = Instant::now();
        assert_eq!(read(), Read::Empty);
        assert!(begin.elapsed() >= Duration::from_millis(59));
    }

    #[test]
    fn ticks_do_not_interrupt_other_threads() {
        let _ticks = Ticks::new(Span::from_millis(1)).unwrap();
        std::thread::spawn(|| {
            let (a, _b) = UnixStream::pair().unwrap();
            a.set_read_timeout(Some(Duration::from_millis(60))).unwrap();
            let begin = Instant::now();
            assert_eq!(socket::read_with(&a, &mut [0; 10], RecvFlags::empty()), Read::Empty);
            assert!(begin.elapsed() >= Duration::from_millis(59));
        })
        .join()
        .unwrap();
    }
}
