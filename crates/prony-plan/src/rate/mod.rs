//! The rate over time, its integral and the inverse of the integral; arrival processes; the text
//! form of both.

mod parse;

use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use parse::{ArrivalsArg, parse_trace};
use prony_base::units::{Nanos, Span};

/// A rate over time: consecutive pieces, each constant or a linear ramp.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatePlan {
    /// The pieces in order. Only the last may be unbounded.
    pub pieces: Vec<RatePiece>,
}

/// One piece of a rate plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatePiece {
    /// Arrivals per second at its start.
    pub from: f64,
    /// Arrivals per second at its end; equal to `from` if the rate is constant.
    pub to: f64,
    /// Its length; `None` if unbounded, which only a constant last piece may be.
    pub length: Option<Span>,
}

/// The arrival process: how arrivals are distributed over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly spaced: arrival k is due when the integral of the rate reaches k.
    #[default]
    Fixed,
    /// A Poisson process with that rate, inhomogeneous if the rate varies. The time to the first
    /// arrival is drawn too.
    Poisson,
    /// Inter-arrival times drawn from the gamma distribution with this shape, in units of the
    /// integral of the rate, including the time to the first arrival. Their squared coefficient of
    /// variation is 1 / shape: 1 is a Poisson process (and has its times), a lower shape more
    /// bursty, a higher one more regular.
    Gamma(f64),
    /// Inter-arrival times drawn uniformly between the two bounds, including the time to the first
    /// arrival. Has no rate.
    Uniform(Span, Span),
    /// These times since the start, ascending. Has no rate; the last time ends the load.
    Trace(Arc<[Span]>),
    /// The times of a log that is read while the load runs. Has no rate; the end of the log ends
    /// the load.
    Log,
}

impl Arrivals {
    /// The shapes that [`Arrivals::Gamma`] may have.
    pub const SHAPES: RangeInclusive<f64> = 0.01..=1000.0;

    /// Whether the arrivals follow the rate of the plan. The others determine the rate themselves.
    pub fn has_rate(&self) -> bool {
        matches!(self, Self::Fixed | Self::Poisson | Self::Gamma(_))
    }
}

/// A change of the rate during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateChange {
    /// When it takes effect, since the epoch. The warm-up keeps its rate.
    pub from: Nanos,
    /// Until the next change, the rate is the planned rate times this factor. At least 0; 0 pauses
    /// the arrivals.
    pub factor: f64,
}

impl RatePlan {
    /// A constant rate in arrivals per second, unbounded.
    pub fn constant(rate: f64) -> Self {
        Self { pieces: vec![RatePiece { from: rate, to: rate, length: None }] }
    }

    /// The initial rate per second; 0 if there are no pieces.
    pub fn initial(&self) -> f64 {
        self.pieces.first().map_or(0.0, |p| p.from)
    }

    /// The target rate per second at `t` after the start; 0 after the end. At the boundary of two
    /// pieces, the rate of the later one.
    pub fn rate_at(&self, t: Span) -> f64 {
        let mut start = Span::ZERO;
        for piece in &self.pieces {
            let inside = t - start;
            if piece.length.is_none_or(|length| inside < length) {
                return piece.from + piece.slope() * inside.as_secs_f64();
            }
            start += piece.length.unwrap_or(Span::ZERO);
        }
        0.0
    }

    /// The rate per second, if it is the same for ever.
    pub fn as_constant(&self) -> Option<f64> {
        match self.pieces[..] {
            [RatePiece { from, to, length: None }] if from == to => Some(from),
            _ => None,
        }
    }

    /// Whether the rate changes.
    pub fn changes(&self) -> bool {
        let first = self.initial();
        self.pieces.iter().any(|p| p.from != first || p.to != first)
    }

    /// The total length; `None` if the last piece is unbounded.
    pub fn length(&self) -> Option<Span> {
        self.pieces.iter().map(|p| p.length).sum()
    }

    /// This plan with the changes applied, if it starts at `start`. The changes are in the order of
    /// time.
    #[must_use]
    pub fn with_changes(&self, start: Nanos, changes: &[RateChange]) -> Self {
        let factor = |t: Span| {
            let latest = changes.iter().rev().find(|c| c.from.since(start) <= t);
            latest.map_or(1.0, |c| c.factor)
        };
        let mut pieces = Vec::with_capacity(self.pieces.len() + changes.len());
        let mut piece_start = Span::ZERO;
        for piece in &self.pieces {
            let mut cuts: Vec<Span> = changes.iter().map(|c| c.from.since(start)).collect();
            cuts.retain(|&cut| {
                cut > piece_start && piece.length.is_none_or(|l| cut < piece_start + l)
            });
            cuts.dedup();
            let mut at = Span::ZERO;
            for cut in cuts {
                let part = piece.part(at, Some(cut - piece_start));
                pieces.push(part.times(factor(piece_start + at)));
                at = cut - piece_start;
            }
            pieces.push(piece.part(at, piece.length).times(factor(piece_start + at)));
            piece_start += piece.length.unwrap_or(Span::ZERO);
        }
        Self { pieces }
    }

    /// The expected number of arrivals in the first `t`: the integral of the rate.
    pub fn arrivals_until(&self, t: Span) -> f64 {
        let mut start = Span::ZERO;
        let mut sum = 0.0;
        for piece in &self.pieces {
            let inside = (t - start).min(piece.length.unwrap_or(Span::MAX)).as_secs_f64();
            sum += (piece.from + 0.5 * piece.slope() * inside) * inside;
            start += piece.length.unwrap_or(Span::MAX);
        }
        sum
    }
}

impl RatePiece {
    /// The part between two times since its start; `None` stands for its end.
    pub fn part(&self, from: Span, to: Option<Span>) -> Self {
        let rate = |t: Span| self.from + self.slope() * t.as_secs_f64();
        Self {
            from: if from == Span::ZERO { self.from } else { rate(from) },
            to: if to == self.length { self.to } else { to.map_or(self.to, rate) },
            length: to.map(|to| to - from),
        }
    }

    fn times(self, factor: f64) -> Self {
        Self { from: self.from * factor, to: self.to * factor, ..self }
    }

    /// The slope of the rate, per second squared.
    fn slope(&self) -> f64 {
        match self.length {
            Some(length) if length > Span::ZERO => (self.to - self.from) / length.as_secs_f64(),
            _ => 0.0,
        }
    }
}

/// The inverse of a rate plan's integral: the time at which it reaches a number of arrivals. The
/// numbers must not decrease from call to call.
///
/// Each time is computed from the start of its piece, so errors do not accumulate: they stay below
/// a nanosecond in runs of weeks.
#[derive(Clone, Debug)]
pub struct Inverse {
    pieces: Vec<Piece>,
    current: usize,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: Span,
    end: Span,
    /// The integral at its start.
    base: f64,
    from: f64,
    slope: f64,
}

impl Inverse {
    /// That of this plan.
    pub fn new(plan: &RatePlan) -> Self {
        let mut start = Span::ZERO;
        let mut pieces = Vec::with_capacity(plan.pieces.len());
        for piece in &plan.pieces {
            let end = piece.length.map_or(Span::MAX, |length| start + length);
            let base = plan.arrivals_until(start);
            // NaN and negative rates count as 0.
            pieces.push(Piece {
                start,
                end,
                base,
                from: piece.from.max(0.0),
                slope: piece.slope(),
            });
            start = end;
        }
        Self { pieces, current: 0 }
    }

    /// As [`Inverse::at`], without advancing. `arrivals` must not be below the latest argument of
    /// [`Inverse::at`].
    pub(crate) fn peek(&self, arrivals: f64) -> Option<Span> {
        let pieces = self.pieces.get(self.current..)?;
        pieces.iter().find_map(|piece| piece.at(arrivals).filter(|&at| at < piece.end))
    }

    /// The last time at which the integral equals `arrivals`, to the nearest nanosecond; `None`
    /// after the end of the plan.
    #[inline]
    pub fn at(&mut self, arrivals: f64) -> Option<Span> {
        while let Some(piece) = self.pieces.get(self.current) {
            match piece.at(arrivals) {
                Some(at) if at < piece.end => return Some(at),
                _ => self.current += 1,
            }
        }
        None
    }
}

impl Piece {
    /// The same for a piece taken as unbounded; `None` if its integral never reaches `arrivals`.
    #[inline]
    fn at(&self, arrivals: f64) -> Option<Span> {
        let area = (arrivals - self.base).max(0.0);
        let nanos = if self.slope == 0.0 {
            area * 1e9 / self.from
        } else {
            // Solves from t + slope t^2 / 2 = area, in the form without cancellation.
            let root = (self.from * self.from + 2.0 * self.slope * area).sqrt();
            2e9 * area / (self.from + root)
        };
        if nanos.is_finite() {
            // Round to nearest; `round` is a function call on processors without SSE 4.1.
            return Some(self.start + Span((nanos + 0.5) as u64));
        }
        // 0/0: no area is needed and the initial rate is zero. A growing rate leaves zero at once,
        // any other rate never does.
        (area == 0.0 && self.slope > 0.0).then_some(self.start)
    }
}
