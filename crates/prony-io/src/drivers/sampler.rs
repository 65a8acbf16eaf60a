//! The kernel's statistics of connections, read while they are open and when they close.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::RawFd;

use prony_base::meter::{Sctp, Transport};

use crate::net::socket;
use crate::net::socket::sctp::{self, Path, PathState};

/// How many associations' paths to read per pulse. Each takes a few system calls, so this keeps the
/// cost negligible.
const ASSOCIATIONS_PER_PULSE: usize = 8;

/// Reads the kernel's statistics of connections that close: of each that carried more than one
/// batch, and of one in 16 of the others, which may close a hundred thousand times a second. It
/// also reads the paths of open associations with several paths, because a failed path may recover.
#[derive(Debug)]
pub(crate) struct Sampler {
    on: bool,
    short_lived: u32,
    opened: BTreeMap<RawFd, Association>,
    /// Where the next pulse continues with the paths.
    next: RawFd,
    sum: Transport,
}

/// An open association.
#[derive(Debug)]
struct Association {
    /// The statistics when it opened. If the peer ends the association, these are all there are.
    before: Sctp,
    /// The paths that were seen failed or potentially failed.
    failed: BTreeSet<IpAddr>,
    potentially_failed: BTreeSet<IpAddr>,
}

impl Sampler {
    pub(crate) fn new(on: bool) -> Self {
        let sum = Transport::default();
        Self { on, short_lived: 0, opened: BTreeMap::new(), next: 0, sum }
    }

    /// An outgoing association has opened.
    #[cold]
    pub(crate) fn opened(&mut self, fd: RawFd) {
        if let Some((facts, _)) = sctp::facts(fd).ok().filter(|_| self.on) {
            self.opened.insert(fd, Association::new(facts));
        }
    }

    /// Read the paths of some associations. Called with every pulse.
    #[inline]
    pub(crate) fn pulse(&mut self) {
        if !self.opened.is_empty() {
            self.read_paths();
        }
    }

    #[cold]
    fn read_paths(&mut self) {
        let mut next = 0;
        let some = self.opened.range_mut(self.next..).take(ASSOCIATIONS_PER_PULSE);
        for (&fd, association) in some {
            if association.before.paths > 1 {
                association.record(&sctp::paths(fd, 0));
            }
            next = fd + 1;
        }
        let is_last = self.opened.range(next..).next().is_none();
        self.next = if is_last { 0 } else { next };
    }

    pub(crate) fn closing(&mut self, fd: RawFd, kept_alive: bool) {
        if !self.on {
            return;
        }
        if !self.opened.is_empty()
            && let Some(association) = self.opened.remove(&fd)
        {
            let facts = association.finish(sctp::facts(fd).ok());
            self.add(facts);
            return;
        }
        if !kept_alive {
            self.short_lived = self.short_lived.wrapping_add(1);
            if self.short_lived % 16 != 1 {
                return;
            }
        }
        socket::add_transport(fd, &mut self.sum);
    }

    /// Add the statistics of a finished association.
    pub(crate) fn add(&mut self, facts: Sctp) {
        self.sum.sctp = Some(self.sum.sctp.unwrap_or_default().and(facts));
    }

    pub(crate) fn sum(&self) -> Transport {
        self.sum
    }
}

impl Association {
    fn new(before: Sctp) -> Self {
        Self { before, failed: BTreeSet::new(), potentially_failed: BTreeSet::new() }
    }

    fn record(&mut self, paths: &[Path]) {
        for path in paths {
            match path.state {
                PathState::Failed => self.failed.insert(path.addr.ip()),
                PathState::PotentiallyFailed => self.potentially_failed.insert(path.addr.ip()),
                PathState::Active | PathState::Unconfirmed => false,
            };
        }
    }

    /// The final statistics, including the kernel's latest if it still has them.
    fn finish(mut self, latest: Option<(Sctp, Vec<Path>)>) -> Sctp {
        let (facts, paths) = latest
            .filter(|(_, paths)| !paths.is_empty())
            .unwrap_or((Sctp { ended_by_peer: 1, ..self.before }, Vec::new()));
        self.record(&paths);
        let potentially_failed = self.potentially_failed.difference(&self.failed).count() as u64;
        let failed = self.failed.len() as u64;
        Sctp { paths_failed: failed, paths_potentially_failed: potentially_failed, ..facts }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// One path failed and recovered, another was potentially failed and failed later. Each counts
    /// once, also if the kernel no longer knows the association.
    #[test]
    fn paths_count_in_their_worst_state() {
        use PathState::{Active, Failed, PotentiallyFailed, Unconfirmed};
        let paths = |states: [PathState; 4]| {
            let path = |(i, state)| {
                let addr = SocketAddr::from(([10, 0, 0, i], 9));
                Path { addr, state, srtt_ms: 1, rto_ms: 20 }
            };
            (0_u8..).zip(states).map(path).collect::<Vec<_>>()
        };
        let one = Sctp { associations: 1, ..Sctp::default() };
        for (latest, failed, maybe) in [(true, 2, 1), (false, 1, 2)] {
            let mut association = Association::new(one);
            association.record(&paths([Failed, PotentiallyFailed, Active, Unconfirmed]));
            association.record(&paths([Active, PotentiallyFailed, PotentiallyFailed, Active]));
            let end = latest.then(|| (one, paths([Active, Failed, Active, Active])));
            let facts = association.finish(end);
            assert_eq!((facts.paths_failed, facts.paths_potentially_failed), (failed, maybe));
            assert_eq!((facts.associations, facts.ended_by_peer), (1, u64::from(!latest)));
        }
    }
}
