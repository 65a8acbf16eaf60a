//! The exchanges of a connection, in order.

use crate::engine::exchange::{At, Exchange, Exchanges, List, NONE, New};
use prony_base::units::{Nanos, RequestId};
use prony_tally::record::Recorder;

/// The exchanges of a connection.
#[derive(Debug)]
pub(super) struct Carried {
    /// Its unfinished exchanges, oldest first: first those submitted to the carrier, then the
    /// others.
    pub(super) all: List,
    /// The slot of the first exchange that is not submitted.
    next: u32,
    /// How many are not submitted.
    pub(super) waiting: u32,
    /// How many have had their first byte accepted by the kernel.
    pub(super) sent: u32,
    /// How many of these are counted as open streams.
    counted: u32,
    /// Those that have left it after they were submitted, before the kernel accepted their first
    /// byte. They may be on another connection now, and their bytes are still sent on this one.
    left: Vec<RequestId>,
    /// How many exchanges it has been given in total.
    pub(super) given: u64,
    /// How many replies it has received.
    pub(super) served: u64,
    /// The peer closes it: it cannot be used again.
    pub(super) retired: bool,
    /// The peer accepts no new exchanges on it; those in flight continue.
    pub(super) drains: bool,
}

impl Carried {
    pub(super) fn nothing() -> Self {
        Self {
            all: List::EMPTY,
            next: NONE,
            waiting: 0,
            sent: 0,
            counted: 0,
            left: Vec::new(),
            given: 0,
            served: 0,
            retired: false,
            drains: false,
        }
    }

    /// Whether it accepts no more exchanges.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.retired || self.drains
    }

    /// How many of its exchanges have not ended.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.all.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many are submitted.
    #[inline]
    pub(super) fn submitted(&self) -> u32 {
        self.all.len() - self.waiting
    }

    /// The first exchange that is not submitted.
    #[inline]
    pub(super) fn next(&self, exchanges: &Exchanges) -> Option<RequestId> {
        exchanges.id(self.next)
    }

    /// Add an exchange.
    #[inline]
    pub(super) fn push(&mut self, exchanges: &mut Exchanges, id: RequestId) {
        exchanges.push(&mut self.all, id);
        if self.next == NONE {
            self.next = id.slot;
        }
        self.waiting += 1;
    }

    /// Start a request on the connection.
    #[inline]
    pub(super) fn begin(&mut self, exchanges: &mut Exchanges, new: New) {
        let slot = exchanges.begin(&mut self.all, new);
        if self.next == NONE {
            self.next = slot;
        }
        self.waiting += 1;
    }

    /// Submit the first exchange that is not submitted, if there is one.
    #[inline]
    pub(super) fn submit<'e>(
        &mut self,
        exchanges: &'e mut Exchanges,
    ) -> Option<(RequestId, &'e mut Exchange)> {
        let (id, next, exchange) = exchanges.submit(self.next)?;
        self.next = next;
        self.waiting -= 1;
        Some((id, exchange))
    }

    /// Count its open streams, which have changed at `now`. Only if exchanges have streams.
    #[inline]
    pub(super) fn count_streams(&mut self, recorder: &mut Recorder, now: Nanos) {
        if self.sent != self.counted {
            recorder.streams_changed(self.counted, self.sent, now);
            self.counted = self.sent;
        }
    }

    /// Remove an exchange.
    #[inline]
    pub(super) fn take_out<'e>(
        &mut self,
        exchanges: &'e mut Exchanges,
        id: RequestId,
    ) -> &'e mut Exchange {
        let (at, next, exchange) = exchanges.leave(&mut self.all, id);
        if at == At::Sent {
            self.sent -= 1;
        } else if at == At::Waiting {
            self.waiting -= 1;
            if self.next == id.slot {
                self.next = next;
            }
        } else {
            self.left.push(id);
        }
        exchange
    }

    /// The kernel has accepted the first byte of an exchange that had to wait for room in the
    /// socket. Returns whether the exchange is no longer on this connection.
    pub(super) fn has_left(&mut self, id: RequestId) -> bool {
        let place = self.left.iter().position(|&other| other == id);
        place.map(|place| self.left.swap_remove(place)).is_some()
    }

    /// No bytes wait for room in the socket.
    #[inline]
    pub(super) fn forget_left(&mut self) {
        self.left.clear();
    }

    /// Move all exchanges into `to`.
    pub(super) fn take_all(&mut self, exchanges: &Exchanges, to: &mut Vec<RequestId>) {
        to.extend(exchanges.of(&self.all));
        (self.all, self.next) = (List::EMPTY, NONE);
        (self.waiting, self.sent) = (0, 0);
        self.left.clear();
    }
}
