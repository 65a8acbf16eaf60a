//! Texts that a regular expression matches.

use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look};

use super::draw::Draw;

/// Longer repetitions than this are not tried.
const MOST_EXTRA: u32 = 300;
/// How often the shortest text is drawn.
const DRAWS: usize = 20;
/// The most bytes of a text.
const MOST_BYTES: usize = 10_000;

/// A text that matches the pattern, with at least and at most this many characters. None if the
/// pattern has something that is not understood, such as a look-ahead, or no such text was found.
pub(super) fn text(
    pattern: &str,
    least: usize,
    most: Option<usize>,
    draw: &Draw,
) -> Option<String> {
    let hir = regex_syntax::parse(pattern).ok()?;
    let is_fitting = |text: &str| {
        let count = text.chars().count();
        count >= least && most.is_none_or(|most| count <= most)
    };
    // The repetitions become longer until the text is long enough.
    for extra in std::iter::repeat_n(0, DRAWS).chain(1..=MOST_EXTRA) {
        let mut out = String::new();
        write(&hir, extra, draw, &mut out)?;
        // It may match in the middle of a text.
        if hir.properties().look_set().is_empty() {
            let count = out.chars().count();
            out.extend((count..least.min(MOST_BYTES)).map(|_| 'x'));
        }
        if is_fitting(&out) {
            return Some(out);
        }
    }
    None
}

fn write(hir: &Hir, extra: u32, draw: &Draw, out: &mut String) -> Option<()> {
    if out.len() > MOST_BYTES {
        return None;
    }
    match hir.kind() {
        HirKind::Empty => {}
        // Where a word ends is for what stands around it.
        HirKind::Look(Look::Start | Look::End | Look::WordUnicode | Look::WordAscii) => {}
        HirKind::Look(_) => return None,
        HirKind::Literal(literal) => out.push_str(str::from_utf8(&literal.0).ok()?),
        HirKind::Class(Class::Unicode(class)) => out.push(one_of(class, draw)?),
        HirKind::Class(Class::Bytes(_)) => return None,
        HirKind::Repetition(repetition) => {
            let more = repetition.max.map_or(u32::MAX, |max| max - repetition.min);
            let drawn = draw.index(4) as u32;
            let count = repetition.min.saturating_add(extra.saturating_add(drawn).min(more));
            for _ in 0..count {
                write(&repetition.sub, extra, draw, out)?;
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, extra, draw, out)?,
        HirKind::Concat(all) => {
            all.iter().try_for_each(|part| write(part, extra, draw, out))?;
        }
        HirKind::Alternation(all) => write(&all[draw.index(all.len())], extra, draw, out)?,
    }
    Some(())
}

/// A character of a class, if possible one that can be read.
fn one_of(class: &ClassUnicode, draw: &Draw) -> Option<char> {
    let letters = ('a'..='z').chain('A'..='Z').chain('0'..='9');
    let others = (' '..='~').filter(|c| !c.is_ascii_alphanumeric());
    let is_in = |c: &char| class.iter().any(|range| (range.start()..=range.end()).contains(c));
    for known in [letters.collect::<Vec<_>>(), others.collect()] {
        let found: Vec<char> = known.into_iter().filter(is_in).collect();
        if !found.is_empty() {
            return Some(found[draw.index(found.len())]);
        }
    }
    class.iter().next().map(|range| range.start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_first_that_match() {
        for (pattern, least, most, wanted) in [
            ("^[A-Z]{3}$", 0, None, Some("AAA")),
            (r"^\d{3}-\d{4}$", 0, None, Some("000-0000")),
            ("^[a-z]{2,10}$", 5, None, Some("aaaaa")),
            ("^(GET|PUT)$", 0, None, Some("GET")),
            (r"^\+?[1-9]\d{1,14}$", 0, None, Some("10")),
            (r"^#[0-9a-fA-F]+$", 4, Some(4), Some("#aaa")),
            ("[a-z]", 4, None, Some("axxx")),
            (r"^[\w.-]+@[\w-]+\.com$", 0, None, Some("a@a.com")),
            (r"^\p{Lu}$", 0, None, Some("A")),
            ("^a$", 2, None, None),
            ("^(?=.*[0-9]).+$", 0, None, None),
            ("(", 0, None, None),
        ] {
            let found = text(pattern, least, most, &Draw::new(None));
            assert_eq!(found.as_deref(), wanted, "{pattern}");
        }
    }

    #[test]
    fn drawn_texts_match() {
        for pattern in [
            "^[A-Z]{3}$",
            "^(red|green|blue)-[0-9]+$",
            "^([a-f0-9]{2}:){5}[a-f0-9]{2}$",
            r"^\d{4}-(0[1-9]|1[0-2])$",
            r"^v?\d+(\.\d+)*$",
        ] {
            let schema = serde_json::json!({"pattern": pattern, "maxLength": 40});
            let validator = jsonschema::validator_for(&schema).expect("a schema");
            let mut all: Vec<String> = (0..100)
                .filter_map(|seed| text(pattern, 0, Some(40), &Draw::new(Some(seed))))
                .collect();
            assert_eq!(all.len(), 100, "{pattern}");
            for found in &all {
                assert!(validator.is_valid(&found.as_str().into()), "{pattern}: {found}");
            }
            all.sort_unstable();
            all.dedup();
            assert!(all.len() > 5, "{pattern}: {all:?}");
        }
    }
}
