//! The time side of a driver's loop: the clock's last reading, pulses, the stop flag, and waits
//! that end when the machine wants them to.

use prony_core::machine::StopRequest;
use prony_core::summary::Stalls;
use prony_core::units::{Nanos, Span};

use crate::time::clock::Clock;
use crate::time::sleep::{self, Precision, Sleeper};
use crate::time::stop::{PULSE, StopFlag, StopSeen};

/// What a driver waits on.
pub(crate) trait Poll {
    /// Wait for events for at most so long; how many there are.
    fn poll(&mut self, at_most: Span) -> usize;

    /// Wait for events until `at` or a little longer, which is the same moment for many waits in a
    /// row.
    fn poll_until(&mut self, now: Nanos, at: Nanos) -> usize {
        self.poll(at.since(now))
    }
}

/// One worker's time.
#[derive(Debug)]
pub(crate) struct Pace {
    clock: Clock,
    now: Nanos,
    next_pulse: Nanos,
    /// When a wait that heeds no pulse was to end at the latest.
    wait_ends: Nanos,
    sleeper: Sleeper,
    stop_seen: StopSeen,
    stalls: Stalls,
}

impl Pace {
    /// For the calling thread: measures for about 20 ms how punctually its sleeps end.
    pub(crate) fn new(precision: Precision, poller: &mut impl Poll) -> Self {
        let mut pace = Self::without_sleeps(precision);
        if precision == Precision::Auto {
            pace.sleeper.calibrate(|d| {
                poller.poll(d);
            });
        }
        pace
    }

    /// For the calling thread, which waits in its own way.
    pub(crate) fn without_sleeps(precision: Precision) -> Self {
        sleep::tighten_timer_slack();
        Self {
            clock: Clock::starting_now(),
            now: Nanos::ZERO,
            next_pulse: Nanos::ZERO,
            wait_ends: Nanos::ZERO,
            sleeper: Sleeper::new(precision),
            stop_seen: StopSeen::default(),
            stalls: Stalls::default(),
        }
    }

    /// The run begins on that clock.
    pub(crate) fn begin(&mut self, clock: Clock) {
        self.clock = clock;
        self.next_pulse = self.read_clock() + PULSE;
    }

    /// The last reading of the clock.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    #[inline]
    pub(crate) fn read_clock(&mut self) -> Nanos {
        self.now = self.clock.now();
        self.now
    }

    /// Whether it is time for a pulse.
    #[inline]
    pub(crate) fn pulse_is_due(&mut self) -> bool {
        let due = self.now >= self.next_pulse;
        if due {
            let asked = self.next_pulse.max(self.wait_ends);
            self.stalls.came(self.now.since(asked));
            self.next_pulse = self.now + PULSE;
        }
        due
    }

    /// How to stop, where that is asked anew.
    #[inline]
    pub(crate) fn stop_asked(&mut self, stop: &StopFlag) -> Option<StopRequest> {
        self.stop_seen.asked(stop, self.now)
    }

    /// When to tell the machine of its deadline: then, or with others a little later where the user
    /// asked for that.
    #[inline]
    pub(crate) fn when(&self, deadline: Option<Nanos>) -> Option<Nanos> {
        deadline.map(|due| self.sleeper.look_at(due))
    }

    /// The caller waits in its own way, from now until then at the latest.
    pub(crate) fn waits_until(&mut self, at: Nanos) {
        self.wait_ends = at;
    }

    /// The caller has spun in its own way.
    pub(crate) fn has_spun(&mut self, span: Span) {
        self.sleeper.spun(span);
    }

    /// How late the loop came back to what it had set itself.
    pub(crate) fn stalls(&self) -> Stalls {
        self.stalls
    }

    pub(crate) fn spun(&self) -> Span {
        self.sleeper.spun_in_all()
    }

    /// Wait for events until the machine's deadline, the driver's own next moment or the next
    /// pulse; how many there are. Where it returns 0 the clock has been read.
    pub(crate) fn wait(
        &mut self,
        poller: &mut impl Poll,
        deadline: Option<Nanos>,
        own: Option<Nanos>,
    ) -> usize {
        let housekeeping = own.map_or(self.next_pulse, |own| own.min(self.next_pulse));
        let deadline = deadline.unwrap_or(Nanos::MAX);
        if self.sleeper.always_spins() {
            return self.spin(poller, deadline.min(housekeeping));
        }
        // The last reading of the clock is at most one event old: near enough for what is far away.
        if deadline > housekeeping + PULSE {
            return self.sleep_until(poller, housekeeping);
        }
        let now = self.read_clock();
        if deadline <= now {
            let n = poller.poll(Span::ZERO);
            self.read_clock();
            return n;
        }
        if deadline > housekeeping {
            return self.sleep_until(poller, housekeeping);
        }
        self.wait_until(poller, now, deadline)
    }

    fn sleep_until(&mut self, poller: &mut impl Poll, at: Nanos) -> usize {
        let n = poller.poll_until(self.now, at);
        if n == 0 {
            self.read_clock();
        }
        n
    }

    /// Wait for what the machine wants to do at `due`, to the microsecond.
    fn wait_until(&mut self, poller: &mut impl Poll, now: Nanos, due: Nanos) -> usize {
        let Some(nap) = self.sleeper.nap(now, due) else { return self.spin(poller, due) };
        let n = poller.poll(nap);
        if n > 0 {
            return n;
        }
        let woken = self.read_clock();
        if woken < now + nap {
            return 0; // a signal
        }
        let late = woken.since(now + nap);
        self.sleeper.overslept(late);
        self.stalls.longest = self.stalls.longest.max(late);
        if woken >= due || nap >= due.since(now) { 0 } else { self.spin(poller, due) }
    }

    /// Poll without sleeping until `due` or an event.
    fn spin(&mut self, poller: &mut impl Poll, due: Nanos) -> usize {
        let mut spun = Spun::since(self.read_clock());
        loop {
            let n = poller.poll(Span::ZERO);
            let now = self.read_clock();
            spun.step(now);
            if n > 0 || now >= due {
                self.sleeper.spun(spun.time);
                return n;
            }
        }
    }
}

/// The processor time of one spin, which the clock is read for anyway: the sum of its steps, less
/// those that took so long that something else had the processor meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spun {
    last: Nanos,
    pub(crate) time: Span,
}

impl Spun {
    /// A step is a poll or 32 reads, and takes some microseconds.
    const STEP_MAX: Span = Span::from_micros(100);

    /// Spinning starts now.
    #[inline]
    pub(crate) fn since(now: Nanos) -> Self {
        Self { last: now, time: Span::ZERO }
    }

    /// One more step ends now.
    #[inline]
    pub(crate) fn step(&mut self, now: Nanos) {
        let step = now.since(self.last);
        if step <= Self::STEP_MAX {
            self.time += step;
        }
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::host::cpu;

    /// Nothing ever comes.
    struct Nothing;

    impl Poll for Nothing {
        fn poll(&mut self, _at_most: Span) -> usize {
            0
        }
    }

    fn spin_for(span: Span) -> (Span, Span) {
        let mut pace = Pace::new(Precision::Spin, &mut Nothing);
        pace.begin(Clock::starting_now());
        let (user, system) = cpu::thread_times();
        let due = pace.read_clock() + span;
        pace.spin(&mut Nothing, due);
        let (user_end, system_end) = cpu::thread_times();
        (pace.spun(), user_end + system_end - (user + system))
    }

    #[test]
    fn steps_without_the_processor_are_not_spun() {
        let mut spun = Spun::since(Nanos(0));
        for at in [1_000, 2_500, 4_000_000, 4_001_000, 9_000_000] {
            spun.step(Nanos(at));
        }
        assert_eq!(spun.time, Span(3_500), "1,000 and 1,500 before the first gap, 1,000 after it");
    }

    /// Three others want the same processor, so that the thread has it for a part of the time.
    #[test]
    fn spin_time_is_processor_time_on_a_processor_that_is_shared() {
        let stop = AtomicBool::new(false);
        let core = cpu::allowed()[0];
        thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    cpu::pin(core).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let spinner = s.spawn(|| {
                cpu::pin(core).unwrap();
                spin_for(Span::from_millis(400))
            });
            let (spun, used) = spinner.join().unwrap();
            stop.store(true, Ordering::Relaxed);
            assert!(used < Span::from_millis(300), "the processor was shared: {used:?}");
            // What the kernel's own work takes is in none or both.
            assert!(spun <= used + Span::from_millis(5), "spun {spun:?}, used {used:?}");
            assert!(spun >= used / 2, "spun {spun:?}, used {used:?}");
        });
    }
}
