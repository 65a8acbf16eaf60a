//! The execution options of prony-io, from the command line.

use prony_base::units::Span;
use prony_io::{DRAIN, DriverChoice, Family, Options};
use prony_plan::plan::Plan;
use prony_run::environment::Environment;
use prony_run::error::Error;

use crate::cli::Driver;
use crate::cli::exec_options::ExecArgs;
use crate::cli::shard::ShardArgs;

/// The driver.
pub(crate) fn driver(driver: Driver) -> DriverChoice {
    match driver {
        Driver::Auto => DriverChoice::Auto,
        Driver::Uring => DriverChoice::Uring,
        Driver::Epoll => DriverChoice::Epoll,
    }
}

/// How long a load that the user stops waits for replies.
pub(crate) fn drain(exec: &ExecArgs) -> Span {
    exec.drain.unwrap_or(DRAIN)
}

/// The execution options of a load.
pub(crate) fn options(exec: &ExecArgs) -> Options {
    Options {
        threads: exec.threads.map(|n| n as usize),
        pin: exec.pin,
        timestamps: exec.timestamps,
        driver: driver(exec.driver),
        precision: exec.precision,
        sources: exec.source.clone(),
        family: match (exec.ipv4, exec.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
        drain: drain(exec),
        needs_contact: !exec.keep_trying,
        // The plan contains --connect-to and --unix-socket.
        ..Options::default()
    }
}

/// The limits for a plan that is split over several hosts, or the same as [`environment`].
pub(crate) fn environment_of(exec: &ExecArgs, unix_socket: bool, shard: &ShardArgs) -> Environment {
    let around = environment(exec, unix_socket);
    match (shard.shard, shard.hosts, exec.simulate) {
        (Some(_), _, None) => around.of_share(),
        // The driver alone draws the seed.
        (None, Some(_), None) => Environment { seed: around.seed, ..around.of_share() },
        _ => around,
    }
}

/// The limits of this machine for a plan. A simulation does not depend on the machine.
pub(crate) fn environment(exec: &ExecArgs, unix_socket: bool) -> Environment {
    let threads = exec.threads.map(|n| n as usize);
    match exec.simulate {
        Some(seed) => Environment::simulated(seed),
        None => Environment::of_machine(threads, &exec.source, unix_socket),
    }
}

/// Refuses a plan that cannot be simulated.
pub(crate) fn check_simulable(plan: &Plan, exec: &ExecArgs) -> Result<(), Error> {
    if exec.simulate.is_none() {
        return Ok(());
    }
    if plan.endpoints.iter().any(|e| e.tls_name().is_some()) {
        let why = "simulated servers do not support TLS; use http://";
        return Err(Error::Conflict("--simulate", "an https:// URL", why));
    }
    if plan.proxy.is_some() {
        let why = "the simulated world has no proxy; leave it out";
        return Err(Error::Conflict("--simulate", "--proxy", why));
    }
    prony_run::run::check_simulated(plan)
}
