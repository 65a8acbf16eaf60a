//! How sessions go: burst by burst, each request to a connection of the session's own, with pauses
//! between.
//!
//! `Flight::user` is the session's place in [`Sessions::all`], `Flight::nth` the request's number
//! in it. Where the plan has something dynamic, the session fills in what a call leaves open before
//! it is encoded (`send.rs`), and takes from replies what it wants (`sink.rs`): `dynamic.rs`.

use std::cmp::Reverse;

use super::closed::{BACKOFF_DOUBLINGS, BACKOFF_FIRST};
use super::flight::Flight;
use super::session::{Arrivals, Sessions};
use super::source::Source;
use super::{Engine, Stage, Timer};
use crate::fault::Fault;
use crate::machine::CloseHow;
use crate::proto::Protocol;
use crate::record::SessionEnd;
use crate::units::{Nanos, Span};

/// Where a session's request can go.
enum Place {
    /// To that connection.
    On(u32),
    /// To a connection that is opened for it.
    Anew,
    /// Nowhere, until one of the session's connections has room.
    Full,
    /// Nowhere, until there is room under the cap.
    Starved,
}

impl<P: Protocol> Engine<P> {
    /// All users of a closed loop begin their first session.
    pub(super) fn begin_guests(&mut self, now: Nanos) {
        let Some(sessions) = self.sessions() else { return };
        sessions.begun = true;
        let Arrivals::Closed(guests) = &mut sessions.arrivals else { return };
        guests.to_begin = guests.users;
        self.let_users_begin(now);
    }

    /// The next user of a closed loop begins; whether there was one.
    pub(super) fn begin_guest(&mut self, now: Nanos) -> bool {
        let Some(sessions) = self.sessions() else { return false };
        let Arrivals::Closed(guests) = &mut sessions.arrivals else { return false };
        if guests.to_begin == 0 {
            return false;
        }
        let user = guests.users - guests.to_begin;
        guests.to_begin -= 1;
        self.let_have_session(user, now, now);
        true
    }

    /// A user wants the next session, from `intended` on.
    pub(super) fn next_session(&mut self, user: u32, intended: Nanos, now: Nanos) {
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let Some(sessions) = self.sessions() else { return };
        let Arrivals::Closed(guests) = &mut sessions.arrivals else { return };
        if guests.alive > 0 && measured && guests.left() == Some(0) {
            guests.alive -= 1;
            return;
        }
        self.let_have_session(user, intended, now);
    }

    /// The same for one who may have what is kept for those who have not begun.
    fn let_have_session(&mut self, user: u32, intended: Nanos, now: Nanos) {
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let late = self.is_late(intended);
        let Some(sessions) = self.sessions() else { return };
        let Arrivals::Closed(guests) = &mut sessions.arrivals else { return };
        if guests.alive == 0 {
            return;
        }
        let used_up = guests.quota == Some(0) || sessions.requests == Some(0);
        if late || (measured && used_up) {
            guests.alive -= 1;
            return;
        }
        if measured && let Some(quota) = &mut guests.quota {
            *quota -= 1;
        }
        let number = sessions.next_number();
        self.begin_session(number, user, intended, now);
    }

    pub(super) fn begin_session(&mut self, number: u64, user: u32, intended: Nanos, now: Nanos) {
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let Some(sessions) = self.sessions() else { return };
        if measured && sessions.requests == Some(0) {
            sessions.retire();
            return;
        }
        let slot = sessions.enter(number, user, intended);
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.begin(slot, number);
        }
        self.secure.new_session(slot);
        self.recorder.session_started(intended);
        self.burst(slot, intended, now);
    }

    /// The session starts what its burst wants together: the lead, what follows it, or all.
    fn burst(&mut self, slot: u32, intended: Nanos, now: Nanos) {
        let Source::Sessions(sessions) = &self.source else { return };
        let session = &sessions.all[slot as usize];
        let burst = sessions.steps.bursts[session.burst as usize];
        let until = if burst.lead && session.next == 0 { 1 } else { burst.len };
        for next in session.next..until {
            if !self.may_start(intended) {
                let Some(session) = self.session(slot) else { return };
                session.cut = true;
                if session.open == 0 {
                    self.end_session(slot, SessionEnd::Unfinished, now);
                }
                return;
            }
            let Source::Sessions(sessions) = &mut self.source else { return };
            let session = &mut sessions.all[slot as usize];
            let call = sessions.steps.calls[(burst.first + next) as usize];
            let flight = Flight { nth: session.started, ..Flight::new(intended, call, slot) };
            session.next += 1;
            session.started += 1;
            session.open += 1;
            self.start(flight, now);
        }
    }

    /// Whether a request may start at that moment; it is counted against the plan's number.
    fn may_start(&mut self, intended: Nanos) -> bool {
        let late = self.is_late(intended);
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let Some(sessions) = self.sessions() else { return false };
        sessions.cut |= late;
        match &mut sessions.requests {
            _ if late => false,
            Some(0) if measured => false,
            Some(left) if measured => {
                *left -= 1;
                true
            }
            _ => true,
        }
    }

    /// Whether the load has ended before that moment.
    fn is_late(&self, intended: Nanos) -> bool {
        intended >= self.load_end
    }

    /// Give a session's request to a connection, or let it wait for one.
    pub(super) fn place_in_session(&mut self, flight: Flight, now: Nanos) {
        if let Err(flight) = self.try_place(flight, now) {
            if flight.is_fresh() && self.is_overdue(&flight, now) {
                self.recorder.overdue(flight.intended);
            }
            self.let_wait(flight, now);
        }
    }

    fn try_place(&mut self, flight: Flight, now: Nanos) -> Result<(), Flight> {
        if self.is_overdue(&flight, now) {
            return Err(flight);
        }
        let endpoint = self.calls.get(flight.call).endpoint;
        let slot = flight.user;
        match self.find_place(slot, endpoint) {
            Place::On(conn) => self.give(conn, flight, now),
            Place::Anew => self.give_anew(endpoint, flight, now),
            Place::Full => return Err(flight),
            Place::Starved => {
                // Of its own connections one to elsewhere may idle: it makes room.
                let Some(idle) = self.idle_conn(slot) else {
                    if let Some(sessions) = self.sessions() {
                        sessions.wait(slot);
                    }
                    return Err(flight);
                };
                self.part(idle, CloseHow::Orderly, now);
                self.give_anew(endpoint, flight, now);
            }
        }
        Ok(())
    }

    #[inline]
    fn find_place(&self, slot: u32, endpoint: u32) -> Place {
        let Source::Sessions(sessions) = &self.source else { return Place::Full };
        let mut own = 0;
        for &at in &sessions.all[slot as usize].conns {
            let conn = &self.conns[at];
            if conn.endpoint != endpoint {
                continue;
            }
            own += 1;
            let in_flight = conn.flights.len() as u32;
            if self.usable(at) && self.proto.room(&conn.proto, in_flight, self.plan.pipeline) > 0 {
                return Place::On(at);
            }
        }
        if own < sessions.each && self.conns.len() < sessions.cap {
            Place::Anew
        } else if own == 0 {
            Place::Starved
        } else {
            Place::Full
        }
    }

    fn idle_conn(&self, slot: u32) -> Option<u32> {
        let Source::Sessions(sessions) = &self.source else { return None };
        let conns = &sessions.all[slot as usize].conns;
        conns.iter().copied().find(|&at| self.conns[at].flights.is_empty())
    }

    fn give_anew(&mut self, endpoint: u32, flight: Flight, now: Nanos) {
        let conn = self.connect(endpoint, flight.user, now);
        if let Some(session) = self.session(flight.user) {
            session.conns.push(conn);
        }
        self.give(conn, flight, now);
    }

    /// The request waits; what passed before is the meter's lateness.
    fn let_wait(&mut self, mut flight: Flight, now: Nanos) {
        flight.waits_until = flight.waits_until.max(now);
        let slot = flight.user;
        let deadline = self.flight_deadline(&flight, false);
        if let Some(session) = self.session(slot) {
            session.pending.push_back(flight);
            self.arm_session(slot, deadline);
        }
    }

    fn arm_session(&mut self, slot: u32, at: Nanos) {
        let Some(session) = self.session(slot) else { return };
        if at < session.armed {
            session.armed = at;
            self.timers.push(Reverse((at, Timer::Session(slot))));
        }
    }

    /// The session may have room, or a place under the cap: what waits takes it.
    pub(super) fn feed(&mut self, slot: u32, now: Nanos) {
        let Some(session) = self.session(slot) else { return };
        let waiting = session.pending.len();
        if waiting == 0 || !session.live {
            return;
        }
        if self.source.gives_up(slot) {
            return;
        }
        let one_endpoint = self.plan.endpoints.len() == 1;
        for _ in 0..waiting {
            let Some(mut flight) = self.session(slot).and_then(|s| s.pending.pop_front()) else {
                return;
            };
            let before = flight;
            flight.waited_in_queue(now);
            if self.try_place(flight, now).is_ok() {
                continue;
            }
            let Some(session) = self.session(slot) else { return };
            if one_endpoint {
                session.pending.push_front(before);
                return;
            }
            session.pending.push_back(before);
        }
    }

    /// There may be a place under the cap: the session that has waited longest takes it.
    pub(super) fn feed_waiting(&mut self, now: Nanos) {
        loop {
            let open = self.conns.len();
            let Some(sessions) = self.sessions() else { return };
            if open >= sessions.cap {
                return;
            }
            let Some(slot) = sessions.waiting.pop_front() else { return };
            sessions.all[slot as usize].waits = false;
            self.feed(slot, now);
        }
    }

    /// Requests that lost their connection, or are to have another try, wait before all others.
    #[inline]
    pub(super) fn requeue(&mut self) {
        if !self.bounced.is_empty() && matches!(self.source, Source::Sessions(_)) {
            self.requeue_bounced();
        }
    }

    #[cold]
    fn requeue_bounced(&mut self) {
        let mut bounced = std::mem::take(&mut self.bounced);
        for flight in bounced.drain(..).rev() {
            let (slot, deadline) = (flight.user, self.flight_deadline(&flight, false));
            if let Some(session) = self.session(slot) {
                session.pending.push_front(flight);
                self.arm_session(slot, deadline);
            }
        }
        self.bounced = bounced;
    }

    /// Requests of one session have ended: it goes on, or ends.
    pub(super) fn session_goes_on(&mut self, now: Nanos) {
        let (slot, ended) = (self.freed[0], self.freed.len() as u32);
        debug_assert!(self.freed.iter().all(|&other| other == slot));
        self.freed.clear();
        let Source::Sessions(sessions) = &mut self.source else { return };
        let gives_up = sessions.gives_up(slot);
        let session = &mut sessions.all[slot as usize];
        session.open -= ended;
        if gives_up {
            self.end_session(slot, SessionEnd::Failed, now);
            return;
        }
        if session.open > 0 {
            return;
        }
        if session.cut {
            self.end_session(slot, SessionEnd::Unfinished, now);
            return;
        }
        let burst = sessions.steps.bursts[session.burst as usize];
        if session.next < burst.len {
            self.burst(slot, now, now);
            return;
        }
        // The pause is that after this burst.
        let pause = sessions.pause(slot);
        let session = &mut sessions.all[slot as usize];
        session.next = 0;
        session.made += 1;
        session.round += 1;
        if session.round == burst.repeat {
            (session.round, session.burst) = (0, session.burst + 1);
        }
        if session.burst == session.end {
            let failed = session.failed;
            let how = if failed { SessionEnd::Failed } else { SessionEnd::Completed };
            self.end_session(slot, how, now);
        } else if pause == Span::ZERO {
            self.burst(slot, now, now);
        } else if self.stage != Stage::Running {
            sessions.cut = true;
            self.end_session(slot, SessionEnd::Unfinished, now);
        } else {
            session.wake = now + pause;
            self.timers.push(Reverse((session.wake, Timer::Think(slot))));
        }
    }

    /// A session has thought enough.
    pub(super) fn wake_session(&mut self, slot: u32, at: Nanos, now: Nanos) {
        let Some(session) = self.session(slot) else { return };
        if session.live && session.wake == at {
            session.wake = Nanos::MAX;
            self.burst(slot, at, now);
        }
    }

    /// Requests that waited for a connection until their time was up have failed, unsent.
    pub(super) fn expire_session(&mut self, slot: u32, at: Nanos, now: Nanos) {
        let Source::Sessions(sessions) = &mut self.source else { return };
        let session = &mut sessions.all[slot as usize];
        if session.armed != at {
            return;
        }
        session.armed = Nanos::MAX;
        let mut pending = std::mem::take(&mut session.pending);
        let mut next = Nanos::MAX;
        for _ in 0..pending.len() {
            let Some(mut flight) = pending.pop_front() else { break };
            let deadline = self.flight_deadline(&flight, false);
            if deadline <= now {
                flight.waited_in_queue(now);
                self.fail(&flight, Fault::RequestTimeout, false, now);
            } else {
                next = next.min(deadline);
                pending.push_back(flight);
            }
        }
        if let Some(session) = self.session(slot) {
            session.pending = pending;
        }
        self.arm_session(slot, next);
        self.restart_freed(now);
    }

    /// The session is over. What it still wanted is given up, its connections are closed, and the
    /// next one may begin.
    pub(super) fn end_session(&mut self, slot: u32, how: SessionEnd, now: Nanos) {
        let close = match self.give_up_rest(slot, now) {
            0 => CloseHow::Orderly,
            _ => CloseHow::Reset,
        };
        while let Some(&conn) = self.session(slot).and_then(|s| s.conns.last()) {
            self.part(conn, close, now);
        }
        let Source::Sessions(sessions) = &mut self.source else { return };
        let session = &sessions.all[slot as usize];
        let (number, user, refused) = (session.number, session.user, session.refused);
        self.recorder.session_ended(how, session.began, now, session.replies, session.connected);
        sessions.leave(slot);
        self.feed_waiting(now);
        let Some(sessions) = self.sessions() else { return };
        let mut rest = sessions.rest(number);
        let Arrivals::Closed(guests) = &mut sessions.arrivals else { return };
        let used_up = guests.left() == Some(0);
        let failures = &mut guests.failures[user as usize];
        if !refused {
            *failures = 0;
        }
        if used_up {
            // Nobody waits for what will not come.
            rest = Span::ZERO;
        } else if refused && guests.quota.is_none() {
            // A number of sessions ends by itself; any other load must not turn the meter into a
            // busy loop against a dead target.
            rest += BACKOFF_FIRST * (1 << *failures);
            *failures = (*failures + 1).min(BACKOFF_DOUBLINGS);
        }
        if rest == Span::ZERO {
            self.next_session(user, now, now);
        } else {
            self.timers.push(Reverse((now + rest, Timer::User(user))));
        }
    }

    /// What a session that ends had started and not ended fails with it: how many requests.
    fn give_up_rest(&mut self, slot: u32, now: Nanos) -> usize {
        let Some(session) = self.session(slot) else { return 0 };
        if session.open == 0 {
            return 0;
        }
        let mut pending = std::mem::take(&mut session.pending);
        for mut flight in pending.drain(..) {
            flight.waited_in_queue(now);
            self.fail(&flight, Fault::GivenUp, false, now);
        }
        let Some(session) = self.session(slot) else { return 0 };
        session.pending = pending;
        let conns = std::mem::take(&mut session.conns);
        for &at in &conns {
            let conn = &mut self.conns[at];
            let sent = std::mem::take(&mut conn.sent) as usize;
            let mut flights = std::mem::take(&mut conn.flights);
            for (i, flight) in flights.drain(..).enumerate() {
                self.fail(&flight, Fault::GivenUp, i < sent, now);
            }
            self.conns[at].flights = flights;
        }
        let given_up = self.freed.len();
        self.outstanding -= given_up as u64;
        self.freed.clear();
        if let Some(session) = self.session(slot) {
            (session.conns, session.open) = (conns, 0);
        }
        given_up
    }

    /// A session has lost one of its connections, or let go of it.
    pub(super) fn forget_conn(&mut self, conn: u32) {
        let (slot, served) = (self.conns[conn].lane, self.conns[conn].served);
        if let Some(session) = self.session(slot) {
            session.replies += served;
            if let Some(at) = session.conns.iter().rposition(|&other| other == conn) {
                session.conns.remove(at);
            }
        }
    }

    /// No session goes on that pauses: none of them could start anything.
    pub(super) fn cut_thinking(&mut self, now: Nanos) {
        let Some(sessions) = self.sessions() else { return };
        for slot in sessions.places() {
            let Some(sessions) = self.sessions() else { return };
            let session = &sessions.all[slot as usize];
            if session.live && session.wake != Nanos::MAX {
                sessions.cut = true;
                self.end_session(slot, SessionEnd::Unfinished, now);
            }
        }
    }

    /// The run is over: what is under way is not finished.
    pub(super) fn cut_all(&mut self, now: Nanos) {
        let Source::Sessions(sessions) = &mut self.source else { return };
        for slot in sessions.places() {
            let session = &sessions.all[slot as usize];
            let (replies, connected) = (session.replies, session.connected);
            let end = SessionEnd::Unfinished;
            self.recorder.session_ended(end, session.began, now, replies, connected);
            sessions.leave(slot);
            sessions.cut = true;
        }
    }

    #[inline]
    pub(super) fn sessions(&mut self) -> Option<&mut Sessions> {
        match &mut self.source {
            Source::Sessions(sessions) => Some(sessions),
            Source::Closed(_) | Source::Open(_) => None,
        }
    }

    #[inline]
    fn session(&mut self, slot: u32) -> Option<&mut super::session::Session> {
        self.sessions().and_then(|s| s.all.get_mut(slot as usize))
    }

    /// A connection of the session has opened, or failed to.
    pub(super) fn session_connected(&mut self, slot: u32, opened: bool) {
        if let Some(session) = self.session(slot) {
            session.connected += u64::from(opened);
            session.refused |= !opened;
        }
    }

    /// How often a request is sent again whose reply is not as expected.
    pub(super) fn retries(&self) -> u32 {
        match &self.source {
            Source::Sessions(sessions) => sessions.retries,
            Source::Closed(_) | Source::Open(_) => 0,
        }
    }
}
