//! A crew of workers: one thread, one driver and one machine each, nothing shared but the clock's
//! epoch and the stop flag.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use prony_core::machine::Machine;
use prony_core::summary::Meter;
use prony_core::units::{Nanos, Span};

use super::control::Control;
use crate::drivers::Driver;
use crate::drivers::config::{Config, DriverChoice, Watched};
use crate::error::SetupError;
use crate::host::cpu;
use crate::host::pressure;
use crate::time::clock::Clock;
use crate::time::stop::PULSE;

/// From the moment when all workers are ready to the epoch.
const LEAD: Span = Span::from_millis(5);
/// The last part of the wait for the epoch is spun.
const SPIN: Span = Span::from_micros(300);

/// What the workers have in common.
pub(crate) struct Crew<'a> {
    pub(crate) control: &'a Control,
    pub(crate) driver: DriverChoice,
    /// The cores to stay on, in turn; empty = wherever the kernel likes.
    pub(crate) cores: Vec<usize>,
    /// Whether workers run under the real-time scheduler.
    pub(crate) realtime: bool,
}

/// A worker that has ended.
pub(crate) struct Done<M> {
    pub(crate) machine: M,
    pub(crate) meter: Meter,
    pub(crate) driver: &'static str,
}

/// Tells how a worker's machine stands.
type Show<'a, M> = &'a (dyn Fn(usize, &mut M, Nanos, Span) + Sync);

/// What a worker waits for before it begins.
struct Start {
    ready: Sender<Result<(), SetupError>>,
    go: Receiver<Clock>,
}

impl Crew<'_> {
    /// Run one worker per configuration and wait for all. `make(i)` builds the machine of worker i
    /// in its thread; `show(i, machine, now, spun)` is called by worker i about every 50 ms, with
    /// how long it has spun so far; `watch(now)` by the calling thread as often, which sleeps on
    /// where there is none. A `None` that comes back stands for a worker that panicked.
    pub(crate) fn work<M: Machine + Send>(
        &self,
        configs: Vec<Config>,
        make: &(dyn Fn(usize) -> M + Sync),
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
                    let done = self.worker(i, config, start, make, show);
                    drop(working);
                    done
                };
                let thread = thread::Builder::new().name(format!("prony-{i}"));
                let handle = thread.spawn_scoped(scope, worker);
                handles.push(handle.map_err(SetupError::Thread)?);
                gates.push(gate);
            }
            drop((ready, working));
            // A failure drops the gates, upon which the workers that are ready go home.
            for outcome in &all_ready {
                outcome?;
            }
            let clock = Clock::starting_in(LEAD);
            for gate in gates {
                // A worker that panicked before its start does not listen any more.
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

    fn worker<M: Machine>(
        &self,
        i: usize,
        config: Config,
        start: Start,
        make: &(dyn Fn(usize) -> M + Sync),
        show: Show<'_, M>,
    ) -> Option<Done<M>> {
        let prepared = self.prepare(i, config);
        let (mut driver, said) = match prepared {
            Ok(driver) => (Some(driver), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let mut machine = make(i);
        start.ready.send(said).ok()?;
        drop(start.ready);
        let clock = start.go.recv().ok()?;
        let driver = driver.as_mut()?;
        wait_for_epoch(clock);

        let (user, system) = cpu::thread_times();
        let turned = pressure::turned();
        let mut pulse = |m: &mut M, now: Nanos, spun: Span| show(i, m, now, spun);
        let mut watched = Watched { machine: &mut machine, pulse: &mut pulse };
        let stats = driver.run(&mut watched, clock, self.control.stop_flag());
        let (user_end, system_end) = cpu::thread_times();
        let meter = Meter {
            cpu_user: user_end - user,
            cpu_system: system_end - system,
            wall: stats.end.since(Nanos::ZERO),
            // Interrupts and short preemptions are in the one and not in the other.
            spin: stats.spin.min(user_end + system_end - (user + system)),
            turns: stats.turns,
            stalls: stats.stalls,
            turned: pressure::turned_since(turned, pressure::turned()),
            transport: stats.transport,
            stamps: stats.stamps,
        };
        Some(Done { machine, meter, driver: driver.name() })
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

fn wait_for_epoch(clock: Clock) {
    let sleep = clock.until_epoch() - SPIN;
    thread::sleep(Duration::from_nanos(sleep.as_nanos()));
    while clock.until_epoch() > Span::ZERO {
        std::hint::spin_loop();
    }
}
