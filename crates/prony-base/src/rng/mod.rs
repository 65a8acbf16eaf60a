//! Seeded random numbers of two kinds. Keyed draws depend only on (seed, stream, numbers), so that
//! request k of a run draws the same on any worker. Sequential generators are for places that draw
//! in a fixed order. Tests pin the values of both.
//!
//! Logarithms come from the crate `libm`, not from the platform, so that a seed gives the same run
//! on every machine.

pub mod gamma;
mod sum;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::units::Span;
pub use gamma::GammaSum;
pub use sum::ExponentialSum;

/// The purpose of a draw. The streams of one seed are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Inter-arrival times of the measurement.
    Arrivals = 1,
    /// The choice of the next request.
    Pick = 2,
    /// Think times.
    Think = 3,
    /// The behavior of the target server.
    Serve = 4,
    /// The virtual network.
    Link = 5,
    /// Inter-arrival times of the warm-up. Separate, so that the length of the warm-up does not
    /// change the measured arrivals.
    Warmup = 6,
    /// Random fields of templates.
    Template = 7,
    /// The choice of a table's row for a session.
    Rows = 8,
    /// Pauses within sessions.
    Pause = 9,
    /// The order and the seeds of the blocks of a comparison.
    Blocks = 10,
    /// Times between the messages of a stream.
    Messages = 11,
    /// Times within the seconds of a log.
    Replay = 12,
    /// Which requests of a log are sent.
    Sample = 13,
    /// The keys and masks of WebSocket.
    Masks = 14,
    /// The prompts for language models.
    Prompts = 15,
    /// The choice of an alternative in a session.
    Switch = 16,
    /// The waits before retries of a session.
    Retry = 17,
    /// The checks in the stamps of broadcasts.
    Stamps = 18,
    /// The seeds of the phases of a plan.
    Phases = 19,
    /// The waits before connects to an endpoint whose connections come to nothing.
    Reconnects = 20,
}

/// 64 random bits that depend only on the arguments.
///
/// Mixes in one word after another with SplitMix64's finalizer, so two calls that differ in a
/// single word never return the same bits.
#[inline]
pub fn keyed(seed: u64, stream: Stream, a: u64, b: u64) -> u64 {
    let state = mix(seed.wrapping_add(GOLDEN_GAMMA));
    let state = mix((state ^ stream as u64).wrapping_add(GOLDEN_GAMMA));
    let state = mix((state ^ a).wrapping_add(GOLDEN_GAMMA));
    mix((state ^ b).wrapping_add(GOLDEN_GAMMA))
}

/// A number in [0, 1) from 64 random bits; all multiples of 2^-53 are equally probable.
#[inline]
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// An exponential draw with the given mean from 64 random bits, rounded to the nearest nanosecond.
/// At most 36.8 times the mean, the limit of 53 bits.
#[inline]
pub fn exponential(bits: u64, mean: Span) -> Span {
    Span((mean.0 as f64 * unit_exponential(bits)).round() as u64)
}

/// A uniform draw of whole nanoseconds from `low` to `high` inclusive, in either order.
#[inline]
pub fn uniform(bits: u64, low: Span, high: Span) -> Span {
    let (low, high) = (low.0.min(high.0), low.0.max(high.0));
    let choices = u128::from(high - low) + 1;
    Span(low + ((u128::from(bits) * choices) >> 64) as u64)
}

/// A log-normal draw from 64 random bits. `sigma` is the standard deviation of the logarithm.
#[inline]
pub fn log_normal(bits: u64, median: Span, sigma: f64) -> Span {
    let factor = libm::exp(sigma * normal(bits));
    Span((median.0 as f64 * factor).round() as u64)
}

/// A standard normal draw from 64 random bits (Box-Muller transform; the angle comes from mixing
/// the bits again).
fn normal(bits: u64) -> f64 {
    let radius = (2.0 * unit_exponential(bits)).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(mix(bits ^ GOLDEN_GAMMA)))
}

/// A sequential generator: xoshiro256++, with a period of 2^256 - 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    inner: Xoshiro256PlusPlus,
}

impl Sequence {
    /// The sequence of a seed and stream.
    pub fn new(seed: u64, stream: Stream) -> Self {
        Self::numbered(seed, stream, 0)
    }

    /// Sequence `number` of a seed and stream, for several generators of one kind (links, workers).
    pub fn numbered(seed: u64, stream: Stream, number: u64) -> Self {
        let mut state = [0; 32];
        for (i, word) in state.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&keyed(seed, stream, number, i as u64).to_le_bytes());
        }
        Self { inner: Xoshiro256PlusPlus::from_seed(state) }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }

    /// A number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// An integer in [0, `n`); 0 if `n` is 0. Biased by at most n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True with the given probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// An exponential draw with the given mean.
    #[inline]
    pub fn exponential(&mut self, mean: Span) -> Span {
        exponential(self.next_u64(), mean)
    }

    /// A uniform draw of whole nanoseconds from `low` to `high` inclusive.
    #[inline]
    pub fn uniform(&mut self, low: Span, high: Span) -> Span {
        uniform(self.next_u64(), low, high)
    }

    /// A standard normal draw by the polar method. The second draw of each pair is discarded, so
    /// that the sequence has no further state.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * libm::log(square) / square).sqrt();
            }
        }
    }

    /// A log-normal draw. `sigma` is the standard deviation of the logarithm.
    pub fn log_normal(&mut self, median: Span, sigma: f64) -> Span {
        Span((median.0 as f64 * libm::exp(sigma * self.normal())).round() as u64)
    }
}

/// 2^64 divided by the golden ratio, odd: SplitMix64's increment.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finalizer: a bijection in which every input bit affects every output bit.
#[inline]
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `1 - unit` lies in (0, 1], so the logarithm is finite.
#[inline]
fn unit_exponential(bits: u64) -> f64 {
    -libm::log(1.0 - unit(bits))
}

#[cfg(test)]
mod tests;
