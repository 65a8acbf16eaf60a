//! The network between a client and a server: latency, segmentation, flow control and failures.

use std::collections::VecDeque;

use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};

use crate::rng::Rng;

/// The properties of the network, the same for each of its connections. The default is a perfect
/// network: no delay, no failure, no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Latency in one direction.
    pub latency: Span,
    /// The maximum of a uniform random addition to the latency. Bytes are never reordered.
    pub jitter: Span,
    /// Bytes per second in each direction of each connection; `None` = no limit.
    pub rate: Option<u64>,
    /// Bytes arrive in segments of 1 to this many bytes; `None` = as they were written.
    pub segment: Option<usize>,
    /// The maximum number of bytes that a sender may have in flight; `None` = no limit.
    pub window: Option<usize>,
    /// A write accepts 1 to this many bytes, then the socket buffer is full for a short time;
    /// `None` = no limit.
    pub write: Option<usize>,
    /// Probability, per segment, that the connection is reset instead of delivering it.
    pub reset: f64,
    /// Probability, per segment to the client, that the server's stream ends instead (a half-close:
    /// bytes from the client still arrive).
    pub half_close: f64,
    /// How connects can fail.
    pub connect: ConnectFaults,
    /// Endpoints that refuse connections, with the start and the end of this time.
    pub down: Vec<(u32, Nanos, Nanos)>,
    /// Start and length of the stalls: nothing is delivered during a stall, and everything is
    /// delivered after it. In ascending order, without overlaps.
    pub stalls: Vec<(Nanos, Span)>,
}

/// The probabilities of each failure of a connect. All other connects succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectFaults {
    /// Refused after a round trip.
    pub refused: f64,
    /// Reset after a round trip.
    pub reset: f64,
    /// Unreachable after a round trip.
    pub unreachable: f64,
    /// No reply, ever.
    pub unanswered: f64,
    /// The client has no descriptor (EMFILE); fails immediately.
    pub no_descriptors: f64,
    /// The client has no local port (EADDRNOTAVAIL); fails immediately.
    pub no_ports: f64,
}

/// The result of a connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectResult {
    Opens,
    NoReply,
    FailsImmediately(Fault),
    FailsAfterRoundTrip(Fault),
}

/// A segment in one direction of a connection.
#[derive(Debug)]
pub(crate) enum Segment {
    Bytes(Vec<u8>),
    /// The sender has closed its direction.
    Fin,
    /// The connection is reset.
    Rst,
    /// Does not arrive.
    Lost,
}

/// One direction of one connection: a first-in, first-out queue.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    /// In flight, in the order of their arrival.
    pub(crate) segments: VecDeque<Segment>,
    /// Bytes sent that count against the window.
    pub(crate) unacked: usize,
    /// The sender's last write was short: it waits until the socket is writable.
    pub(crate) blocked: bool,
    /// Nothing more can be sent in this direction.
    pub(crate) ended: bool,
    /// Bytes that have kernel timestamps, modulo 2^32.
    pub(crate) stamped: u32,
    /// The network card's timestamps that the client has not received yet: write and time.
    pub(crate) card_stamps: Vec<(u32, u64)>,
    /// When the last segment arrives.
    last_arrival: Nanos,
    /// When the line has finished transmitting what it was given, at the link's rate.
    line_free: Nanos,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            latency: Span::ZERO,
            jitter: Span::ZERO,
            rate: None,
            segment: None,
            window: None,
            write: None,
            reset: 0.0,
            half_close: 0.0,
            connect: ConnectFaults::default(),
            down: Vec::new(),
            stalls: Vec::new(),
        }
    }
}

impl Link {
    /// A link with this one-way latency, perfect otherwise.
    pub fn with_latency(latency: Span) -> Self {
        Self { latency, ..Self::default() }
    }

    /// A random link that is slow but loses nothing: delays, small segments, full socket buffers,
    /// stalls.
    pub fn rough(rng: &mut Rng) -> Self {
        let start = Nanos(rng.below(200_000_000));
        Self {
            latency: rng.up_to(Span::from_millis(2)),
            jitter: rng.up_to(Span::from_millis(1)),
            rate: rng.chance(0.3).then(|| rng.between(20_000, 10_000_000)),
            segment: rng.chance(0.7).then(|| rng.between(1, 64) as usize),
            window: rng.chance(0.4).then(|| rng.between(1, 400) as usize),
            write: rng.chance(0.4).then(|| rng.between(1, 100) as usize),
            stalls: if rng.chance(0.3) {
                vec![(start, rng.up_to(Span::from_millis(50)))]
            } else {
                Vec::new()
            },
            ..Self::default()
        }
    }

    /// A rough link on which connects also fail and connections break.
    pub fn broken(rng: &mut Rng) -> Self {
        let mut probability = |most: f64| if rng.chance(0.4) { rng.unit() * most } else { 0.0 };
        let connect = ConnectFaults {
            refused: probability(0.3),
            reset: probability(0.1),
            unreachable: probability(0.1),
            unanswered: probability(0.1),
            no_descriptors: probability(0.1),
            no_ports: probability(0.1),
        };
        let (reset, half_close) = (probability(0.05), probability(0.05));
        Self { reset, half_close, connect, ..Self::rough(rng) }
    }

    /// A random one-way delay.
    pub(crate) fn delay(&self, rng: &mut Rng) -> Span {
        self.latency + rng.up_to(self.jitter)
    }

    /// `at`, or the end of the stall that contains it.
    pub(crate) fn after_stalls(&self, at: Nanos) -> Nanos {
        self.stalls.iter().fold(
            at,
            |at, &(from, span)| if from <= at && at < from + span { from + span } else { at },
        )
    }

    /// The result of a connect to this endpoint.
    pub(crate) fn connect_result(&self, endpoint: u32, now: Nanos, rng: &mut Rng) -> ConnectResult {
        use ConnectResult::{FailsAfterRoundTrip, FailsImmediately, NoReply, Opens};
        let is_down =
            |&(of, from, to): &(u32, Nanos, Nanos)| of == endpoint && from <= now && now < to;
        if self.down.iter().any(is_down) {
            return FailsAfterRoundTrip(Fault::ConnectRefused);
        }
        let c = &self.connect;
        let failures = [
            (c.refused, FailsAfterRoundTrip(Fault::ConnectRefused)),
            (c.reset, FailsAfterRoundTrip(Fault::ConnectReset)),
            (c.unreachable, FailsAfterRoundTrip(Fault::ConnectUnreachable)),
            (c.unanswered, NoReply),
            (c.no_descriptors, FailsImmediately(Fault::NoDescriptors)),
            (c.no_ports, FailsImmediately(Fault::NoPorts)),
        ];
        let total: f64 = failures.iter().map(|&(p, _)| p).sum();
        if !rng.chance(total) {
            return Opens;
        }
        let mut left = rng.unit() * total;
        for (p, failure) in failures {
            if left < p {
                return failure;
            }
            left -= p;
        }
        Opens
    }
}

impl Pipe {
    /// When `bytes` bytes that are sent now arrive at the other end.
    pub(crate) fn arrival(
        &mut self,
        link: &Link,
        rng: &mut Rng,
        now: Nanos,
        bytes: usize,
    ) -> Nanos {
        let mut leaves = now;
        if let Some(rate) = link.rate {
            let busy = Span((bytes as u64).saturating_mul(1_000_000_000) / rate);
            self.line_free = self.line_free.max(now) + busy;
            leaves = self.line_free;
        }
        let at = link.after_stalls(leaves + link.delay(rng)).max(self.last_arrival);
        self.last_arrival = at;
        at
    }

    /// Lose everything that is in flight, and everything that is sent from now on.
    pub(crate) fn cut(&mut self) {
        self.segments.iter_mut().for_each(|s| *s = Segment::Lost);
        self.ended = true;
    }

    /// Nothing arrives before `at`.
    pub(crate) fn not_before(&mut self, at: Nanos) {
        self.last_arrival = self.last_arrival.max(at);
    }

    /// How many bytes a write can accept now.
    pub(crate) fn budget(&self, link: &Link, rng: &mut Rng) -> usize {
        let room = link.window.map_or(usize::MAX, |w| w.saturating_sub(self.unacked));
        link.write.map_or(room, |w| room.min(rng.between(1, w as u64) as usize))
    }
}
