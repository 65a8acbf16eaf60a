//! Engines start workers, and carry lines between them and the driver.

use std::time::Duration;

use prony_base::units::Span;
use prony_run::error::Error;

use crate::relay::{Share, Tally};

/// An event from a worker, or from the aggregator of a group of workers.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A line of a worker's standard output.
    Line(usize, String),
    /// A worker has ended; with the reason, as the end of a sentence.
    Gone(usize, String),
    /// The sums of a group.
    Tally(usize, Box<Tally>),
    /// All workers of a group are done or lost.
    Over(usize, Vec<Share>),
    /// The aggregator of a group has ended, and its workers with it.
    GroupGone(usize, String),
}

/// Starts workers on hosts, all or none, and carries lines without reading them.
pub trait Engine {
    /// Start this number of workers, each on a different host if there are enough.
    ///
    /// # Errors
    /// They could not be started; none is running.
    fn open(&mut self, workers: usize) -> Result<(), Error>;

    /// The number of workers of each aggregator. 1: there are none, and each worker reports itself.
    fn group(&self) -> usize {
        1
    }

    /// The run of a plan with this warm-up starts after this time.
    fn follow(&mut self, _start: Duration, _warmup: Span) {}

    /// Pass a line to a worker. A worker that is gone is reported by [`Engine::events`].
    fn send(&mut self, worker: usize, line: &str);

    /// The events since the last call. Waits for the first one, at most this long.
    fn events(&mut self, wait: Duration) -> Vec<Event>;

    /// Close the input of all workers, so that they end, and wait for them. Those that do not end
    /// are killed.
    fn close(&mut self);
}
