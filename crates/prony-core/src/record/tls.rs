//! What is counted of TLS handshakes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most reasons that are told apart: servers can invent names, and so sentences.
const REASONS_MAX: usize = 32;
/// What further reasons are counted under.
const OTHER: &str = "other reasons";

/// The handshakes of a section, each counted where its connect began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsTally {
    /// Full handshakes that were done.
    pub full: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Those of both kinds by version and cipher suite.
    pub kinds: BTreeMap<String, u64>,
    /// Handshakes that failed, and connections that TLS ended later, by reason.
    pub reasons: BTreeMap<String, u64>,
}

impl TlsTally {
    /// Handshakes that were done.
    pub fn done(&self) -> u64 {
        self.full + self.resumed
    }

    /// A handshake is done.
    pub(super) fn handshake(&mut self, resumed: bool, version: &str, suite: &str) {
        *if resumed { &mut self.resumed } else { &mut self.full } += 1;
        let kind = format!("TLS {version} {suite}");
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// A handshake (or a connection) has failed.
    pub(super) fn failed(&mut self, reason: &str, n: u64) {
        if let Some(known) = self.reasons.get_mut(reason) {
            *known += n;
        } else if self.reasons.len() < REASONS_MAX {
            self.reasons.insert(reason.to_owned(), n);
        } else {
            *self.reasons.entry(OTHER.to_owned()).or_default() += n;
        }
    }

    /// Add what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
        for (kind, &n) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += n;
        }
        for (reason, &n) in &other.reasons {
            self.failed(reason, n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_bounded_and_none_is_lost() {
        let mut all = TlsTally::default();
        for i in 0..100 {
            let mut part = TlsTally::default();
            part.failed(&format!("reason {i}"), 2);
            all.merge(&part);
        }
        all.failed("reason 3", 1);
        assert_eq!(all.reasons.len(), REASONS_MAX + 1);
        assert_eq!(all.reasons["reason 3"], 3);
        assert_eq!(all.reasons.values().sum::<u64>(), 201);
    }
}
