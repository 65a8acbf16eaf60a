//! What the options about the machine come to on this one.

use prony_io::{DriverChoice, Family, Options};
use prony_run::environment::Environment;

use crate::cli::Driver;
use crate::cli::means::MeansArgs;

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

/// What this machine leaves to a plan. In simulation nothing of it may show.
pub(crate) fn environment(means: &MeansArgs, unix_socket: bool) -> Environment {
    let threads = means.threads.map(|n| n as usize);
    match means.simulate {
        Some(seed) => Environment::simulated(seed),
        None => Environment::of_machine(threads, &means.source, unix_socket),
    }
}
