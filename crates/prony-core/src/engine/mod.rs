//! The client. Requests go one way through four rooms, each of which keeps its fields to itself:
//!
//! - `load` wants them: arrivals, users, sessions, think times, quotas. Knows no connection.
//! - `dispatch` finds a connection for each: lanes, pools, queues, the pacing of connects. Knows
//!   no bytes.
//! - `exchange` holds them from the intended start to the end: the slab, stamps, what is expected
//!   of replies. Knows no socket.
//! - `link` is the connections: how far each has come, its layer and carrier, what it sends and
//!   receives, timeouts, how it is lost. Knows no session.
//!
//! What a look at a connection has led to comes back as one `Outcome`, from which the load goes
//! on. This file routes a driver's events to the rooms.

mod agenda;
mod dispatch;
mod drain;
mod exchange;
mod link;
mod load;
#[cfg(test)]
mod tests;

use crate::fault::Fault;
use crate::machine::{Action, KernelStamp, Machine, StopRequest};
use crate::plan::Plan;
use crate::proto::{Carrier, Out};
use crate::rate::Steer;
use crate::record::{Observer, Recorder, Tally};
use crate::units::{ConnId, Nanos, RequestId, Span};
use agenda::{Agenda, Timer};
use dispatch::{Dispatch, Pacing};
use drain::Stage;
use exchange::Exchanges;
use exchange::expect::Calls;
use exchange::outcome::Outcome;
use exchange::script::Dynamic;
pub use link::Tap;
use link::{Depths, Links, OUT_CHUNK, Secure, Tapped, Trails};
use load::{Backlog, Load};

/// The client side of a run, or of one share of it.
#[derive(Debug)]
pub struct Engine<P: Carrier> {
    plan: Plan,
    /// Who wants requests, and when.
    load: Load,
    backlog: Backlog,
    /// Which connection carries them.
    dispatch: Dispatch,
    pacing: Pacing,
    /// The requests that have begun and not ended.
    exchanges: Exchanges,
    calls: Calls,
    /// What sessions know, where the plan has something dynamic.
    dynamic: Option<Box<Dynamic>>,
    /// The connections.
    links: Links<P::Conn>,
    carrier: P,
    depths: Depths,
    secure: Secure,
    /// What the kernel notes of bytes, where it is asked.
    trails: Option<Box<Trails>>,
    /// Who looks at what goes by.
    tap: Option<Tapped>,
    recorder: Recorder,
    agenda: Agenda,
    stage: Stage,
    /// When no new request may start any more, where that is known; else `Nanos::MAX`.
    load_end: Nanos,
    /// Requests started and not ended.
    outstanding: u64,
    outstanding_max: u64,
    /// The most connections at once.
    links_max: u64,
    /// What the look at a connection has led to.
    outcome: Outcome,
    /// Scratch, reused from call to call: what is about to be sent.
    out: Out,
    /// The connection whose next requests are in there already, or none.
    prepared: u32,
    /// Scratch: what a connection carried that is lost.
    lost: Vec<RequestId>,
}

impl<P: Carrier> Engine<P> {
    /// The engine for a valid plan (or a share of one).
    pub fn new(plan: &Plan, carrier: P) -> Self {
        let (load, dispatch) = (Load::new(plan), Dispatch::new(plan));
        let begin = Nanos::ZERO + plan.warmup;
        let load_end = load.end_of(plan);
        let mut recorder = Recorder::new(begin).of(plan.sessions.is_some(), plan.names.len());
        if let Some(end) = load_end {
            recorder.load_ended(end);
        }
        if plan.exchange.is_some() {
            recorder.round_trips();
        }
        let mut agenda = Agenda::new();
        if !load.has_begun() {
            agenda.wake(Nanos::ZERO, Timer::Begin);
        }
        Self {
            links: Links::new(dispatch.connections(&load).min(1 << 16)),
            load,
            backlog: Backlog::new(),
            dispatch,
            pacing: Pacing::new(),
            exchanges: Exchanges::new(),
            calls: Calls::new(plan),
            dynamic: Dynamic::new(plan).map(Box::new),
            carrier,
            depths: Depths::new(plan),
            secure: Secure::default(),
            trails: None,
            tap: None,
            recorder,
            agenda,
            stage: Stage::Running,
            load_end: load_end.unwrap_or(Nanos::MAX),
            outstanding: 0,
            outstanding_max: 0,
            links_max: 0,
            outcome: Outcome::default(),
            out: Out::with_capacity(OUT_CHUNK),
            prepared: link::NOBODY,
            lost: Vec::new(),
            plan: plan.clone(),
        }
    }

    /// The rate may be changed while the run goes on; see
    /// [`Schedule::expect_steers`](crate::schedule::Schedule::expect_steers).
    pub fn expect_steers(&mut self) {
        self.load.expect_steers();
    }

    /// Change the rate of an open loop from a moment on that has not come yet; see
    /// [`Schedule::steer`](crate::schedule::Schedule::steer). The deadline may be another
    /// afterwards.
    pub fn steer(&mut self, steer: Steer) {
        self.load.steer(steer);
    }

    /// Keep the stamps of every success; see [`Tally::kept`].
    pub fn keep_requests(&mut self) {
        self.recorder.keep_requests();
    }

    /// Keep the service times over time; see [`Tally::served`].
    pub fn keep_service(&mut self) {
        self.recorder.keep_service();
    }

    /// Tell `observer` of every success in the measurement.
    pub fn observe(&mut self, observer: Observer) {
        self.recorder.observe(observer);
    }

    /// Show `tap` what goes by.
    pub fn tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(Tapped::new(tap));
    }

    /// What has been counted so far.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Requests started and not ended.
    pub fn in_flight(&self) -> u64 {
        self.outstanding
    }

    /// Connections that are open or being opened.
    pub fn connections(&self) -> usize {
        self.links.len()
    }

    /// The tallies: warm-up (where the plan has one) and measurement. Call it when the run is over.
    pub fn finish(mut self) -> (Option<Tally>, Tally) {
        if let Some(trails) = &mut self.trails {
            trails.finish(&mut self.recorder);
        }
        self.recorder.in_flight_max(self.outstanding_max);
        self.recorder.live_max(self.links_max);
        let by_count = self.load.ended_by_count();
        self.recorder.finish(!by_count)
    }

    /// How long a request may wait unsent.
    fn unsent_timeout(&self) -> Span {
        if self.plan.timeout_from_send { Span::MAX } else { self.plan.timeout }
    }

    fn fire_timers(&mut self, now: Nanos) {
        while let Some((at, timer)) = self.agenda.due(now) {
            match timer {
                Timer::Begin => self.begin(now),
                Timer::User(user) => self.start_user(user, at, now),
                Timer::Think(session) => self.wake_session(session, at, now),
                Timer::Session(session) => self.expire_session(session, at, now),
                Timer::Slot(slot) => {
                    // A stale entry: the slot's timer stands elsewhere in the agenda.
                    if self.links.disarm(slot, at) {
                        self.expire_slot(slot, now);
                    }
                }
            }
        }
    }

    #[inline]
    fn first_action(&mut self, id: ConnId) -> Option<Action> {
        match self.links.output_taken(id) {
            Some(()) => Some(Action::Transmit { id }),
            None => self.after_first(id),
        }
    }

    /// It is gone, but may have left a farewell.
    #[cold]
    fn after_first(&mut self, id: ConnId) -> Option<Action> {
        if self.secure.has_farewell(id) {
            return Some(Action::Transmit { id });
        }
        self.next_action()
    }

    /// Apart, so that drivers ask in place whether there is one.
    #[inline(never)]
    fn next_action(&mut self) -> Option<Action> {
        while let Some(action) = self.agenda.next() {
            match action {
                Action::Transmit { id } => match self.links.output_taken(id) {
                    Some(()) => {}
                    // It is gone, but may have left a farewell.
                    None if self.secure.has_farewell(id) => {}
                    None => continue,
                },
                Action::Connect { id, .. } => match self.links.is_asked_for(id) {
                    Some(wanted) => self.recorder.connecting(wanted),
                    // It was let go of before the driver came to it.
                    None => continue,
                },
                // It was not asked for in time.
                Action::Close { id, .. } => drop(self.secure.take_farewell(id)),
                Action::Yield | Action::Finished => {}
            }
            return Some(action);
        }
        None
    }
}

impl<P: Carrier> Machine for Engine<P> {
    fn on_connected(&mut self, id: ConnId, now: Nanos) {
        if self.stage == Stage::Over || !self.links.live(id) {
            return;
        }
        self.recorder.event(now);
        self.link_opened(id, now);
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        if self.stage == Stage::Over || !self.links.live(id) {
            return;
        }
        self.recorder.event(now);
        self.link_received(id, data, now);
        self.check_over();
    }

    fn on_stamp(&mut self, id: ConnId, stamp: KernelStamp) {
        self.stamped(id, stamp);
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        if self.stage == Stage::Over || !self.links.live(id) {
            return;
        }
        self.recorder.event(now);
        self.link_closed(id, why, now);
        self.check_over();
    }

    fn on_tick(&mut self, now: Nanos) {
        if self.stage == Stage::Over {
            return;
        }
        self.recorder.event(now);
        self.fire_timers(now);
        self.start_arrivals(now);
        self.expire_waiting(now);
        // Sessions may have begun with requests whose time is up: they failed, and are not what the
        // end of the drain cuts off.
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
        if self.stage == Stage::Over {
            return;
        }
        self.recorder.event(now);
        self.next_turn(now);
        self.resume_arrivals(now);
        self.check_over();
    }

    fn on_stop(&mut self, how: StopRequest, now: Nanos) {
        if self.stage == Stage::Over {
            return;
        }
        self.recorder.event(now);
        self.begin_drain(now);
        match how {
            StopRequest::Drain => {
                self.settle_arrivals(now);
                self.check_over();
            }
            StopRequest::Now => self.give_up(now),
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        // Asked once more than there is something, each time.
        if let Some(id) = self.agenda.take_first() {
            return self.first_action(id);
        }
        if self.agenda.is_empty() { None } else { self.next_action() }
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
        if self.stage != Stage::Over && self.links.live(id) {
            self.encode_early(id.slot);
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        if self.stage == Stage::Over {
            return None;
        }
        let mut at = self.agenda.deadline().min(self.queue_deadline());
        if !self.backlog.rests() {
            at = at.min(self.load.next_arrival().unwrap_or(Nanos::MAX));
        }
        match self.stage {
            Stage::Draining(until) => at = at.min(until),
            _ => at = at.min(self.load_end),
        }
        (at < Nanos::MAX).then_some(at)
    }
}
