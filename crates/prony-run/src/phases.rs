//! Phases: the loads of one plan, which run one after the other or side by side.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use prony_base::rng::{self, Stream};
use prony_base::units::Span;
use prony_io::{Control, limits};
use prony_plan::plan::{Load, Plan};
use prony_report::phased::{Outcome, Start};
use prony_report::units;
use prony_stats::summary::Summary;

use crate::builder::Planned;
use crate::error::Error;
use crate::exit::Exit;
use crate::interrupt::catch;

/// A plan with several loads.
#[derive(Debug)]
pub struct Phases {
    /// The seed of the whole plan.
    seed: u64,
    list: Vec<Phase>,
}

/// One of the loads.
#[derive(Debug)]
pub struct Phase {
    /// Its name, which no other phase of the plan has.
    pub name: String,
    /// When it starts.
    pub start: Start,
    /// How much later than that.
    pub delay: Span,
    /// The load itself, a complete plan.
    pub planned: Planned,
}

/// The results of a group of phases: `None` for one that did not start.
pub type Results = Vec<Result<Option<Summary>, Error>>;

/// Runs a phase, which the control stops.
pub type RunOne<'a> = &'a (dyn Fn(&Phase, &Arc<Control>) -> Result<Summary, Error> + Sync);

impl Phases {
    /// The phases of a plan with this seed, in the order of the plan. Each gets a seed of its own,
    /// which depends only on that of the plan and on its position.
    pub fn new(seed: u64, list: Vec<Phase>) -> Self {
        let mut phases = Self { seed, list };
        phases.set_seed(seed);
        phases
    }

    /// Changes the seed of the plan, and with it those of the phases.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
        for (i, phase) in (0..).zip(&mut self.list) {
            phase.planned.plan.seed = seed_of(seed, i);
        }
    }

    /// The seed of the plan.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The phases, in the order of the plan.
    pub fn list(&self) -> &[Phase] {
        &self.list
    }

    /// The phases, to be changed.
    pub fn list_mut(&mut self) -> &mut [Phase] {
        &mut self.list
    }

    /// The phases that run side by side, in the order in which these groups run.
    pub fn groups(&self) -> impl Iterator<Item = &[Phase]> {
        self.list.chunk_by(|_, next| next.start == Start::With)
    }
}

/// How long after the start of its group each phase starts: its delay counts from the start of the
/// phase before it.
pub fn offsets(group: &[Phase]) -> Vec<Span> {
    let mut at = Span::ZERO;
    let next = |phase: &Phase| {
        at = Span(at.0.saturating_add(phase.delay.0));
        at
    };
    group.iter().map(next).collect()
}

/// The seed of a phase: as short as one that a user types.
fn seed_of(seed: u64, index: u64) -> u64 {
    rng::keyed(seed, Stream::Phases, index, 0) >> 32
}

/// The seed of the virtual world of a group of phases.
pub fn world_of(seed: u64, group: usize) -> u64 {
    rng::keyed(seed, Stream::Phases, group as u64, 1) >> 32
}

/// The threads of each of several phases that run side by side: an equal part of all, at least one.
pub fn threads_of_each(all: usize, phases: usize) -> usize {
    (all / phases.max(1)).max(1)
}

/// Checks that the closed loops of phases that run side by side fit together on this machine; each
/// plan alone is checked when it starts.
///
/// # Errors
/// They need more connections than the machine allows.
pub fn check_group(group: &[Phase], threads: usize) -> Result<(), Error> {
    let [_, _, ..] = group else { return Ok(()) };
    let (limit, _) = limits::raise_descriptors();
    let fit = limits::connections_that_fit(limit, threads * group.len());
    let closed = group.iter().map(|phase| &phase.planned.plan);
    let closed = closed.filter(|plan| matches!(plan.load, Load::Closed { .. }));
    let all: u64 = closed.map(Plan::connections_max).sum();
    if all <= fit {
        return Ok(());
    }
    let names: Vec<String> = group.iter().map(|phase| format!("'{}'", phase.name)).collect();
    Err(Error::Argument(format!(
        "the phases {} run side by side with {} connections, but the limit of {} open files allows \
         {}",
        names.join(", "),
        units::count(all),
        units::count(limit),
        units::count(fit)
    )))
}

/// Runs the groups of phases one after the other by `run`, which returns one result for each phase
/// of its group, `None` for a phase that did not start. Ends early if the user stops the plan
/// (`is_stopped`), if a threshold has ended a phase or the run of one `ends` the plan (with the
/// reason), or after an error, which is returned with what has been run until then.
pub fn run(
    phases: &Phases,
    is_stopped: &dyn Fn() -> bool,
    ends: &dyn Fn(&Phase, &Summary) -> Option<String>,
    run: &mut dyn FnMut(usize, &[Phase]) -> Results,
) -> (Vec<Outcome>, Option<Error>) {
    const STOPPED: &str = "the user stopped the plan before";
    let (mut all, mut error, mut why) = (Vec::new(), None, None::<String>);
    for (number, group) in phases.groups().enumerate() {
        if is_stopped() {
            why.get_or_insert_with(|| STOPPED.to_owned());
        }
        if let Some(why) = &why {
            all.extend(group.iter().map(|_| Outcome::NotStarted(why.clone())));
            continue;
        }
        for (phase, result) in group.iter().zip(run(number, group)) {
            all.push(match result {
                Ok(Some(summary)) => {
                    if let Some(threshold) = &summary.run.ended_by {
                        let name = &phase.name;
                        why = Some(format!("phase '{name}' has missed '{threshold}'"));
                    }
                    why = ends(phase, &summary).or(why);
                    Outcome::Ran(Box::new(summary))
                }
                Ok(None) => Outcome::NotStarted(STOPPED.to_owned()),
                Err(e) => {
                    why = Some(format!("phase '{}' could not run", phase.name));
                    let (sentence, own) = (e.to_string(), format!("phase '{}': ", phase.name));
                    let sentence = sentence.strip_prefix(&own).unwrap_or(&sentence);
                    let outcome = Outcome::NotStarted(sentence.to_owned());
                    error.get_or_insert(e);
                    outcome
                }
            });
        }
    }
    (all, error)
}

/// Runs a group of phases on the network, each in a thread of its own, by `one`.
pub fn side_by_side(group: &[Phase], stops: &Stops, one: RunOne<'_>) -> Results {
    each(group.iter().zip(offsets(group)), stops, &|(phase, offset), control| {
        if stops.wait(offset) { one(phase, &control).map(Some) } else { Ok(None) }
    })
}

/// Runs several loads by `one`, each in a thread of its own and with a control of its own, which
/// `stops` stops.
pub fn each<T: Send>(
    loads: impl Iterator<Item = T>,
    stops: &Stops,
    one: &(dyn Fn(T, Arc<Control>) -> Result<Option<Summary>, Error> + Sync),
) -> Results {
    stops.forget();
    let start = |load: T| one(load, stops.control());
    let mut loads: Vec<T> = loads.collect();
    if loads.len() == 1 {
        return loads.pop().map(start).into_iter().collect();
    }
    let start = &start;
    thread::scope(|scope| {
        let threads: Vec<_> =
            loads.into_iter().map(|load| scope.spawn(move || start(load))).collect();
        let ended = threads.into_iter().map(|thread| {
            let died = || Err(Error::Machine("a phase panicked, which is a bug in prony".into()));
            thread.join().unwrap_or_else(|_| died())
        });
        ended.collect()
    })
}

/// What stops a plan with phases: signals, which go to the controls of all loads that run.
#[derive(Debug, Default)]
pub struct Stops {
    state: Mutex<Stopping>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Stopping {
    /// How many signals have arrived.
    signals: u32,
    running: Vec<Arc<Control>>,
}

impl Stops {
    /// From now on, signals stop all loads.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn by_signals() -> Result<Arc<Self>, Error> {
        let stops = Arc::new(Self::default());
        let handler = Arc::clone(&stops);
        catch(Exit::Interrupted.code(), 3, move |_| handler.interrupt())?;
        Ok(stops)
    }

    /// The first call drains all loads, the second stops them at once.
    pub fn interrupt(&self) {
        let mut state = self.state();
        state.signals += 1;
        state.running.iter().for_each(|control| control.interrupt());
        drop(state);
        self.changed.notify_all();
    }

    /// Stops all loads at once: nobody waits for them any more.
    pub fn stop_now(&self) {
        self.interrupt();
        self.interrupt();
    }

    /// Whether the user has stopped the plan.
    pub fn is_interrupted(&self) -> bool {
        self.state().signals > 0
    }

    /// A control for a load that starts now.
    fn control(&self) -> Arc<Control> {
        let control = Arc::new(Control::new());
        let mut state = self.state();
        (0..state.signals).for_each(|_| control.interrupt());
        state.running.push(Arc::clone(&control));
        control
    }

    /// The loads so far have ended.
    fn forget(&self) {
        self.state().running.clear();
    }

    /// Waits for this long. Returns whether the plan is not stopped.
    pub fn wait(&self, delay: Span) -> bool {
        let start = Instant::now();
        let delay = std::time::Duration::from_nanos(delay.0);
        let mut state = self.state();
        while state.signals == 0 {
            let Some(left) = delay.checked_sub(start.elapsed()).filter(|left| !left.is_zero())
            else {
                return true;
            };
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    fn state(&self) -> MutexGuard<'_, Stopping> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notes of all phases, each once, in their order.
pub fn notes(phases: &Phases) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = phases.list.iter().flat_map(|phase| &phase.planned.notes);
    all.filter(|note| seen.insert(note.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests;
