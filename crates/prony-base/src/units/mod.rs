//! Newtypes for times and identifiers, so that the compiler rejects adding two instants.

mod distribution;
mod parse;
mod poll;

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

pub use distribution::{Distribution, parse_distribution};
pub use parse::{ParseError, parse_count, parse_size};
pub use parse::{decimal_exponent, parse_span, split_number, unknown};
pub use poll::{Poll, PreviousPoll};

/// An instant: nanoseconds since the run's epoch, which all workers of a run share.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A duration in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Nanos {
    /// The run's epoch.
    pub const ZERO: Self = Self(0);
    /// Later than every instant of any run.
    pub const MAX: Self = Self(u64::MAX);

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the epoch.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Span {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of whole nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }

    /// A span of whole microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// A span of whole seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// A span of seconds, rounded to the nearest nanosecond; a negative number becomes zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round().max(0.0) as u64)
    }

    /// The span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self - other`, or zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Nanos {
    type Output = Self;
    fn add(self, d: Span) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, d: Self) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, d: Self) {
        *self = *self + d;
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, d: Self) -> Self {
        self.saturating_sub(d)
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    fn mul(self, k: u64) -> Self {
        Self(self.0.saturating_mul(k))
    }
}

impl Div<u64> for Span {
    type Output = Self;
    fn div(self, k: u64) -> Self {
        Self(self.0 / k)
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, |a, b| a + b)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9}s", self.as_secs_f64())
    }
}

/// The name of a connection between machine and driver: a table slot and its generation, which
/// identifies late events of an earlier connection in the same slot. The machine assigns the ids of
/// both outgoing and accepted connections, and reuses a slot only after `Action::Close` for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    /// Index in the tables of machine and driver; small and dense.
    pub slot: u32,
    /// How often the slot was used before, modulo 2^32.
    pub generation: u32,
}

/// The name of an exchange between engine and carrier: a slot of the engine's slab and its
/// generation, which identifies late replies to an earlier exchange in the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Index in the slab; small and dense.
    pub slot: u32,
    /// How often the slot was used before, modulo 2^32.
    pub generation: u32,
}

#[cfg(test)]
mod tests;
