//! What kept the meter from working when it wanted to: others on its processors, a quota, a host
//! that gave the processors to another guest.

use serde::{Deserialize, Serialize};

use super::{Meter, Summary};
use crate::units::Span;

/// From so much on an event loop came back late.
const LATE: Span = Span::from_millis(1);

/// How late an event loop came back to the moments (about 20 a second) at which it had set itself
/// to look after things, whatever else it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Such moments.
    pub checks: u64,
    /// Those among them to which it came late by 1 ms or more.
    pub late: u64,
    /// How late it came to these, added up.
    pub sum: Span,
    /// The latest that it ever came back, from other waits too.
    pub longest: Span,
}

/// How the kernel gave a thread a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// Time that it was ready to run and did not: in the queue of a processor, or throttled.
    pub waited: Span,
    /// How often it got its turn.
    pub times: u64,
}

/// Processor time that the machine kept from the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Withheld {
    /// Time for which a control group of the process, over all processors, had used up its quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Span>,
    /// Time that the host took from the processors that the process may use while they had work to
    /// do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<Span>,
    /// Time for which these processors had work to do, the stolen time included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Span>,
}

impl Stalls {
    /// The loop came to its next moment, so late.
    pub fn came(&mut self, late: Span) {
        self.checks += 1;
        if late >= LATE {
            self.late += 1;
            self.sum += late;
        }
        self.longest = self.longest.max(late);
    }

    /// The share of the moments to which the loop came late, which is the share of the time in
    /// which nobody was there: they lie anywhere in it. And how late it came, on average. `None`
    /// where it was never late.
    pub fn share(&self) -> Option<(f64, Span)> {
        (self.late > 0).then(|| (self.late as f64 / self.checks as f64, self.sum / self.late))
    }
}

impl Meter {
    /// The share of the wall time in which the worker was ready to run and did not, 0 to 1.
    pub fn waited(&self) -> Option<f64> {
        let waited = self.turned?.waited;
        (self.wall > Span::ZERO).then(|| (waited.0 as f64 / self.wall.0 as f64).min(1.0))
    }
}

impl Summary {
    /// The longest wall time of a worker.
    pub fn wall(&self) -> Span {
        self.meters.iter().map(|m| m.wall).max().unwrap_or_default()
    }

    /// The longest stall of any worker's event loop; `None` where there were none to speak of.
    pub fn longest_stall(&self) -> Option<Span> {
        self.meters.iter().map(|m| m.stalls.longest).max().filter(|&t| t >= LATE)
    }

    /// The worker that waited longest for a processor: its index, and the share of its time.
    pub fn most_waiting(&self) -> Option<(usize, f64)> {
        let shares = self.meters.iter().enumerate().filter_map(|(i, m)| Some((i, m.waited()?)));
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}
