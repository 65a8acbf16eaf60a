//! How long replies may gather before they are read.
//!
//! A server that sends the replies to pipelined requests one by one wakes the meter for each, and
//! the waking costs more than the reading. Letting a few replies gather makes the load several
//! times cheaper. It also makes their times longer, so it is bounded by a hundredth of what a reply
//! takes anyway, and done only where replies do come one by one.

use crate::plan::{Load, Plan};
use crate::units::Span;

/// The longest that replies are made to wait.
const LONGEST: Span = Span::from_micros(100);
/// A shorter wait would cost more than it saves.
const SHORTEST: Span = Span::from_micros(10);
/// A wait may make a response time longer by this part of it.
const PART: u64 = 100;
/// Weight of the newest batch in the moving averages: 1 in 2^4.
const SHIFT: u32 = 4;

/// Follows how replies come.
#[derive(Debug)]
pub(super) struct Patience {
    /// A batch of so many replies is not "one by one"; 0: never be patient.
    ample: u64,
    /// Moving average of the replies per batch, times 2^SHIFT.
    batch: u64,
    /// Moving average of the response time in ns.
    response: u64,
    span: Span,
}

impl Patience {
    pub(super) fn new(plan: &Plan) -> Self {
        let closed = matches!(plan.load, Load::Closed { .. });
        let ample = if closed && plan.pipeline >= 8 { u64::from(plan.pipeline / 4) } else { 0 };
        Self { ample, batch: 0, response: 0, span: Span::ZERO }
    }

    /// A batch of received bytes ended so many requests, the last of them after `response`.
    #[inline]
    pub(super) fn replies(&mut self, n: usize, response: Span) {
        if self.ample == 0 || n == 0 {
            return;
        }
        self.batch = self.batch - (self.batch >> SHIFT) + n as u64;
        self.response = self.response - (self.response >> SHIFT) + (response.as_nanos() >> SHIFT);
        let bearable = Span(self.response / PART).min(LONGEST);
        let one_by_one = self.batch >> SHIFT < self.ample;
        self.span = if one_by_one && bearable >= SHORTEST { bearable } else { Span::ZERO };
    }

    #[inline]
    pub(super) fn span(&self) -> Span {
        self.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_bounded_and_only_for_replies_that_come_one_by_one() {
        let slow = Span::from_millis(4);
        let mut p = Patience { ample: 16, batch: 0, response: 0, span: Span::ZERO };
        for _ in 0..100 {
            p.replies(1, slow);
            assert!(p.span() <= slow / PART);
        }
        assert!(p.span() > Span::from_micros(35), "{:?}", p.span());
        // Whole windows at once: nothing is gained by waiting.
        for _ in 0..100 {
            p.replies(64, slow);
        }
        assert_eq!(p.span(), Span::ZERO);
        // One by one, but so fast that a wait would show.
        for _ in 0..100 {
            p.replies(1, Span::from_micros(500));
        }
        assert_eq!(p.span(), Span::ZERO);
        let mut never = Patience { ample: 0, batch: 0, response: 0, span: Span::ZERO };
        never.replies(1, slow);
        assert_eq!(never.span(), Span::ZERO);
    }
}
