//! How a load is put on a machine.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use prony_core::engine::Tap;
use prony_core::layer::TlsContext;
use prony_core::record::Observer;

use crate::drivers::config::DriverChoice;
use crate::net::resolve::{ConnectTo, Family};
use crate::net::socket::options::SocketOptions;
use crate::time::sleep::Precision;

/// How a load is put on this machine; nothing of it changes what is sent, or when.
#[derive(Clone, Debug)]
pub struct Options {
    /// Worker threads; `None` = as many as cores may be used. Never more than there are
    /// connections.
    pub threads: Option<usize>,
    /// Whether to keep each worker on a core of its own.
    pub pin: bool,
    /// Whether workers run under the real-time scheduler.
    pub realtime: bool,
    /// The driver.
    pub driver: DriverChoice,
    /// How waits end.
    pub precision: Precision,
    /// Connect there instead of to the URLs' hosts.
    pub connect_to: Option<ConnectTo>,
    /// Connect to that unix socket instead.
    pub unix_socket: Option<PathBuf>,
    /// Local addresses to connect from, in turn.
    pub sources: Vec<IpAddr>,
    /// How sockets are made.
    pub sockets: SocketOptions,
    /// Whether to ask for more connections than the machine is known to allow, and to count what
    /// it refuses, instead of lowering the cap of an open loop beforehand.
    pub over_limits: bool,
    /// Which addresses of a name to use.
    pub family: Family,
    /// What secured endpoints need; a plan that has some cannot be run without.
    pub tls: Option<TlsContext>,
    /// Whether to ask the kernel about closed connections (retransmits, round-trip times).
    pub tcp_info: bool,
    /// Whether to have the kernel note when requests leave it and replies reach it
    /// ([`phases`](prony_core::record::Tally::phases)); io_uring is then not taken.
    pub timestamps: bool,
    /// Whether to tell, while the load runs, what only a whole screen has room for
    /// ([`crate::Live::detail`]).
    pub detail: bool,
    /// Whether to tell, while the load runs, of the measurement's blocks ([`crate::Live::blocks`]).
    pub blocks: bool,
    /// Whether the rate may be changed while the load runs ([`crate::Control::steer`]). An open
    /// loop then lasts until its end even where nothing more is asked for.
    pub steerable: bool,
    /// Whether to keep the stamps of every success ([`kept`](prony_core::record::Tally::kept)).
    pub keep_requests: bool,
    /// Whether to keep the service times over time ([`prony_core::record::Tally::served`]); they
    /// are then told with the blocks too.
    pub keep_service: bool,
    /// Who is told of every success in the measurement; then none is kept.
    pub observer: Option<Observer>,
    /// Makes for each worker one who looks at what goes by on its connections.
    pub taps: Option<Taps>,
}

/// Makes a [`Tap`] for each worker.
#[derive(Clone)]
pub struct Taps(pub Arc<dyn Fn() -> Box<dyn Tap> + Send + Sync>);

impl Taps {
    /// From what makes one.
    pub fn new<T: Tap + 'static>(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Box::new(make())))
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taps")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: None,
            pin: false,
            realtime: false,
            driver: DriverChoice::default(),
            precision: Precision::default(),
            connect_to: None,
            unix_socket: None,
            sources: Vec::new(),
            sockets: SocketOptions::default(),
            over_limits: false,
            family: Family::default(),
            tls: None,
            tcp_info: true,
            timestamps: false,
            detail: false,
            blocks: false,
            steerable: false,
            keep_requests: false,
            keep_service: false,
            observer: None,
            taps: None,
        }
    }
}
