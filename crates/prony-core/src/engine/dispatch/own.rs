//! The connections that each session has to itself, and its requests that wait for room on one, or
//! for one.

use std::collections::VecDeque;

use crate::units::{Nanos, RequestId};

/// The connections of all sessions that run, by the session's place.
#[derive(Debug)]
pub(super) struct Own {
    all: Vec<Links>,
    /// Sessions that could open no connection at the cap, in the order of their numbers.
    waiting: VecDeque<u32>,
    /// The most connections at once, of all sessions.
    cap: usize,
    /// The most connections of one session to one endpoint.
    each: u32,
}

/// Those of one session.
#[derive(Debug)]
struct Links {
    /// Its number in the whole run.
    number: u64,
    /// Its connections, oldest first.
    conns: Vec<u32>,
    /// Requests that wait.
    pending: VecDeque<RequestId>,
    /// When the timer of its waiting requests stands in the agenda. Belongs to the place.
    armed: Nanos,
    /// It stands among those who wait for a connection.
    waits: bool,
}

impl Own {
    pub(super) fn new(cap: usize, each: u32) -> Self {
        Self { all: Vec::new(), waiting: VecDeque::new(), cap, each }
    }

    pub(super) fn cap(&self) -> usize {
        self.cap
    }

    /// The most connections of one session to one endpoint.
    #[inline]
    pub(super) fn each(&self) -> u32 {
        self.each
    }

    /// The session of that number begins at that place.
    pub(super) fn enter(&mut self, place: u32, number: u64) {
        let at = place as usize;
        while self.all.len() <= at {
            let (conns, pending) = (Vec::new(), VecDeque::new());
            let armed = Nanos::MAX;
            self.all.push(Links { number, conns, pending, armed, waits: false });
        }
        let links = &mut self.all[at];
        debug_assert!(links.conns.is_empty() && links.pending.is_empty() && !links.waits);
        links.number = number;
    }

    /// The session at that place has ended.
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

    pub(super) fn has(&mut self, place: u32, conn: u32) {
        self.all[place as usize].conns.push(conn);
    }

    pub(super) fn has_no_more(&mut self, place: u32, conn: u32) {
        let conns = &mut self.all[place as usize].conns;
        if let Some(at) = conns.iter().rposition(|&other| other == conn) {
            conns.remove(at);
        }
    }

    /// A request waits, behind the others of its session or before them.
    pub(super) fn pend(&mut self, place: u32, id: RequestId) {
        self.all[place as usize].pending.push_back(id);
    }

    pub(super) fn pend_first(&mut self, place: u32, id: RequestId) {
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

    /// None of them waits any more.
    pub(super) fn take_pending(&mut self, place: u32) -> VecDeque<RequestId> {
        std::mem::take(&mut self.all[place as usize].pending)
    }

    /// They wait on, or their memory is used again.
    pub(super) fn put_pending(&mut self, place: u32, pending: VecDeque<RequestId>) {
        self.all[place as usize].pending = pending;
    }

    /// All that wait, of all sessions.
    pub(super) fn all_pending(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.all.iter().flat_map(|links| links.pending.iter().copied())
    }

    pub(super) fn take_all_pending(&mut self) -> Vec<RequestId> {
        self.all.iter_mut().flat_map(|links| links.pending.drain(..)).collect()
    }

    /// Have the timer of the session's waiting requests stand at that moment, if it stands later.
    pub(super) fn arm(&mut self, place: u32, at: Nanos) -> bool {
        let armed = &mut self.all[place as usize].armed;
        let earlier = at < *armed;
        *armed = at.min(*armed);
        earlier
    }

    /// Whether the timer that has fired is the one that stands.
    pub(super) fn disarm(&mut self, place: u32, at: Nanos) -> bool {
        let armed = &mut self.all[place as usize].armed;
        let is_it = *armed == at;
        if is_it {
            *armed = Nanos::MAX;
        }
        is_it
    }

    /// The session stands in line for a connection, before all younger ones.
    pub(super) fn wait(&mut self, place: u32) {
        let links = &mut self.all[place as usize];
        if !links.waits {
            links.waits = true;
            let (all, number) = (&self.all, self.all[place as usize].number);
            let at = self.waiting.partition_point(|&other| all[other as usize].number < number);
            self.waiting.insert(at, place);
        }
    }

    /// How many sessions stand in line.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The first in line leaves it.
    pub(super) fn next_waiting(&mut self) -> Option<u32> {
        let place = self.waiting.pop_front()?;
        self.all[place as usize].waits = false;
        Some(place)
    }

    /// Nobody stands in line any more.
    pub(super) fn take_waiting(&mut self) -> VecDeque<u32> {
        let waiting = std::mem::take(&mut self.waiting);
        for &place in &waiting {
            self.all[place as usize].waits = false;
        }
        waiting
    }
}
