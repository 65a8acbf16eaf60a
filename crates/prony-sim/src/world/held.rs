//! Clients that do not get to run for a part of the time: others on their processor, a quota, a
//! process that is stopped. What happens to them meanwhile they learn when they come back.

use prony_core::summary::Stalls;
use prony_core::units::{Nanos, Span};

use super::{CLIENT, SERVER, State, What, World};

/// The moments that a driver sets itself.
const PULSE: Span = Span::from_millis(50);

/// Away for the last part of every period, from the begin of the run.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// How long a period is; over 0.
    pub period: Span,
    /// How much of it the client is away; less than the period.
    pub away: Span,
}

impl Held {
    /// When a client that is away at that time comes back.
    pub fn until(&self, at: Nanos) -> Option<Nanos> {
        let into = at.0 % self.period.0;
        (into >= self.period.0 - self.away.0).then(|| Nanos(at.0 - into + self.period.0))
    }

    /// What an event loop notices of it that runs until `end`.
    pub(super) fn stalls(&self, end: Nanos) -> Stalls {
        let mut stalls = Stalls::default();
        let mut due = Nanos::ZERO + PULSE;
        while due < end {
            let came = self.until(due).unwrap_or(due);
            stalls.came(came.since(due));
            due = came + PULSE;
        }
        stalls
    }
}

impl World<'_, '_> {
    /// When a client is back that would have to take this in now.
    pub(super) fn held_until(&self, at: Nanos, what: Result<What, usize>) -> Option<Nanos> {
        let held = self.setup.held?;
        let is_clients = match what {
            Err(machine) | Ok(What::Turn(machine)) => machine < self.clients,
            Ok(What::Opened(_) | What::Failed(..) | What::Stop(_)) => true,
            // Bytes wait in the socket; that the peer has let go is no matter for the client.
            Ok(What::Arrives(c, from)) => {
                from == SERVER && self.conns[c].ends[CLIENT].state == State::Open
            }
            Ok(What::Writable(_, end) | What::Ack(_, end, _)) => end == CLIENT,
            Ok(What::Syn(_)) => false,
        };
        if is_clients { held.until(at) } else { None }
    }

    pub(super) fn put_off(&mut self, until: Nanos, what: Result<What, usize>) {
        match what {
            Err(machine) => self.seats[machine].tick_at = Some(until),
            Ok(what) => {
                self.push(until, what);
                // It was pending before.
                if let Some(c) = what.conn() {
                    self.conns[c].pending -= 1;
                }
            }
        }
    }
}
