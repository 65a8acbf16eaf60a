//! When to give up a server that does not reply.

use prony_base::units::{Nanos, Span};
use prony_io::Live;

/// How long a server that has never replied may fail all requests.
const FIRST: Span = Span::from_secs(1);
/// How long a server that has replied before may fail all requests.
const AGAIN: Span = Span::from_secs(10);

/// The message for a server that has never replied.
pub(super) const NO_REPLY: &str = "the server does not reply";

/// Watches whether all requests of a load fail. The old tools then continue for ever, or give up at
/// the first failure.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    answered: u64,
    /// When `answered` last changed.
    since: Nanos,
    /// Requests lost by then.
    lost: u64,
    over: Option<&'static str>,
}

impl Patience {
    /// Whether all requests have failed for too long. True only once.
    pub(super) fn is_over(&mut self, live: &Live) -> bool {
        let answered = live.answered();
        if answered != self.answered || live.lost < self.lost {
            *self = Self { answered, since: live.now, lost: live.lost, over: None };
            return false;
        }
        let (limit, sentence) = match answered {
            0 => (FIRST, NO_REPLY),
            _ => (AGAIN, "the server has stopped replying: no reply for 10 s"),
        };
        let over = live.lost > self.lost && live.now.since(self.since) >= limit;
        if !over || self.over.is_some() {
            return false;
        }
        self.over = Some(sentence);
        true
    }

    /// The reason why the run was ended, if it was.
    pub(super) fn gave_up(&self) -> Option<&'static str> {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feed (milliseconds, answered, lost). Returns the times at which `is_over` was true.
    fn check(steps: &[(u64, u64, u64)]) -> Vec<u64> {
        let mut patience = Patience::default();
        let over = |&(ms, answered, lost): &(u64, u64, u64)| {
            let now = Nanos::ZERO + Span::from_millis(ms);
            let live = Live { now, replies: answered, failed: lost, lost, ..Live::default() };
            patience.is_over(&live).then_some(ms)
        };
        steps.iter().filter_map(over).collect()
    }

    #[test]
    fn gives_up_a_server_that_never_replied_after_1_s() {
        assert_eq!(check(&[(50, 0, 4), (999, 0, 90), (1_000, 0, 91), (2_000, 0, 95)]), [1_000]);
    }

    #[test]
    fn waits_for_a_server_that_is_only_slow() {
        assert_eq!(check(&[(50, 0, 0), (5_000, 0, 0), (29_000, 0, 0), (29_050, 1, 0)]), [0; 0]);
    }

    #[test]
    fn gives_up_a_server_that_has_stopped_after_10_s() {
        let steps = [(50, 9, 0), (500, 20, 3), (10_499, 20, 50), (10_500, 20, 51)];
        assert_eq!(check(&steps), [10_500]);
        // A single reply restarts the wait.
        assert_eq!(check(&[(50, 9, 0), (9_000, 10, 70), (15_000, 10, 90)]), [0; 0]);
    }
}
