//! Time in a driver's event loop: the last reading of the clock, pulses, the stop flag, and waits
//! that end at the machine's deadlines.

use prony_base::machine::StopRequest;
use prony_base::meter::Stalls;
use prony_base::units::{Nanos, Span};

use crate::time::clock::Clock;
use crate::time::sleep::{self, Precision, Sleeper};
use crate::time::stop::{PULSE, StopFlag, StopSeen};

/// What a driver waits for.
pub(crate) trait Poll {
    /// Wait at most `at_most` for events. Returns their number.
    fn poll(&mut self, at_most: Span) -> usize;

    /// Wait for events until `at` or slightly longer. Consecutive waits often have the same `at`.
    fn poll_until(&mut self, now: Nanos, at: Nanos) -> usize {
        self.poll(at.since(now))
    }
}

/// The time of one worker.
#[derive(Debug)]
pub(crate) struct Pace {
    clock: Clock,
    now: Nanos,
    next_pulse: Nanos,
    /// When the last poll started.
    poll_start: Nanos,
    /// Whether a poll immediately before it found nothing.
    polled_before: bool,
    /// When a wait without pulses was to end at the latest.
    wait_end: Nanos,
    sleeper: Sleeper,
    stop_seen: StopSeen,
    stalls: Stalls,
}

impl Pace {
    /// For the calling thread. Measures for about 20 ms how late the kernel ends its sleeps.
    pub(crate) fn new(precision: Precision, poller: &mut impl Poll) -> Self {
        let mut pace = Self::without_sleeps(precision);
        if precision == Precision::Auto {
            pace.sleeper.calibrate(|d| {
                poller.poll(d);
            });
        }
        pace
    }

    /// For the calling thread of a driver with its own kind of waits.
    pub(crate) fn without_sleeps(precision: Precision) -> Self {
        sleep::tighten_timer_slack();
        Self {
            clock: Clock::starting_now(),
            now: Nanos::ZERO,
            next_pulse: Nanos::ZERO,
            poll_start: Nanos::ZERO,
            polled_before: false,
            wait_end: Nanos::ZERO,
            sleeper: Sleeper::new(precision),
            stop_seen: StopSeen::default(),
            stalls: Stalls::default(),
        }
    }

    /// The run starts, on this clock.
    pub(crate) fn start(&mut self, clock: Clock) {
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

    /// The first poll of a wait starts.
    #[inline]
    pub(crate) fn start_poll(&mut self) {
        (self.poll_start, self.polled_before) = (self.now, false);
    }

    /// When the last poll started, and whether a poll immediately before it found nothing.
    #[inline]
    pub(crate) fn last_poll(&self) -> (Nanos, bool) {
        (self.poll_start, self.polled_before)
    }

    /// Whether it is time for a pulse.
    #[inline]
    pub(crate) fn pulse_is_due(&mut self) -> bool {
        let due = self.now >= self.next_pulse;
        if due {
            let expected = self.next_pulse.max(self.wait_end);
            self.stalls.record(self.now.since(expected));
            self.next_pulse = self.now + self.stalls.next_check();
        }
        due
    }

    /// A stop request that was not returned before.
    #[inline]
    pub(crate) fn new_stop_request(&mut self, stop: &StopFlag) -> Option<StopRequest> {
        self.stop_seen.new_request(stop, self.now)
    }

    /// When to report its deadline to the machine: at the deadline, or with others at the next
    /// multiple of the grain.
    #[inline]
    pub(crate) fn due(&self, deadline: Option<Nanos>) -> Option<Nanos> {
        deadline.map(|due| self.sleeper.start_time(due))
    }

    /// The driver waits on its own, until `at` at the latest.
    pub(crate) fn set_wait_end(&mut self, at: Nanos) {
        self.wait_end = at;
    }

    /// Add time that the driver has spun on its own.
    pub(crate) fn add_spun(&mut self, span: Span) {
        self.sleeper.add_spun(span);
    }

    /// How late the loop woke up for its own deadlines.
    pub(crate) fn stalls(&self) -> Stalls {
        self.stalls
    }

    pub(crate) fn spun(&self) -> Span {
        self.sleeper.spun()
    }

    /// Wait for events until the machine's deadline, the driver's own next deadline or the next
    /// pulse. Returns the number of events. If it is 0, the clock has been read.
    pub(crate) fn wait(
        &mut self,
        poller: &mut impl Poll,
        deadline: Option<Nanos>,
        own: Option<Nanos>,
    ) -> usize {
        let housekeeping = own.map_or(self.next_pulse, |own| own.min(self.next_pulse));
        let deadline = deadline.unwrap_or(Nanos::MAX);
        if self.sleeper.always_spins() {
            return self.spin(poller, deadline.min(housekeeping), false);
        }
        // The last reading of the clock is at most one event old: precise enough for distant
        // deadlines.
        self.start_poll();
        if deadline > housekeeping + PULSE {
            return self.sleep_until(poller, housekeeping);
        }
        let now = self.read_clock();
        self.start_poll();
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

    /// Wait for the machine's deadline, to the microsecond.
    fn wait_until(&mut self, poller: &mut impl Poll, now: Nanos, due: Nanos) -> usize {
        let Some(nap) = self.sleeper.nap(now, due) else { return self.spin(poller, due, false) };
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
        if woken >= due || nap >= due.since(now) { 0 } else { self.spin(poller, due, true) }
    }

    /// Poll without sleeping until `due` or an event; `again`: an immediately preceding poll found
    /// nothing.
    fn spin(&mut self, poller: &mut impl Poll, due: Nanos, again: bool) -> usize {
        let mut spun = Spun::since(self.read_clock());
        self.start_poll();
        loop {
            let n = poller.poll(Span::ZERO);
            let start = self.now;
            let now = self.read_clock();
            spun.step(now);
            if n > 0 || now >= due {
                self.polled_before = again || start > self.poll_start;
                self.poll_start = start;
                self.sleeper.add_spun(spun.time);
                return n;
            }
        }
    }
}

/// The CPU time of one spin, from clock readings that are needed anyway: the sum of its steps,
/// without steps so long that another thread must have run meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spun {
    last: Nanos,
    pub(crate) time: Span,
}

impl Spun {
    /// A step is a poll or 32 reads, and takes a few microseconds.
    const STEP_MAX: Span = Span::from_micros(100);

    /// Spinning starts now.
    #[inline]
    pub(crate) fn since(now: Nanos) -> Self {
        Self { last: now, time: Span::ZERO }
    }

    /// A step has finished.
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

    /// A poller without events.
    struct Nothing;

    impl Poll for Nothing {
        fn poll(&mut self, _at_most: Span) -> usize {
            0
        }
    }

    fn spin_for(span: Span) -> (Span, Span) {
        let mut pace = Pace::new(Precision::Spin, &mut Nothing);
        pace.start(Clock::starting_now());
        let (user, system) = cpu::thread_times();
        let due = pace.read_clock() + span;
        pace.spin(&mut Nothing, due, false);
        let (user_end, system_end) = cpu::thread_times();
        (pace.spun(), user_end + system_end - (user + system))
    }

    #[test]
    fn steps_without_the_cpu_do_not_count_as_spinning() {
        let mut spun = Spun::since(Nanos(0));
        for at in [1_000, 2_500, 4_000_000, 4_001_000, 9_000_000] {
            spun.step(Nanos(at));
        }
        assert_eq!(
            spun.time,
            Span(3_500),
            "1,000 and 1,500 before the first long step, 1,000 after it"
        );
    }

    /// Three other threads use the same CPU, so the spinning thread gets only part of its time.
    #[test]
    fn spin_time_is_cpu_time_on_a_shared_cpu() {
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
            assert!(used < Span::from_millis(300), "the CPU was shared: {used:?}");
            // Time in the kernel is in neither or in both.
            assert!(spun <= used + Span::from_millis(5), "spun {spun:?}, used {used:?}");
            assert!(spun >= used / 2, "spun {spun:?}, used {used:?}");
        });
    }
}
