//! Monotonic nanoseconds since the epoch of the run.

use prony_base::units::{Nanos, Span};
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// A clock that all workers of a run share: `CLOCK_MONOTONIC` minus the epoch of the run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: u64,
    /// The epoch by `CLOCK_REALTIME`, read once.
    unix: u64,
}

impl Clock {
    /// A clock whose epoch is now.
    pub fn starting_now() -> Self {
        Self { epoch: monotonic(), unix: realtime() }
    }

    /// A clock whose epoch is `lead` from now. Until then it shows zero.
    pub fn starting_in(lead: Span) -> Self {
        Self { epoch: monotonic() + lead.as_nanos(), unix: realtime() + lead.as_nanos() }
    }

    /// A clock whose epoch is this instant of `CLOCK_REALTIME`, in nanoseconds since 1970. It is
    /// translated here, once: a later step of that clock moves nothing.
    ///
    /// # Errors
    /// The instant has passed, this long ago.
    pub fn starting_at(unix_ns: u64) -> Result<Self, Span> {
        let before = monotonic();
        let wall = realtime();
        let now = before + (monotonic() - before) / 2;
        match unix_ns.checked_sub(wall) {
            Some(ahead) => Ok(Self { epoch: now.saturating_add(ahead), unix: unix_ns }),
            None => Err(Span(wall - unix_ns)),
        }
    }

    /// Time since the epoch; zero before it. Never goes backwards.
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(monotonic().saturating_sub(self.epoch))
    }

    /// Converts a time of `CLOCK_MONOTONIC`, in nanoseconds, to this clock; zero before the epoch.
    pub(crate) fn at(&self, monotonic: u64) -> Nanos {
        Nanos(monotonic.saturating_sub(self.epoch))
    }

    /// The epoch in nanoseconds since 1970. A later step of the wall clock does not change it.
    pub fn unix_epoch(&self) -> u64 {
        self.unix
    }

    /// The time until the epoch; zero after it.
    pub fn until_epoch(&self) -> Span {
        Span(self.epoch.saturating_sub(monotonic()))
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub fn monotonic() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// `CLOCK_REALTIME` in nanoseconds since 1970, the clock of the kernel's timestamps.
#[inline]
pub fn realtime() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

#[inline]
fn nanoseconds(t: Timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The resolution of `CLOCK_MONOTONIC`, as the kernel reports it.
pub fn resolution() -> Span {
    Span(nanoseconds(clock_getres(ClockId::Monotonic)))
}

/// The local date and time in the format of C's `ctime`: `Sat Nov 21 19:05:31 2026`.
pub fn local_date() -> String {
    let mut text = [0_u8; 32];
    // SAFETY: all pointers are valid, with the stated sizes; the format is a C string.
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
    fn starts_at_a_moment_of_the_wall_clock() {
        let hour = Span::from_secs(3_600);
        let (clock, before) = (Clock::starting_now(), realtime());
        let in_an_hour = before + hour.as_nanos();
        let left = Clock::starting_at(in_an_hour).expect("an hour ahead").until_epoch();
        let passed = Clock::starting_at(before - 1_000_000_000).unwrap_err();
        // All of it was between the readings of this clock. The two clocks may differ by a little.
        let took = clock.now().since(Nanos::ZERO) + Span::from_millis(10);
        assert!(left <= hour && left >= hour - took, "{left}, {took}");
        let second = Span::from_secs(1);
        assert!(passed >= second && passed <= second + took, "{passed}, {took}");
    }

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
