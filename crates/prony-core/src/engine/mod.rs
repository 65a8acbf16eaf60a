//! The client. A request passes through four modules. Each keeps its fields private:
//!
//! - `load` decides when a request starts: arrivals, users, sessions, think times, quotas. It knows
//!   nothing of connections.
//! - `dispatch` chooses the connection: groups of users, pools, queues, the pacing of connects. It
//!   knows nothing of bytes.
//! - `exchange` keeps each request from its intended start to its end: the slab, timestamps, the
//!   checks of replies. It knows nothing of sockets.
//! - `link` manages the connections: their state, layer and carrier, sending, receiving, timeouts,
//!   failures. It knows nothing of sessions.
//!
//! After each event on a connection, its results come back as one `Outcome`, and the load continues
//! from it. This file routes the events of a driver to the modules.

mod agenda;
// The unit tests use none of these engines, each of which takes time to compile.
#[cfg(not(test))]
mod any;
mod contact;
mod dispatch;
mod drain;
mod exchange;
mod link;
mod load;
mod peak;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use agenda::{Agenda, Timer};
#[cfg(not(test))]
pub use any::{AnyEngine, of_plan};
use contact::Attempts;
pub use contact::{Contact, PATIENCE};
use dispatch::{Dispatch, Pacing};
use drain::Stage;
use exchange::Exchanges;
use exchange::dynamic::Dynamic;
use exchange::expect::Calls;
use exchange::outcome::Outcome;
pub use exchange::{EndedRequest, EndedStream};
use link::{Closing, Depths, Links, Secure, Tapped, Trails};
pub use link::{Tap, Taps};
use load::{Backlog, Load};
pub use peak::Peak;
use prony_base::director::Director;
use prony_base::fault::Fault;
use prony_base::feed::Feed;
use prony_base::machine::{Action, KernelStamp, Machine, Next, StopRequest};
use prony_base::units::{ConnId, Nanos, Poll, RequestId, Span};
use prony_plan::plan::Plan;
use prony_plan::rate::RateChange;
use prony_plan::tokenizer::CountTokens;
use prony_proto::proto::{Carrier, Out};
use prony_tally::record::{Observer, Recorder, Tally};

/// The client side of a run, or of one share of it.
#[derive(Debug)]
pub struct Engine<P: Carrier> {
    plan: Plan,
    /// When requests start, and for which user or session.
    load: Load,
    backlog: Backlog,
    /// Chooses the connection for each request.
    dispatch: Dispatch,
    pacing: Pacing,
    /// Requests that have started and not ended.
    exchanges: Exchanges,
    calls: Calls,
    /// Values and cookies of sessions, or what decides their steps, if the plan has anything
    /// dynamic.
    dynamic: Option<Box<Dynamic>>,
    /// The connections.
    links: Links<P::Conn>,
    closing: Closing,
    carrier: P,
    depths: Depths,
    secure: Secure,
    /// Timestamps of the kernel, if they are enabled.
    trails: Option<Box<Trails>>,
    /// An observer of the traffic.
    tap: Option<Tapped>,
    /// Whether received bytes are shown to the tap or to the load.
    is_watched: bool,
    recorder: Recorder,
    agenda: Agenda,
    stage: Stage,
    /// When the load ends, if that is known; else `Nanos::MAX`.
    load_end: Nanos,
    /// Requests that have started and not ended.
    outstanding: u64,
    outstanding_max: u64,
    /// The most connections that were open or connecting at once.
    links_max: u64,
    /// The same over all engines of a run, if it is wanted.
    peak: Option<Arc<Peak>>,
    /// Whether the target can be reached, as long as that can end the load.
    attempts: Option<Box<Attempts>>,
    /// The results of the current event.
    outcome: Outcome,
    /// Scratch, reused: the bytes to send.
    out: Out,
    /// The slot whose next requests are already encoded in `out`, or `NOBODY`.
    prepared: u32,
    /// Scratch: the exchanges of a lost connection.
    lost: Vec<RequestId>,
}

impl<P: Carrier> Engine<P> {
    /// An engine for a valid plan (or a share of one).
    pub fn new(plan: &Plan, carrier: P) -> Self {
        let (load, dispatch) = (Load::new(plan), Dispatch::new(plan));
        let begin = Nanos::ZERO + plan.warmup;
        let load_end = load.end_of(plan);
        let kinds = plan.sessions.as_ref().map_or(0, |sessions| sessions.kinds.len());
        let mut recorder = Recorder::new(begin)
            .of(plan.sessions.is_some(), plan.names.len())
            .of_session_kinds(kinds)
            .of_groups(plan.groups.len(), plan.groups.iter().any(|group| !group.parts.is_empty()));
        if let Some(end) = load_end {
            recorder.load_ended(end);
        }
        if plan.exchange.is_some() {
            recorder.round_trips();
        }
        let mut agenda = Agenda::new();
        if !load.has_begun() {
            agenda.wake(Nanos::ZERO, Timer::Start);
        }
        Self {
            links: Links::new(dispatch.connections(&load).min(1 << 16)),
            closing: Closing::default(),
            load,
            backlog: Backlog::new(),
            dispatch,
            pacing: Pacing::new(plan),
            exchanges: Exchanges::of_plan(plan),
            calls: Calls::new(plan),
            dynamic: Dynamic::new(plan).map(Box::new),
            carrier,
            depths: Depths::new(plan),
            secure: Secure::default(),
            trails: None,
            tap: None,
            is_watched: plan.clients.is_some(),
            recorder,
            agenda,
            stage: Stage::Running,
            load_end: load_end.unwrap_or(Nanos::MAX),
            outstanding: 0,
            outstanding_max: 0,
            links_max: 0,
            peak: None,
            attempts: None,
            outcome: Outcome::default(),
            out: Out::with_capacity(Out::CHUNK),
            prepared: link::NOBODY,
            lost: Vec::new(),
            plan: plan.clone(),
        }
    }

    /// Prepare for changes of the rate during the run; see
    /// [`Schedule::expect_rate_changes`](prony_plan::schedule::Schedule::expect_rate_changes).
    pub fn expect_rate_changes(&mut self) {
        self.load.expect_rate_changes();
    }

    /// Change the rate of an open loop from a future instant on; see
    /// [`Schedule::change_rate`](prony_plan::schedule::Schedule::change_rate). This may change the
    /// deadline.
    pub fn change_rate(&mut self, change: RateChange) {
        self.load.change_rate(change);
    }

    /// Keep the timestamps of every successful request; see [`Tally::kept`].
    pub fn keep_requests(&mut self) {
        self.recorder.keep_requests();
    }

    /// Keep the service times over time; see [`Tally::service_series`].
    pub fn keep_service(&mut self) {
        self.recorder.keep_service();
    }

    /// Call `observer` for every successful request of the measurement.
    pub fn observe(&mut self, observer: Observer) {
        self.recorder.observe(observer);
    }

    /// Let `director` decide the steps of the sessions. The plan must be
    /// [`directed`](prony_plan::plan::Sessions::directed).
    pub fn direct(&mut self, director: Box<dyn Director>) {
        self.dynamic = Dynamic::directed(&self.plan, director).map(Box::new);
    }

    /// Send the requests of `feed`. The plan must be of a log ([`Plan::is_logged`]).
    pub fn replay(&mut self, feed: Box<dyn Feed>) {
        self.load.replay(feed);
    }

    /// Count the tokens of replies of language models that do not say how many they have, after the
    /// load. Until then, their texts are kept.
    pub fn count_tokens(&mut self, tokenizer: Arc<dyn CountTokens>) {
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            messages.set_tokenizer(tokenizer);
        }
    }

    /// Let `tap` observe the traffic.
    pub fn tap(&mut self, tap: Box<dyn Tap>) {
        if tap.wants_ends() {
            self.calls.look_closer_at_all();
        }
        self.tap = Some(Tapped::new(tap));
        self.is_watched = true;
    }

    /// Count the connections of this engine among those of others.
    pub fn share_peak(&mut self, peak: Arc<Peak>) {
        self.peak = Some(peak);
    }

    /// What has been counted so far.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Requests that have started and not ended.
    pub fn in_flight(&self) -> u64 {
        self.outstanding
    }

    /// Connections that are open or being opened.
    pub fn connections(&self) -> usize {
        self.links.len()
    }

    /// Returns the tallies of the warm-up (if the plan has one) and of the measurement. Call it
    /// when the run is over.
    pub fn finish(mut self) -> (Option<Tally>, Tally) {
        if let Some(trails) = &mut self.trails {
            trails.finish(&mut self.recorder);
        }
        self.recorder.in_flight_max(self.outstanding_max);
        self.recorder.open_max(self.links_max);
        if let Some(counts) = self.carrier.counts() {
            self.recorder.streams(counts);
        }
        self.on_end();
        let clients = self.load.client_tallies();
        self.recorder.clients(clients.into_iter());
        if let Some((warm, main)) = self.dynamic.as_deref_mut().and_then(Dynamic::take_checks) {
            self.recorder.checked(warm, main);
        }
        if let Some((warm, main)) = self.dynamic.as_deref_mut().and_then(Dynamic::take_redirects) {
            self.recorder.redirected(warm, main);
        }
        let by_count = self.load.ended_by_count();
        self.recorder.finish(!by_count)
    }

    /// How long a request may wait before it is sent.
    fn unsent_timeout(&self) -> Span {
        if self.plan.timeout_from_send { Span::MAX } else { self.plan.timeout }
    }

    fn fire_timers(&mut self, now: Nanos) {
        while let Some((at, timer)) = self.agenda.due(now) {
            match timer {
                Timer::Start => self.begin(now),
                Timer::User(user) => self.start_user(user, at, now),
                Timer::Join => self.join_user(at, now),
                Timer::Client(group) => self.expire_client(group, now),
                Timer::Think(session) => self.wake_session(session, at, now),
                Timer::Session(session) => self.expire_session(session, at, now),
                Timer::Message(exchange) => self.message_is_due(exchange, now),
                Timer::Stream(exchange) => self.stream_has_lasted(exchange, now),
                Timer::Reopen(exchange) => self.reopen(exchange, at, now),
                Timer::Closing(slot) => self.closing_expired(slot, now),
                Timer::Connects => self.connects_are_due(now),
                Timer::Contact => self.look_at_contact(now),
                Timer::Slot(slot) => {
                    // A stale entry: the slot's current timer fires at another time.
                    if self.links.disarm(slot, at) {
                        self.expire_slot(slot, now);
                    }
                }
            }
        }
    }

    /// When it wants to be called, whatever happens.
    #[inline(always)]
    fn next_tick(&self) -> Option<Nanos> {
        if self.stage.is_over() {
            return None;
        }
        let mut at = self.agenda.deadline().min(self.queue_deadline());
        if !self.backlog.is_paused() {
            at = at.min(self.load.next_arrival().unwrap_or(Nanos::MAX));
        }
        match self.stage {
            Stage::Draining(until) => at = at.min(until),
            _ => at = at.min(self.load_end),
        }
        (at < Nanos::MAX).then_some(at)
    }

    #[inline]
    fn first_action(&mut self, id: ConnId) -> Option<Action> {
        match self.links.output_taken(id) {
            Some(()) => Some(Action::Transmit { id }),
            None => self.after_first(id),
        }
    }

    /// The connection is gone, but its final bytes may be left to send.
    #[cold]
    fn after_first(&mut self, id: ConnId) -> Option<Action> {
        if self.closing.has_more(id) {
            return Some(Action::Transmit { id });
        }
        self.next_action()
    }

    /// Not inlined, so that the check whether there is an action can be.
    #[inline(never)]
    fn next_action(&mut self) -> Option<Action> {
        while let Some(action) = self.agenda.next() {
            match action {
                Action::Transmit { id } => match self.links.output_taken(id) {
                    Some(()) => {}
                    // The connection is gone, but its final bytes may be left to send.
                    None if self.closing.has_more(id) => {}
                    None => continue,
                },
                Action::Connect { id, .. } => match self.links.connect_taken(id) {
                    Some(wanted) => self.recorder.connecting(wanted),
                    // The engine gave it up before the driver took the action.
                    None => continue,
                },
                // The driver has not taken the last bytes.
                Action::Close { id, .. } if self.close_waits(id) => continue,
                Action::Close { .. } => {}
                Action::Pause { .. } | Action::Resume { .. } => {}
                Action::Yield | Action::Finished => {}
            }
            return Some(action);
        }
        None
    }
}

impl<P: Carrier> Machine for Engine<P> {
    fn on_connected(&mut self, id: ConnId, now: Nanos) {
        if self.stage.is_over() || !self.links.live(id) {
            return;
        }
        self.recorder.event(now);
        self.recorder.event_delivered(now);
        self.link_opened(id, now);
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        if self.stage.is_over() || !self.links.live(id) {
            return;
        }
        self.recorder.event(now);
        self.recorder.event_delivered(now);
        self.link_received(id, data, now);
        if P::MULTIPLEXES {
            self.count_streams(id, now);
        }
        self.check_over();
    }

    fn on_stamp(&mut self, id: ConnId, stamp: KernelStamp) {
        self.stamped(id, stamp);
    }

    fn on_epoch(&mut self, unix_ns: u64) {
        if let Some(dynamic) = self.dynamic.as_deref_mut() {
            dynamic.set_epoch(unix_ns);
        }
    }

    fn on_end(&mut self) {
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            messages.count_tokens(&mut self.recorder, &mut |request| {
                if let Some(tap) = &mut self.tap {
                    tap.tokens_counted(request);
                }
            });
        }
    }

    fn wants_polls(&self) -> bool {
        true
    }

    fn on_poll(&mut self, poll: Poll) {
        self.recorder.polled(poll);
    }

    fn on_sched_delay(&mut self, delay: Span) {
        self.recorder.sched_delay(delay);
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        if self.stage.is_over() {
            return;
        }
        if !self.links.live(id) {
            return self.last_bytes_are_lost(id);
        }
        self.recorder.event(now);
        self.recorder.event_delivered(now);
        self.link_closed(id, why, now);
        self.check_over();
    }

    fn on_tick(&mut self, now: Nanos) {
        if self.stage.is_over() {
            return;
        }
        self.recorder.event(now);
        self.fire_timers(now);
        self.start_arrivals(now);
        self.expire_waiting(now);
        // A session may have started with requests that are already overdue. They have failed, and
        // must not count as cut off by the end of the drain.
        self.fire_timers(now);
        if self.load_end <= now {
            self.begin_drain(self.load_end);
        }
        self.settle_arrivals(now);
        match self.stage {
            Stage::Draining(until) if until <= now => self.give_up(now),
            _ => self.check_over(),
        }
    }

    fn on_turn(&mut self, now: Nanos) {
        if self.stage.is_over() {
            return;
        }
        self.recorder.event(now);
        self.next_turn(now);
        self.resume_arrivals(now);
        self.check_over();
    }

    fn on_stop(&mut self, how: StopRequest, now: Nanos) {
        if self.stage.is_over() {
            return;
        }
        self.recorder.event(now);
        self.begin_drain(now);
        match how {
            StopRequest::Drain => {
                self.stop_messages(now);
                self.settle_arrivals(now);
                self.check_over();
            }
            StopRequest::Now => self.give_up(now),
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        // Drivers call this until it returns `None`, so the empty case must be fast.
        if let Some(id) = self.agenda.take_first() {
            return self.first_action(id);
        }
        if self.agenda.is_empty() { None } else { self.next_action() }
    }

    fn next(&mut self) -> Next {
        if let Some(id) = self.agenda.take_first() {
            return match self.links.output_taken(id) {
                Some(()) => Next::Act(Action::Transmit { id }),
                None => {
                    self.after_first(id).map_or_else(|| Next::Wait(self.next_tick()), Next::Act)
                }
            };
        }
        if !self.agenda.is_empty()
            && let Some(action) = self.next_action()
        {
            return Next::Act(action);
        }
        Next::Wait(self.next_tick())
    }

    fn take_output(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        if self.stage == Stage::Over {
            return true;
        }
        self.link_output(id, now, send)
    }

    fn prepare_output(&mut self, id: ConnId) {
        if !self.stage.is_over() && self.links.live(id) {
            self.encode_early(id.slot);
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        self.next_tick()
    }
}
