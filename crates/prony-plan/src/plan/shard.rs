//! The shares of a plan.

use serde::{Deserialize, Serialize};

use super::{Cookies, Load, Plan};

/// The maximum number of shares on the command line.
const SHARDS_MAX: u32 = 100_000;

/// A share of a plan: `index` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// This share, from 0.
    pub index: u32,
    /// The number of shares.
    pub of: u32,
}

impl Shard {
    /// The whole plan.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// How many of `total` items belong to this share, if item k belongs to share k mod n.
    pub fn share_of(self, total: u64) -> u64 {
        let (i, n) = (u64::from(self.index), u64::from(self.of));
        total / n + u64::from(total % n > i)
    }
}

impl Shard {
    /// Parse `I/N`, I from 1 to N.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write I/N, as in 3/8: the third of eight";
        let (index, of) = text.split_once('/').ok_or(FORM)?;
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| digits)
        };
        let (index, of) = number(index).zip(number(of)).ok_or(FORM)?;
        if of == 0 || of > SHARDS_MAX {
            return Err(format!("a plan is split into 1 to {SHARDS_MAX} shards, not {of}"));
        }
        if index == 0 {
            return Err(format!("shards are counted from 1: 1/{of} to {of}/{of}"));
        }
        if index > of {
            return Err(format!("there are only {of} shards: 1/{of} to {of}/{of}"));
        }
        Ok(Self { index: index - 1, of })
    }

    /// As on the command line.
    pub fn shown(self) -> String {
        format!("{}/{}", self.index + 1, self.of)
    }
}

impl Plan {
    /// The maximum number of shares. Every share needs a connection to send its requests. With a
    /// cookie jar that all sessions share, the plan cannot be split.
    pub fn shards_max(&self) -> u32 {
        if self.sessions.as_ref().is_some_and(|s| s.cookies == Cookies::Shared) {
            return 1;
        }
        let (Load::Closed { connections, .. } | Load::Open { connections, .. }) = self.load;
        // A share without a session would have nothing to do.
        let sessions = self.stop.sessions.filter(|_| self.sessions.is_some());
        let sessions = sessions.unwrap_or(u64::MAX).min(self.data.sessions_max());
        let most = u64::from(connections).min(sessions);
        (self.shard.share_of(most) as u32).max(1)
    }

    /// Share `index` of `of` of this plan. The union of all shares is exactly the whole: connection
    /// k belongs to share k mod `of`, and has its part of the arrivals, sessions or requests
    /// ([`Deal`](super::Deal)). A share can be split again.
    pub fn shard(&self, index: u32, of: u32) -> Self {
        assert!(of > 0 && index < of, "share {index} of {of}");
        let mut p = self.clone();
        p.shard = Shard { index: self.shard.index + index * self.shard.of, of: self.shard.of * of };
        p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_counted_from_one() {
        for (text, index, of) in [("1/1", 0, 1), ("1/8", 0, 8), ("8/8", 7, 8), ("03/08", 2, 8)] {
            let shard = Shard::parse(text).expect(text);
            assert_eq!(shard, Shard { index, of }, "{text}");
        }
        assert_eq!(Shard { index: 2, of: 8 }.shown(), "3/8");
    }

    #[test]
    fn rejects_what_is_not_a_shard() {
        for (text, why) in [
            ("0/8", "shards are counted from 1: 1/8 to 8/8"),
            ("9/8", "there are only 8 shards: 1/8 to 8/8"),
            ("1/0", "a plan is split into 1 to 100000 shards, not 0"),
            ("1/100001", "a plan is split into 1 to 100000 shards, not 100001"),
        ] {
            assert_eq!(Shard::parse(text), Err(why.to_owned()), "{text}");
        }
        for text in
            ["", "3", "/", "3/", "/8", "3/8/9", "-1/8", "+1/8", "a/b", "3 / 8", "9999999999/8"]
        {
            let why = Shard::parse(text).unwrap_err();
            assert!(why.starts_with("write I/N"), "{text}: {why}");
        }
    }
}
