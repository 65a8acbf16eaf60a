//! A rate over time, its integral, and the integral's inverse; how arrivals fall around it; both as
//! people write them.

mod parse;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::units::{Nanos, Span};
pub(crate) use parse::parse_bounds;
pub use parse::{ArrivalsArg, parse_trace};

/// A rate over time: pieces one after another, each constant or a linear ramp.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatePlan {
    /// The pieces in order. Only the last may be without an end.
    pub pieces: Vec<RatePiece>,
}

/// One piece of a rate plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatePiece {
    /// Arrivals per second at its start.
    pub from: f64,
    /// Arrivals per second at its end; equal to `from` where it is constant.
    pub to: f64,
    /// Its length; `None` = without an end (constant, and the last).
    pub length: Option<Span>,
}

/// The law by which arrivals fall around the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly: arrival k where the integral of the rate reaches k.
    Fixed,
    /// A Poisson process with that rate (time-dependent where the rate is). The first gap is drawn
    /// too.
    Poisson,
    /// Gaps drawn uniformly between the two, the first included; needs no rate.
    Uniform(Span, Span),
    /// These times since the start, ascending; needs no rate, ends by itself.
    Trace(Arc<[Span]>),
}

/// A change of the rate while a run goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steer {
    /// From when on, since the epoch. The warm-up keeps its rate.
    pub from: Nanos,
    /// The rate is the plan's times this, until the next change; 0 = nothing arrives. At least 0.
    pub factor: f64,
}

impl RatePlan {
    /// One rate, in arrivals per second, without an end.
    pub fn constant(rate: f64) -> Self {
        Self { pieces: vec![RatePiece { from: rate, to: rate, length: None }] }
    }

    /// The rate with which it begins, per second; 0 where it is empty.
    pub fn initial(&self) -> f64 {
        self.pieces.first().map_or(0.0, |p| p.from)
    }

    /// The asked rate at a moment after the plan's start, per second; 0 after its end. Where two
    /// pieces meet, the later one counts.
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

    /// Its length; `None` where the last piece has no end.
    pub fn length(&self) -> Option<Span> {
        self.pieces.iter().map(|p| p.length).sum()
    }

    /// What it becomes where it begins at `begin` and is changed while it is carried out. The
    /// changes are in the order of their moments.
    #[must_use]
    pub fn steered(&self, begin: Nanos, steers: &[Steer]) -> Self {
        let factor = |t: Span| {
            let passed = steers.iter().rev().find(|s| s.from.since(begin) <= t);
            passed.map_or(1.0, |s| s.factor)
        };
        let mut pieces = Vec::with_capacity(self.pieces.len() + steers.len());
        let mut start = Span::ZERO;
        for piece in &self.pieces {
            let mut cuts: Vec<Span> = steers.iter().map(|s| s.from.since(begin)).collect();
            cuts.retain(|&cut| cut > start && piece.length.is_none_or(|l| cut < start + l));
            cuts.dedup();
            let mut at = Span::ZERO;
            for cut in cuts {
                pieces.push(piece.part(at, Some(cut - start)).times(factor(start + at)));
                at = cut - start;
            }
            pieces.push(piece.part(at, piece.length).times(factor(start + at)));
            start += piece.length.unwrap_or(Span::ZERO);
        }
        Self { pieces }
    }

    /// How many arrivals it asks for in its first `t`: the integral of the rate.
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
    /// The part between two moments, counted from its start; `None`: to its end.
    fn part(&self, from: Span, to: Option<Span>) -> Self {
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

    /// How fast the rate grows, per second and second.
    fn slope(&self) -> f64 {
        match self.length {
            Some(length) if length > Span::ZERO => (self.to - self.from) / length.as_secs_f64(),
            _ => 0.0,
        }
    }
}

/// When the integral of a rate plan passes a given number of arrivals, for numbers that never fall.
///
/// Each time is computed from the start of its piece, so errors do not add up: they stay below a
/// nanosecond for runs of weeks.
#[derive(Clone, Debug)]
pub(crate) struct Inverse {
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
    pub(crate) fn new(plan: &RatePlan) -> Self {
        let mut start = Span::ZERO;
        let mut pieces = Vec::with_capacity(plan.pieces.len());
        for piece in &plan.pieces {
            let end = piece.length.map_or(Span::MAX, |length| start + length);
            let base = plan.arrivals_until(start);
            // A rate that is no number or negative is no rate.
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

    /// The same without a step forward: for any number that is not below the last one that
    /// [`Inverse::at`] was asked for.
    pub(crate) fn look(&self, arrivals: f64) -> Option<Span> {
        let pieces = self.pieces.get(self.current..)?;
        pieces.iter().find_map(|piece| piece.at(arrivals).filter(|&at| at < piece.end))
    }

    /// The last moment at which the integral is `arrivals`, to the nearest nanosecond; `None` after
    /// the plan's end.
    #[inline]
    pub(crate) fn at(&mut self, arrivals: f64) -> Option<Span> {
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
    /// As if the piece had no end; `None` where it never comes so far.
    #[inline]
    fn at(&self, arrivals: f64) -> Option<Span> {
        let area = (arrivals - self.base).max(0.0);
        let nanos = if self.slope == 0.0 {
            area * 1e9 / self.from
        } else {
            // from t + slope t^2 / 2 = area, in the form that does not subtract like from like.
            let root = (self.from * self.from + 2.0 * self.slope * area).sqrt();
            2e9 * area / (self.from + root)
        };
        if nanos.is_finite() {
            // To the nearest; `round` would be a call on processors without SSE 4.1.
            return Some(self.start + Span((nanos + 0.5) as u64));
        }
        // 0/0: nothing is asked of a rate that begins at zero; it passes zero at once if it grows,
        // else never.
        (area == 0.0 && self.slope > 0.0).then_some(self.start)
    }
}
