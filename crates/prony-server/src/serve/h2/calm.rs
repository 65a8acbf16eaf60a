//! The bound on what a client may send without doing anything useful.

use prony_base::units::Nanos;

/// What may come at once.
const LIMIT: u32 = 1_000;

/// What more may come per second.
const PER_SECOND: u64 = 100;

/// An allowance for frames that cost a server work or memory and a client nothing: resets, pings,
/// settings, empty frames. It grows with time and with every reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calm {
    left: u32,
    since: Nanos,
}

impl Calm {
    pub(super) fn new(now: Nanos) -> Self {
        Self { left: LIMIT, since: now }
    }

    /// A reply was sent.
    pub(super) fn reply(&mut self) {
        self.left = (self.left + 1).min(LIMIT);
    }

    /// Take one from the allowance. Return whether there was one.
    pub(super) fn take(&mut self, now: Nanos) -> bool {
        if self.left == 0 {
            let more = u128::from(now.since(self.since).0) * u128::from(PER_SECOND) / 1_000_000_000;
            self.left = u32::try_from(more).unwrap_or(LIMIT).min(LIMIT);
            if self.left > 0 {
                self.since = now;
            }
        }
        let had = self.left > 0;
        self.left = self.left.saturating_sub(1);
        had
    }
}

#[cfg(test)]
mod tests {
    use prony_base::units::Span;

    use super::*;

    #[test]
    fn allows_bursts_and_a_steady_rate() {
        let mut calm = Calm::new(Nanos::ZERO);
        let at = |ms| Nanos::ZERO + Span::from_millis(ms);
        assert_eq!((0..2_000).filter(|_| calm.take(at(0))).count(), 1_000);
        assert!(!calm.take(at(9)), "less than one in 9 ms");
        assert!(calm.take(at(10)) && !calm.take(at(10)));
        assert_eq!((0..2_000).filter(|_| calm.take(at(1_010))).count(), 100);
        calm.reply();
        assert!(calm.take(at(1_010)) && !calm.take(at(1_010)));
        assert_eq!((0..2_000).filter(|_| calm.take(at(1_000_000))).count(), 1_000);
        for _ in 0..5_000 {
            calm.reply();
        }
        assert_eq!((0..2_000).filter(|_| calm.take(at(1_000_000))).count(), 1_000, "bounded");
    }
}
