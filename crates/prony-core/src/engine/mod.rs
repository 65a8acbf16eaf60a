//! The client: schedule -> connection -> protocol -> record. The one place that knows four of the
//! axes; each of them knows none of the others.
//!
//! Closed loop: user u belongs to lane u / depth; a lane has one connection per endpoint, opened
//! when a user of the lane first wants it and opened again when it is gone. Open loop: an arrival
//! takes an idle connection of its endpoint, else opens one (up to the cap), else joins a busy one
//! with room in its pipeline, else waits in the client's queue.

mod backlog;
mod calls;
mod closed;
mod conn;
mod depth;
mod drain;
mod dynamic;
mod flight;
mod greet;
mod line;
mod loss;
mod open;
mod pool;
mod secure;
mod send;
mod session;
mod sink;
mod source;
mod start;
#[cfg(test)]
mod tests;
mod trail;
mod walk;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::fault::Fault;
use crate::layer::Layer;
use crate::machine::{Action, CloseHow, KernelStamp, Machine, StopRequest};
use crate::plan::Plan;
use crate::proto::Protocol;
use crate::record::{Observer, Recorder, Tally};
use crate::units::{ConnId, Nanos, Span};
use backlog::Backlog;
use calls::Calls;
use conn::{Conn, NONE, State, Table};
use depth::Depths;
use drain::Stage;
use dynamic::Dynamic;
use flight::Flight;
use line::Line;
use secure::Secure;
use send::OUT_CHUNK;
use sink::Sink;
use source::Source;
use trail::Trails;

/// The client side of a run, or of one share of it.
#[derive(Debug)]
pub struct Engine<P: Protocol> {
    plan: Plan,
    proto: P,
    conns: Table<P::Conn>,
    source: Source,
    recorder: Recorder,
    /// A connection that has bytes to send and comes before all actions; its slot is `NONE` where
    /// there is none. Mostly there is one, and nothing else, so it spares the queue.
    first: ConnId,
    actions: VecDeque<Action>,
    line: Line,
    backlog: Backlog,
    timers: BinaryHeap<Reverse<(Nanos, Timer)>>,
    stage: Stage,
    /// When no new request may start any more, where that is known; else `Nanos::MAX`.
    load_end: Nanos,
    /// Requests started and not ended.
    outstanding: u64,
    outstanding_max: u64,
    secure: Secure,
    /// The most connections at once.
    links_max: u64,
    calls: Calls,
    depths: Depths,
    /// What sessions know, where the plan has something dynamic.
    dynamic: Option<Box<Dynamic>>,
    /// What the kernel notes of bytes, where it is asked.
    trails: Option<Box<Trails>>,
    /// A request of the connection that is being looked at has failed.
    missed: bool,
    /// Scratch, reused from call to call.
    out: Vec<u8>,
    /// The connection whose next requests are in there already, or `NOBODY`.
    prepared: u32,
    starts: Vec<usize>,
    pieces: Vec<usize>,
    freed: Vec<u32>,
    bounced: Vec<Flight>,
    /// Requests that could not be filled in, and why.
    unsent: Vec<(Flight, Fault)>,
}

/// No connection.
const NOTHING: ConnId = ConnId { slot: NONE, generation: 0 };

/// Whose deadline stands in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The load begins.
    Begin,
    /// The connection in that slot may have run out of time.
    Slot(u32),
    /// The user has thought enough.
    User(u32),
    /// The session has thought enough.
    Think(u32),
    /// Requests of the session that wait for a connection may have run out of time.
    Session(u32),
}

impl<P: Protocol> Engine<P> {
    /// The engine for a valid plan (or a share of one).
    pub fn new(plan: &Plan, proto: P) -> Self {
        let source = Source::new(plan);
        let begin = Nanos::ZERO + plan.warmup;
        let load_end = source.load_end(plan);
        let mut recorder = Recorder::new(begin).of(plan.sessions.is_some(), plan.names.len());
        if let Some(end) = load_end {
            recorder.load_ended(end);
        }
        if plan.exchange.is_some() {
            recorder.round_trips();
        }
        let mut timers = BinaryHeap::with_capacity(64);
        if !source.has_begun() {
            timers.push(Reverse((Nanos::ZERO, Timer::Begin)));
        }
        Self {
            proto,
            conns: Table::new(source.connections().min(1 << 16)),
            source,
            recorder,
            first: NOTHING,
            actions: VecDeque::with_capacity(64),
            line: Line::new(),
            backlog: Backlog::new(),
            timers,
            stage: Stage::Running,
            load_end: load_end.unwrap_or(Nanos::MAX),
            outstanding: 0,
            outstanding_max: 0,
            secure: Secure::default(),
            links_max: 0,
            calls: Calls::new(plan),
            depths: Depths::new(plan),
            dynamic: Dynamic::new(plan).map(Box::new),
            trails: None,
            missed: false,
            out: Vec::with_capacity(OUT_CHUNK),
            prepared: send::NOBODY,
            starts: Vec::new(),
            pieces: Vec::new(),
            freed: Vec::new(),
            bounced: Vec::new(),
            unsent: Vec::new(),
            plan: plan.clone(),
        }
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
        self.conns.len()
    }

    /// The tallies: warm-up (where the plan has one) and measurement. Call it when the run is over.
    pub fn finish(mut self) -> (Option<Tally>, Tally) {
        if let Some(trails) = &mut self.trails {
            trails.finish(&mut self.recorder);
        }
        self.recorder.in_flight_max(self.outstanding_max);
        self.recorder.live_max(self.links_max);
        let by_count = self.source.ended_by_count();
        self.recorder.finish(!by_count)
    }

    #[inline]
    fn arm(&mut self, slot: u32, at: Nanos) {
        if at < self.conns.armed[slot as usize] {
            self.arm_earlier(slot, at);
        }
    }

    /// Apart, as a connection's deadline is mostly a later one.
    #[inline(never)]
    fn arm_earlier(&mut self, slot: u32, at: Nanos) {
        self.conns.armed[slot as usize] = at;
        self.timers.push(Reverse((at, Timer::Slot(slot))));
    }

    /// How long a request may wait unsent.
    fn unsent_timeout(&self) -> Span {
        if self.plan.timeout_from_send { Span::MAX } else { self.plan.timeout }
    }

    fn transmit(&mut self, slot: u32) {
        let conn = &mut self.conns[slot];
        let says = matches!(conn.state, State::Open | State::Greeting);
        let ready = says || conn.layer.wants_send();
        if ready && !conn.transmit_queued {
            conn.transmit_queued = true;
            let id = self.conns.id(slot);
            if self.first.slot == NONE && self.actions.is_empty() {
                self.first = id;
            } else {
                self.actions.push_back(Action::Transmit { id });
            }
        }
    }

    /// Whether the connection may be given one more request, now or later.
    fn usable(&self, slot: u32) -> bool {
        let conn = &self.conns[slot];
        !conn.retired && self.plan.requests_per_connection.is_none_or(|n| conn.given < u64::from(n))
    }

    /// After bytes or an end of stream were taken in without fault.
    fn settle(&mut self, slot: u32, now: Nanos) {
        self.note_missed(slot);
        let conn = &mut self.conns[slot];
        if conn.retired {
            conn.stash.clear();
            self.abandon(slot, None, CloseHow::Orderly, now);
            return;
        }
        self.requeue();
        if self.conns[slot].flights.is_empty() && !self.usable(slot) {
            self.release(slot, CloseHow::Orderly, now);
        } else {
            self.pump_slot(slot, now);
            self.send_held_back(slot, now);
        }
        self.restart_freed(now);
    }

    /// The connection is open and, if it is to be, secured.
    fn opened(&mut self, slot: u32, now: Nanos) {
        if self.proto.greets() {
            self.begin_greeting(slot, now);
        } else {
            self.ready(slot, now);
        }
    }

    /// The connection can carry requests from now on.
    fn ready(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.conns[slot];
        conn.state = State::Open;
        for flight in &mut conn.flights {
            flight.waited_for_connect(now);
        }
        self.connect_succeeded(slot);
        if !self.conns[slot].flights.is_empty() {
            self.transmit(slot);
        }
        self.pump_slot(slot, now);
    }

    /// Bytes of the protocol have come.
    fn received(&mut self, slot: u32, data: &[u8], now: Nanos) {
        self.recorder.bytes_received(now, data.len() as u64);
        if self.proto.greets() && self.conns[slot].state == State::Greeting {
            self.received_greeting(slot, data, now);
            return;
        }
        let mut joined = Vec::new();
        let stash = &mut self.conns[slot].stash;
        let all = if stash.is_empty() {
            data
        } else {
            joined = std::mem::take(stash);
            joined.extend_from_slice(data);
            &joined
        };
        let result = self.decode(slot, all, now);
        if let Ok(used) = result {
            if !joined.is_empty() {
                joined.drain(..used);
                self.conns[slot].stash = joined;
            } else if used < data.len() {
                self.conns[slot].stash.extend_from_slice(&data[used..]);
            }
        }
        match result {
            Ok(_) => self.settle(slot, now),
            Err(fault) => {
                if self.conns[slot].sent == 0 {
                    self.recorder.stray(now, fault);
                    self.link_fault(slot, fault);
                    self.conns[slot].stash.clear();
                    self.abandon(slot, None, CloseHow::Reset, now);
                } else {
                    self.abandon(slot, Some(fault), CloseHow::Reset, now);
                }
            }
        }
    }

    fn decode(&mut self, slot: u32, data: &[u8], now: Nanos) -> Result<usize, Fault> {
        let (proto, state, mut sink) = self.hearing(slot, now);
        proto.decode(state, data, &mut sink)
    }

    /// All that is needed to take in what a connection's peer has said.
    #[inline]
    fn hearing(&mut self, slot: u32, now: Nanos) -> (&mut P, &mut P::Conn, Sink<'_>) {
        let retries = self.retries();
        let Conn {
            flights, sent, served, retired, body, capture, connect_began, proto: state, ..
        } = &mut self.conns[slot];
        let sink = Sink {
            flights,
            sent,
            served,
            retired,
            body,
            capture,
            dynamic: self.dynamic.as_deref_mut(),
            trail: self.trails.as_deref_mut().map(|trails| trails.hearing(slot)),
            connect_began: *connect_began,
            calls: &self.calls,
            recorder: &mut self.recorder,
            freed: &mut self.freed,
            bounced: &mut self.bounced,
            retries,
            missed: &mut self.missed,
            now,
        };
        (&mut self.proto, state, sink)
    }

    /// What the end of the peer's stream means for the oldest request, if anything.
    fn ended(&mut self, slot: u32, now: Nanos) -> Option<Fault> {
        let left = std::mem::take(&mut self.conns[slot].stash);
        let (proto, state, mut sink) = self.hearing(slot, now);
        proto.end(state, &left, &mut sink).err()
    }

    fn fire_timers(&mut self, now: Nanos) {
        while let Some(&Reverse((at, timer))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            match timer {
                Timer::Begin => self.begin(now),
                Timer::User(user) => self.start_user(user, at, now),
                Timer::Think(session) => self.wake_session(session, at, now),
                Timer::Session(session) => self.expire_session(session, at, now),
                Timer::Slot(slot) => {
                    // A stale entry: the slot's timer stands elsewhere in the heap.
                    if self.conns.armed[slot as usize] == at {
                        self.conns.armed[slot as usize] = Nanos::MAX;
                        self.expire_slot(slot, now);
                    }
                }
            }
        }
    }

    #[inline]
    fn first_action(&mut self) -> Option<Action> {
        let id = std::mem::replace(&mut self.first, NOTHING);
        match self.conns.get_mut(id) {
            Some(conn) => {
                conn.transmit_queued = false;
                Some(Action::Transmit { id })
            }
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
        while let Some(action) = self.actions.pop_front() {
            match action {
                Action::Transmit { id } => match self.conns.get_mut(id) {
                    Some(conn) => conn.transmit_queued = false,
                    // It is gone, but may have left a farewell.
                    None if self.secure.has_farewell(id) => {}
                    None => continue,
                },
                Action::Connect { id, .. } => match self.conns.get_mut(id) {
                    Some(conn) => {
                        conn.asked = true;
                        self.recorder.connecting(conn.connect_began);
                    }
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

impl<P: Protocol> Machine for Engine<P> {
    fn on_connected(&mut self, id: ConnId, now: Nanos) {
        if self.stage == Stage::Over || !self.conns.live(id) {
            return;
        }
        self.recorder.event(now);
        let conn = &mut self.conns[id.slot];
        debug_assert_eq!(conn.state, State::Connecting);
        conn.opened = now;
        self.recorder.connected(now, now.since(conn.connect_began));
        if self.is_secured(id.slot) {
            self.secure(id.slot, now);
        } else {
            self.opened(id.slot, now);
        }
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        if self.stage == Stage::Over || !self.conns.live(id) {
            return;
        }
        self.recorder.event(now);
        match self.conns[id.slot].layer {
            Layer::Plain => self.received(id.slot, data, now),
            Layer::Tls(_) => self.received_records(id, data, now),
        }
        self.check_over();
    }

    fn on_stamp(&mut self, id: ConnId, stamp: KernelStamp) {
        self.stamped(id, stamp);
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        if self.stage == Stage::Over || !self.conns.live(id) {
            return;
        }
        self.recorder.event(now);
        let slot = id.slot;
        let fault = match (why, self.conns[slot].state) {
            _ if matches!(self.conns[slot].layer, Layer::Tls(_)) => self.cut_off(slot, why),
            (Some(Fault::Reset), State::Connecting) => Some(Fault::ConnectReset),
            (Some(fault), _) => Some(fault),
            (None, _) => self.ended(slot, now),
        };
        self.abandon(slot, fault, CloseHow::Orderly, now);
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
        if self.first.slot != NONE {
            return self.first_action();
        }
        if self.actions.is_empty() { None } else { self.next_action() }
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
        let Some(conn) = self.conns.get_mut(id) else {
            return self.send_farewell(id, now, send);
        };
        let holds = conn.tail.is_some() || !matches!(conn.layer, Layer::Plain);
        self.arm_from_send(id.slot, now);
        if holds && !self.send_held(id.slot, now, send) {
            return false;
        }
        if self.proto.greets() && !self.send_greeting(id.slot, now, send) {
            return false;
        }
        let all = self.send_new(id.slot, now, send);
        if !self.unsent.is_empty() {
            self.fail_unsent(now);
        }
        all
    }

    fn prepare_output(&mut self, id: ConnId) {
        if self.stage != Stage::Over && self.conns.live(id) {
            self.encode_early(id.slot);
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        if self.stage == Stage::Over {
            return None;
        }
        let mut at = self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
        at = at.min(self.source.next_event(self.unsent_timeout(), self.backlog.rests));
        match self.stage {
            Stage::Draining(until) => at = at.min(until),
            _ => at = at.min(self.load_end),
        }
        (at < Nanos::MAX).then_some(at)
    }
}
