//! prony's drivers: sockets, clocks, threads. The only crate with unsafe code.
//!
//! The modules, each of which uses only those before it: [`error`], [`host`] (the machine and its
//! settings), [`time`] (clock and waits), [`net`] (sockets and addresses), [`drivers`] (event loops
//! that run a machine) and `run` (worker threads).
//!
//! A driver runs any [`prony_base::machine::Machine`]: the client's engine as well as the target
//! server. It moves bytes and reports times; it knows no HTTP, no schedule and no histogram.
//! [`run()`] runs a load: it resolves names, checks limits, starts one worker per core and collects
//! the results. [`serve()`] runs a server.

#![cfg(target_os = "linux")]

pub mod drivers;
pub mod error;
pub mod host;
pub mod net;
mod run;
pub mod time;

pub use drivers::config::{DriverChoice, DriverStats};
pub use drivers::userspace;
pub use error::SetupError;
pub use host::{adopt_orphans, cpu, limits, pressure, quit, signals, stdio};
pub use net::socket::options::SocketOptions;
pub use net::{datagrams, resolve, socket};
pub use resolve::{ConnectTo, Family};
pub use run::control::Control;
pub use run::gauges::{Detail, Interval, Live};
pub use run::options::{Directors, Options, Peak, Taps};
pub use run::serve::{
    Listen, Listener, Served, bind, serve, serve_associations, serve_with_threads,
};
pub use run::worker::{Outcome, auto_prefers_uring, check, run};
pub use time::clock;
pub use time::sleep::Precision;
pub use time::stop::DRAIN;
