//! Seeded randomness: two kinds. Keyed draws depend on (seed, stream, numbers) alone, so that request k of a run draws
//! the same whoever sends it; sequential generators serve where one place draws in order. Both are frozen by tests.

use crate::plan::Think;
use crate::units::Span;

/// What a keyed draw is for; keeps the streams of one seed apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Gaps between arrivals.
    Arrivals = 1,
    /// Which call a request makes.
    Pick = 2,
    /// Think times.
    Think = 3,
    /// The target server's law.
    Serve = 4,
    /// The virtual network.
    Link = 5,
}

/// 64 random bits that depend on nothing but the arguments.
pub fn keyed(seed: u64, stream: Stream, a: u64, b: u64) -> u64 {
    let _ = (seed, stream, a, b);
    todo!()
}

/// A number in [0, 1) from 64 random bits.
pub fn unit(bits: u64) -> f64 {
    let _ = bits;
    todo!()
}

/// An exponential draw with the given mean from 64 random bits.
pub fn exponential(bits: u64, mean: Span) -> Span {
    let _ = (bits, mean);
    todo!()
}

/// A draw of the think time from 64 random bits.
pub fn think(think: Think, bits: u64) -> Span {
    let _ = (think, bits);
    todo!()
}
