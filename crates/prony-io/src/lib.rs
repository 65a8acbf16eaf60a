//! prony's drivers: sockets, clocks, threads. The only crate with unsafe code.
//!
//! A driver (epoll here, io_uring beside it) runs any [`prony_core::machine::Machine`]: the
//! client's engine as well as the target server. It moves bytes and tells times; it knows no HTTP,
//! no schedule and no histogram. [`run`] is the way in for a load: it resolves names, checks
//! limits, starts one worker per core and gathers what they counted. [`serve()`] is the way in for
//! a server.

#![cfg(target_os = "linux")]

pub mod clock;
pub mod control;
pub mod cpu;
mod crew;
pub mod datagrams;
pub mod desk;
pub mod direct;
pub mod driver;
pub mod drivers;
pub mod epoll;
pub mod errno;
pub mod error;
mod give;
pub mod held;
pub mod host;
pub mod limits;
pub mod live;
mod memory;
mod options;
mod pace;
mod ports;
pub mod quit;
pub mod resolve;
pub mod serve;
pub mod signals;
pub mod sleep;
pub mod sock;
pub mod stamps;
pub mod stdio;
mod ticks;
pub mod uring;
pub mod userspace;
pub mod worker;

pub use control::Control;
pub use desk::Desk;
pub use driver::{DriverChoice, DriverStats};
pub use error::SetupError;
pub use live::{Detail, Interval, Live};
pub use options::Options;
pub use resolve::{ConnectTo, Family};
pub use serve::{Listen, Listener, Served, bind, serve, serve_at_desks};
pub use sleep::Precision;
pub use sock::options::SocketOptions;
pub use worker::{Outcome, check, run, run_protocol};
