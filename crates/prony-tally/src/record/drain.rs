//! What happens after the end of the load.

use super::{Recorder, Stamps};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};

impl Recorder {
    /// A reply arrived after the end of the load.
    #[cold]
    pub(super) fn drained(&mut self, stamps: Stamps, status: u16, fault: Option<Fault>) {
        let in_drain = self.in_drain(&stamps);
        if in_drain > Span::ZERO {
            let t = &mut self.section(stamps.intended).tally;
            t.time_in_drain += in_drain;
            t.replies_in_drain += u64::from(fault.is_none());
            *t.statuses_in_drain.entry(status).or_default() += 1;
        }
    }

    /// The part of a request's time after the end of the load.
    #[inline]
    pub(super) fn in_drain(&self, stamps: &Stamps) -> Span {
        stamps.done.since(self.load_end.max(stamps.intended))
    }

    /// A request is unfinished: the run ends before it.
    pub fn unfinished(&mut self, intended: Nanos) {
        let time = match self.load_end {
            Nanos::MAX => Span::ZERO,
            end => end.since(intended),
        };
        self.given_up(intended);
        let t = &mut self.section(intended).tally;
        t.unfinished += 1;
        t.time_unfinished += time;
    }
}
