//! The clock, when it is read, and waits that end when they should.

pub mod clock;
pub(crate) mod pace;
pub(crate) mod sleep;
pub(crate) mod stop;
pub(crate) mod timer;
