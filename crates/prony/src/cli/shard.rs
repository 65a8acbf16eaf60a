//! A share of a run, for a run on several hosts.

use clap::{Args, ValueEnum};
use prony_plan::plan::Shard;
use prony_run::values;

use super::HOSTS;

/// The share of the plan to run, and its start.
#[derive(Clone, Debug, Default, Args)]
pub struct ShardArgs {
    /// Run one share of the plan: 1/8 to 8/8
    ///
    /// Run each share once, on any host, with the same plan, and merge the reports (-o FILE.json)
    /// with `prony merge`. Together the shares send exactly what one run of the whole plan would.
    /// The seed is 1 unless --seed is given.
    #[arg(
        long, value_name = "I/N", help_heading = HOSTS, value_parser = Shard::parse,
        conflicts_with_all = ["until", "tui"],
    )]
    pub shard: Option<Shard>,
    /// Start at this instant: 2026-11-24T09:00:00Z, or seconds since 1970 [default: at once]
    ///
    /// By this host's clock, which is read once before the start and never during the run.
    #[arg(
        long, value_name = "TIME", help_heading = HOSTS, value_parser = values::instant,
        conflicts_with = "simulate",
    )]
    pub start_at: Option<u64>,
    /// Split the load over this number of workers
    ///
    /// Each is a process that runs one share of the plan, and gets its share of this
    /// machine's cores unless --threads sets the threads of each.
    #[arg(
        long, value_name = "N", help_heading = HOSTS, value_parser = hosts,
        conflicts_with_all = ["shard", "start_at", "simulate"],
    )]
    pub hosts: Option<u32>,
    /// What starts the workers: processes on this machine, or a Ray cluster, one worker per host
    ///
    /// ray needs `pip install 'prony[ray]'` on all hosts of the cluster, one of which is this one
    /// (docs/many-hosts.md).
    #[arg(
        long, value_name = "NAME", help_heading = HOSTS, default_value = "local",
        requires = "hosts",
    )]
    pub engine: EngineName,
    /// Address of the Ray cluster, HOST:PORT [default: $RAY_ADDRESS, or that of this host]
    #[arg(long, value_name = "ADDR", help_heading = HOSTS, requires = "hosts")]
    pub cluster: Option<String>,
    /// Use a Ray cluster that needs no token (RAY_AUTH_MODE)
    ///
    /// Such a cluster runs the code of anyone who reaches its port.
    #[arg(long, help_heading = HOSTS, requires = "hosts")]
    pub insecure_cluster: bool,
    /// If a worker is lost: continue without its share, or stop the run
    #[arg(
        long, value_name = "WHAT", help_heading = HOSTS, default_value = "continue",
        requires = "hosts",
    )]
    pub on_loss: OnLoss,
    /// The number of hosts of each aggregator, for tests [default: 64 if there are more than 2,000]
    #[arg(long, value_name = "N", hide = true, requires = "hosts", value_parser = hosts)]
    pub hosts_per_aggregator: Option<u32>,
}

/// The maximum number of hosts without aggregators: docs/performance.md has what their reports cost
/// the driver.
const DIRECT_MAX: u32 = 2_000;
/// The number of hosts of each aggregator.
const GROUP: u32 = 64;

impl ShardArgs {
    /// The number of hosts of each aggregator, if there are aggregators.
    pub(crate) fn group(&self) -> Option<usize> {
        let many = self.hosts.filter(|&hosts| hosts > DIRECT_MAX).map(|_| GROUP);
        self.hosts_per_aggregator.or(many).map(|group| group as usize)
    }
}

/// What starts workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Processes on this machine
    #[default]
    Local,
    /// A Ray cluster
    Ray,
}

/// What to do if a worker is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnLoss {
    /// The others continue with their shares; the run is PARTIAL
    #[default]
    Continue,
    /// The run ends
    Stop,
}

/// The maximum number of workers.
const HOSTS_MAX: u64 = 10_000;

fn hosts(text: &str) -> Result<u32, String> {
    values::at_most(text, HOSTS_MAX)
}
