//! How a run is carried out: what is not in a plan, because it changes nothing of what is sent.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use prony_core::serve::Latency;
use prony_core::summary::confidence::Goal;
use prony_core::units::Span;
use prony_io::Precision;
use prony_run::builder::DURATION;

use super::output::OutputArgs;
use super::{CONNECTION, MEASUREMENT, values};

/// How long a run lasts whose goals are not reached, where nothing else ends it.
const DURATION_UNTIL: Span = Span::from_secs(600);

/// How a run is carried out.
#[derive(Clone, Debug, Default, Args)]
pub struct MeansArgs {
    /// Worker threads [default: the cores that the process may use]
    #[arg(
        short, long, value_name = "N", help_heading = MEASUREMENT,
        value_parser = values::threads,
    )]
    pub threads: Option<u32>,
    /// Fix each thread to a core
    #[arg(long, help_heading = MEASUREMENT)]
    pub pin: bool,
    /// Kernel interface
    ///
    /// auto takes io_uring in closed loops without pipelining and for a connection per request,
    /// as it is faster there, and epoll elsewhere or where the kernel refuses io_uring. io_uring
    /// needs about 10 MiB more memory. The report names the one that was taken.
    #[arg(long, value_name = "NAME", help_heading = MEASUREMENT, default_value = "auto")]
    pub driver: Driver,
    /// How to wait: sleep, auto, spin, or a time such as 1ms
    ///
    /// sleep: never spin, the least CPU for sends that are as punctual as the kernel's timers.
    /// auto: sleep to shortly before, spin the rest, at most 10 % of one core. spin: all the time,
    /// the most precise sends, a whole core per thread. A time T: look at the schedule once in T,
    /// so that what became due meanwhile goes out together, up to T late: it saves CPU where
    /// arrivals are denser than that, and the report shows the send lag that it costs.
    #[arg(long, value_name = "HOW", help_heading = MEASUREMENT, default_value = "auto",
        value_parser = values::precision)]
    pub precision: Precision,
    /// Seed of all random draws [default: drawn; the report says it]
    ///
    /// The same seed and the same plan give the same schedule and the same order of requests.
    #[arg(long, value_name = "N", help_heading = MEASUREMENT, value_parser = values::seed)]
    pub seed: Option<u64>,
    /// Split response times by the kernel's own time stamps
    ///
    /// The kernel notes when requests leave it and replies reach it, over TCP (TLS too) and UDP.
    /// epoll then takes the place of io_uring, and each write costs one more system call.
    #[arg(long, help_heading = MEASUREMENT, conflicts_with = "simulate")]
    pub timestamps: bool,
    /// The percentile of the response time that the run must carry, such as p99.9
    ///
    /// A run with fewer than ten samples beyond it is TOO-SHORT, and not valid.
    #[arg(long, value_name = "P", help_heading = MEASUREMENT, value_parser = values::percentile)]
    pub percentile: Option<f64>,
    /// Do not exit with 98 where the run is not valid
    #[arg(long, help_heading = MEASUREMENT)]
    pub accept_invalid: bool,
    /// Run in the virtual world of that seed instead of on the network
    #[arg(long, value_name = "SEED", hide = true, value_parser = values::seed)]
    pub simulate: Option<u64>,
    /// How the virtual server takes its time, as `prony serve --latency`
    #[arg(long, value_name = "LAW", hide = true, requires = "simulate")]
    pub simulate_latency: Option<Latency>,
    /// Local addresses to connect from, in turn
    ///
    /// Several lift the limit of local ports.
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

/// When a load may end before its time.
#[derive(Clone, Debug, Default, Args)]
pub struct UntilArgs {
    /// End the load when a figure is known that closely, as in 'p99 +- 5%'
    ///
    /// A percentile or the mean of the response time, the same of the service time (as in
    /// 'service.p99 +- 5%'), or the rate; several may be given, and all must be reached, by the
    /// further ends of their 95 % confidence intervals. A run that does not reach them in its time
    /// (-d; 10 minutes where nothing else ends it) is TOO-SHORT, and not valid.
    #[arg(long, value_name = "GOAL", help_heading = MEASUREMENT, value_parser = values::goal)]
    pub until: Vec<Goal>,
}

impl UntilArgs {
    /// How long a run lasts that nothing else ends.
    pub(crate) fn time(&self) -> Span {
        if self.until.is_empty() { DURATION } else { DURATION_UNTIL }
    }
}

/// What can be said about the run of a plan file.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The plan file (TOML); `-` is standard input
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// How the run is carried out.
    #[command(flatten)]
    pub means: MeansArgs,
    /// When it may end before its time.
    #[command(flatten)]
    pub until: UntilArgs,
    /// Print the plan file of this run, with all that the machine adds to it, and do not make it
    #[arg(long, help_heading = MEASUREMENT)]
    pub explain: bool,

    /// Where the results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How to talk to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// io_uring where it is known to be as fast or faster, else epoll
    #[default]
    Auto,
    /// io_uring, or an error where the kernel refuses it
    Uring,
    /// epoll
    Epoll,
}
