//! What the protocol tells while it decodes, turned into records.

use std::collections::VecDeque;

use super::calls::Calls;
use super::conn::NONE;
use super::dynamic::Dynamic;
use super::flight::{BodyMatch, Flight};
use super::trail::Trail;
use crate::fault::Fault;
use crate::proto::{Odd, Reply, ReplySink};
use crate::record::Recorder;
use crate::script::Capture;
use crate::units::Nanos;

/// The sink of one connection for one batch of bytes.
pub(super) struct Sink<'a> {
    pub(super) flights: &'a mut VecDeque<Flight>,
    pub(super) sent: &'a mut u32,
    pub(super) served: &'a mut u64,
    pub(super) retired: &'a mut bool,
    pub(super) body: &'a mut BodyMatch,
    pub(super) capture: &'a mut Option<Box<Capture>>,
    pub(super) dynamic: Option<&'a mut Dynamic>,
    /// What the kernel has noted of its bytes, where it is asked.
    pub(super) trail: Option<&'a mut Trail>,
    pub(super) connect_began: Nanos,
    pub(super) calls: &'a Calls,
    pub(super) recorder: &'a mut Recorder,
    /// Users whose request has ended.
    pub(super) freed: &'a mut Vec<u32>,
    /// Requests that are to be sent again.
    pub(super) bounced: &'a mut Vec<Flight>,
    /// How often a request is sent again whose reply is not as expected.
    pub(super) retries: u32,
    /// Whether a request has failed.
    pub(super) missed: &'a mut bool,
    pub(super) now: Nanos,
}

impl Sink<'_> {
    /// A reply that is no success. Returns whether the request has another try.
    #[cold]
    fn no_success(&mut self, mut flight: Flight, reply: &Reply, fault: Fault) -> bool {
        if reply.fault.is_some() {
            self.recorder.link_fault(self.connect_began, fault);
        } else if flight.tries < self.retries {
            self.recorder.tried(&flight.stamps(self.now), reply);
            if let Some(trail) = self.trail.as_deref_mut() {
                trail.replied(None, self.recorder);
            }
            flight.tries += 1;
            flight.first = Nanos::MAX;
            flight.waits_until = self.now;
            self.bounced.push(flight);
            return true;
        }
        *self.missed = true;
        false
    }
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
            if let Some(trail) = self.trail.as_deref_mut() {
                trail.began();
            }
        }
    }

    #[inline]
    fn wants_headers(&self) -> bool {
        let Some(dynamic) = self.dynamic.as_deref() else { return false };
        self.flights.front().is_some_and(|f| dynamic.wants_headers(f.call))
    }

    fn header(&mut self, name: &[u8], value: &[u8]) {
        if let (Some(dynamic), Some(f)) = (self.dynamic.as_deref_mut(), self.flights.front()) {
            dynamic.header(self.capture, f.call, name, value);
        }
    }

    #[inline]
    fn wants_body(&self) -> bool {
        let dynamic = self.dynamic.as_deref();
        self.flights.front().is_some_and(|f| {
            self.calls.looks_at_body(f.call) || dynamic.is_some_and(|d| d.wants_body(f.call))
        })
    }

    fn body(&mut self, piece: &[u8]) {
        let Some(f) = self.flights.front() else { return };
        self.calls.body(f.call, piece, self.body);
        if let Some(dynamic) = self.dynamic.as_deref_mut() {
            dynamic.body(self.capture, f.call, piece);
        }
    }

    #[inline]
    fn reply(&mut self, reply: Reply) {
        let flight = self.flights.pop_front().expect("a reply answers a call");
        *self.sent -= 1;
        *self.served += 1;
        *self.retired |= !reply.keeps_open;
        let mut fault = self.calls.judge(flight.call, &reply, self.body);
        if let Some(dynamic) = self.dynamic.as_deref_mut() {
            fault = dynamic.replied(self.capture, flight, fault, self.now);
        }
        if let Some(fault) = fault
            && self.no_success(flight, &reply, fault)
        {
            return;
        }
        let stamps = flight.stamps(self.now);
        self.recorder.replied(&stamps, &reply, fault);
        if let Some(trail) = self.trail.as_deref_mut() {
            trail.replied(fault.is_none().then_some((flight.write, stamps)), self.recorder);
        }
        if self.calls.have_names() {
            let name = self.calls.get(flight.call).name;
            if name != NONE {
                self.recorder.name_ended(name, stamps, fault);
            }
        }
        self.freed.push(flight.user);
    }

    fn reply_to(&mut self, position: u32, reply: Reply) {
        if position > 0
            && let Some(flight) = self.flights.remove(position as usize)
        {
            self.flights.push_front(flight);
        }
        self.reply(reply);
    }

    fn odd(&mut self, what: Odd) {
        self.recorder.odd(self.now, what);
    }
}
