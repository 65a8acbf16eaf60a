//! A closed loop whose users start one after the other.

use super::{Load, Plan};
use prony_base::units::Span;

impl Plan {
    /// How many users a closed loop has, over all shares: each has one request in flight, or one
    /// session.
    pub fn users_of_ramp(&self) -> u64 {
        let Load::Closed { connections, .. } = self.load else { return 0 };
        let depth = if self.sessions.is_some() { 1 } else { self.pipeline };
        u64::from(connections) * u64::from(depth)
    }

    /// How long after the start of the load user `number`, counted from 0 over all shares, starts:
    /// with N users and a ramp of T, user k starts after k T / N.
    pub fn start_of_user(&self, number: u64) -> Span {
        let (ramp, users) = (self.ramp_up.unwrap_or_default(), self.users_of_ramp().max(1));
        let at = u128::from(ramp.0) * u128::from(number) / u128::from(users);
        Span(u64::try_from(at).unwrap_or(u64::MAX))
    }

    /// Whether the number of users changes during the measurement.
    pub fn has_changing_users(&self) -> bool {
        self.ramp_up.is_some_and(|ramp| ramp > self.warmup)
    }

    /// # Errors
    /// The ramp cannot be run, in a sentence.
    pub(crate) fn check_ramp_up(&self) -> Result<(), String> {
        let Some(ramp) = self.ramp_up else { return Ok(()) };
        if !matches!(self.load, Load::Closed { .. }) {
            return Err(
                "only the users of a closed loop start over a ramp; an open loop has a ramp \
                        of its rate"
                    .into(),
            );
        }
        if self.clients.is_some() || self.broadcast().is_some() {
            return Err(
                "independent clients and those of a broadcast do not start over a ramp".into()
            );
        }
        let last = self.start_of_user(self.users_of_ramp().saturating_sub(1));
        match self.stop.duration {
            Some(duration) if last >= self.warmup + duration => Err(format!(
                "the ramp of {ramp} starts its last user after {last}, when the load is over; make it \
                 shorter, or the load longer"
            )),
            _ => Ok(()),
        }
    }
}
