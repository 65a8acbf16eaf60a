//! The connections of each session, and its requests that wait for a connection or for room on one.

use std::collections::VecDeque;

use prony_base::units::{Nanos, RequestId};

/// The connections of all running sessions, by the session's slot.
#[derive(Debug)]
pub(super) struct SessionConns {
    all: Vec<Links>,
    /// Sessions that could not open a connection because of the limit, sorted by number.
    waiting: VecDeque<u32>,
    /// The most connections at once, of all sessions.
    limit: usize,
    /// The most connections of one session to one endpoint.
    per_endpoint: u32,
}

/// The connections of one session.
#[derive(Debug)]
struct Links {
    /// Its number in the whole run.
    number: u64,
    /// Its connections, oldest first.
    conns: Vec<u32>,
    /// Requests that wait.
    pending: VecDeque<RequestId>,
    /// When its timer for waiting requests fires. Belongs to the slot.
    armed: Nanos,
    /// It is in the queue for a connection.
    waits: bool,
    /// The endpoints of the sockets that the peer has closed between two steps, and the codes with
    /// which it has.
    closed: Vec<(u32, u16)>,
}

impl SessionConns {
    pub(super) fn new(limit: usize, per_endpoint: u32) -> Self {
        Self { all: Vec::new(), waiting: VecDeque::new(), limit, per_endpoint }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The most connections of one session to one endpoint.
    #[inline]
    pub(super) fn per_endpoint(&self) -> u32 {
        self.per_endpoint
    }

    /// Session `number` starts in this slot.
    pub(super) fn enter(&mut self, place: u32, number: u64) {
        let at = place as usize;
        while self.all.len() <= at {
            let (conns, pending) = (Vec::new(), VecDeque::new());
            let armed = Nanos::MAX;
            self.all.push(Links {
                number,
                conns,
                pending,
                armed,
                waits: false,
                closed: Vec::new(),
            });
        }
        let links = &mut self.all[at];
        debug_assert!(links.conns.is_empty() && links.pending.is_empty() && !links.waits);
        links.number = number;
        links.closed.clear();
    }

    /// The peer has closed the session's socket to this endpoint with this code.
    pub(super) fn socket_was_closed(&mut self, place: u32, endpoint: u32, code: u16) {
        self.all[place as usize].closed.push((endpoint, code));
    }

    /// The code with which the peer has closed the session's socket to this endpoint, once.
    pub(super) fn take_closed(&mut self, place: u32, endpoint: u32) -> Option<u16> {
        let closed = &mut self.all[place as usize].closed;
        let at = closed.iter().position(|(of, _)| *of == endpoint)?;
        Some(closed.swap_remove(at).1)
    }

    /// The session in this slot has ended.
    pub(super) fn leave(&mut self, place: u32) {
        if std::mem::take(&mut self.all[place as usize].waits) {
            self.waiting.retain(|&other| other != place);
        }
    }

    /// Its connections, oldest first.
    #[inline]
    pub(super) fn conns(&self, place: u32) -> &[u32] {
        &self.all[place as usize].conns
    }

    pub(super) fn add(&mut self, place: u32, conn: u32) {
        self.all[place as usize].conns.push(conn);
    }

    pub(super) fn remove(&mut self, place: u32, conn: u32) {
        let conns = &mut self.all[place as usize].conns;
        if let Some(at) = conns.iter().rposition(|&other| other == conn) {
            conns.remove(at);
        }
    }

    /// Queue a request after the others of its session.
    pub(super) fn push(&mut self, place: u32, id: RequestId) {
        self.all[place as usize].pending.push_back(id);
    }

    pub(super) fn push_first(&mut self, place: u32, id: RequestId) {
        self.all[place as usize].pending.push_front(id);
    }

    /// How many of the session's requests wait.
    #[inline]
    pub(super) fn pending(&self, place: u32) -> usize {
        self.all[place as usize].pending.len()
    }

    pub(super) fn take_first(&mut self, place: u32) -> Option<RequestId> {
        self.all[place as usize].pending.pop_front()
    }

    /// Take all waiting requests of the session.
    pub(super) fn take_pending(&mut self, place: u32) -> VecDeque<RequestId> {
        std::mem::take(&mut self.all[place as usize].pending)
    }

    /// Put back the requests that still wait, or the memory of the empty list.
    pub(super) fn put_pending(&mut self, place: u32, pending: VecDeque<RequestId>) {
        self.all[place as usize].pending = pending;
    }

    /// The waiting requests of all sessions.
    pub(super) fn all_pending(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.all.iter().flat_map(|links| links.pending.iter().copied())
    }

    pub(super) fn take_all_pending(&mut self) -> Vec<RequestId> {
        self.all.iter_mut().flat_map(|links| links.pending.drain(..)).collect()
    }

    /// Move the session's timer for waiting requests to `at`, if it is set for later. Returns
    /// whether it was moved.
    pub(super) fn arm(&mut self, place: u32, at: Nanos) -> bool {
        let armed = &mut self.all[place as usize].armed;
        let earlier = at < *armed;
        *armed = at.min(*armed);
        earlier
    }

    /// Whether the timer that has fired is the current one, and not a stale entry.
    pub(super) fn disarm(&mut self, place: u32, at: Nanos) -> bool {
        let armed = &mut self.all[place as usize].armed;
        let is_it = *armed == at;
        if is_it {
            *armed = Nanos::MAX;
        }
        is_it
    }

    /// Queue the session for a connection, before all younger ones.
    pub(super) fn wait(&mut self, place: u32) {
        let links = &mut self.all[place as usize];
        if !links.waits {
            links.waits = true;
            let (all, number) = (&self.all, self.all[place as usize].number);
            let at = self.waiting.partition_point(|&other| all[other as usize].number < number);
            self.waiting.insert(at, place);
        }
    }

    /// How many sessions wait for a connection.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Take the first session that waits for a connection.
    pub(super) fn next_waiting(&mut self) -> Option<u32> {
        let place = self.waiting.pop_front()?;
        self.all[place as usize].waits = false;
        Some(place)
    }

    /// Take all sessions that wait for a connection.
    pub(super) fn take_waiting(&mut self) -> VecDeque<u32> {
        let waiting = std::mem::take(&mut self.waiting);
        for &place in &waiting {
            self.all[place as usize].waits = false;
        }
        waiting
    }
}
