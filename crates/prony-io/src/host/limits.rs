//! Limits of descriptors and local ports, and how many connections they allow.

use std::net::IpAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a worker needs besides its connections (epoll or ring, timer, listener),
/// rounded up.
const PER_WORKER: u64 = 8;
/// Descriptors reserved for output files and other uses in the process.
const RESERVE: u64 = 16;

/// Raise the process's limit of open descriptors to its maximum. Returns the new and the old limit.
pub fn raise_descriptors() -> (u64, u64) {
    // Treat no limit as a very large one.
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let limit = getrlimit(Resource::Nofile);
    let (before, most) = (number(limit.current), number(limit.maximum));
    let raised = Rlimit { current: limit.maximum, ..limit };
    if before < most && setrlimit(Resource::Nofile, raised).is_ok() {
        return (most, before);
    }
    (before, before)
}

/// How many connections a descriptor limit allows with this many workers, besides what is open now.
pub fn connections_that_fit(descriptors: u64, workers: usize) -> u64 {
    let taken = open_descriptors() + PER_WORKER * workers as u64 + RESERVE;
    descriptors.saturating_sub(taken)
}

/// The number of open descriptors of the process.
pub fn open_descriptors() -> u64 {
    // Reading the directory needs one itself.
    std::fs::read_dir("/proc/self/fd").map_or(3, |d| (d.count() as u64).saturating_sub(1))
}

/// The number of local ports for outgoing connections; `None` if unknown.
pub fn local_ports() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut it = text.split_whitespace().map(str::parse::<u64>);
    let (low, high) = (it.next()?.ok()?, it.next()?.ok()?);
    (high >= low).then(|| high - low + 1)
}

/// The maximum number of connections that the local ports allow: each pair of source and
/// destination can use each port once.
pub fn port_pairs(ports: u64, sources: &[IpAddr], destinations: usize) -> u64 {
    ports * sources.len().max(1) as u64 * destinations.max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_open_descriptors() {
        let before = open_descriptors();
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        // Other tests of this process open and close files meanwhile, so test only a bound.
        assert!(before >= 3);
        drop(file);
        assert_eq!(connections_that_fit(10, 4), 0);
        assert!(connections_that_fit(1_000_000, 1) < 1_000_000);
    }

    #[test]
    fn raising_the_limit_twice_changes_nothing() {
        let (first, _) = raise_descriptors();
        assert_eq!(raise_descriptors(), (first, first));
    }

    #[test]
    fn ports_multiply_with_sources_and_destinations() {
        let two: Vec<IpAddr> = ["127.0.0.1", "127.0.0.2"].map(|s| s.parse().unwrap()).to_vec();
        assert_eq!(port_pairs(28_232, &[], 1), 28_232);
        assert_eq!(port_pairs(28_232, &two, 3), 169_392);
        assert!(local_ports().is_none_or(|n| n > 0));
    }
}
