//! When to stop waiting for a server that is not there.

use prony_core::units::{Nanos, Span};
use prony_io::Live;

/// How long a server that has never answered may refuse.
const FIRST: Span = Span::from_secs(1);
/// How long one that has answered may stay away.
const AGAIN: Span = Span::from_secs(10);

/// What is said of a server that has never answered.
pub(super) const NOBODY: &str = "nobody answers";

/// Watches a load in which only failures happen. The old tools go on for ever then, or give up at
/// the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    answered: u64,
    /// When that number changed last.
    since: Nanos,
    /// Requests lost until then.
    lost: u64,
    over: Option<&'static str>,
}

impl Patience {
    /// Whether nothing but failures have come for too long. Says so once.
    pub(super) fn is_over(&mut self, live: &Live) -> bool {
        let answered = live.answered();
        if answered != self.answered || live.lost < self.lost {
            *self = Self { answered, since: live.now, lost: live.lost, over: None };
            return false;
        }
        let (limit, sentence) = match answered {
            0 => (FIRST, NOBODY),
            _ => (AGAIN, "the server is gone, for 10 s no request was answered"),
        };
        let over = live.lost > self.lost && live.now.since(self.since) >= limit;
        if !over || self.over.is_some() {
            return false;
        }
        self.over = Some(sentence);
        true
    }

    /// Why the run was ended, if it was.
    pub(super) fn gave_up(&self) -> Option<&'static str> {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feed (milliseconds, answered, lost); the moments at which it said that it is over.
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
    fn a_server_that_was_never_there_gets_a_second() {
        assert_eq!(check(&[(50, 0, 4), (999, 0, 90), (1_000, 0, 91), (2_000, 0, 95)]), [1_000]);
    }

    #[test]
    fn one_that_only_takes_its_time_gets_all_of_it() {
        assert_eq!(check(&[(50, 0, 0), (5_000, 0, 0), (29_000, 0, 0), (29_050, 1, 0)]), [0; 0]);
    }

    #[test]
    fn one_that_goes_away_gets_ten() {
        let steps = [(50, 9, 0), (500, 20, 3), (10_499, 20, 50), (10_500, 20, 51)];
        assert_eq!(check(&steps), [10_500]);
        // A single answer, and it begins anew.
        assert_eq!(check(&[(50, 9, 0), (9_000, 10, 70), (15_000, 10, 90)]), [0; 0]);
    }
}
