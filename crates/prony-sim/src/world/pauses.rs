//! Pauses of the clients, in which they do not run: another process has the processor, a CPU quota
//! is used up, or the process is stopped. Events of a paused client are handled when it resumes.

use prony_base::meter::Stalls;
use prony_base::units::{Nanos, Poll, PreviousPoll, Span};

use super::{CLIENT, EndState, Event, SERVER, World};
use crate::rng::Rng;

/// The clients pause at the end of every period, from the start of the run.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// The period; over 0.
    pub period: Span,
    /// The length of a pause; less than the period.
    pub length: Span,
    /// With a seed, the length of each pause is random, uniform up to `length`.
    pub random: Option<u64>,
    /// Whether the client is busy in its own loop during a pause, and not waiting for a processor.
    pub is_busy: bool,
}

impl Pauses {
    /// Pauses of equal length in which the client waits for a processor.
    pub const fn fixed(period: Span, length: Span) -> Self {
        Self { period, length, random: None, is_busy: false }
    }

    /// When the pause that contains `at` ends; `None` if the client runs at that time.
    pub fn resumes_at(&self, at: Nanos) -> Option<Nanos> {
        let into = at.0 % self.period.0;
        let length = self.length_in(at.0 / self.period.0);
        (into >= self.period.0 - length.0).then(|| Nanos(at.0 - into + self.period.0))
    }

    /// The length of the pause in this period.
    fn length_in(&self, period: u64) -> Span {
        match self.random {
            Some(seed) => Rng::new(seed, period).up_to(self.length),
            None => self.length,
        }
    }

    /// When the pause that ends at `end` started; `None` if none ends then.
    fn paused_since(&self, end: Nanos) -> Option<Nanos> {
        let period = (end.0 / self.period.0).checked_sub(1)?;
        let length = self.length_in(period);
        let is_end = end.0.is_multiple_of(self.period.0) && length > Span::ZERO;
        is_end.then(|| Nanos(end.0 - length.0))
    }

    /// The stalls that an event loop reports that runs until `end`.
    pub(super) fn stalls(&self, end: Nanos) -> Stalls {
        let mut stalls = Stalls::default();
        let mut due = Nanos::ZERO + Stalls::CHECK;
        while due < end {
            let checked = self.resumes_at(due).unwrap_or(due);
            stalls.record(checked.since(due));
            due = checked + stalls.next_check();
        }
        stalls
    }
}

impl World<'_, '_> {
    /// If this event is for a client that is paused at `at`, when the client resumes.
    pub(super) fn postponed_until(&self, at: Nanos, kind: Result<Event, usize>) -> Option<Nanos> {
        let pauses = self.setup.pauses?;
        let is_clients = match kind {
            Err(machine) | Ok(Event::Turn(machine)) => machine < self.clients,
            Ok(Event::Opened(_) | Event::Failed(..) | Event::Stop(_)) => true,
            // Bytes wait in the socket, unless the client has closed the connection.
            Ok(Event::Arrives(c, from)) => {
                from == SERVER && self.conns[c].ends[CLIENT].state == EndState::Open
            }
            Ok(Event::Writable(_, end) | Event::Ack(_, end, _)) => end == CLIENT,
            Ok(Event::Syn(_)) => false,
        };
        if is_clients { pauses.resumes_at(at) } else { None }
    }

    /// Report to a client that its sockets are polled, as a driver does. If it waited for a
    /// processor, report the delay before the next poll, because a driver does not read the
    /// kernel's run-queue delay at each poll.
    pub(super) fn poll(&mut self, m: usize) {
        let now = self.now;
        let state = &mut self.states[m];
        if !self.setup.report_polls || m >= self.clients || state.polled == Some(now) {
            return;
        }
        let before = state.polled.replace(now);
        let woken = state.woken.take();
        let away =
            self.setup.pauses.and_then(|pauses| Some((pauses.is_busy, pauses.paused_since(now)?)));
        let machine = &mut self.machines[m];
        machine.on_sched_delay(std::mem::take(&mut state.delay));
        match (away, woken) {
            // It polled the sockets right before it was busy.
            (Some((true, from)), _) => {
                machine.on_poll(Poll { at: from, previous: PreviousPoll::Empty });
                machine.on_poll(Poll { at: now, previous: PreviousPoll::Drained });
            }
            (Some((false, _)), Some(woken)) => {
                let at = before.unwrap_or(Nanos::ZERO);
                machine.on_poll(Poll { at, previous: PreviousPoll::Drained });
                state.delay = now.since(woken);
            }
            _ => machine.on_poll(Poll { at: now, previous: PreviousPoll::Empty }),
        }
    }

    /// Postpone an event of a paused client, or its timer, until the client resumes.
    pub(super) fn postpone(&mut self, until: Nanos, at: Nanos, kind: Result<Event, usize>) {
        let client = match kind {
            Err(m) | Ok(Event::Turn(m)) => Some(m),
            Ok(kind) => kind.conn().map(|c| self.conns[c].ends[CLIENT].machine),
        };
        let states = self.states.iter_mut().enumerate();
        for (_, state) in states.filter(|&(m, _)| client.is_none_or(|client| client == m)) {
            state.woken = Some(state.woken.map_or(at, |woken| woken.min(at)));
        }
        match kind {
            Ok(Event::Arrives(c, _)) => self.conns[c].unread.push_back(at),
            Ok(Event::Opened(c)) => self.conns[c].opened_in_pause = Some(at),
            _ => {}
        }
        match kind {
            Err(machine) => self.states[machine].tick_at = Some(until),
            Ok(kind) => {
                self.push(until, kind);
                // It is still the same event: `push` has counted it twice.
                if let Some(c) = kind.conn() {
                    self.conns[c].pending -= 1;
                }
            }
        }
    }
}
