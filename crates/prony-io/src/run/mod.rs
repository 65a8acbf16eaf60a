//! Entry points: a load from plan to tallies, and a server from listeners to its end. Each worker
//! has one thread, one driver and one machine; workers share only the stop flag and the gauges.

pub(crate) mod control;
mod crew;
pub(crate) mod gauges;
pub(crate) mod options;
pub(crate) mod serve;
pub(crate) mod worker;
