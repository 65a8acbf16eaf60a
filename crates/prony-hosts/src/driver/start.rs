//! The start of a run: alone, or with others.

use std::time::{Duration, Instant};

use prony_run::error::Error;

use super::{Driver, TURN};
use crate::together::Start;

/// A run that the user stops this short before its start starts nevertheless, and stops at once:
/// its workers could not be kept from it in time.
const TOO_LATE: Duration = Duration::from_millis(200);

impl Driver<'_> {
    /// How long after the common start of several runs this one starts.
    pub(super) fn delay(&self) -> Duration {
        self.job.beside.as_ref().map_or(Duration::ZERO, |beside| beside.delay())
    }

    /// The start of this run, or of the first of several, at least `lead` from now. Waits for those
    /// with which it starts.
    pub(super) fn first_start(&mut self, lead: Duration) -> Result<Start, Error> {
        let Some(beside) = self.job.beside.as_ref() else { return Ok(Start::after(lead)) };
        beside.ready(lead);
        loop {
            if let Some(start) = beside.start()? {
                return Ok(start);
            }
            self.prepare_all()?;
        }
    }

    /// Waits until the workers of all runs with which it starts have acknowledged the start, until
    /// `last`: after that, the others could not be stopped before they start.
    pub(super) fn all_are_armed(&mut self, last: Instant) -> Result<(), Error> {
        let Some(beside) = self.job.beside.as_ref() else { return Ok(()) };
        beside.armed();
        while !beside.are_armed()? {
            if Instant::now() >= last {
                let why = "the phases beside it did not acknowledge the start in time";
                return Err(Error::Machine(format!("{why}; nothing was sent")));
            }
            self.prepare_all()?;
        }
        Ok(())
    }

    /// Process the next events before the start.
    fn prepare_all(&mut self) -> Result<(), Error> {
        self.stopped()?;
        self.engine.events(TURN).into_iter().try_for_each(|event| self.prepare(event))
    }

    /// A run that starts much later than others ends here if the user stops it before.
    ///
    /// # Errors
    /// It was stopped; nothing was sent.
    pub(super) fn await_start(&mut self) -> Result<(), Error> {
        let Some(start) = self.start.filter(|_| !self.delay().is_zero()) else { return Ok(()) };
        while Instant::now() + TOO_LATE < start.at {
            if self.control.stop_request().is_some() {
                self.stop_all(true);
                return Err(Error::Stopped);
            }
            for event in self.engine.events(TURN) {
                self.take(event);
            }
        }
        Ok(())
    }
}
