//! Monotonic nanoseconds since the run's epoch.

use prony_core::units::{Nanos, Span};
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// A clock that all workers of a run share: `CLOCK_MONOTONIC` less the run's epoch.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: u64,
}

impl Clock {
    /// A clock whose epoch is now.
    pub fn starting_now() -> Self {
        Self { epoch: monotonic() }
    }

    /// A clock whose epoch is that far in the future. Until then it shows zero.
    pub fn starting_in(lead: Span) -> Self {
        Self { epoch: monotonic() + lead.as_nanos() }
    }

    /// Time since the epoch; zero before it. Never goes backwards.
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(monotonic().saturating_sub(self.epoch))
    }

    /// A moment of `CLOCK_MONOTONIC`, in nanoseconds, on this clock; zero before the epoch.
    pub(crate) fn at(&self, monotonic: u64) -> Nanos {
        Nanos(monotonic.saturating_sub(self.epoch))
    }

    /// How long it is until the epoch; zero after it.
    pub fn until_epoch(&self) -> Span {
        Span(self.epoch.saturating_sub(monotonic()))
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub fn monotonic() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// `CLOCK_REALTIME` in nanoseconds since 1970, which the kernel's time stamps are of.
#[inline]
pub(crate) fn realtime() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

#[inline]
fn nanoseconds(t: Timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The step in which the kernel says that `CLOCK_MONOTONIC` goes.
pub fn resolution() -> Span {
    Span(nanoseconds(clock_getres(ClockId::Monotonic)))
}

/// The local date and time, as C's `ctime` tells it: `Sat Nov 21 19:05:31 2026`.
pub fn local_date() -> String {
    let mut text = [0_u8; 32];
    // SAFETY: all places are valid and as large as is said; the format is a C string.
    let n = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const now, &raw mut parts);
        let format = c"%a %b %e %H:%M:%S %Y";
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const parts)
    };
    String::from_utf8_lossy(&text[..n]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_zero_until_the_epoch_and_moves_after_it() {
        let c = Clock::starting_in(Span::from_secs(3_600));
        assert_eq!(c.now(), Nanos::ZERO);
        assert!(c.until_epoch() > Span::ZERO);
        let c = Clock::starting_in(Span::from_millis(5));
        std::thread::sleep(std::time::Duration::from_millis(7));
        let a = c.now();
        assert!(a >= Nanos(1_000_000), "{a}");
        assert!(c.now() >= a);
        assert_eq!(c.until_epoch(), Span::ZERO);
    }
}
