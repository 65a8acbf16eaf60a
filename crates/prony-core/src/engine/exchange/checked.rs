//! The checks of replies: they read along with what else reads replies, and count.

use super::Exchange;
use prony_base::fault::Fault;
use prony_base::units::Nanos;
use prony_plan::plan::Plan;
use prony_plan::script::{Capture, Checker, Figures};
use prony_proto::proto::Reply;
use prony_tally::record::CheckTally;

/// The checks of a plan.
#[derive(Debug)]
pub(in crate::engine) struct Checked {
    checker: Checker,
    /// When the measurement starts.
    start: Nanos,
    /// How often a request is sent again if its reply is not as expected.
    retries: u32,
    warm: Vec<CheckTally>,
    main: Vec<CheckTally>,
    /// Scratch: the results of one reply.
    results: Vec<(u32, Option<bool>)>,
    /// Unused captures, kept for reuse.
    #[expect(clippy::vec_box, reason = "they move between here and exchanges as they are")]
    spare: Vec<Box<Capture>>,
}

impl Checked {
    /// The checks of the plan; `None` if there are none.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let checker = Checker::new(plan)?;
        let tallies = vec![CheckTally::default(); checker.count()];
        Some(Self {
            checker,
            start: Nanos::ZERO + plan.warmup,
            retries: plan.sessions.as_ref().map_or(0, |sessions| sessions.retries),
            warm: tallies.clone(),
            main: tallies,
            results: Vec::new(),
            spare: Vec::new(),
        })
    }

    pub(super) fn wants_headers(&self, call: u32) -> bool {
        self.checker.wants_headers(call)
    }

    pub(super) fn wants_body(&self, call: u32) -> bool {
        self.checker.wants_body(call)
    }

    pub(super) fn header(&mut self, exchange: &mut Exchange, name: &[u8], value: &[u8]) {
        let call = exchange.call;
        if self.checker.wants_headers(call) {
            let capture =
                exchange.capture.get_or_insert_with(|| self.spare.pop().unwrap_or_default());
            self.checker.header(capture, call, name, value);
        }
    }

    pub(super) fn body(&mut self, exchange: &mut Exchange, piece: &[u8]) {
        if self.checker.wants_body(exchange.call) {
            let capture = &mut exchange.capture;
            capture.get_or_insert_with(|| self.spare.pop().unwrap_or_default()).body(piece);
        }
    }

    /// The reply is complete, and what it must be gave `fault`. Returns the fault with the checks.
    pub(super) fn judge(
        &mut self,
        exchange: &mut Exchange,
        reply: &Reply,
        mut fault: Option<Fault>,
        now: Nanos,
    ) -> Option<Fault> {
        let figures = Figures {
            status: reply.status,
            length: reply.body_bytes,
            time: exchange.stamps(now).response().0,
        };
        let results = &mut self.results;
        results.clear();
        let give = |check, passed| results.push((check, passed));
        self.checker.judge(exchange.call, exchange.capture.as_deref_mut(), figures, give);
        if fault.is_none()
            && !self.checker.finds_text(exchange.call, exchange.capture.as_deref_mut())
        {
            fault = Some(Fault::BodyMismatch);
        }
        fault
    }

    /// Count the results for the reply that was judged, whose final fault is `fault`.
    pub(super) fn count(
        &mut self,
        exchange: &mut Exchange,
        reply: &Reply,
        fault: Option<Fault>,
        now: Nanos,
    ) {
        if let Some(mut capture) = exchange.capture.take() {
            capture.clear();
            self.spare.push(capture);
        }
        // Only the last reply to a request that is sent again is checked.
        let is_last = fault.is_none()
            || (reply.fault.is_some() && !reply.keeps_open)
            || !exchange.may_try_again(self.retries);
        // A reply that breaks off, or breaks the protocol, is none.
        if is_last && reply.fault.is_none() {
            let is_measured = exchange.intended >= self.start;
            let tallies = if is_measured { &mut self.main } else { &mut self.warm };
            for (check, passed) in self.results.drain(..) {
                tallies[check as usize].count(passed, now);
            }
        }
    }

    /// An empty capture is not needed any more.
    pub(super) fn put_back(&mut self, capture: Box<Capture>) {
        self.spare.push(capture);
    }

    /// The results of the checks: those of the warm-up, and of the measurement.
    pub(super) fn take(&mut self) -> (Vec<CheckTally>, Vec<CheckTally>) {
        (std::mem::take(&mut self.warm), std::mem::take(&mut self.main))
    }
}
