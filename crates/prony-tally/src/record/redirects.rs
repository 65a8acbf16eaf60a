//! Redirects that were followed, and those that were not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Recorder;
use prony_base::merge::Merge;

/// What redirects came to. A reply belongs to the section of the intended start of its request.
/// How long redirected requests took is in the group of redirects.
#[derive(Clone, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedirectTally {
    /// Redirects that were followed, each by one more request.
    pub followed: u64,
    /// Requests that failed because of one redirect too many.
    pub over_limit: u64,
    /// Redirects that lead nowhere: their header is no URL of HTTP.
    pub unusable: u64,
    /// Redirects to servers that the user did not name, by server; those to servers beyond the
    /// first [`RedirectTally::SERVERS`] are counted by the empty name.
    pub elsewhere: BTreeMap<String, u64>,
}

impl RedirectTally {
    /// How many servers are counted by name.
    pub const SERVERS: usize = 8;

    /// A redirect led to this server, which the user did not name.
    pub fn led_to(&mut self, server: String) {
        let is_known = self.elsewhere.contains_key(&server);
        let has_room = self.elsewhere.len() < Self::SERVERS;
        let name = if is_known || has_room { server } else { String::new() };
        *self.elsewhere.entry(name).or_default() += 1;
    }

    /// Redirects to servers that the user did not name.
    pub fn led_elsewhere(&self) -> u64 {
        self.elsewhere.values().sum()
    }
}

impl Recorder {
    /// Keep what redirects came to: those of the warm-up, and of the measurement.
    pub fn redirected(&mut self, warm: RedirectTally, main: RedirectTally) {
        self.warm.tally.redirects = Some(Box::new(warm));
        self.main.tally.redirects = Some(Box::new(main));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_servers_are_counted_by_name() {
        let mut tally = RedirectTally::default();
        for n in 0..20 {
            tally.led_to(format!("http://h{}", n % 10));
        }
        assert_eq!(tally.led_elsewhere(), 20);
        assert_eq!(tally.elsewhere.len(), RedirectTally::SERVERS + 1);
        assert_eq!((tally.elsewhere["http://h0"], tally.elsewhere[""]), (2, 4));
    }
}
