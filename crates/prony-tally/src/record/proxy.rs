//! Statistics of tunnels through a proxy.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::Recorder;
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};

/// The tunnels of a section; each belongs to the section in which its connect started.
#[derive(Clone, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyTally {
    /// Tunnels that opened.
    pub opened: u64,
    /// Those that did not, by reason.
    pub reasons: BTreeMap<String, u64>,
}

impl Recorder {
    /// A tunnel has opened on a connection with a connect that started at `asked`, `took` after the
    /// connection to the proxy.
    pub fn tunnel_opened(&mut self, asked: Nanos, took: Span) {
        let t = &mut self.section(asked).tally;
        t.times.tunnel.record(took);
        t.proxy.get_or_insert_default().opened += 1;
    }

    /// The proxy did not open a tunnel on such a connection.
    pub fn no_tunnel(&mut self, asked: Nanos, why: impl Display) {
        let tally = self.section(asked).tally.proxy.get_or_insert_default();
        *tally.reasons.entry(why.to_string()).or_default() += 1;
    }
}
