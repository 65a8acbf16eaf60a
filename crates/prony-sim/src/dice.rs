//! The one source of chance in the virtual world: a seeded sequence with the few draws that the
//! world needs beyond the core's.

use prony_core::rng::{Sequence, Stream};
use prony_core::units::Span;

/// A seeded generator. Same seed, same draws.
#[derive(Clone, Debug)]
pub struct Dice(Sequence);

impl Dice {
    /// The generator of that seed; `number` keeps several users of one seed apart.
    pub fn new(seed: u64, number: u64) -> Self {
        Self(Sequence::numbered(seed, Stream::Link, number))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number in `[0, n)`; 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// A whole number in `[lo, hi]`.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        debug_assert!(lo <= hi);
        lo + self.below(hi - lo + 1)
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// True with probability `p`. Draws nothing where the answer is certain, so that a world
    /// without chance is the same however its work is split.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || self.0.chance(p))
    }

    /// A time in `[0, most]`; draws nothing where that is zero.
    pub fn up_to(&mut self, most: Span) -> Span {
        if most == Span::ZERO { most } else { self.0.uniform(Span::ZERO, most) }
    }

    /// An exponential time of that mean.
    pub fn exponential(&mut self, mean: Span) -> Span {
        self.0.exponential(mean)
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}
