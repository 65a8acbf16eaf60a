//! What the protocol tells while it decodes, turned into records.

use std::collections::VecDeque;

use super::flight::{BodyMatch, BodyPattern, Flight};
use crate::fault::Fault;
use crate::plan::Expect;
use crate::proto::{Reply, ReplySink};
use crate::record::Recorder;
use crate::units::Nanos;

/// The sink of one connection for one batch of bytes.
pub(super) struct Sink<'a> {
    pub(super) flights: &'a mut VecDeque<Flight>,
    pub(super) sent: &'a mut u32,
    pub(super) served: &'a mut u32,
    pub(super) retired: &'a mut bool,
    pub(super) body: &'a mut BodyMatch,
    pub(super) expect: &'a Expect,
    pub(super) bodiless: &'a [bool],
    pub(super) pattern: Option<&'a BodyPattern>,
    pub(super) recorder: &'a mut Recorder,
    /// Users whose request has ended.
    pub(super) freed: &'a mut Vec<u32>,
    pub(super) now: Nanos,
}

impl ReplySink for Sink<'_> {
    #[inline]
    fn awaited(&self) -> Option<u32> {
        if *self.sent == 0 { None } else { self.flights.front().map(|f| f.call) }
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        *self.sent
    }

    fn began(&mut self) {
        if let Some(f) = self.flights.front_mut() {
            f.first = f.first.min(self.now);
        }
    }

    #[inline]
    fn wants_body(&self) -> bool {
        self.pattern.is_some()
    }

    fn body(&mut self, piece: &[u8]) {
        if let Some(pattern) = self.pattern {
            pattern.feed(self.body, piece);
        }
    }

    #[inline]
    fn reply(&mut self, reply: Reply) {
        let flight = self.flights.pop_front().expect("a reply answers a call");
        *self.sent -= 1;
        *self.served += 1;
        *self.retired |= !reply.keeps_open;
        // What is expected of bodies can't be asked of a reply to HEAD.
        let bodiless = self.bodiless[flight.call as usize];
        let found = self.pattern.is_none_or(|p| p.finish(self.body)) || bodiless;
        let right_length =
            bodiless || self.expect.length.is_none_or(|length| length == reply.body_bytes);
        let fault = reply.fault.or_else(|| {
            if !self.expect.accepts(reply.status) {
                Some(Fault::UnexpectedStatus)
            } else if !found || !right_length {
                Some(Fault::BodyMismatch)
            } else {
                None
            }
        });
        self.recorder.replied(&flight.stamps(self.now), &reply, fault);
        self.freed.push(flight.user);
    }
}
