//! What the kernel knows of connections, asked while they are open and when they close.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::RawFd;

use prony_core::summary::{Sctp, Transport};

use crate::net::socket;
use crate::net::socket::sctp::{self, Path, PathState};

/// Associations whose paths are looked at in one pulse: with some calls of the kernel for each, it
/// stays far below what would be felt.
const ASSOCIATIONS_PER_LOOK: usize = 8;

/// Asks the kernel about connections that close: about each that carried more than one batch, and
/// about one in 16 of the others, which may close a hundred thousand times a second. Of
/// associations with several paths it asks while they are open, too: a path that breaks may come
/// back.
#[derive(Debug)]
pub(crate) struct Sampler {
    on: bool,
    short_lived: u32,
    opened: BTreeMap<RawFd, Association>,
    /// Where the next look at paths goes on.
    next_look: RawFd,
    sum: Transport,
}

/// An association that is open.
#[derive(Debug)]
struct Association {
    /// What was known when it opened: of one that the peer has ended nothing else is known.
    before: Sctp,
    /// The paths that had failed, really or potentially, when they were looked at.
    failed: BTreeSet<IpAddr>,
    potentially_failed: BTreeSet<IpAddr>,
}

impl Sampler {
    pub(crate) fn new(on: bool) -> Self {
        let sum = Transport::default();
        Self { on, short_lived: 0, opened: BTreeMap::new(), next_look: 0, sum }
    }

    /// An association of ours is open.
    #[cold]
    pub(crate) fn opened(&mut self, fd: RawFd) {
        if let Some((facts, _)) = sctp::facts(fd).ok().filter(|_| self.on) {
            self.opened.insert(fd, Association::new(facts));
        }
    }

    /// Look at the paths of some associations. Called with every pulse.
    #[inline]
    pub(crate) fn pulse(&mut self) {
        if !self.opened.is_empty() {
            self.look_at_paths();
        }
    }

    #[cold]
    fn look_at_paths(&mut self) {
        let mut next = 0;
        let some = self.opened.range_mut(self.next_look..).take(ASSOCIATIONS_PER_LOOK);
        for (&fd, association) in some {
            if association.before.paths > 1 {
                association.look(&sctp::paths(fd, 0));
            }
            next = fd + 1;
        }
        let is_last = self.opened.range(next..).next().is_none();
        self.next_look = if is_last { 0 } else { next };
    }

    pub(crate) fn closing(&mut self, fd: RawFd, kept_alive: bool) {
        if !self.on {
            return;
        }
        if !self.opened.is_empty()
            && let Some(association) = self.opened.remove(&fd)
        {
            let facts = association.end(sctp::facts(fd).ok());
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

    /// Facts of an association that is over.
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

    fn look(&mut self, paths: &[Path]) {
        for path in paths {
            match path.state {
                PathState::Failed => self.failed.insert(path.addr.ip()),
                PathState::PotentiallyFailed => self.potentially_failed.insert(path.addr.ip()),
                PathState::Active | PathState::Unconfirmed => false,
            };
        }
    }

    /// All that is known of it, with what the kernel still knows.
    fn end(mut self, known: Option<(Sctp, Vec<Path>)>) -> Sctp {
        let (facts, paths) = known
            .filter(|(_, paths)| !paths.is_empty())
            .unwrap_or((Sctp { ended_by_peer: 1, ..self.before }, Vec::new()));
        self.look(&paths);
        let potentially_failed = self.potentially_failed.difference(&self.failed).count() as u64;
        let failed = self.failed.len() as u64;
        Sctp { paths_failed: failed, paths_potentially_failed: potentially_failed, ..facts }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// One path was given up and came back, another had a timeout and was given up later; each
    /// counts once, and so they do where the kernel knows nothing more of the association.
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
        for (known, failed, maybe) in [(true, 2, 1), (false, 1, 2)] {
            let mut association = Association::new(one);
            association.look(&paths([Failed, PotentiallyFailed, Active, Unconfirmed]));
            association.look(&paths([Active, PotentiallyFailed, PotentiallyFailed, Active]));
            let end = known.then(|| (one, paths([Active, Failed, Active, Active])));
            let told = association.end(end);
            assert_eq!((told.paths_failed, told.paths_potentially_failed), (failed, maybe));
            assert_eq!((told.associations, told.ended_by_peer), (1, u64::from(!known)));
        }
    }
}
