//! The configuration of drivers, and the statistics that they return.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use prony_base::machine::Machine;
use prony_base::meter::{Stalls, StampClock, Transport};
use prony_base::units::{Nanos, Span};

use super::dedicated::DedicatedThreads;
use crate::net::socket::Remote;
use crate::net::socket::options::SocketOptions;
use crate::time::sleep::Precision;

/// Which driver to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring where measurements show it to be at least as fast and the kernel allows it; else
    /// epoll.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// epoll.
    Epoll,
    /// Blocking calls, for machines with one connection and one exchange in flight: two system
    /// calls per exchange.
    Direct,
}

/// The configuration of a driver.
#[derive(Debug)]
pub struct Config {
    /// The addresses of each endpoint of the plan, in the order in which the driver tries them.
    pub endpoints: Vec<Vec<Remote>>,
    /// Listening sockets (non-blocking); `on_accepted` refers to them by index.
    pub listeners: Vec<OwnedFd>,
    /// Dedicated threads for accepted connections. Only the epoll driver uses them.
    pub dedicated: Option<Arc<DedicatedThreads>>,
    /// Local addresses to connect from, in turn; empty = the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Options of new sockets.
    pub sockets: SocketOptions,
    /// The index of this worker and the number of workers, which share the local ports.
    pub worker: (usize, usize),
    /// How precisely waits end.
    pub precision: Precision,
    /// Whether to read `TCP_INFO` of connections when they close.
    pub tcp_info: bool,
    /// Whether to have the kernel timestamp what connections send and receive. The io_uring driver
    /// cannot read these timestamps.
    pub timestamps: bool,
}

/// Statistics of a driver's run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriverStats {
    /// Turns of the event loop.
    pub turns: u64,
    /// Time spent spinning.
    pub spin: Span,
    /// The kernel's statistics of the connections.
    pub transport: Transport,
    /// How late the loop woke up for its own deadlines.
    pub stalls: Stalls,
    /// The error of the timestamp clock, if timestamps were taken.
    pub stamps: Option<StampClock>,
    /// When the run finished.
    pub end: Nanos,
    /// How often accepting paused because no descriptor was free.
    pub accept_pauses: u64,
}

/// Called about every 50 ms with the machine, the time, and the time spent spinning so far.
pub type Pulse<'a, M> = &'a mut dyn FnMut(&mut M, Nanos, Span);

/// What a driver runs: a machine and a callback that inspects it. Drivers are compiled once for all
/// machines, because they call them only a few times per readiness event.
pub trait Subject {
    /// The machine.
    fn machine(&mut self) -> &mut dyn Machine;

    /// Called about every 50 ms with the time, and the time spent spinning so far.
    fn pulse(&mut self, now: Nanos, spun: Span);
}

/// What has a machine, with a callback that inspects it.
pub struct Watched<'a, M> {
    /// What has it.
    pub owner: &'a mut M,
    /// Its machine.
    pub machine: fn(&mut M) -> &mut dyn Machine,
    /// The callback.
    pub pulse: Pulse<'a, M>,
}

impl<M> Subject for Watched<'_, M> {
    fn machine(&mut self) -> &mut dyn Machine {
        (self.machine)(self.owner)
    }

    fn pulse(&mut self, now: Nanos, spun: Span) {
        (self.pulse)(self.owner, now, spun);
    }
}
