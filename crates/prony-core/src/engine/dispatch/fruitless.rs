//! Connections that come to nothing: the server accepts them, and ends them before any reply. A
//! meter that opened the next one at once would be a busy loop against such a server. So a request
//! that is sent again waits before its next connect, and so does a user of a closed loop whose
//! request has failed. Intended times do not move, and the arrivals of an open loop do not wait.

use std::collections::BTreeMap;

use crate::engine::Engine;
use prony_base::rng::{self, Stream};
use prony_base::units::{ConnId, Nanos, Span};
use prony_plan::plan::{Load, Plan};
use prony_proto::proto::Carrier;

/// The longest wait before the third connection; it doubles with each one that comes to nothing, up
/// to [`Load::AWAY_MAX`]. A second connection is opened at once: servers that recycle their
/// connections end one now and then that has had no request yet.
const FIRST: Span = Span::from_millis(1);
/// How often it doubles at most.
const DOUBLINGS: u32 = 7;
const _: () = assert!(FIRST.0 << DOUBLINGS == Load::AWAY_MAX.0);

/// What is known of the endpoints, and the connects that wait.
#[derive(Debug)]
pub(in crate::engine) struct Fruitless {
    seed: u64,
    /// By endpoint. Empty as long as each connection brings a reply.
    endpoints: BTreeMap<u32, Rounds>,
    /// Whether connects wait now: those of requests that are sent again.
    holds: bool,
    /// Connects by the time when they may start.
    held: BTreeMap<(Nanos, ConnId), u32>,
    /// How many waits there were, for random numbers.
    draws: u64,
}

/// Connections to an endpoint that came to nothing, one after the other. Those that were open at
/// the same time count once.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    count: u32,
    /// When the last one of them was counted.
    at: Nanos,
}

impl Fruitless {
    pub(super) fn new(plan: &Plan) -> Self {
        let (endpoints, held) = (BTreeMap::new(), BTreeMap::new());
        // The shares of a run do not wait in step.
        let seed = plan.seed.wrapping_add(u64::from(plan.shard.index) << 32);
        Self { seed, endpoints, holds: false, held, draws: 0 }
    }

    /// A connection, whose connect began at `began`, came to nothing.
    fn add(&mut self, endpoint: u32, began: Nanos, now: Nanos) {
        let rounds = self.endpoints.entry(endpoint).or_default();
        if rounds.count == 0 || began >= rounds.at {
            *rounds = Rounds { count: (rounds.count + 1).min(DOUBLINGS + 2), at: now };
        }
    }

    /// A connection has brought a reply.
    #[inline]
    pub(in crate::engine) fn reset(&mut self, endpoint: u32) {
        if !self.endpoints.is_empty() {
            self.endpoints.remove(&endpoint);
        }
    }

    /// How long to wait before the next connection: a random part of the longest wait, at least
    /// half of it.
    fn wait(&mut self, endpoint: u32) -> Span {
        let rounds = self.endpoints.get(&endpoint).map_or(0, |rounds| rounds.count);
        let Some(doublings) = rounds.checked_sub(2) else { return Span::ZERO };
        self.draws += 1;
        let bits = rng::keyed(self.seed, Stream::Reconnects, u64::from(endpoint), self.draws);
        let longest = FIRST.0 << doublings.min(DOUBLINGS);
        Span(longest / 2 + (rng::unit(bits) * (longest / 2) as f64) as u64)
    }

    /// When this connect may start; `None` if it may now.
    #[inline]
    pub(super) fn hold(&mut self, id: ConnId, endpoint: u32, now: Nanos) -> Option<Nanos> {
        if !self.holds {
            return None;
        }
        let wait = self.wait(endpoint);
        (wait > Span::ZERO).then(|| {
            self.held.insert((now + wait, id), endpoint);
            now + wait
        })
    }
}

impl<P: Carrier> Engine<P> {
    /// A connection ends, or accepts no more requests. Returns whether it came to nothing: soon,
    /// and without a byte of a reply, unless `excused`.
    pub(in crate::engine) fn comes_to_nothing(
        &mut self,
        slot: u32,
        excused: bool,
        now: Nanos,
    ) -> bool {
        let (endpoint, (served, began)) = (self.links.of(slot).0, self.links.life(slot));
        let is_soon = served == 0 && now.since(began) < Load::AWAY_MAX;
        let is_fruitless = is_soon && self.links.is_open(slot) && !excused;
        if is_fruitless {
            self.pacing.fruitless.add(endpoint, began, now);
        }
        is_fruitless
    }

    /// Whether the connects from now on wait.
    pub(in crate::engine) fn hold_connects(&mut self, holds: bool) {
        self.pacing.fruitless.holds = holds;
    }

    /// How long a user waits whose request has failed on a connection that came to nothing.
    pub(in crate::engine) fn wait_after(&mut self, endpoint: u32, now: Nanos) -> Span {
        if self.outcome.ended.is_empty() || !self.load.restarts() {
            return Span::ZERO;
        }
        let wait = self.pacing.fruitless.wait(endpoint);
        if wait > Span::ZERO {
            self.recorder.connect_held(now);
        }
        wait
    }

    /// Connects that were held back may start.
    #[cold]
    pub(in crate::engine) fn connects_are_due(&mut self, now: Nanos) {
        while let Some(entry) = self.pacing.fruitless.held.first_entry()
            && entry.key().0 <= now
        {
            let ((_, id), endpoint) = entry.remove_entry();
            if self.links.live(id) {
                self.waited_for_hold(id.slot, now);
                self.pacing.wait(id, endpoint);
                self.ask_for_turn();
            }
        }
    }
}
