//! What drivers are given, and what they tell of a run.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use prony_core::machine::Machine;
use prony_core::summary::{Stalls, StampClock, Transport};
use prony_core::units::{Nanos, Span};

use super::desk::Desk;
use crate::net::socket::Remote;
use crate::net::socket::options::SocketOptions;
use crate::time::sleep::Precision;

/// Which driver is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring where it is measured to be at least as fast and the kernel allows it, else epoll.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// epoll.
    Epoll,
    /// Calls that wait, for machines that have one connection and one thing at a time to wait for:
    /// two system calls for an exchange.
    Direct,
}

/// What a driver is given.
#[derive(Debug)]
pub struct Config {
    /// The addresses of each of the plan's endpoints, in the order in which they are tried.
    pub endpoints: Vec<Vec<Remote>>,
    /// Listening sockets (non-blocking); `on_accepted` names them by their index.
    pub listeners: Vec<OwnedFd>,
    /// Where accepted connections may find a thread of their own; epoll alone asks there.
    pub desk: Option<Arc<Desk>>,
    /// Local addresses that connections go out from, in turn; empty = the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// How sockets are made.
    pub sockets: SocketOptions,
    /// Which worker this is, and of how many: ports that are named are shared out.
    pub worker: (usize, usize),
    /// How waits end.
    pub precision: Precision,
    /// Whether to ask the kernel about connections when they close.
    pub tcp_info: bool,
    /// Whether to have the kernel note times of what connections send and receive. io_uring has no
    /// such thing.
    pub timestamps: bool,
}

/// What a driver tells about its run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriverStats {
    /// Turns of the event loop.
    pub turns: u64,
    /// Time spent spinning.
    pub spin: Span,
    /// What the kernel knew of the connections.
    pub transport: Transport,
    /// How late the loop came back to what it had set itself.
    pub stalls: Stalls,
    /// How well the clock of its time stamps was known, where they were taken.
    pub stamps: Option<StampClock>,
    /// When the run ended.
    pub end: Nanos,
    /// Accepts that had to wait because no descriptor was free.
    pub accept_pauses: u64,
}

/// Called about every 50 ms with the machine, the time, and how long the driver has spun so far.
pub type Pulse<'a, M> = &'a mut dyn FnMut(&mut M, Nanos, Span);

/// What a driver runs: a machine, and whoever looks at it now and then. Drivers are compiled once
/// for all machines, which they call a few times per readiness event.
pub trait Subject {
    /// The machine.
    fn machine(&mut self) -> &mut dyn Machine;

    /// Called about every 50 ms with the time, and how long the driver has spun so far.
    fn pulse(&mut self, now: Nanos, spun: Span);
}

/// A machine of a known kind, and a function that looks at it.
pub struct Watched<'a, M> {
    /// The machine.
    pub machine: &'a mut M,
    /// What looks at it.
    pub pulse: Pulse<'a, M>,
}

impl<M: Machine> Subject for Watched<'_, M> {
    fn machine(&mut self) -> &mut dyn Machine {
        self.machine
    }

    fn pulse(&mut self, now: Nanos, spun: Span) {
        (self.pulse)(self.machine, now, spun);
    }
}
