//! What a connection carries: the exchanges that it was given, in their order.

use crate::engine::exchange::{At, Exchange, Exchanges, List, NONE, New};
use crate::units::RequestId;

/// What a connection carries.
#[derive(Debug)]
pub(super) struct Carried {
    /// What it was given and has not ended, oldest first: first what was submitted to the carrier,
    /// then what was not.
    pub(super) all: List,
    /// The place of the first that was not submitted.
    next: u32,
    /// How many were not submitted.
    pub(super) waiting: u32,
    /// How many have had their first byte taken by the kernel.
    pub(super) sent: u32,
    /// How many exchanges it was ever given.
    pub(super) given: u64,
    /// How many replies it has brought.
    pub(super) served: u64,
    /// The peer closes it: it is of no more use.
    pub(super) retired: bool,
    /// The peer takes no new exchange on it; those that it has go on.
    pub(super) drains: bool,
}

impl Carried {
    pub(super) fn nothing() -> Self {
        Self {
            all: List::EMPTY,
            next: NONE,
            waiting: 0,
            sent: 0,
            given: 0,
            served: 0,
            retired: false,
            drains: false,
        }
    }

    /// Whether it takes no further exchange.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.retired || self.drains
    }

    /// How many exchanges it was given and has not ended.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.all.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many the carrier has.
    #[inline]
    pub(super) fn submitted(&self) -> u32 {
        self.all.len() - self.waiting
    }

    /// The first that was not submitted.
    #[inline]
    pub(super) fn next(&self, exchanges: &Exchanges) -> Option<RequestId> {
        exchanges.id(self.next)
    }

    /// It is given one more.
    #[inline]
    pub(super) fn push(&mut self, exchanges: &mut Exchanges, id: RequestId) {
        exchanges.push(&mut self.all, id);
        if self.next == NONE {
            self.next = id.slot;
        }
        self.waiting += 1;
    }

    /// A request begins on it.
    #[inline]
    pub(super) fn begin(&mut self, exchanges: &mut Exchanges, new: New) {
        let slot = exchanges.begin(&mut self.all, new);
        if self.next == NONE {
            self.next = slot;
        }
        self.waiting += 1;
    }

    /// The first that was not submitted now is, if there is one.
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

    /// One leaves the connection.
    #[inline]
    pub(super) fn take_out(&mut self, exchanges: &mut Exchanges, id: RequestId) {
        let (at, next) = exchanges.leave(&mut self.all, id);
        if at == At::Sent {
            self.sent -= 1;
        } else if at == At::Waiting {
            self.waiting -= 1;
            if self.next == id.slot {
                self.next = next;
            }
        }
    }

    /// All leave it, into `to`.
    pub(super) fn take_all(&mut self, exchanges: &Exchanges, to: &mut Vec<RequestId>) {
        to.extend(exchanges.of(&self.all));
        (self.all, self.next) = (List::EMPTY, NONE);
        (self.waiting, self.sent) = (0, 0);
    }
}
