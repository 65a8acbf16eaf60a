//! Units of figures.

/// What the limit of a threshold is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Per second.
    Rate,
    /// Bytes per second.
    ByteRate,
    /// A number of things.
    Count,
    /// A share of 1, written in per cent.
    Share,
}
