//! The virtual world's random numbers: a seeded generator, with some draws that prony-core does not
//! need.

use prony_base::rng::{Sequence, Stream};
use prony_base::units::Span;

/// A seeded generator. The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Rng(Sequence);

impl Rng {
    /// A generator with this seed; `number` selects one of several independent sequences.
    pub fn new(seed: u64, number: u64) -> Self {
        Self(Sequence::numbered(seed, Stream::Link, number))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// An integer in `[0, n)`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// An integer in `[lo, hi]`.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        debug_assert!(lo <= hi);
        lo + self.below(hi - lo + 1)
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// True with probability `p`. Draws no number if the answer is certain, so that a world without
    /// randomness does not depend on how the load is split into shares.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || self.0.chance(p))
    }

    /// A uniform time in `[0, most]`. Draws no number if `most` is zero.
    pub fn up_to(&mut self, most: Span) -> Span {
        if most == Span::ZERO { most } else { self.0.uniform(Span::ZERO, most) }
    }

    /// An exponential time with this mean.
    pub fn exponential(&mut self, mean: Span) -> Span {
        self.0.exponential(mean)
    }

    /// One of the items, each with the same probability.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}
