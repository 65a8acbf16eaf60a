//! Explicit choice of local ports. The kernel's own choice is limited to
//! `net.ipv4.ip_local_port_range`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use crate::net::socket;

/// The lowest unprivileged port.
const FIRST: u32 = 1_024;
/// The number of ports.
pub(crate) const COUNT: u32 = 65_536 - FIRST;

/// The ports of one worker: every n-th port, so that workers do not collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    next: u32,
    worker: u32,
    workers: u32,
}

impl Ports {
    pub(crate) fn new(worker: usize, workers: usize) -> Self {
        let workers = u32::try_from(workers).unwrap_or(COUNT).clamp(1, COUNT);
        Self { next: 0, worker: worker as u32 % workers, workers }
    }

    /// The next port; after the last, the first again.
    fn advance(&mut self) -> u16 {
        let mut port = self.worker + self.next * self.workers;
        if port >= COUNT {
            (self.next, port) = (0, self.worker);
        }
        self.next += 1;
        (FIRST + port) as u16
    }

    /// Bind the socket to the next free port of this address, or of the unspecified address.
    /// Returns the last error if none is free.
    pub(crate) fn bind(
        &mut self,
        fd: &OwnedFd,
        source: Option<IpAddr>,
        to: SocketAddr,
    ) -> Result<(), i32> {
        let any = match to {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let address = source.unwrap_or(any);
        let mut result = Err(libc::EADDRNOTAVAIL);
        for _ in 0..COUNT.div_ceil(self.workers) {
            result = socket::bind(fd, SocketAddr::new(address, self.advance()));
            match result {
                Err(libc::EADDRINUSE | libc::EACCES) => {}
                _ => break,
            }
        }
        result.map_err(|e| if e == libc::EACCES { libc::EADDRINUSE } else { e })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_all_ports_without_overlap() {
        let mut seen = std::collections::BTreeSet::new();
        for worker in 0..3 {
            let mut ports = Ports::new(worker, 3);
            let own: Vec<u16> = (0..COUNT / 3).map(|_| ports.advance()).collect();
            assert!(own.iter().all(|&port| seen.insert(port)), "worker {worker}");
            assert_eq!(ports.advance(), own[0], "and the first again");
        }
        assert_eq!((seen.len() as u32, seen.first()), (COUNT, Some(&1_024)));
    }
}
