//! Turns the carrier's reports on received bytes into records and an outcome.

use super::carried::Carried;
use super::loss::PASSED_OVER_MAX;
use super::tap::Tap;
use super::trail::Trail;
use crate::engine::exchange::dynamic::Dynamic;
use crate::engine::exchange::expect::Calls;
use crate::engine::exchange::following::After as AfterReply;
use crate::engine::exchange::outcome::Outcome;
use crate::engine::exchange::{After, EndedRequest, Exchange, Exchanges, Sent};
use prony_base::fault::Fault;
use prony_base::units::{ConnId, Nanos, RequestId, Span};
use prony_plan::messages::Stamp;
use prony_proto::proto::{self, Anomaly, FAILURE, Reply};
use prony_tally::record::{CallStart, GroupKey, Recorder, Stamps};

/// The sink of one connection for one batch of bytes.
pub(in crate::engine) struct Sink<'a> {
    pub(super) carried: &'a mut Carried,
    pub(super) exchanges: &'a mut Exchanges,
    /// The observer, and the id of the connection.
    pub(super) tap: Option<(&'a mut (dyn Tap + 'static), ConnId)>,
    pub(super) dynamic: Option<&'a mut Dynamic>,
    /// The kernel's timestamps of its bytes, if they are enabled.
    pub(super) trail: Option<&'a mut Trail>,
    pub(super) connect_began: Nanos,
    pub(super) calls: &'a Calls,
    pub(super) recorder: &'a mut Recorder,
    pub(super) outcome: &'a mut Outcome,
    /// How often a request is sent again when its reply is not as expected.
    pub(super) retries: u32,
    /// Some plans count more of a whole reply than its times and its size.
    pub(super) looks_closer: bool,
    /// This, or a part that is there, has more to do with a whole reply.
    pub(super) has_extras: bool,
    pub(super) now: Nanos,
}

impl Sink<'_> {
    /// Handle a reply that is not a success. Returns whether the request is sent again.
    #[cold]
    fn no_success(&mut self, id: RequestId, reply: Reply, fault: Fault) -> bool {
        let exchange = &mut self.exchanges[id];
        if reply.fault.is_some() && !reply.keeps_open {
            self.recorder.connection_failed(self.connect_began, fault);
        } else if exchange.may_try_again(self.retries) {
            self.recorder.reply_retried(&exchange.stamps(self.now), &reply);
            if let Some(messages) = self.exchanges.messages.as_deref_mut() {
                messages.reply_ended(id, None, self.now, self.recorder);
            }
            let exchange = &mut self.exchanges[id];
            if let Some(trail) = self.trail.as_deref_mut() {
                trail.replied(None, self.recorder);
            }
            exchange.tries_again(self.now);
            self.outcome.goes_again(id);
            return true;
        }
        let exchange = &self.exchanges[id];
        let (stamps, of) = (exchange.stamps(self.now), (exchange.call(), reply.status));
        self.recorder.reply_failed_first(id, &stamps, of, fault);
        (self.outcome.missed, self.outcome.is_rare) = (true, true);
        false
    }

    /// A whole reply has arrived. `EXTRAS`: more is done than most plans need.
    #[inline(always)]
    fn end<const EXTRAS: bool>(&mut self, id: RequestId, reply: &Reply) {
        self.carried.served += 1;
        self.carried.retired |= !reply.keeps_open;
        let exchange = self.carried.take_out(self.exchanges, id);
        let mut fault = self.calls.judge(exchange, reply);
        if EXTRAS && let Some(dynamic) = self.dynamic.as_deref_mut() {
            fault = dynamic.replied(id, exchange, reply, fault, self.now);
            match dynamic.after_reply() {
                None => {}
                Some(AfterReply::Hop(chain)) => return self.hop(id, *reply, chain),
                Some(AfterReply::Ended(chain)) => {
                    let (user, stamps) = (exchange.user(), exchange.stamps(self.now));
                    self.recorder.request_of_chain(chain.key, user, &stamps, true);
                    self.recorder.group_ended(chain, self.now);
                }
            }
        }
        let stamps = exchange.stamps(self.now);
        let user = exchange.user();
        if let Some(fault) = fault
            && self.no_success(id, *reply, fault)
        {
            return;
        }
        if EXTRAS && self.looks_closer {
            if fault.is_none() && self.ends_early(id, &stamps, reply) {
                return;
            }
            self.look_closer(id, stamps, *reply, fault);
        }
        self.recorder.replied(&stamps, reply, fault);
        self.outcome.ended.push(user);
        self.exchanges.remove(id);
    }

    /// A whole reply has arrived, and the plan or an observer needs more than most plans do. Not
    /// inlined, so that the usual case keeps its values in registers.
    #[inline(never)]
    fn done_with_extras(&mut self, id: RequestId, reply: Reply) {
        if let Some((tap, conn)) = &mut self.tap {
            tap.done(*conn, id, &reply);
        }
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            let ended = messages.body_ended(id, reply.status, self.now, self.recorder);
            self.follow(id, ended);
        }
        self.end::<true>(id, &reply);
    }

    /// Whether a part that is there asks for the headers of a reply.
    #[cold]
    fn are_headers_wanted(&self, id: RequestId) -> bool {
        let dynamic = self.dynamic.as_deref();
        dynamic.is_some_and(|d| d.wants_headers(self.exchanges[id].call()))
            || self.tap.as_ref().is_some_and(|(tap, _)| tap.wants_headers())
    }

    /// What only some plans count of a whole reply.
    #[cold]
    fn look_closer(&mut self, id: RequestId, stamps: Stamps, reply: Reply, fault: Option<Fault>) {
        let mut stream = None;
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            let success = fault.is_none().then_some(&stamps);
            if self.tap.as_ref().is_some_and(|(tap, _)| tap.wants_ends()) {
                stream = messages.ended_stream(id, success.is_some());
            }
            messages.schedule_ended(id, self.now, self.recorder);
            messages.reply_ended(id, success, self.now, self.recorder);
        }
        self.recorder.step_replied(&stamps);
        let exchange = &self.exchanges[id];
        if let Some(trail) = self.trail.as_deref_mut() {
            trail.replied(fault.is_none().then_some((exchange.write(), stamps)), self.recorder);
        }
        if let Some(name) = self.calls.name(exchange.call()) {
            self.recorder.name_ended(name, stamps, reply.status, fault);
        }
        if let Some((tap, conn)) = self.tap.as_mut().filter(|(tap, _)| tap.wants_ends()) {
            let request = EndedRequest {
                id,
                stamps,
                was_sent: true,
                has_begun: true,
                call: exchange.call(),
                conn: Some(*conn),
                reply: Some(reply),
                fault,
                stream,
            };
            tap.request_ended(&request);
            if stream.is_some_and(|stream| stream.is_uncounted)
                && let Some(messages) = self.exchanges.messages.as_deref_mut()
            {
                messages.keep_uncounted(&request);
            }
        }
        let exchange = &self.exchanges[id];
        if exchange.window() > Span::ZERO {
            self.recorder.waited_for_window(exchange.intended(), exchange.window());
        }
    }

    /// Whether the stream of a successful reply has ended before its bound, and is opened again.
    #[cold]
    fn ends_early(&mut self, id: RequestId, stamps: &Stamps, reply: &Reply) -> bool {
        let messages = self.exchanges.messages.as_deref_mut();
        let ends_early = messages
            .is_some_and(|messages| messages.ends_early(id, reply.status, stamps, self.recorder));
        if ends_early {
            self.recorder.stream_ended_early(stamps.intended, reply);
            if let Some(trail) = self.trail.as_deref_mut() {
                trail.replied(None, self.recorder);
            }
            self.outcome.reopens.push(id);
            self.outcome.is_rare = true;
        }
        ends_early
    }

    /// The reply is a redirect that is followed: its request has ended, and the next one, of the
    /// same owner, starts now.
    #[cold]
    fn hop(&mut self, id: RequestId, reply: Reply, chain: GroupKey) {
        let exchange = &self.exchanges[id];
        let stamps = exchange.stamps(self.now);
        let next = exchange.redirected(self.now);
        self.recorder.request_of_chain(chain, exchange.user(), &stamps, false);
        if self.looks_closer {
            // Redirects are no streams, and have no messages.
            self.look_closer(id, stamps, reply, None);
        }
        self.recorder.replied(&stamps, &reply, None);
        self.exchanges.remove(id);
        let to = self.exchanges.insert(next);
        self.recorder.started(self.now);
        if let Some(name) = self.calls.name(next.call) {
            self.recorder.name_started(name, self.now);
        }
        if let Some(dynamic) = self.dynamic.as_deref_mut() {
            dynamic.moves(id, to);
        }
        self.outcome.goes_again(to);
    }

    /// Do what follows from a part of a stream of messages.
    fn follow(&mut self, id: RequestId, after: After) {
        self.outcome.is_rare |= after != After::Nothing;
        if let After::Fault(fault) = after {
            self.exchanges[id].find_fault(fault);
        }
    }

    /// Whether the exchange is submitted and has not ended.
    fn is_submitted(&self, id: RequestId) -> bool {
        self.exchanges.get(id).is_some_and(Exchange::is_submitted)
    }
}

impl proto::Sink for Sink<'_> {
    #[inline]
    fn oldest(&self) -> Option<(RequestId, u32)> {
        if self.carried.sent == 0 {
            return None;
        }
        self.exchanges.oldest(&self.carried.all)
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.carried.sent
    }

    fn call(&self, id: RequestId) -> Option<u32> {
        self.is_submitted(id).then(|| self.exchanges[id].call())
    }

    fn was_sent(&self, id: RequestId) -> bool {
        self.exchanges.get(id).is_some_and(Exchange::is_sent)
    }

    #[cold]
    fn unreadable(&mut self, bytes: &[u8], fault: Fault) {
        self.recorder.unreadable(bytes, fault);
    }

    fn began(&mut self, id: RequestId) {
        if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.begins(self.now);
            if let Some(trail) = self.trail.as_deref_mut() {
                trail.began();
            }
        }
    }

    #[inline]
    fn wants_headers(&self, id: RequestId) -> bool {
        (self.dynamic.is_some() || self.tap.is_some()) && self.are_headers_wanted(id)
    }

    fn header(&mut self, id: RequestId, name: &[u8], value: &[u8]) {
        let exchange = &mut self.exchanges[id];
        if let Some(dynamic) =
            self.dynamic.as_deref_mut().filter(|d| d.wants_headers(exchange.call()))
        {
            dynamic.header(id, exchange, name, value);
        }
        if let Some((tap, conn)) = &mut self.tap {
            tap.header(*conn, id, name, value);
        }
    }

    #[inline(always)]
    fn wants_body(&self, id: RequestId) -> bool {
        self.calls.look_at_bodies() && self.calls.looks_at_body(self.exchanges[id].call())
            || self.dynamic.as_deref().is_some_and(|d| d.wants_body(self.exchanges[id].call()))
            || self.tap.as_ref().is_some_and(|(tap, _)| tap.wants_body())
    }

    #[cold]
    fn wants_failed_body(&self, id: RequestId, status: u16) -> bool {
        let call = self.exchanges[id].call();
        self.recorder.wants_failed_body(id) && !self.calls.is_expected(call, status)
    }

    fn head(&mut self, id: RequestId, status: u16, has_events: bool) {
        if status >= FAILURE && self.wants_failed_body(id, status) {
            self.recorder.failed_body_starts(id);
        }
        if self.exchanges.messages.is_none() || !matches!(status, 101 | 200..=299) {
            return;
        }
        let stamps = self.exchanges[id].stamps(self.now);
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            let begun = messages.begin_stream(id, &stamps, has_events, self.recorder);
            if let Some(waits) = messages.first_waits(id) {
                self.exchanges[id].set_waits(waits);
            }
            self.follow(id, begun);
        }
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            let read = messages.read(id, piece, self.now, self.recorder);
            self.follow(id, read);
        }
        self.recorder.failed_body(id, piece);
        let exchange = &mut self.exchanges[id];
        self.calls.body(exchange, piece);
        if let Some(dynamic) = self.dynamic.as_deref_mut() {
            dynamic.body(exchange, piece);
        }
        if let Some((tap, conn)) = &mut self.tap {
            tap.body(*conn, id, piece);
        }
    }

    fn chunk_ended(&mut self, id: RequestId) {
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            let read = messages.chunk_ended(id, self.now, self.recorder);
            self.follow(id, read);
        }
    }

    fn message(&mut self, id: RequestId, token: u64) {
        if let Some(messages) = self.exchanges.messages.as_deref() {
            let is_first = messages.awaits_first(id);
            let exchange = self.exchanges.get(id).filter(|_| is_first);
            let start = exchange.map(|exchange| CallStart::of(&exchange.stamps(self.now)));
            if let Some(messages) = self.exchanges.messages.as_deref_mut() {
                messages.arrived(id, (token, start), self.now, self.recorder);
            }
        }
    }

    fn ping_answered(&mut self, [due, sent]: [Nanos; 2]) {
        self.recorder.ping_answered(due, sent, self.now);
    }

    fn subscribed(&mut self, id: RequestId) {
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            messages.subscribed(id, self.now);
        }
    }

    fn delivered(&mut self, id: RequestId, stamp: Option<Stamp>) {
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            messages.delivered(id, stamp, self.now, self.recorder);
        }
    }

    #[inline(always)]
    fn done(&mut self, id: RequestId, reply: &Reply) {
        // The rare paths get copies, so that the reply and its timestamps stay in registers.
        if self.has_extras {
            return self.done_with_extras(id, *reply);
        }
        self.end::<false>(id, reply);
    }

    fn failed(&mut self, id: RequestId, fault: Fault) {
        if self.is_submitted(id) {
            self.carried.take_out(self.exchanges, id);
            self.outcome.fails_alone(id, fault);
        }
    }

    fn refused(&mut self, id: RequestId) {
        if self.is_submitted(id) {
            self.carried.take_out(self.exchanges, id);
            let messages = self.exchanges.messages.as_deref();
            let is_between = messages.is_some_and(|messages| messages.is_between(id));
            let exchange = &mut self.exchanges[id];
            // A peer that refuses every connection would be asked for ever. A stream that is opened
            // again waits before each attempt.
            if is_between || exchange.resent().1 >= PASSED_OVER_MAX {
                self.outcome.fails_alone(id, Fault::Refused);
                return;
            }
            exchange.resend(false);
            exchange.goes_again();
            exchange.waits_from(self.now);
            self.recorder.retried(exchange.intended());
            self.outcome.goes_again(id);
        }
    }

    fn draining(&mut self) {
        self.carried.drains = true;
    }

    fn sent(&mut self, id: RequestId) {
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        if !exchange.is_submitted() || exchange.is_sent() {
            return;
        }
        match exchange.goes_out(self.now) {
            Sent::OnTime => self.recorder.sent_on_time(self.now, 1),
            Sent::Late => self.recorder.sent(&exchange.stamps(self.now)),
            Sent::Again => {}
        }
        self.carried.sent += 1;
    }

    fn closed(&mut self, code: u16) {
        (self.outcome.closed, self.outcome.is_rare) = (Some(code), true);
    }

    fn odd(&mut self, what: Anomaly) {
        self.recorder.anomaly(self.now, what);
    }
}
