//! Execution options. They do not change what is sent, and so are not part of a plan.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use prony_base::units::Span;
use prony_io::Precision;
use prony_plan::threshold::Threshold;
use prony_server::serve::Latency;
use prony_stats::summary::confidence::Goal;

use super::output::{OutputArgs, Undecided};
use super::raw::RawArgs;
use super::shard::ShardArgs;
use super::trace::TraceArgs;
use super::{CONNECTION, MEASUREMENT, SIMULATION, values};

/// The duration of a run with goals (--until) if no other option ends it.
const DURATION_UNTIL: Span = Span::from_secs(600);

/// Options of execution.
#[derive(Clone, Debug, Default, Args)]
pub struct ExecArgs {
    /// Number of worker threads [default: the number of cores available to the process]
    #[arg(
        short, long, value_name = "N", help_heading = MEASUREMENT,
        value_parser = values::threads,
    )]
    pub threads: Option<u32>,
    /// Pin each thread to a core
    #[arg(long, help_heading = MEASUREMENT)]
    pub pin: bool,
    /// Kernel interface
    ///
    /// auto selects io_uring where it is faster, that is for closed loops without pipelining and
    /// for one connection per request, and epoll otherwise or if the kernel refuses io_uring.
    /// io_uring needs about 10 MiB more memory. The report names the driver.
    #[arg(long, value_name = "NAME", help_heading = MEASUREMENT, default_value = "auto")]
    pub driver: Driver,
    /// How to wait for the next send: sleep, auto, spin, or a time such as 1ms
    ///
    /// sleep: never spin; sends are as punctual as the kernel's timers, at the lowest CPU use.
    /// auto: sleep until shortly before, then spin, for at most 10 % of one core. spin: always
    /// spin; the most punctual sends, at one whole core per thread. A time T: check the schedule
    /// every T and send everything due at once, up to T late. This saves CPU if requests are due
    /// more often than every T; the report shows the added send lag.
    #[arg(long, value_name = "HOW", help_heading = MEASUREMENT, default_value = "auto",
        value_parser = values::precision)]
    pub precision: Precision,
    /// Seed of the random numbers [default: random; shown in the report]
    ///
    /// The same seed and the same plan give the same schedule and the same order of requests.
    #[arg(long, value_name = "N", help_heading = MEASUREMENT, value_parser = values::seed)]
    pub seed: Option<u64>,
    /// Split response times into parts with kernel timestamps
    ///
    /// The kernel records when requests leave it and when replies reach it, for TCP (also with TLS)
    /// and UDP. Uses epoll instead of io_uring, and one more system call per write.
    #[arg(long, help_heading = MEASUREMENT, conflicts_with = "simulate")]
    pub timestamps: bool,
    /// Require enough samples for this percentile of the response time, such as p99.9
    ///
    /// A run with fewer than ten samples above it is invalid, with the verdict TOO-SHORT.
    #[arg(long, value_name = "P", help_heading = MEASUREMENT, value_parser = values::percentile)]
    pub percentile: Option<f64>,
    /// How long a load that you stop (Ctrl-C, SIGTERM) waits for replies [default: 3s]
    ///
    /// Requests without a reply by then count as unfinished. A second signal ends the load at once.
    #[arg(long, value_name = "T", help_heading = MEASUREMENT, value_parser = values::span)]
    pub drain: Option<Span>,
    /// Go on although no connection can be opened
    ///
    /// Without this option, a load ends once every connection has been refused, or has failed
    /// before it was open, for 2 seconds: wrong ports and certificates do not get better. Use it to
    /// wait for a server. A load in which a connection has opened, or that waits for one, goes on.
    #[arg(long, help_heading = CONNECTION)]
    pub keep_trying: bool,
    /// Exit with 0 instead of 98 if the run is invalid
    #[arg(long, help_heading = MEASUREMENT)]
    pub accept_invalid: bool,
    /// Run in a simulated world with this seed instead of on the network
    ///
    /// Nothing is sent. A simulated server answers in virtual time, so that the run ends in
    /// moments, and the same seed gives the same report. This shows what a plan does, and how
    /// precise its figures will be.
    #[arg(long, value_name = "SEED", help_heading = SIMULATION, value_parser = values::seed)]
    pub simulate: Option<u64>,
    /// Service time of the simulated server, as in `prony serve --latency`
    ///
    /// For event streams and language models it is the time to the first event or token; another
    /// follows each 10 ms, up to 100 in all.
    #[arg(long, value_name = "DIST", help_heading = SIMULATION, requires = "simulate")]
    pub simulate_latency: Option<Latency>,
    /// Requests that the simulated server serves at once, as in `prony serve --workers`
    #[arg(long, value_name = "N", help_heading = SIMULATION, requires = "simulate")]
    pub simulate_workers: Option<NonZeroU32>,
    /// Local addresses to connect from, in turn
    ///
    /// Each address adds its own range of local ports.
    #[arg(
        long, value_name = "ADDR,...", help_heading = CONNECTION, value_delimiter = ',',
        value_parser = values::address,
    )]
    pub source: Vec<IpAddr>,
    /// Use IPv4 addresses only
    #[arg(short = '4', long, help_heading = CONNECTION, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 addresses only
    #[arg(short = '6', long, help_heading = CONNECTION)]
    pub ipv6: bool,
}

/// Stopping early, and thresholds.
#[derive(Clone, Debug, Default, Args)]
pub struct UntilArgs {
    /// Stop when a figure has reached this precision, such as 'p99 +- 5%'
    ///
    /// The figure is a percentile or the mean of the response time or of the service time
    /// ('service.p99 +- 5%'), or the rate. Its 95 % confidence interval must lie within the given
    /// bounds. With several goals, the load stops when all are reached. A run that does not reach
    /// them within its duration (-d; 10 minutes if no other option ends it) is invalid, with the
    /// verdict TOO-SHORT.
    #[arg(long, value_name = "GOAL", help_heading = MEASUREMENT, value_parser = values::goal)]
    pub until: Vec<Goal>,
    /// Exit with 99 if a figure misses its limit, such as 'p99 < 200ms' or 'errors < 0.1%'
    ///
    /// What is certain of the figure, and of the meter's part in it, decides whether the threshold
    /// is met, missed or undecided (exit code 97). This option can be repeated. Figures are
    /// percentiles, mean, min and max of the response time, the same of other times (service.p99,
    /// first-byte.p99, connect.p99, handshake.p99, send-lag.p99, session.p99), rate, errors,
    /// timeouts, status.503, status.5xx, session.completed, and others (see docs/thresholds.md).
    /// 'login: p95 < 300ms' applies to the requests with this name.
    /// 'errors < 5%, abort' also stops the load when the limit is certainly missed, 'errors < 5%,
    /// abort after 10s' not before that time.
    #[arg(
        long, value_name = "EXPR", help_heading = MEASUREMENT, value_parser = values::threshold,
    )]
    pub threshold: Vec<Threshold>,
    /// Longest time until all thresholds are decided, if no other option ends the run [default: 1m]
    ///
    /// A run with thresholds and without -d or -n takes 10 seconds at least. It goes on until its
    /// thresholds are decided, as far as their figures are known while the load runs (percentiles
    /// and means of the response and service time, rate, errors).
    #[arg(
        long, value_name = "T", help_heading = MEASUREMENT, value_parser = values::positive_span,
    )]
    pub decide_within: Option<Span>,
    /// Effect of undecided thresholds on the exit code
    #[arg(long, value_name = "WHAT", help_heading = MEASUREMENT, default_value = "fail")]
    pub undecided: Undecided,
}

impl UntilArgs {
    /// The duration of a run with goals, if no other option ends it.
    pub(crate) fn time(&self) -> Option<Span> {
        (!self.until.is_empty()).then_some(DURATION_UNTIL)
    }
}

/// The options of `prony run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The plan file (TOML); `-` is standard input
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// Options of execution.
    #[command(flatten)]
    pub exec: ExecArgs,
    /// Stopping early.
    #[command(flatten)]
    pub until: UntilArgs,
    /// Which share of it, and when.
    #[command(flatten)]
    pub shard: ShardArgs,
    /// Print the complete plan file, with the values this machine adds, instead of running it
    #[arg(long, help_heading = MEASUREMENT)]
    pub explain: bool,

    /// Traces.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Raw results.
    #[command(flatten)]
    pub raw: RawArgs,
    /// Output options.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The kernel interface of the event loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// io_uring where it is faster, otherwise epoll
    #[default]
    Auto,
    /// io_uring; an error if the kernel refuses it
    Uring,
    /// epoll
    Epoll,
}
