//! The workers of a run: one thread, one driver and one machine each. They share only the epoch of
//! the clock and the stop flag.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use prony_base::machine::Machine;
use prony_base::meter::WorkerStats;
use prony_base::units::{Nanos, Span};

use super::control::Control;
use crate::drivers::Driver;
use crate::drivers::config::{Config, DriverChoice, Watched};
use crate::error::SetupError;
use crate::host::cpu;
use crate::host::pressure;
use crate::time::clock::Clock;
use crate::time::stop::PULSE;

/// The time between the moment when all workers are ready and the epoch.
const LEAD: Span = Span::from_millis(5);
/// The same if nothing is due at given times: a thread that wakes up late then delays nothing.
const LEAD_UNTIMED: Span = SPIN;
/// The last part of the wait for the epoch, which is spun.
const SPIN: Span = Span::from_micros(300);

/// The settings of all workers.
pub(crate) struct Crew<'a> {
    pub(crate) control: &'a Control,
    pub(crate) driver: DriverChoice,
    /// The cores to pin workers to, in turn; empty = no pinning.
    pub(crate) cores: Vec<usize>,
    /// Whether workers run under the real-time scheduler.
    pub(crate) realtime: bool,
    /// Whether requests are due at given times: arrivals, or users after their think time.
    pub(crate) timed: bool,
    /// When to start, in nanoseconds since 1970; `None`: at once.
    pub(crate) start_at: Option<u64>,
}

/// The result of a worker.
pub(crate) struct Done<M> {
    pub(crate) machine: M,
    pub(crate) meter: WorkerStats,
    pub(crate) driver: &'static str,
    /// How long after the epoch it started.
    pub(crate) start_late: Span,
}

/// Creates what has the machine of a worker, and finds the machine in it.
type Make<'a, M> = (&'a (dyn Fn(usize) -> M + Sync), fn(&mut M) -> &mut dyn Machine);

/// Publishes the progress of a worker's machine.
type Show<'a, M> = &'a (dyn Fn(usize, &mut M, Nanos, Span) + Sync);

/// Synchronizes the start of a worker.
struct Start {
    ready: Sender<Result<(), SetupError>>,
    go: Receiver<Clock>,
}

impl Crew<'_> {
    /// Run one worker per configuration and wait for all. `make(i)` creates what has the machine of
    /// worker i, in its thread; `machine` finds the machine in it. Worker i calls `show(i, it, now,
    /// spun)` about every 50 ms, with its spin time so far. The calling thread calls `watch(now)`
    /// as often, or sleeps if it is `None`. In the result, `None` stands for a worker that
    /// panicked.
    pub(crate) fn work<M: Send>(
        &self,
        configs: Vec<Config>,
        make: &(dyn Fn(usize) -> M + Sync),
        machine: fn(&mut M) -> &mut dyn Machine,
        show: Show<'_, M>,
        watch: Option<&mut dyn FnMut(Nanos)>,
    ) -> Result<Vec<Option<Done<M>>>, SetupError> {
        let (ready, all_ready) = mpsc::channel();
        let (working, all_done) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let mut handles: Vec<ScopedJoinHandle<'_, Option<Done<M>>>> = Vec::new();
            let mut gates = Vec::new();
            for (i, config) in configs.into_iter().enumerate() {
                let (gate, go) = mpsc::channel();
                let (start, working) = (Start { ready: ready.clone(), go }, working.clone());
                let worker = move || {
                    let done = self.worker(i, config, start, (make, machine), show);
                    drop(working);
                    done
                };
                let thread = thread::Builder::new().name(format!("prony-{i}"));
                let handle = thread.spawn_scoped(scope, worker);
                handles.push(handle.map_err(SetupError::Thread)?);
                gates.push(gate);
            }
            drop((ready, working));
            // An error drops the gates, and the workers that are ready exit.
            for outcome in &all_ready {
                outcome?;
            }
            let clock = match self.start_at {
                None => Clock::starting_in(if self.timed { LEAD } else { LEAD_UNTIMED }),
                Some(at) => {
                    Clock::starting_at(at).map_err(|passed| SetupError::StartPassed { passed })?
                }
            };
            for gate in gates {
                // A worker that panicked before the start no longer receives.
                let _ = gate.send(clock);
            }
            let pause = Duration::from_nanos(PULSE.as_nanos());
            if let Some(watch) = watch {
                while all_done.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    watch(clock.now());
                }
            }
            Ok(handles.into_iter().map(|h| h.join().ok().flatten()).collect())
        })
    }

    fn worker<M>(
        &self,
        i: usize,
        config: Config,
        start: Start,
        (make, machine): Make<'_, M>,
        show: Show<'_, M>,
    ) -> Option<Done<M>> {
        let prepared = self.prepare(i, config);
        let (mut driver, result) = match prepared {
            Ok(driver) => (Some(driver), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let mut owner = make(i);
        start.ready.send(result).ok()?;
        drop(start.ready);
        let clock = start.go.recv().ok()?;
        let driver = driver.as_mut()?;
        machine(&mut owner).on_epoch(clock.unix_epoch());
        self.wait_for_epoch(clock);
        let start_late = clock.now().since(Nanos::ZERO);

        let (user, system) = cpu::thread_times();
        let sched_delay = pressure::sched_delay();
        let mut pulse = |m: &mut M, now: Nanos, spun: Span| show(i, m, now, spun);
        let mut watched = Watched { owner: &mut owner, machine, pulse: &mut pulse };
        let stats = driver.run(&mut watched, clock, self.control.stop_flag());
        let (user_end, system_end) = cpu::thread_times();
        let meter = WorkerStats {
            cpu_user: user_end - user,
            cpu_system: system_end - system,
            wall: stats.end.since(Nanos::ZERO),
            // Interrupts and short preemptions count in one but not in the other.
            spin: stats.spin.min(user_end + system_end - (user + system)),
            loop_iterations: stats.turns,
            stalls: stats.stalls,
            sched_delay: pressure::sched_delay_since(sched_delay, pressure::sched_delay()),
            transport: stats.transport,
            timestamps: stats.stamps,
        };
        machine(&mut owner).on_end();
        Some(Done { machine: owner, meter, driver: driver.name(), start_late })
    }

    /// Sleep until just before the epoch, then spin. A stop ends the wait.
    fn wait_for_epoch(&self, clock: Clock) {
        loop {
            let sleep = clock.until_epoch() - SPIN;
            if sleep == Span::ZERO || self.control.stop_request().is_some() {
                break;
            }
            thread::sleep(Duration::from_nanos(sleep.min(PULSE).as_nanos()));
        }
        while clock.until_epoch() > Span::ZERO && self.control.stop_request().is_none() {
            std::hint::spin_loop();
        }
    }

    fn prepare(&self, i: usize, config: Config) -> Result<Driver, SetupError> {
        if !self.cores.is_empty() {
            let core = self.cores[i % self.cores.len()];
            cpu::pin(core).map_err(|error| SetupError::Pin { core, error })?;
        }
        if self.realtime {
            cpu::realtime().map_err(SetupError::Realtime)?;
        }
        Driver::new(self.driver, config)
    }
}
