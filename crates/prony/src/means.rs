//! What the options about the machine come to on this one.

use prony_io::{DriverChoice, Family, Options};
use prony_run::environment::Environment;

use crate::cli::Driver;
use crate::cli::means::MeansArgs;
use crate::cli::shard::ShardArgs;

/// The driver by its name in prony-io.
pub(crate) fn driver(driver: Driver) -> DriverChoice {
    match driver {
        Driver::Auto => DriverChoice::Auto,
        Driver::Uring => DriverChoice::Uring,
        Driver::Epoll => DriverChoice::Epoll,
    }
}

/// How a load is put on this machine.
pub(crate) fn options(means: &MeansArgs) -> Options {
    Options {
        threads: means.threads.map(|n| n as usize),
        pin: means.pin,
        timestamps: means.timestamps,
        driver: driver(means.driver),
        precision: means.precision,
        sources: means.source.clone(),
        family: match (means.ipv4, means.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
        // --connect-to and --unix-socket are in the plan already.
        ..Options::default()
    }
}

/// The same where it may be a share that is carried out.
pub(crate) fn environment_of(
    means: &MeansArgs,
    unix_socket: bool,
    shard: &ShardArgs,
) -> Environment {
    let around = environment(means, unix_socket);
    match (shard.shard, shard.hosts, means.simulate) {
        (Some(_), _, None) => around.of_share(),
        // The driver alone draws the seed.
        (None, Some(_), None) => Environment { seed: around.seed, ..around.of_share() },
        _ => around,
    }
}

/// What this machine leaves to a plan. In simulation nothing of it may show.
pub(crate) fn environment(means: &MeansArgs, unix_socket: bool) -> Environment {
    let threads = means.threads.map(|n| n as usize);
    match means.simulate {
        Some(seed) => Environment::simulated(seed),
        None => Environment::of_machine(threads, &means.source, unix_socket),
    }
}
