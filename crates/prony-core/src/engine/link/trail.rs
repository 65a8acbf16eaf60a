//! Matches the kernel's timestamps of a connection's bytes with the requests in those bytes.
//!
//! The kernel identifies each write by the number of its last byte (each message by the message's
//! own number), and reports when it passed which point. A request counts as sent with the write
//! that contains its last byte. Only a timestamp with exactly the write's number is used: a later
//! number shows that the bytes have gone, but not when. If a write was accepted only in part, only
//! the request that ends in it gets its timestamps.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::engine::exchange::Exchanges;
use prony_base::machine::{KernelStamp, Passed};
use prony_base::units::{ConnId, Nanos, RequestId, Span};
use prony_proto::proto::Carrier;
use prony_tally::record::{KernelTimes, MissingTime, Recorder, Stamps};

/// How many writes are remembered beyond those of the requests in flight: their timestamps may
/// arrive late.
const KEPT: usize = 16;

/// The kernel's timestamps for all connections, by slot.
#[derive(Debug, Default)]
pub(in crate::engine) struct Trails {
    all: Vec<Trail>,
    /// The kernel counts messages, one by one, and not bytes.
    by_message: bool,
}

/// The kernel's timestamps for one connection.
#[derive(Debug, Default)]
pub(in crate::engine) struct Trail {
    /// Bytes, or messages, given to the kernel so far.
    given: u64,
    /// The number of the last write that ended requests. These writes are counted from 1.
    last: u32,
    /// Writes that ended requests, oldest first and without gaps.
    writes: VecDeque<Write>,
    /// Successful requests whose transmit timestamps have not arrived yet.
    waiting: VecDeque<Waiting>,
    /// Successful requests whose transmit timestamps of the network card have not arrived yet.
    on_card: VecDeque<OnCard>,
    /// When the current bytes were received.
    received: Received,
    /// When the first bytes of the current reply were received.
    first: Option<Received>,
}

/// When bytes were received, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Received {
    /// By the kernel.
    kernel: Option<Nanos>,
    /// By the network card, on its own clock.
    card: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    /// The kernel's number of the write.
    number: u32,
    /// The intended start of the oldest request that it ended.
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

    /// The kernel has accepted `taken` bytes in one write, which end no request.
    #[cold]
    pub(in crate::engine) fn wrote(&mut self, slot: u32, taken: usize) {
        let n = if self.by_message { u64::from(taken > 0) } else { taken as u64 };
        self.of(slot).given += n;
    }

    /// The kernel has accepted `taken` bytes in one write, which end these requests. The number
    /// after the slot is how many requests its connection has in flight, these included.
    #[cold]
    pub(in crate::engine) fn wrote_requests(
        &mut self,
        (slot, in_flight): (u32, usize),
        taken: usize,
        ended: impl IntoIterator<Item = RequestId>,
        exchanges: &mut Exchanges,
        recorder: &mut Recorder,
    ) {
        self.wrote(slot, taken);
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

    /// The timestamps of a connection on which bytes have arrived.
    #[cold]
    pub(in crate::engine) fn receiving(&mut self, slot: u32) -> &mut Trail {
        self.of(slot)
    }

    /// The connection is closed. Missing timestamps will not arrive any more.
    #[cold]
    pub(in crate::engine) fn ended(&mut self, slot: u32, recorder: &mut Recorder) {
        let trail = std::mem::take(self.of(slot));
        for waiting in trail.waiting {
            recorder.kernel_times(&waiting.stamps, Err(MissingTime::Sent));
        }
    }

    /// All connections are closed.
    pub(in crate::engine) fn finish(&mut self, recorder: &mut Recorder) {
        for slot in 0..self.all.len() {
            self.ended(slot as u32, recorder);
        }
    }
}

impl Trail {
    /// A reply starts in the current bytes.
    #[cold]
    pub(in crate::engine) fn began(&mut self) {
        self.first.get_or_insert(self.received);
    }

    /// A reply has ended. `success`: for a successful request, the number of its write and its
    /// timestamps.
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
            (_, None) => recorder.kernel_times(&stamps, Err(MissingTime::Received)),
            (None, _) => recorder.kernel_times(&stamps, Err(MissingTime::Sent)),
            (Some((Some(scheduled), Some(sent))), Some(received)) => {
                recorder.kernel_times(&stamps, Ok(KernelTimes { scheduled, sent, received }));
            }
            (Some(_), Some(received)) => {
                self.waiting.push_back(Waiting { write, stamps, received });
            }
        }
    }

    /// Forget the oldest writes. Each write ended at least one request, so the last ones cover
    /// everything in flight.
    fn forget(&mut self, in_flight: usize, recorder: &mut Recorder) {
        while self.writes.len() > in_flight + KEPT {
            let gone = self.oldest();
            self.writes.pop_front();
            self.waiting.retain(|w| {
                if w.write == gone {
                    recorder.kernel_times(&w.stamps, Err(MissingTime::Sent));
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

    /// The network card has reported a write, or has received the reply to a request in it. Record
    /// the time between, if both are known.
    fn settle_on_card(&mut self, write: u32, recorder: &mut Recorder) {
        let Some(sent) = self.write(write).and_then(|w| w.card) else { return };
        self.on_card.retain(|w| {
            if w.write == write
                && let Some(took) = w.received.checked_sub(sent)
            {
                recorder.network_card_time(w.intended, Span(took));
            }
            w.write != write
        });
    }

    /// The network card has reported when it sent a write.
    fn card_sent(&mut self, number: u32, at: u64, recorder: &mut Recorder) {
        let Some(i) = self.writes.iter().rposition(|w| w.number == number) else { return };
        self.writes[i].card.get_or_insert(at);
        self.settle_on_card(self.oldest().wrapping_add(i as u32), recorder);
    }

    /// The kernel has reported when a write passed a point.
    fn passed(&mut self, passed: Passed, number: u32, at: Nanos, recorder: &mut Recorder) {
        let Some(i) = self.writes.iter().rposition(|w| w.number == number) else { return };
        let write = &mut self.writes[i];
        match (passed, write.sent) {
            // A retransmission does not replace the first timestamp.
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
                let noted = KernelTimes { scheduled, sent, received: w.received };
                recorder.kernel_times(&w.stamps, Ok(noted));
            }
            w.write != write
        });
    }
}

impl<P: Carrier> Engine<P> {
    /// Match requests with the kernel's timestamps of their bytes, which the driver passes to
    /// [`prony_base::machine::Machine::on_stamp`].
    pub fn expect_stamps(&mut self) {
        let by_message = self.plan.exchange.is_some()
            && self.plan.endpoints.iter().any(|e| e.transport().keeps_boundaries());
        self.trails = Some(Box::new(Trails { by_message, ..Trails::default() }));
        self.recorder.expect_stamps();
    }

    /// A timestamp of the kernel has arrived.
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
