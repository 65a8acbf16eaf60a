//! Parses and prints the share of a plan: counted from 1, as in `3/8`.

use super::Shard;

/// The maximum number of shares on the command line.
const SHARDS_MAX: u32 = 100_000;

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
