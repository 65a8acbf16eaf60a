//! How to run a load on this machine.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use prony_base::director::Director;
use prony_base::feed::Feeds;
use prony_base::units::Span;
pub use prony_core::engine::{Peak, Taps};
use prony_plan::tokenizer::CountTokens;
use prony_proto::layer::TlsContext;
use prony_tally::record::Observer;

use crate::drivers::config::DriverChoice;
use crate::net::resolve::{ConnectTo, Family};
use crate::net::socket::options::SocketOptions;
use crate::time::sleep::Precision;
use crate::time::stop::DRAIN;

/// How to run a load on this machine; no option changes which requests are sent, or when.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of worker threads; `None` = one per allowed core. Never more than connections.
    pub threads: Option<usize>,
    /// When to start, as a time of the wall clock in nanoseconds since 1970; `None` = immediately.
    pub start_at: Option<u64>,
    /// How long a load that the user stops waits for replies; [`Span::MAX`]: until the requests'
    /// own timeouts.
    pub drain: Span,
    /// Whether to pin each worker to its own core.
    pub pin: bool,
    /// Whether workers run under the real-time scheduler.
    pub realtime: bool,
    /// The driver.
    pub driver: DriverChoice,
    /// How precisely waits end.
    pub precision: Precision,
    /// Connect to this address instead of the URLs' hosts.
    pub connect_to: Option<ConnectTo>,
    /// Connect to this unix socket instead.
    pub unix_socket: Option<PathBuf>,
    /// Local addresses to connect from, in turn.
    pub sources: Vec<IpAddr>,
    /// Options of new sockets.
    pub sockets: SocketOptions,
    /// Whether to try more connections than the machine is known to allow, and to count those that
    /// it refuses, instead of lowering the connection limit of an open loop in advance.
    pub over_limits: bool,
    /// Which addresses of a name to use.
    pub family: Family,
    /// TLS settings; required by plans with TLS endpoints.
    pub tls: Option<TlsContext>,
    /// Whether to read the kernel's statistics of closed connections (retransmits, round-trip
    /// times).
    pub tcp_info: bool,
    /// Whether to use the kernel's timestamps of requests and replies
    /// ([`phases`](prony_tally::record::Tally::phases)); the io_uring driver is then not used.
    pub timestamps: bool,
    /// Whether to publish details while the load runs ([`crate::Live::detail`]).
    pub detail: bool,
    /// Whether to publish the blocks of the measurement while the load runs
    /// ([`crate::Live::blocks`]).
    pub blocks: bool,
    /// Whether the rate may be changed while the load runs ([`crate::Control::change_rate`]). An
    /// open loop then runs until its planned end, even if no further arrivals are planned.
    pub adjustable_rate: bool,
    /// Whether to keep the timestamps of every success
    /// ([`kept`](prony_tally::record::Tally::kept)).
    pub keep_requests: bool,
    /// Whether to keep the service times over time
    /// ([`service_series`](prony_tally::record::Tally::service_series)) with their blocks.
    pub keep_service: bool,
    /// Is called for every success in the measurement; then none is kept.
    pub observer: Option<Observer>,
    /// Creates a tap for each worker, which sees the data of its connections.
    pub taps: Option<Taps>,
    /// Counts all connections, so that the most at one time are known over all workers.
    pub peak: Option<Arc<Peak>>,
    /// Whether a load ends once every connection has failed before it was open for
    /// [`PATIENCE`](prony_core::engine::PATIENCE).
    pub needs_contact: bool,
    /// Creates a director for each worker; required by a directed plan.
    pub directors: Option<Directors>,
    /// Creates the feed of each worker; required by a plan of a log.
    pub feeds: Option<Feeds>,
    /// What counts the tokens of replies of language models that do not say how many they have.
    pub tokenizer: Option<Arc<dyn CountTokens>>,
}

/// Creates a [`Director`] for each worker.
#[derive(Clone)]
pub struct Directors(Arc<dyn Fn() -> Box<dyn Director> + Send + Sync>);

impl Directors {
    /// From a function that creates one.
    pub fn new<T: Director + 'static>(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Box::new(make())))
    }

    /// Create one.
    pub fn make(&self) -> Box<dyn Director> {
        (self.0)()
    }
}

impl fmt::Debug for Directors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Directors")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: None,
            start_at: None,
            drain: DRAIN,
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
            adjustable_rate: false,
            keep_requests: false,
            keep_service: false,
            observer: None,
            taps: None,
            peak: None,
            needs_contact: false,
            directors: None,
            feeds: None,
            tokenizer: None,
        }
    }
}
