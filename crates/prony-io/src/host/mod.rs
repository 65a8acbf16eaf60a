//! The machine that prony runs on: its cores, limits, memory and settings, and signals.

mod adopt;
pub mod cpu;
mod facts;
pub mod limits;
pub(crate) mod memory;
pub mod pressure;
mod qdisc;
pub mod quit;
pub mod signals;
pub mod stdio;

pub use adopt::adopt_orphans;
pub use facts::Host;
pub(crate) use facts::ring_memory;
