//! Engines start workers, and carry lines between them and the driver.

use std::time::Duration;

use prony_run::error::Error;

/// An event from a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A line of its standard output.
    Line(usize, String),
    /// It has ended; with the reason, as the end of a sentence.
    Gone(usize, String),
}

/// Starts workers on hosts, all or none, and carries lines without reading them.
pub trait Engine {
    /// Start this number of workers, each on a different host if there are enough.
    ///
    /// # Errors
    /// They could not be started; none is running.
    fn open(&mut self, workers: usize) -> Result<(), Error>;

    /// Pass a line to a worker. A worker that is gone is reported by [`Engine::events`].
    fn send(&mut self, worker: usize, line: &str);

    /// The events since the last call. Waits for the first one, at most this long.
    fn events(&mut self, wait: Duration) -> Vec<Event>;

    /// Close the input of all workers, so that they end, and wait for them. Those that do not end
    /// are killed.
    fn close(&mut self);
}
