//! The values that the machine adds to a plan.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::IpAddr;
use std::thread;

use prony_io::limits;
use prony_report::units;

/// The maximum of the default connection limit of an open loop. It protects the target, and bounds
/// the memory of the tables.
const CONNECTIONS_MAX: u64 = 65_536;
/// The default connection limit in a simulation.
const SIMULATED_MAX: u32 = 1_000;
/// File descriptors that are opened before the load starts, such as output files. The worker checks
/// the limit again then.
const OPENED_LATER: u64 = 8;

/// The machine's values for the parts of a plan that are not given.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The connection limit of an open loop.
    pub connections_max: u32,
    /// The reason for that limit, as the end of a sentence.
    pub connections_why: String,
    /// The seed.
    pub seed: u64,
    /// Whether the run is simulated.
    pub simulated: bool,
}

impl Environment {
    /// The environment of this machine, for a number of worker threads (`None`: one per core) and
    /// connections from these addresses or over a Unix socket. Raises the limit of open files.
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
            "the local ports allow no more".into()
        } else if most == fit {
            format!("the limit of {} open files allows no more", units::count(limit))
        } else {
            "the default maximum; --connections sets another".into()
        };
        let (connections_max, seed) = (most as u32, drawn_seed());
        Self { connections_max, connections_why, seed, simulated: false }
    }

    /// The environment of a share of a plan. It does not depend on the machine, because all shares
    /// must be of one plan.
    #[must_use]
    pub fn of_share(self) -> Self {
        let connections_why =
            "the most that prony opens unless --connections says otherwise".into();
        let connections_max = CONNECTIONS_MAX as u32;
        Self { connections_max, connections_why, seed: 1, simulated: false }
    }

    /// The environment of one of several plans that run side by side on this machine.
    #[must_use]
    pub fn of_each(&self, plans: usize) -> Self {
        if plans < 2 {
            return self.clone();
        }
        let part = self.connections_max / u32::try_from(plans).unwrap_or(u32::MAX);
        let connections_why =
            format!("an equal part for each of {plans} phases; {}", self.connections_why);
        Self { connections_max: part.max(1), connections_why, ..self.clone() }
    }

    /// The environment of a simulation, which does not depend on this machine.
    pub fn simulated(seed: u64) -> Self {
        let connections_why = "the simulation allows no more".into();
        Self { connections_max: SIMULATED_MAX, connections_why, seed, simulated: true }
    }
}

/// A random seed, short enough to be typed.
pub fn drawn_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}
