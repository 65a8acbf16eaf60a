//! Runs on workers of their own that start together: the phases of a plan that run side by side.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_io::clock;
use prony_run::error::Error;

/// The start of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// By the wall clock of the driver, in nanoseconds since 1970.
    pub(crate) unix_ns: u64,
    /// The same instant.
    pub(crate) at: Instant,
}

impl Start {
    /// From now.
    pub(crate) fn after(lead: Duration) -> Self {
        Self { unix_ns: clock::realtime() + lead.as_nanos() as u64, at: Instant::now() + lead }
    }

    /// Later.
    pub(crate) fn delayed(self, delay: Duration) -> Self {
        Self { unix_ns: self.unix_ns + delay.as_nanos() as u64, at: self.at + delay }
    }
}

/// What the drivers of several runs agree on. None of them starts unless all can.
#[derive(Debug)]
struct Together {
    /// Runs whose workers are not ready yet.
    unready: usize,
    /// Runs whose workers have not all acknowledged the start yet.
    unarmed: usize,
    /// The longest time that one of them needs from the agreement to the start.
    lead: Duration,
    start: Option<Start>,
    /// Why they cannot start.
    failed: Option<String>,
}

/// One of several runs that start together.
#[derive(Clone, Debug)]
pub struct Beside {
    together: Arc<Mutex<Together>>,
    name: String,
    delay: Duration,
}

impl Beside {
    /// Runs with these names and delays after their common start.
    pub fn all<'a>(runs: impl ExactSizeIterator<Item = (&'a str, Duration)>) -> Vec<Self> {
        let (unready, unarmed) = (runs.len(), runs.len());
        let (lead, start, failed) = Default::default();
        let together = Together { unready, unarmed, lead, start, failed };
        let together = Arc::new(Mutex::new(together));
        let one = |(name, delay): (&str, Duration)| Self {
            together: Arc::clone(&together),
            name: name.to_owned(),
            delay,
        };
        runs.map(one).collect()
    }

    fn state(&self) -> MutexGuard<'_, Together> {
        self.together.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long after the common start this run starts.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// The workers of this run are ready, and need this time from the agreement to the start.
    pub(crate) fn ready(&self, lead: Duration) {
        let mut state = self.state();
        state.lead = state.lead.max(lead);
        state.unready -= 1;
        if state.unready == 0 {
            state.start = Some(Start::after(state.lead));
        }
    }

    /// The common start, once all are ready.
    pub(crate) fn start(&self) -> Result<Option<Start>, Error> {
        let state = self.state();
        state.failed.clone().map_or(Ok(state.start), |why| Err(Error::Machine(why)))
    }

    /// The workers of this run have acknowledged the start.
    pub(crate) fn armed(&self) {
        self.state().unarmed -= 1;
    }

    /// Whether those of all have.
    pub(crate) fn are_armed(&self) -> Result<bool, Error> {
        let state = self.state();
        state.failed.clone().map_or(Ok(state.unarmed == 0), |why| Err(Error::Machine(why)))
    }

    /// This run cannot start, so none does. All of them fail with the first reason, which names
    /// its run.
    pub(crate) fn failed(&self, why: Error) -> Error {
        if matches!(why, Error::Stopped) {
            return why;
        }
        let name = &self.name;
        let mut state = self.state();
        let why = state.failed.get_or_insert_with(|| format!("phase '{name}': {why}"));
        Error::Machine(why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<Beside> {
        let runs = [("one", Duration::ZERO), ("two", Duration::from_secs(3))];
        Beside::all(runs.into_iter())
    }

    #[test]
    fn all_start_once_the_last_is_ready() {
        let [one, two] = &two()[..] else { panic!("two") };
        one.ready(Duration::from_secs(9));
        assert!(one.start().expect("no failure").is_none());
        let before = Instant::now();
        two.ready(Duration::from_secs(1));
        let [a, b] = [one, two].map(|run| run.start().expect("no failure").expect("a start"));
        assert_eq!((a.at, a.unix_ns), (b.at, b.unix_ns), "one start");
        let lead = a.at - before;
        assert!(lead >= Duration::from_secs(9), "{lead:?}: the longest lead");
        let later = b.delayed(two.delay());
        assert_eq!(later.at - a.at, Duration::from_secs(3));
        assert_eq!(later.unix_ns - a.unix_ns, 3_000_000_000);
        one.armed();
        assert!(!one.are_armed().expect("no failure"));
        two.armed();
        assert!(one.are_armed().expect("no failure"));
    }

    #[test]
    fn none_starts_if_one_cannot() {
        let [one, two] = &two()[..] else { panic!("two") };
        one.ready(Duration::ZERO);
        let first = two.failed(Error::Machine("worker 1/2 has ended".into())).to_string();
        assert_eq!(first, "phase 'two': worker 1/2 has ended");
        let other = one.start().expect_err("none starts");
        assert_eq!(one.failed(other).to_string(), first, "the first reason, once");
        assert_eq!(one.are_armed().expect_err("none starts").to_string(), first);
        assert!(matches!(one.failed(Error::Stopped), Error::Stopped));
    }
}
