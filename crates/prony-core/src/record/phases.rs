//! The parts of a request's time that the kernel's own time stamps tell apart.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::merge::{add, merge_fields};
use super::{Recorder, Stamps};
use crate::units::{Nanos, Span};

/// The kernel's clock is known to the meter this well. Where two stamps contradict each other by no
/// more, they count as the same moment.
const SLACK: Span = Span::from_micros(1);

/// The parts of the response times of those successes of which the kernel has noted all times.
///
/// `whole.count() + no_sent + no_received + contradicting == replies` where the kernel was asked,
/// and of each request the six parts add up to the whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Their response times.
    pub whole: Hist,
    /// From the intended start to the moment before the write: all that the client waited.
    pub waiting: Hist,
    /// From there until the kernel gave the last byte to the packet scheduler.
    pub to_scheduler: Hist,
    /// From there until it gave it to the network device.
    pub to_device: Hist,
    /// From there until it received the first bytes of the reply: both ways on the wire, and the
    /// peer's time.
    pub wire_and_peer: Hist,
    /// From there until the client had read them.
    pub to_user: Hist,
    /// From there until it had read the last byte.
    pub transfer: Hist,
    /// No part of these: from the device to TCP's acknowledgement, of every write that carried
    /// requests and of which both are known.
    pub acknowledged: Hist,
    /// Nor this: from the network card's stamp of the request's last byte to its stamp of the
    /// reply's first bytes, of every success of which the card has noted both.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub by_card: Hist,
    /// Successes without the times at which they were sent.
    pub no_sent: u64,
    /// Successes without the time at which the reply was received.
    pub no_received: u64,
    /// Successes whose times contradict each other, as those of a reply that came before its
    /// request had gone.
    pub contradicting: u64,
}

/// What the kernel has noted of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// When the last byte was given to the packet scheduler.
    pub scheduled: Nanos,
    /// When it was given to the network device.
    pub sent: Nanos,
    /// When the first bytes of the reply were received.
    pub received: Nanos,
}

/// Why nothing is known of a request's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnoted {
    /// The kernel has not told when it was sent.
    Sent,
    /// The kernel has not told when the reply was received.
    Received,
}

impl Phases {
    /// How many of the parts there are.
    pub const PARTS: usize = 6;

    /// The parts in the order in which they happen.
    pub fn parts(&self) -> [&Hist; Self::PARTS] {
        [
            &self.waiting,
            &self.to_scheduler,
            &self.to_device,
            &self.wire_and_peer,
            &self.to_user,
            &self.transfer,
        ]
    }

    /// Successes of which something is missing.
    pub fn without(&self) -> u64 {
        self.no_sent + self.no_received + self.contradicting
    }

    /// Which share of the wholes that part is, all requests together, 0 to 1; `None` where there is
    /// nothing to share.
    pub fn share(&self, part: &Hist) -> Option<f64> {
        let whole = self.whole.sum_ns();
        (whole > 0).then(|| part.sum_ns() as f64 / whole as f64)
    }

    /// Add what another worker counted.
    pub(super) fn merge(&mut self, other: &Self) {
        merge_fields!(self, other, {
            whole: Hist::merge,
            waiting: Hist::merge,
            to_scheduler: Hist::merge,
            to_device: Hist::merge,
            wire_and_peer: Hist::merge,
            to_user: Hist::merge,
            transfer: Hist::merge,
            acknowledged: Hist::merge,
            by_card: Hist::merge,
            no_sent: add,
            no_received: add,
            contradicting: add,
        });
    }

    fn count(&mut self, stamps: &Stamps, noted: &Noted) {
        let Some(parts) = parts(stamps, noted) else {
            self.contradicting += 1;
            return;
        };
        self.whole.record(stamps.response());
        let hists = [
            &mut self.waiting,
            &mut self.to_scheduler,
            &mut self.to_device,
            &mut self.wire_and_peer,
            &mut self.to_user,
            &mut self.transfer,
        ];
        for (hist, part) in hists.into_iter().zip(parts) {
            hist.record(part);
        }
    }
}

/// The parts of one request; `None` where its stamps are not in order.
fn parts(stamps: &Stamps, noted: &Noted) -> Option<[Span; Phases::PARTS]> {
    // The client's stamps and the kernel's come from two clocks.
    let scheduled = settled(stamps.sent, noted.scheduled)?;
    let received = if noted.received > stamps.first {
        settled(noted.received, stamps.first).map(|_| stamps.first)?
    } else {
        noted.received
    };
    let sent = noted.sent.max(scheduled);
    let moments = [stamps.intended, stamps.sent, scheduled, sent, received, stamps.first];
    if !moments.is_sorted() || noted.sent < noted.scheduled {
        return None;
    }
    let ends = moments.into_iter().skip(1).chain([stamps.done]);
    let mut parts = [Span::ZERO; Phases::PARTS];
    for ((part, begin), end) in parts.iter_mut().zip(moments).zip(ends) {
        *part = end.since(begin);
    }
    Some(parts)
}

/// The later moment, or the earlier where the later is before it by no more than the slack.
fn settled(earlier: Nanos, later: Nanos) -> Option<Nanos> {
    (earlier.since(later) <= SLACK).then(|| later.max(earlier))
}

impl Recorder {
    /// Count what the kernel notes of requests.
    pub fn expect_stamps(&mut self) {
        for section in [&mut self.main, &mut self.warm] {
            section.tally.phases.get_or_insert_default();
        }
    }

    /// A success, and what the kernel has noted of it.
    #[cold]
    pub fn noted(&mut self, stamps: &Stamps, noted: Result<Noted, Unnoted>) {
        let phases = self.section(stamps.intended).tally.phases.get_or_insert_default();
        match noted {
            Ok(noted) => phases.count(stamps, &noted),
            Err(Unnoted::Sent) => phases.no_sent += 1,
            Err(Unnoted::Received) => phases.no_received += 1,
        }
    }

    /// A write that carried requests, the oldest of them intended then, was acknowledged `took`
    /// after it had been given to the device.
    #[cold]
    pub fn acknowledged(&mut self, intended: Nanos, took: Span) {
        let phases = self.section(intended).tally.phases.get_or_insert_default();
        phases.acknowledged.record(took);
    }

    /// A success that was intended then was on its way and with the peer for so long, by the clock
    /// of the network card.
    #[cold]
    pub fn timed_by_card(&mut self, intended: Nanos, took: Span) {
        self.section(intended).tally.phases.get_or_insert_default().by_card.record(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPS: Stamps = Stamps {
        intended: Nanos(10_000),
        sent: Nanos(20_000),
        first: Nanos(90_000),
        done: Nanos(95_000),
        queue: Span::ZERO,
        connect: Span::ZERO,
        stream: Span::ZERO,
    };

    fn noted(scheduled: u64, sent: u64, received: u64) -> Noted {
        let at = Nanos;
        Noted { scheduled: at(scheduled), sent: at(sent), received: at(received) }
    }

    fn told(noted: &Noted) -> Option<[u64; Phases::PARTS]> {
        parts(&STAMPS, noted).map(|parts| parts.map(|part| part.0))
    }

    #[test]
    fn parts_lie_between_the_stamps_and_add_up() {
        let parts = told(&noted(21_000, 23_000, 80_000)).unwrap();
        assert_eq!(parts, [10_000, 1_000, 2_000, 57_000, 10_000, 5_000]);
        assert_eq!(parts.iter().sum::<u64>(), STAMPS.response().0);
    }

    #[test]
    fn stamps_that_differ_by_the_clocks_slack_alone_are_one_moment() {
        let parts = told(&noted(19_000, 19_400, 91_000)).unwrap();
        assert_eq!(parts, [10_000, 0, 0, 70_000, 0, 5_000]);
        assert_eq!(parts.iter().sum::<u64>(), STAMPS.response().0);
        assert_eq!(told(&noted(18_999, 21_000, 80_000)), None);
        assert_eq!(told(&noted(21_000, 23_000, 91_001)), None);
    }

    #[test]
    fn a_reply_before_its_request_is_a_contradiction() {
        assert_eq!(told(&noted(21_000, 80_001, 80_000)), None);
        assert_eq!(told(&noted(23_000, 21_000, 80_000)), None);
        let mut phases = Phases::default();
        phases.count(&STAMPS, &noted(21_000, 80_001, 80_000));
        phases.count(&STAMPS, &noted(21_000, 22_000, 80_000));
        assert_eq!((phases.contradicting, phases.whole.count(), phases.without()), (1, 1, 1));
        let wire_and_peer = phases.share(&phases.wire_and_peer).unwrap();
        assert!((wire_and_peer - 58.0 / 85.0).abs() < 1e-12, "{wire_and_peer}");
    }

    #[test]
    fn workers_add_up() {
        let (mut a, mut b) = (Phases::default(), Phases { no_sent: 2, ..Phases::default() });
        a.count(&STAMPS, &noted(21_000, 22_000, 80_000));
        b.count(&STAMPS, &noted(25_000, 26_000, 70_000));
        let mut both = a.clone();
        both.count(&STAMPS, &noted(25_000, 26_000, 70_000));
        both.no_sent = 2;
        for phases in [&mut b, &mut both] {
            phases.by_card.record(Span(5));
        }
        a.merge(&b);
        assert_eq!(a, both);
    }
}
