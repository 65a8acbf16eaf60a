//! prony's virtual world: a seeded network, servers whose truth is known, and an oracle that knows
//! what every figure of a run must be. Nothing here waits: a minute of load takes as long as its
//! events.

#![forbid(unsafe_code)]

pub mod dice;
pub mod link;
pub mod oracle;
pub mod plant;
mod run;
pub mod world;

pub use run::{Outcome, load, load_over, simulate};
