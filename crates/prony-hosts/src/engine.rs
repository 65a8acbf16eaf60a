//! What starts workers and carries lines between them and the driver.

use std::time::Duration;

use prony_run::error::Error;

/// Something that came from a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A line of its standard output.
    Line(usize, String),
    /// It is gone, and why, as the end of a sentence.
    Gone(usize, String),
}

/// Starts workers on hosts, all or none, and carries lines. It looks into none of them.
pub trait Engine {
    /// Start that many workers, each on a host of its own as far as the engine has hosts.
    ///
    /// # Errors
    /// They could not be started; none is left.
    fn open(&mut self, workers: usize) -> Result<(), Error>;

    /// Pass a line to a worker. A worker that is gone is reported by [`Engine::events`].
    fn send(&mut self, worker: usize, line: &str);

    /// What has come since the last call; waits for the first of it, up to that long.
    fn events(&mut self, wait: Duration) -> Vec<Event>;

    /// End the input of all workers, upon which they end, and wait for them; those that do not end
    /// are killed.
    fn close(&mut self);
}
