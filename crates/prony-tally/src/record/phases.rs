//! The parts of response times between the timestamps of the meter and those of the kernel.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::{Recorder, Stamps};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};

/// Maximum error of the offset between the kernel's clock and the meter's. Two timestamps that
/// contradict each other by no more count as equal.
const SLACK: Span = Span::from_micros(1);

/// The parts of the response times of successes with all kernel timestamps.
///
/// Invariants, if timestamps are enabled: `whole.count() + no_sent + no_received + contradicting ==
/// replies`, and for each request the six parts add up to the whole.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// The response times.
    pub whole: Hist,
    /// From the intended start to the time before the write: all waiting in the client.
    pub waiting: Hist,
    /// From there until the kernel passed the last byte to the packet scheduler.
    pub to_scheduler: Hist,
    /// From there until the kernel passed it to the network device.
    pub to_device: Hist,
    /// From there until the kernel received the first bytes of the reply: both directions of the
    /// network, and the peer's time.
    pub wire_and_peer: Hist,
    /// From there until the client read them.
    pub to_user: Hist,
    /// From there until the client read the last byte.
    pub transfer: Hist,
    /// From the network device to TCP's acknowledgement, for each write with requests that has both
    /// timestamps. Not one of the parts.
    pub acknowledged: Hist,
    /// From the network card's timestamp of the last byte of the request to its timestamp of the
    /// first bytes of the reply, for each success with both. Not one of the parts.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub by_card: Hist,
    /// Successes without the timestamps of the request.
    pub no_sent: u64,
    /// Successes without the timestamp of the reply.
    pub no_received: u64,
    /// Successes with contradictory timestamps, for example of a reply received before its request
    /// was sent.
    pub contradicting: u64,
}

/// The kernel's timestamps of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTimes {
    /// When the kernel passed the last byte to the packet scheduler.
    pub scheduled: Nanos,
    /// When the kernel passed it to the network device.
    pub sent: Nanos,
    /// When the kernel received the first bytes of the reply.
    pub received: Nanos,
}

/// Which timestamp of a request is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingTime {
    /// The time at which it was sent.
    Sent,
    /// The time at which the reply was received.
    Received,
}

impl Phases {
    /// The number of parts.
    pub const PARTS: usize = 6;

    /// The parts, in chronological order.
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

    /// Successes that could not be split.
    pub fn without(&self) -> u64 {
        self.no_sent + self.no_received + self.contradicting
    }

    /// The share of a part in the total response time of all requests, 0 to 1; `None` if that is
    /// zero.
    pub fn share(&self, part: &Hist) -> Option<f64> {
        let whole = self.whole.sum_ns();
        (whole > 0).then(|| part.sum_ns() as f64 / whole as f64)
    }

    fn count(&mut self, stamps: &Stamps, noted: &KernelTimes) {
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

/// The parts of one request; `None` if its timestamps contradict each other.
fn parts(stamps: &Stamps, noted: &KernelTimes) -> Option<[Span; Phases::PARTS]> {
    // The timestamps of the client and of the kernel come from different clocks.
    let scheduled = reconciled(stamps.sent, noted.scheduled)?;
    let received = if noted.received > stamps.first {
        reconciled(noted.received, stamps.first).map(|_| stamps.first)?
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
    for ((part, start), end) in parts.iter_mut().zip(moments).zip(ends) {
        *part = end.since(start);
    }
    Some(parts)
}

/// `later`, or `earlier` if `later` precedes it by no more than the clock error.
fn reconciled(earlier: Nanos, later: Nanos) -> Option<Nanos> {
    (earlier.since(later) <= SLACK).then(|| later.max(earlier))
}

impl Recorder {
    /// Enable the recording of kernel timestamps.
    pub fn expect_stamps(&mut self) {
        for section in [&mut self.main, &mut self.warm] {
            section.tally.phases.get_or_insert_default();
        }
    }

    /// A success and its kernel timestamps.
    #[cold]
    pub fn kernel_times(&mut self, stamps: &Stamps, noted: Result<KernelTimes, MissingTime>) {
        let phases = self.section(stamps.intended).tally.phases.get_or_insert_default();
        match noted {
            Ok(noted) => phases.count(stamps, &noted),
            Err(MissingTime::Sent) => phases.no_sent += 1,
            Err(MissingTime::Received) => phases.no_received += 1,
        }
    }

    /// The peer acknowledged a write with requests `took` after the kernel passed it to the device.
    /// `intended` is that of the oldest request.
    #[cold]
    pub fn acknowledged(&mut self, intended: Nanos, took: Span) {
        let phases = self.section(intended).tally.phases.get_or_insert_default();
        phases.acknowledged.record(took);
    }

    /// The network card's time from request to reply, for a success with this intended start.
    #[cold]
    pub fn network_card_time(&mut self, intended: Nanos, took: Span) {
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
        late: Span::ZERO,
    };

    fn noted(scheduled: u64, sent: u64, received: u64) -> KernelTimes {
        let at = Nanos;
        KernelTimes { scheduled: at(scheduled), sent: at(sent), received: at(received) }
    }

    fn parts_of(noted: &KernelTimes) -> Option<[u64; Phases::PARTS]> {
        parts(&STAMPS, noted).map(|parts| parts.map(|part| part.0))
    }

    #[test]
    fn parts_add_up_to_the_response_time() {
        let parts = parts_of(&noted(21_000, 23_000, 80_000)).unwrap();
        assert_eq!(parts, [10_000, 1_000, 2_000, 57_000, 10_000, 5_000]);
        assert_eq!(parts.iter().sum::<u64>(), STAMPS.response().0);
    }

    #[test]
    fn timestamps_within_the_clock_error_count_as_equal() {
        let parts = parts_of(&noted(19_000, 19_400, 91_000)).unwrap();
        assert_eq!(parts, [10_000, 0, 0, 70_000, 0, 5_000]);
        assert_eq!(parts.iter().sum::<u64>(), STAMPS.response().0);
        assert_eq!(parts_of(&noted(18_999, 21_000, 80_000)), None);
        assert_eq!(parts_of(&noted(21_000, 23_000, 91_001)), None);
    }

    #[test]
    fn rejects_a_reply_received_before_its_request_was_sent() {
        assert_eq!(parts_of(&noted(21_000, 80_001, 80_000)), None);
        assert_eq!(parts_of(&noted(23_000, 21_000, 80_000)), None);
        let mut phases = Phases::default();
        phases.count(&STAMPS, &noted(21_000, 80_001, 80_000));
        phases.count(&STAMPS, &noted(21_000, 22_000, 80_000));
        assert_eq!((phases.contradicting, phases.whole.count(), phases.without()), (1, 1, 1));
        let wire_and_peer = phases.share(&phases.wire_and_peer).unwrap();
        assert!((wire_and_peer - 58.0 / 85.0).abs() < 1e-12, "{wire_and_peer}");
    }

    #[test]
    fn merges_the_phases_of_workers() {
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
