//! What the options about the machine come to on this one.

use prony_io::{DriverChoice, Family, Options, limits};

use crate::cli::means::MeansArgs;
use crate::cli::plan::{self, Surroundings};
use crate::cli::{Driver, Precision};
use crate::report::units;

/// The connections of an open loop that nobody has limited are still limited, for the sake of the
/// target and of the memory that their tables take.
const CONNECTIONS_MAX: u64 = 65_536;
/// Descriptors that are taken before the load begins: files of `-o` and the like. The worker, which
/// counts anew, would otherwise find room for fewer connections than were told.
const OPENED_LATER: u64 = 8;

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
        precision: match means.precision {
            Precision::Sleep => prony_io::Precision::Sleep,
            Precision::Auto => prony_io::Precision::Auto,
            Precision::Spin => prony_io::Precision::Spin,
            Precision::Grain(span) => prony_io::Precision::Grain(span),
        },
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
pub(crate) fn surroundings(means: &MeansArgs, unix_socket: bool) -> Surroundings {
    if let Some(seed) = means.simulate {
        return Surroundings {
            connections_max: 1_000,
            connections_why: "what the simulation allows".into(),
            seed,
        };
    }
    let (limit, _) = limits::raise_descriptors();
    let threads = means.threads.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        |n| n as usize,
    );
    let fit = limits::connections_that_fit(limit, threads).saturating_sub(OPENED_LATER);
    let ports = match (unix_socket, limits::local_ports()) {
        (false, Some(ports)) => limits::port_pairs(ports, &means.source, 1),
        _ => u64::MAX,
    };
    let most = fit.min(ports).clamp(1, CONNECTIONS_MAX);
    let connections_why = if most == ports {
        "what the local ports allow".into()
    } else if most == fit {
        format!("what the limit of {} open files allows", units::count(limit))
    } else {
        "the most that prony opens unless --connections says otherwise".into()
    };
    Surroundings { connections_max: most as u32, connections_why, seed: plan::drawn_seed() }
}
