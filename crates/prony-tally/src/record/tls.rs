//! Statistics of TLS handshakes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Recorder;
use prony_base::merge::{Merge, first};
use prony_base::units::{Nanos, Span};

/// The most failure reasons counted separately: a server can send any number of different names and
/// thereby cause any number of messages.
const REASONS_MAX: usize = 32;
/// The key that counts all further reasons.
const OTHER: &str = "other reasons";

/// The handshakes of a section; each belongs to the section in which its connect started.
#[derive(Clone, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsTally {
    /// Completed full handshakes.
    pub full: u64,
    /// Completed handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Completed handshakes of both kinds, by version and cipher suite.
    pub kinds: BTreeMap<String, u64>,
    /// Failed handshakes, and connections that TLS closed later, by reason.
    #[merge(add_reasons)]
    pub reasons: BTreeMap<String, u64>,
    /// The first full handshake (of one of the workers).
    #[merge(first)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstHandshake>,
}

/// The result of a TLS handshake.
#[derive(Clone, Copy, Debug)]
pub struct Secured<'a> {
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The version, as `1.3`.
    pub version: &'a str,
    /// The cipher suite.
    pub suite: &'a str,
    /// The key exchange group, if there was one.
    pub group: Option<&'a str>,
    /// The size of the server's public key in bits, if known.
    pub key_bits: Option<u32>,
}

/// The result of the first handshake, owned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstHandshake {
    /// The version, as `1.3`.
    pub version: String,
    /// The cipher suite by its name at IANA.
    pub suite: String,
    /// The key exchange group, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The size of the server's public key in bits, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_bits: Option<u32>,
}

impl TlsTally {
    /// Completed handshakes.
    pub fn done(&self) -> u64 {
        self.full + self.resumed
    }

    /// Count a completed handshake.
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
}

/// Count `n` failed handshakes or connections.
fn count(reasons: &mut BTreeMap<String, u64>, reason: &str, n: u64) {
    let is_known = reasons.contains_key(reason) || reasons.len() < REASONS_MAX;
    reasons.entry(if is_known { reason } else { OTHER }.to_owned()).or_default().merge(&n);
}

fn add_reasons(all: &mut BTreeMap<String, u64>, part: &BTreeMap<String, u64>) {
    for (reason, &n) in part {
        count(all, reason, n);
    }
}

impl Recorder {
    /// The TLS handshake of a connection completed, `took` after the connection opened and
    /// `since_asked` after its connect started.
    pub fn secured(&mut self, now: Nanos, took: Span, since_asked: Span, handshake: Secured<'_>) {
        let t = &mut self.section(Nanos(now.0.saturating_sub(since_asked.0))).tally;
        t.times.handshake.record(took);
        let tls = t.tls.get_or_insert_default();
        tls.handshake(handshake);
    }

    /// TLS failed on a connection with a connect that started at `asked`, during or after the
    /// handshake.
    pub fn not_secured(&mut self, asked: Nanos, reason: &str) {
        let tls = self.section(asked).tally.tls.get_or_insert_default();
        count(&mut tls.reasons, reason, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_number_of_reasons_and_counts_all_failures() {
        let mut all = TlsTally::default();
        for i in 0..100 {
            let mut part = TlsTally::default();
            count(&mut part.reasons, &format!("reason {i}"), 2);
            all.merge(&part);
        }
        count(&mut all.reasons, "reason 3", 1);
        assert_eq!(all.reasons.len(), REASONS_MAX + 1);
        assert_eq!(all.reasons["reason 3"], 3);
        assert_eq!(all.reasons.values().sum::<u64>(), 201);
    }
}
