//! What of the machine goes into a plan.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::IpAddr;
use std::thread;

use prony_io::limits;
use prony_report::units;

/// The connections of an open loop that nobody has limited are still limited, for the sake of the
/// target and of the memory that their tables take.
const CONNECTIONS_MAX: u64 = 65_536;
/// The same in virtual time.
const SIMULATED_MAX: u32 = 1_000;
/// Descriptors that are taken before the load begins: output files and the like. The worker, which
/// counts anew, would otherwise find room for fewer connections than the plan says.
const OPENED_LATER: u64 = 8;

/// What of the machine goes into a plan where nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The most connections that an open loop may open.
    pub connections_max: u32,
    /// Why so many, as the end of a sentence.
    pub connections_why: String,
    /// The seed.
    pub seed: u64,
}

impl Environment {
    /// That of this machine, for so many worker threads (`None`: one for each core) and connections
    /// from these addresses, or over a Unix socket. Raises the limit of open files.
    pub fn of_machine(threads: Option<usize>, sources: &[IpAddr], unix_socket: bool) -> Self {
        let (limit, _) = limits::raise_descriptors();
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or_else(cores);
        let fit = limits::connections_that_fit(limit, threads).saturating_sub(OPENED_LATER);
        let ports = match (unix_socket, limits::local_ports()) {
            (false, Some(ports)) => limits::port_pairs(ports, sources, 1),
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
        Self { connections_max: most as u32, connections_why, seed: drawn_seed() }
    }

    /// That of the virtual world of a seed, in which nothing of this machine may show.
    pub fn simulated(seed: u64) -> Self {
        let connections_why = "what the simulation allows".into();
        Self { connections_max: SIMULATED_MAX, connections_why, seed }
    }
}

/// A seed that nobody has chosen; short enough to be typed again.
pub fn drawn_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}
