//! prony's virtual world: a simulated network, servers with known behavior, and an oracle that
//! records the true times of every request. Time is virtual, so a run takes only as long as its
//! events take to compute.

#![forbid(unsafe_code)]

mod beside;
pub mod link;
pub mod oracle;
mod queue;
pub mod rng;
mod run;
pub mod server;
pub mod world;

pub use beside::simulate_beside;
pub use run::{Extras, Outcome, load, load_with_carrier, simulate};
