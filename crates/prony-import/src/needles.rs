//! Finds many values in texts at once: the longest one at each place, from left to right.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;

/// The least bytes of a value that is looked for.
pub(crate) const LEAST: usize = 8;

/// The most bytes that are compared in all: only values and texts that are much alike need as
/// many.
const COMPARED: u64 = 1 << 32;

/// The bits of a filter for the starts of values.
const FILTER: u32 = 18;

/// Values, each with what belongs to it.
pub(crate) struct Needles {
    /// In order.
    all: Vec<(String, String)>,
    /// Of each, the longest other one that it starts with.
    starts: Vec<Option<usize>>,
    /// Those with the same first bytes.
    ranges: HashMap<u64, Range<usize>>,
    /// Whether a value may start with bytes of this hash.
    filter: Vec<bool>,
    compared: Cell<u64>,
}

fn key(bytes: &[u8]) -> u64 {
    bytes[..LEAST].iter().fold(0, |key, b| key << 8 | u64::from(*b))
}

fn hash(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER)) as usize
}

impl Needles {
    /// Values that are too short are left out.
    pub(crate) fn new(mut all: Vec<(String, String)>) -> Self {
        all.retain(|(value, _)| value.len() >= LEAST);
        all.sort_unstable();
        all.dedup_by(|a, b| a.0 == b.0);
        let mut starts: Vec<Option<usize>> = Vec::with_capacity(all.len());
        let mut ranges: HashMap<u64, Range<usize>> = HashMap::new();
        let mut filter = vec![false; 1 << FILTER];
        for (at, (value, _)) in all.iter().enumerate() {
            let mut start = at.checked_sub(1);
            while let Some(before) = start.filter(|&before| !value.starts_with(&all[before].0)) {
                start = starts[before];
            }
            starts.push(start);
            let key = key(value.as_bytes());
            ranges.entry(key).or_insert(at..at).end = at + 1;
            filter[hash(key)] = true;
        }
        Self { all, starts, ranges, filter, compared: Cell::new(0) }
    }

    /// Calls the function with each part of a text before a value, and what belongs to the value;
    /// at last with the rest alone.
    pub(crate) fn each<'a>(&'a self, text: &str, mut with: impl FnMut(&str, Option<&'a str>)) {
        let bytes = text.as_bytes();
        let (mut done, mut at, mut next) = (0, 0, 0);
        let mut key = 0_u64;
        while !self.all.is_empty() && at + LEAST <= bytes.len() && !self.is_over() {
            // The first bytes from here on.
            while next < at + LEAST {
                key = key << 8 | u64::from(bytes[next]);
                next += 1;
            }
            let found = match self.filter[hash(key)] {
                true => self.ranges.get(&key).and_then(|range| self.find(range, &bytes[at..])),
                false => None,
            };
            let Some((value, of)) = found else {
                at += 1;
                continue;
            };
            with(&text[done..at], Some(of));
            at += value.len();
            done = at;
            next = at;
        }
        with(&text[done..], None);
    }

    /// Whether comparing has taken too long. Then not all values were found.
    pub(crate) fn is_over(&self) -> bool {
        self.compared.get() > COMPARED
    }

    /// The longest value of a range that a text starts with.
    fn find(&self, range: &Range<usize>, text: &[u8]) -> Option<(&str, &str)> {
        let mut compared = 0;
        let count = self.all[range.clone()].partition_point(|(value, _)| {
            compared += value.len().min(text.len());
            value.as_bytes() <= text
        });
        // What the text starts with is this one, or a start of it.
        let mut at = (count > 0).then(|| range.start + count - 1)?;
        let value = self.all[at].0.as_bytes();
        let common = value.iter().zip(text).take_while(|(a, b)| a == b).count();
        while self.all[at].0.len() > common {
            compared += 1;
            at = self.starts[at]?;
        }
        self.compared.set(self.compared.get() + compared as u64);
        let (value, of) = &self.all[at];
        Some((value, of))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needles(values: &[&str]) -> Needles {
        Needles::new(values.iter().map(|v| ((*v).to_owned(), format!("<{v}>"))).collect())
    }

    fn replaced(needles: &Needles, text: &str) -> String {
        let mut out = String::new();
        needles.each(text, |part, of| {
            out.push_str(part);
            out.push_str(of.unwrap_or_default());
        });
        out
    }

    #[test]
    fn the_longest_value_at_each_place_is_found() {
        let all = needles(&["12345678", "1234567890", "abcdefgh", "12345679", "short"]);
        for (text, wanted) in [
            ("", ""),
            ("short 1234567", "short 1234567"),
            ("x12345678y", "x<12345678>y"),
            ("1234567890", "<1234567890>"),
            ("123456789", "<12345678>9"),
            ("12345678abcdefgh12345679", "<12345678><abcdefgh><12345679>"),
            ("\u{e9}abcdefgh\u{e9}", "\u{e9}<abcdefgh>\u{e9}"),
            ("aabcdefgh", "a<abcdefgh>"),
        ] {
            assert_eq!(replaced(&all, text), wanted, "{text}");
        }
        assert_eq!(replaced(&needles(&[]), "abcdefgh12"), "abcdefgh12");
    }

    /// What is compared grows with the text, however many values there are.
    #[test]
    fn many_values_take_no_longer() {
        let text: String = (0..20_000).map(|n| format!("token-{n:07}/page.")).collect();
        let compared = |count: usize| {
            let values: Vec<String> = (0..count).map(|n| format!("value-{n:012}")).collect();
            let all = needles(&values.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(replaced(&all, &text), text);
            all.compared.get()
        };
        assert_eq!(compared(10), 0);
        assert_eq!(compared(10_000), 0);
    }

    #[test]
    fn values_and_texts_that_are_alike_have_a_bound() {
        let all = needles(&[&"a".repeat(1 << 20)]);
        let text = "a".repeat((1 << 20) - 1).repeat(4) + "b";
        all.compared.set(COMPARED);
        all.each(&text, |_, _| {});
        assert!(all.is_over());
    }

    proptest! {
        #[test]
        fn each_value_is_found_wherever_it_is(
            values in prop::collection::vec("[ab]{8,12}", 1..6),
            text in "[abc]{0,60}",
        ) {
            let all = needles(&values.iter().map(String::as_str).collect::<Vec<_>>());
            let (mut wanted, mut rest) = (String::new(), text.as_str());
            while !rest.is_empty() {
                let first = values.iter().filter(|v| rest.starts_with(v.as_str()));
                match first.max_by_key(|v| v.len()) {
                    Some(value) => {
                        wanted += &format!("<{value}>");
                        rest = &rest[value.len()..];
                    }
                    None => {
                        wanted.push_str(&rest[..1]);
                        rest = &rest[1..];
                    }
                }
            }
            prop_assert_eq!(replaced(&all, &text), wanted);
        }
    }
}
