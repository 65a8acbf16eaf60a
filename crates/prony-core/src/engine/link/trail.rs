//! What the kernel notes of a connection's bytes, matched with the requests that they carried.
//!
//! The kernel tells of each write by the number of its last byte (of each message by the message's
//! own number) when it passed which point. A request is taken to have gone when the write went in
//! which its last byte was. Only the write's own number counts: a later one says that the bytes
//! have gone, but not when. Of what a write took in part nothing is told but of the request that
//! ends it.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::engine::exchange::Exchanges;
use crate::machine::{KernelStamp, Passed};
use crate::proto::Carrier;
use crate::record::{Noted, Recorder, Stamps, Unnoted};
use crate::units::{ConnId, Nanos, RequestId, Span};

/// Writes that are remembered beyond those of the requests in flight: their stamps may come late.
const KEPT: usize = 16;

/// The trails of all connections, by slot.
#[derive(Debug, Default)]
pub(in crate::engine) struct Trails {
    all: Vec<Trail>,
    /// What is given to the kernel are messages, which it counts one by one.
    by_message: bool,
}

/// One connection's.
#[derive(Debug, Default)]
pub(in crate::engine) struct Trail {
    /// Bytes, or messages, that the kernel was given.
    given: u64,
    /// The last write that ended requests; they are counted from 1.
    last: u32,
    /// Writes that ended requests, oldest first and without a gap.
    writes: VecDeque<Write>,
    /// Successes whose send stamps have not come yet.
    waiting: VecDeque<Waiting>,
    /// The same of successes whose send stamps by the network card have not come yet.
    on_card: VecDeque<OnCard>,
    /// When the bytes that are being looked at were received.
    received: Received,
    /// The same of the first bytes of the reply that has begun.
    first: Option<Received>,
}

/// When bytes were received; what is not known is not there.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Received {
    /// By the kernel.
    kernel: Option<Nanos>,
    /// By the network card, on its own clock.
    card: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    /// The kernel's number of it.
    number: u32,
    /// When the oldest request that it ended was wanted.
    intended: Nanos,
    scheduled: Option<Nanos>,
    sent: Option<Nanos>,
    /// By the network card, on its own clock.
    card: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    write: u32,
    stamps: Stamps,
    received: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct OnCard {
    write: u32,
    intended: Nanos,
    received: u64,
}

impl Trails {
    fn of(&mut self, slot: u32) -> &mut Trail {
        let slot = slot as usize;
        if self.all.len() <= slot {
            self.all.resize_with(slot + 1, Trail::default);
        }
        &mut self.all[slot]
    }

    /// The kernel has taken so many bytes at once that end no request.
    #[cold]
    pub(in crate::engine) fn gave(&mut self, slot: u32, taken: usize) {
        let n = if self.by_message { u64::from(taken > 0) } else { taken as u64 };
        self.of(slot).given += n;
    }

    /// The kernel has taken so many bytes at once, and with them these requests to their end. With
    /// the slot: how many requests its connection has in flight, these included.
    #[cold]
    pub(in crate::engine) fn gave_requests(
        &mut self,
        (slot, in_flight): (u32, usize),
        taken: usize,
        ended: impl IntoIterator<Item = RequestId>,
        exchanges: &mut Exchanges,
        recorder: &mut Recorder,
    ) {
        self.gave(slot, taken);
        let trail = self.of(slot);
        let mut intended = None;
        for id in ended {
            let exchange = &mut exchanges[id];
            let wanted = exchange.intended();
            intended.get_or_insert(wanted);
            exchange.went_in(trail.last.wrapping_add(1));
        }
        if let Some(intended) = intended {
            trail.last = trail.last.wrapping_add(1);
            let number = (trail.given as u32).wrapping_sub(1);
            let (scheduled, sent, card) = (None, None, None);
            trail.writes.push_back(Write { number, intended, scheduled, sent, card });
            trail.forget(in_flight, recorder);
        }
    }

    /// The trail of a connection whose peer has said something.
    #[cold]
    pub(in crate::engine) fn hearing(&mut self, slot: u32) -> &mut Trail {
        self.of(slot)
    }

    /// The connection is over; what has not come comes no more.
    #[cold]
    pub(in crate::engine) fn ended(&mut self, slot: u32, recorder: &mut Recorder) {
        let trail = std::mem::take(self.of(slot));
        for waiting in trail.waiting {
            recorder.noted(&waiting.stamps, Err(Unnoted::Sent));
        }
    }

    /// All connections are over.
    pub(in crate::engine) fn finish(&mut self, recorder: &mut Recorder) {
        for slot in 0..self.all.len() {
            self.ended(slot as u32, recorder);
        }
    }
}

impl Trail {
    /// The first bytes of a reply are among those that are being looked at.
    #[cold]
    pub(in crate::engine) fn began(&mut self) {
        self.first.get_or_insert(self.received);
    }

    /// A reply has ended. `success`: in which write its request went, and the request's stamps,
    /// where it was one.
    #[cold]
    pub(in crate::engine) fn replied(
        &mut self,
        success: Option<(u32, Stamps)>,
        recorder: &mut Recorder,
    ) {
        let received = self.first.take().unwrap_or(self.received);
        let Some((write, stamps)) = success else { return };
        let known = self.write(write).map(|w| (w.scheduled, w.sent));
        let on_card = known.and(received.card);
        if let Some(received) = on_card {
            self.on_card.push_back(OnCard { write, intended: stamps.intended, received });
            self.settle_on_card(write, recorder);
        }
        match (known, received.kernel) {
            (_, None) => recorder.noted(&stamps, Err(Unnoted::Received)),
            (None, _) => recorder.noted(&stamps, Err(Unnoted::Sent)),
            (Some((Some(scheduled), Some(sent))), Some(received)) => {
                recorder.noted(&stamps, Ok(Noted { scheduled, sent, received }));
            }
            (Some(_), Some(received)) => {
                self.waiting.push_back(Waiting { write, stamps, received });
            }
        }
    }

    /// Let go of the oldest writes. What is in flight went with the last ones, as each ended one of
    /// its requests at least.
    fn forget(&mut self, in_flight: usize, recorder: &mut Recorder) {
        while self.writes.len() > in_flight + KEPT {
            let gone = self.oldest();
            self.writes.pop_front();
            self.waiting.retain(|w| {
                if w.write == gone {
                    recorder.noted(&w.stamps, Err(Unnoted::Sent));
                }
                w.write != gone
            });
            self.on_card.retain(|w| w.write != gone);
        }
    }

    /// The oldest write that is kept.
    fn oldest(&self) -> u32 {
        self.last.wrapping_sub(self.writes.len() as u32).wrapping_add(1)
    }

    fn write(&self, write: u32) -> Option<&Write> {
        if write == 0 {
            return None;
        }
        self.writes.get(write.wrapping_sub(self.oldest()) as usize)
    }

    /// The network card has told of a write, or received the reply to what was in it: count what is
    /// known of both.
    fn settle_on_card(&mut self, write: u32, recorder: &mut Recorder) {
        let Some(sent) = self.write(write).and_then(|w| w.card) else { return };
        self.on_card.retain(|w| {
            if w.write == write
                && let Some(took) = w.received.checked_sub(sent)
            {
                recorder.timed_by_card(w.intended, Span(took));
            }
            w.write != write
        });
    }

    /// The network card tells of a write.
    fn card_sent(&mut self, number: u32, at: u64, recorder: &mut Recorder) {
        let Some(i) = self.writes.iter().rposition(|w| w.number == number) else { return };
        self.writes[i].card.get_or_insert(at);
        self.settle_on_card(self.oldest().wrapping_add(i as u32), recorder);
    }

    /// The kernel tells of a write.
    fn passed(&mut self, passed: Passed, number: u32, at: Nanos, recorder: &mut Recorder) {
        let Some(i) = self.writes.iter().rposition(|w| w.number == number) else { return };
        let write = &mut self.writes[i];
        match (passed, write.sent) {
            // What is sent again was sent before.
            (Passed::Scheduler, _) => _ = write.scheduled.get_or_insert(at),
            (Passed::Device, _) => _ = write.sent.get_or_insert(at),
            (Passed::Acknowledged, Some(sent)) => {
                recorder.acknowledged(write.intended, at.since(sent));
            }
            (Passed::Acknowledged, None) => {}
        }
        let (Some(scheduled), Some(sent)) = (write.scheduled, write.sent) else { return };
        let write = self.oldest().wrapping_add(i as u32);
        self.waiting.retain(|w| {
            if w.write == write {
                let noted = Noted { scheduled, sent, received: w.received };
                recorder.noted(&w.stamps, Ok(noted));
            }
            w.write != write
        });
    }
}

impl<P: Carrier> Engine<P> {
    /// Match requests with what the kernel notes of their bytes: the driver tells it
    /// ([`crate::machine::Machine::on_stamp`]).
    pub fn expect_stamps(&mut self) {
        let by_message = self.plan.exchange.is_some()
            && self.plan.endpoints.iter().any(|e| e.transport().keeps_boundaries());
        self.trails = Some(Box::new(Trails { by_message, ..Trails::default() }));
        self.recorder.expect_stamps();
    }

    /// The kernel has noted something.
    #[cold]
    pub(in crate::engine) fn stamped(&mut self, id: ConnId, stamp: KernelStamp) {
        let Some(trails) = self.trails.as_deref_mut().filter(|_| self.links.live(id)) else {
            return;
        };
        let trail = trails.of(id.slot);
        match stamp {
            KernelStamp::Received(kernel) => trail.received = Received { kernel, card: None },
            KernelStamp::CardReceived(at) => trail.received.card = Some(at),
            KernelStamp::CardSent { number, at } => {
                trail.card_sent(number, at, &mut self.recorder);
            }
            KernelStamp::Sent { passed, number, at } => {
                trail.passed(passed, number, at, &mut self.recorder);
            }
        }
    }
}
