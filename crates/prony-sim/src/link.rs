//! The network between a client and a server: what it delays, cuts up, holds back and breaks.

use std::collections::VecDeque;

use prony_core::fault::Fault;
use prony_core::units::{Nanos, Span};

use crate::dice::Dice;

/// What a network does to the connections that cross it. The default is perfect: no delay, no loss,
/// no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// One way.
    pub latency: Span,
    /// Added to the latency, uniform from zero; bytes never overtake each other.
    pub jitter: Span,
    /// Bytes per second in each direction of each connection; `None` = no limit.
    pub rate: Option<u64>,
    /// Bytes arrive in pieces of 1 to this many; `None` = as they were written.
    pub segment: Option<usize>,
    /// The most bytes that a sender may have under way; `None` = no limit.
    pub window: Option<usize>,
    /// A write takes 1 to this many bytes at once, then the socket is full for a moment; `None` =
    /// no limit.
    pub write: Option<usize>,
    /// Probability, per delivered piece, that the connection is reset instead.
    pub reset: f64,
    /// Probability, per piece on its way to the client, that the server's stream ends instead (a
    /// half-close: what the client sends still arrives).
    pub half_close: f64,
    /// What can happen to a connect.
    pub connect: ConnectOdds,
    /// Nothing is delivered from the moment on, for the span; it comes afterwards. Ascending and
    /// disjoint.
    pub stalls: Vec<(Nanos, Span)>,
}

/// Probabilities of a connect's fates; the rest succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectOdds {
    /// Refused after a round trip.
    pub refused: f64,
    /// Reset after a round trip.
    pub reset: f64,
    /// Unreachable after a round trip.
    pub unreachable: f64,
    /// Never answered.
    pub unanswered: f64,
    /// The client has no descriptor (EMFILE), told at once.
    pub no_descriptors: f64,
    /// The client has no local port (EADDRNOTAVAIL), told at once.
    pub no_ports: f64,
}

/// What becomes of a connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Opens,
    Never,
    AtOnce(Fault),
    AfterRoundTrip(Fault),
}

/// What travels in one direction of a connection.
#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// The sender's orderly end.
    Fin,
    /// All is over.
    Rst,
    /// Does not arrive.
    Lost,
}

/// One direction of one connection: a queue in which nothing overtakes.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    /// Under way, in the order of their arrival.
    pub(crate) pieces: VecDeque<Piece>,
    /// Bytes that the sender has given and that count against the window.
    pub(crate) unacked: usize,
    /// The sender was told "no more" and waits to be called.
    pub(crate) blocked: bool,
    /// Nothing may be sent in this direction any more.
    pub(crate) ended: bool,
    /// Bytes of which the sender's kernel has noted times, modulo 2^32.
    pub(crate) noted: u32,
    /// What the sender's network card has noted and not told: write and time.
    pub(crate) on_card: Vec<(u32, u64)>,
    /// When the last piece arrives.
    last_arrival: Nanos,
    /// When the line has passed on what was given to it.
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
            connect: ConnectOdds::default(),
            stalls: Vec::new(),
        }
    }
}

impl Link {
    /// A perfect link with that one-way latency.
    pub fn with_latency(latency: Span) -> Self {
        Self { latency, ..Self::default() }
    }

    /// A link with every kind of trouble that leaves the bytes as they were: delays, pieces, full
    /// sockets, stalls.
    pub fn rough(dice: &mut Dice) -> Self {
        let start = Nanos(dice.below(200_000_000));
        Self {
            latency: dice.up_to(Span::from_millis(2)),
            jitter: dice.up_to(Span::from_millis(1)),
            rate: dice.chance(0.3).then(|| dice.between(20_000, 10_000_000)),
            segment: dice.chance(0.7).then(|| dice.between(1, 64) as usize),
            window: dice.chance(0.4).then(|| dice.between(1, 400) as usize),
            write: dice.chance(0.4).then(|| dice.between(1, 100) as usize),
            stalls: if dice.chance(0.3) {
                vec![(start, dice.up_to(Span::from_millis(50)))]
            } else {
                Vec::new()
            },
            ..Self::default()
        }
    }

    /// A rough link that also breaks connections and refuses them.
    pub fn broken(dice: &mut Dice) -> Self {
        let mut odds = |p: f64| if dice.chance(0.4) { dice.unit() * p } else { 0.0 };
        let connect = ConnectOdds {
            refused: odds(0.3),
            reset: odds(0.1),
            unreachable: odds(0.1),
            unanswered: odds(0.1),
            no_descriptors: odds(0.1),
            no_ports: odds(0.1),
        };
        let (reset, half_close) = (odds(0.05), odds(0.05));
        Self { reset, half_close, connect, ..Self::rough(dice) }
    }

    /// One way through the network, as this piece meets it.
    pub(crate) fn delay(&self, dice: &mut Dice) -> Span {
        self.latency + dice.up_to(self.jitter)
    }

    /// `at`, or the end of the stall in which it lies.
    pub(crate) fn after_stalls(&self, at: Nanos) -> Nanos {
        self.stalls.iter().fold(
            at,
            |at, &(from, span)| if from <= at && at < from + span { from + span } else { at },
        )
    }

    pub(crate) fn fate(&self, dice: &mut Dice) -> Fate {
        let c = &self.connect;
        let fates = [
            (c.refused, Fate::AfterRoundTrip(Fault::ConnectRefused)),
            (c.reset, Fate::AfterRoundTrip(Fault::ConnectReset)),
            (c.unreachable, Fate::AfterRoundTrip(Fault::ConnectUnreachable)),
            (c.unanswered, Fate::Never),
            (c.no_descriptors, Fate::AtOnce(Fault::NoDescriptors)),
            (c.no_ports, Fate::AtOnce(Fault::NoPorts)),
        ];
        let total: f64 = fates.iter().map(|&(p, _)| p).sum();
        if !dice.chance(total) {
            return Fate::Opens;
        }
        let mut left = dice.unit() * total;
        for (p, fate) in fates {
            if left < p {
                return fate;
            }
            left -= p;
        }
        Fate::Opens
    }
}

impl Pipe {
    /// When `bytes` bytes that are given to the line now arrive at the other end.
    pub(crate) fn arrival(
        &mut self,
        link: &Link,
        dice: &mut Dice,
        now: Nanos,
        bytes: usize,
    ) -> Nanos {
        let mut leaves = now;
        if let Some(rate) = link.rate {
            let busy = Span((bytes as u64).saturating_mul(1_000_000_000) / rate);
            self.line_free = self.line_free.max(now) + busy;
            leaves = self.line_free;
        }
        let at = link.after_stalls(leaves + link.delay(dice)).max(self.last_arrival);
        self.last_arrival = at;
        at
    }

    /// Lose what is under way and all that will be sent.
    pub(crate) fn cut(&mut self) {
        self.pieces.iter_mut().for_each(|p| *p = Piece::Lost);
        self.ended = true;
    }

    /// Nothing arrives before `at`.
    pub(crate) fn not_before(&mut self, at: Nanos) {
        self.last_arrival = self.last_arrival.max(at);
    }

    /// How many bytes one write may take now.
    pub(crate) fn budget(&self, link: &Link, dice: &mut Dice) -> usize {
        let room = link.window.map_or(usize::MAX, |w| w.saturating_sub(self.unacked));
        link.write.map_or(room, |w| room.min(dice.between(1, w as u64) as usize))
    }
}
