//! The clock, precise waits, and the stop flag.

pub mod clock;
pub(crate) mod pace;
pub(crate) mod sleep;
pub(crate) mod stop;
pub(crate) mod timer;
