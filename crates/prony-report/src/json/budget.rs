//! How much memory the histograms of a saved report may need: a short text can stand for many bins.

use std::fmt;

use prony_tally::record::hist::memory_of;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The most memory for histograms, in bytes.
const MEMORY_MAX: usize = 1 << 30;
/// A text of this length cannot need as much.
const HARMLESS: usize = 256 << 10;

/// Whether all histograms of a text fit.
pub(super) fn fits(text: &str) -> bool {
    text.len() <= HARMLESS || needed(text) <= MEMORY_MAX
}

/// What the histograms of a text need. One that is not JSON has none.
fn needed(text: &str) -> usize {
    serde_json::from_str::<Needed>(text).map_or(0, |needed| needed.0)
}

/// What the histograms in a value need.
struct Needed(usize);

impl<'de> Deserialize<'de> for Needed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Walk)
    }
}

struct Walk;

impl<'de> Visitor<'de> for Walk {
    type Value = Needed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Needed, A::Error> {
        let mut all = 0_usize;
        while let Some(key) = map.next_key::<String>()? {
            let Needed(more) = match key.as_str() {
                "hdr" => map.next_value::<Encoded>()?.0,
                _ => map.next_value()?,
            };
            all = all.saturating_add(more);
            if all > MEMORY_MAX {
                // The rest changes nothing.
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            }
        }
        Ok(Needed(all))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Needed, A::Error> {
        let mut all = 0_usize;
        while let Some(Needed(more)) = list.next_element()? {
            all = all.saturating_add(more);
            if all > MEMORY_MAX {
                while list.next_element::<IgnoredAny>()?.is_some() {}
            }
        }
        Ok(Needed(all))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Needed, E> {
        Ok(Needed(0))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Needed, E> {
        Ok(Needed(0))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Needed, E> {
        Ok(Needed(0))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Needed, E> {
        Ok(Needed(0))
    }

    fn visit_str<E>(self, _: &str) -> Result<Needed, E> {
        Ok(Needed(0))
    }

    fn visit_unit<E>(self) -> Result<Needed, E> {
        Ok(Needed(0))
    }
}

/// The value of `hdr`.
struct Encoded(Needed);

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Anything but a text is refused later.
        let value = serde_json::Value::deserialize(from)?;
        Ok(Self(Needed(value.as_str().map_or(0, memory_of))))
    }
}

#[cfg(test)]
mod tests {
    use prony_base::units::Span;
    use prony_tally::record::hist::Hist;

    use super::*;

    #[test]
    fn every_histogram_is_counted() {
        let mut hist = Hist::new();
        (0..6_000_u64).for_each(|i| hist.record(Span(i * i * 7)));
        let one =
            format!("{{\"hdr\": \"{}\", \"a\": [1, -1, 0.5, true, null, {{}}]}}", hist.encode());
        let of = |n: usize| format!("[[{}]]", vec![one.as_str(); n].join(","));
        let each = memory_of(&hist.encode());
        assert!(each > 20_000);
        assert_eq!([0, 1, 7].map(|n| needed(&of(n))), [0, each, 7 * each]);
        assert!(fits("no JSON") && fits(&"[".repeat(HARMLESS + 1)));
    }
}
