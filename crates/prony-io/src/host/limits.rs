//! Descriptors and local ports: how many there are, how many connections fit.

use std::net::IpAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a worker needs besides its connections (epoll or ring, timer, listener),
/// generously.
const PER_WORKER: u64 = 8;
/// Descriptors left for output files and whatever else the process opens.
const RESERVE: u64 = 16;

/// The process's limit of open descriptors, raised as far as it may be raised: (in force, raised
/// from).
pub fn raise_descriptors() -> (u64, u64) {
    // No limit at all is as good as a very large one.
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let limit = getrlimit(Resource::Nofile);
    let (before, most) = (number(limit.current), number(limit.maximum));
    let raised = Rlimit { current: limit.maximum, ..limit };
    if before < most && setrlimit(Resource::Nofile, raised).is_ok() {
        return (most, before);
    }
    (before, before)
}

/// How many connections fit under a descriptor limit, with so many workers, beside what is open
/// now.
pub fn connections_that_fit(descriptors: u64, workers: usize) -> u64 {
    let taken = open_descriptors() + PER_WORKER * workers as u64 + RESERVE;
    descriptors.saturating_sub(taken)
}

/// How many descriptors the process has open.
pub fn open_descriptors() -> u64 {
    // Reading the folder takes one itself.
    std::fs::read_dir("/proc/self/fd").map_or(3, |d| (d.count() as u64).saturating_sub(1))
}

/// How many local ports the kernel gives to outgoing connections; `None` where it does not say.
pub fn local_ports() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut it = text.split_whitespace().map(str::parse::<u64>);
    let (low, high) = (it.next()?.ok()?, it.next()?.ok()?);
    (high >= low).then(|| high - low + 1)
}

/// The most connections that the local ports allow: one port serves each pair of source and
/// destination once.
pub fn port_pairs(ports: u64, sources: &[IpAddr], destinations: usize) -> u64 {
    ports * sources.len().max(1) as u64 * destinations.max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_open() {
        let before = open_descriptors();
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        // Other tests of this process open and close files meanwhile, so only a bound can be held.
        assert!(before >= 3);
        drop(file);
        assert_eq!(connections_that_fit(10, 4), 0);
        assert!(connections_that_fit(1_000_000, 1) < 1_000_000);
    }

    #[test]
    fn raising_twice_changes_nothing() {
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
