//! The ways in: a load from plan to tallies, and a server from listeners to its end. One thread,
//! one driver and one machine each; the stop flag and the gauges are all that they share.

pub(crate) mod control;
mod crew;
pub(crate) mod gauges;
pub(crate) mod options;
pub(crate) mod serve;
pub(crate) mod worker;
