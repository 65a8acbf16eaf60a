//! What is counted of TLS handshakes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::merge::add_by_key;

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
    /// The first full handshake (of one of the workers). It is never saved.
    #[serde(skip)]
    pub first: Option<FirstHandshake>,
}

/// What a TLS handshake has led to.
#[derive(Clone, Copy, Debug)]
pub struct Secured<'a> {
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The version, as `1.3`.
    pub version: &'a str,
    /// The cipher suite.
    pub suite: &'a str,
    /// The group of the key exchange, where there was one.
    pub group: Option<&'a str>,
    /// The bits of the server's public key, where they are known.
    pub key_bits: Option<u32>,
}

/// What one handshake has led to, kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstHandshake {
    /// The version, as `1.3`.
    pub version: String,
    /// The cipher suite by its name at IANA.
    pub suite: String,
    /// The group of the key exchange, where there was one.
    pub group: Option<String>,
    /// The bits of the server's public key, where they are known.
    pub key_bits: Option<u32>,
}

impl TlsTally {
    /// Handshakes that were done.
    pub fn done(&self) -> u64 {
        self.full + self.resumed
    }

    /// A handshake is done.
    pub(super) fn handshake(&mut self, done: Secured<'_>) {
        *if done.resumed { &mut self.resumed } else { &mut self.full } += 1;
        let kind = format!("TLS {} {}", done.version, done.suite);
        *self.kinds.entry(kind).or_default() += 1;
        if self.first.is_none() && !done.resumed {
            self.first = Some(FirstHandshake {
                version: done.version.into(),
                suite: done.suite.into(),
                group: done.group.map(Into::into),
                key_bits: done.key_bits,
            });
        }
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
        let Self { full, resumed, kinds, reasons, first } = other;
        self.full += full;
        self.resumed += resumed;
        add_by_key(&mut self.kinds, kinds);
        if self.first.is_none() {
            self.first.clone_from(first);
        }
        for (reason, &n) in reasons {
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
