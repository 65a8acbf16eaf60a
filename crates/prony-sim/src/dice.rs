//! The one source of chance in the virtual world: a seeded generator with the few draws that the world needs.

use prony_core::units::Span;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded generator. Same seed, same draws.
#[derive(Clone, Debug)]
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// The generator of that seed; `stream` keeps several users of one seed apart.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number in `[0, n)`; 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of a 128-bit product: the bias is below n / 2^64.
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A whole number in `[lo, hi]`.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        debug_assert!(lo <= hi);
        lo + self.below(hi - lo + 1)
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `p`. Draws nothing where the answer is certain, so that a world without chance is the same
    /// however its work is split.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || self.unit() < p)
    }

    /// A time in `[0, most]`; draws nothing where that is zero.
    pub fn up_to(&mut self, most: Span) -> Span {
        if most == Span::ZERO { most } else { Span(self.between(0, most.0)) }
    }

    /// An exponential time of that mean.
    pub fn exponential(&mut self, mean: Span) -> Span {
        Span((-(1.0 - self.unit()).ln() * mean.0 as f64).round() as u64)
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}
