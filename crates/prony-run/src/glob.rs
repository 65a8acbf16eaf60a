//! Patterns of URLs as curl has them, `/item/[1-100]` and `/{cart,list}`, as template fields.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use prony_plan::script::Template;

/// The most values of a pattern of which one is drawn, if they are no simple numbers.
const DRAWN: u64 = 10_000;

/// How the value for a request is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// One after the other, those of the last pattern first. This many URLs are requested in turn.
    InTurn(u64),
    /// At random.
    Random,
}

/// A part of a path.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// From, to, step, and the least number of digits.
    Numbers {
        low: u64,
        high: u64,
        step: u64,
        width: usize,
    },
    Words(Vec<String>),
}

impl Part {
    /// How many values it has.
    fn count(&self) -> u64 {
        match self {
            Self::Text(_) => 1,
            Self::Numbers { low, high, step, .. } => ((high - low) / step).saturating_add(1),
            Self::Words(words) => words.len() as u64,
        }
    }
}

/// Path and query with template fields in place of their patterns; `None`: there is no pattern.
///
/// # Errors
/// What is wrong with a pattern.
pub fn template(path: &str, choice: Choice) -> Result<Option<String>, String> {
    let parts = parse(path)?;
    if parts.iter().all(|part| matches!(part, Part::Text(_))) {
        return Ok(None);
    }
    let mut every = match choice {
        Choice::InTurn(urls) => urls,
        Choice::Random => 1,
    };
    let mut fields = Vec::new();
    for part in parts.iter().rev() {
        fields.push(match (part, choice) {
            (Part::Text(text), _) => escaped(text),
            (part, Choice::Random) => drawn(part)?,
            (part, Choice::InTurn(_)) => cycled(part, every),
        });
        every = every.checked_mul(part.count()).ok_or("the patterns have too many values")?;
    }
    Ok(Some(fields.into_iter().rev().collect()))
}

/// A text without fields.
pub fn escaped(text: &str) -> String {
    let mut out = Vec::new();
    Template::escape(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn cycled(part: &Part, every: u64) -> String {
    let every = if every == 1 { String::new() } else { format!(" every {every}") };
    match part {
        Part::Numbers { low, high, step, width } => {
            let step = if *step == 1 { String::new() } else { format!(" {step}") };
            format!("{{{{cycle.int {low:0width$} {high}{step}{every}}}}}")
        }
        Part::Words(words) => format!("{{{{cycle.pick {}{every}}}}}", quoted(words)),
        Part::Text(text) => escaped(text),
    }
}

fn drawn(part: &Part) -> Result<String, String> {
    Ok(match part {
        Part::Numbers { low, high, step: 1, width: 1 } if i64::try_from(*high).is_ok() => {
            format!("{{{{random.int {low} {high}}}}}")
        }
        Part::Numbers { low, step, width, .. } => {
            let count = part.count();
            if count > DRAWN {
                return Err(format!(
                    "a range with a step or leading zeros has at most {DRAWN} values if they are \
                     drawn at random, not {count}"
                ));
            }
            let words: Vec<String> =
                (0..count).map(|i| format!("{:0width$}", low + i * step)).collect();
            format!("{{{{random.pick {}}}}}", quoted(&words))
        }
        Part::Words(words) => format!("{{{{random.pick {}}}}}", quoted(words)),
        Part::Text(text) => escaped(text),
    })
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

fn parse(path: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = path;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let closing = match c {
            '\\' => {
                let escaped = after.chars().next().filter(|c| "[]{}\\".contains(*c));
                let literal = escaped.unwrap_or(c);
                text.push(literal);
                rest = &after[escaped.map_or(0, char::len_utf8)..];
                continue;
            }
            '[' => ']',
            '{' => '}',
            ']' | '}' => {
                return Err(format!("'{c}' has nothing to close; write \\{c} for the sign"));
            }
            c => {
                text.push(c);
                rest = after;
                continue;
            }
        };
        let Some(end) = after.find(closing) else {
            return Err(format!("'{c}' is not closed; write \\{c} for the sign"));
        };
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        let inner = &after[..end];
        parts.push(if c == '[' { range(inner)? } else { words(inner)? });
        rest = &after[end + 1..];
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

/// `1-100`, `001-100:10`, `a-z`.
fn range(text: &str) -> Result<Part, String> {
    let wrong = || format!("'[{}]' is no range; write [1-100], [001-100:10] or [a-z]", text);
    let (bounds, step) = text.split_once(':').unwrap_or((text, "1"));
    let (low, high) = bounds.split_once('-').ok_or_else(wrong)?;
    let step: u64 = step.parse().ok().filter(|&step| step > 0).ok_or_else(wrong)?;
    let letter = |text: &str| match text.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => Some(*letter),
        _ => None,
    };
    if let (Some(low), Some(high)) = (letter(low), letter(high)) {
        if low > high || low.is_ascii_lowercase() != high.is_ascii_lowercase() {
            return Err(wrong());
        }
        let step = usize::try_from(step).map_err(|_| wrong())?;
        let letters = (low..=high).step_by(step).map(|letter| char::from(letter).to_string());
        return Ok(Part::Words(letters.collect()));
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(low) || !is_number(high) {
        return Err(wrong());
    }
    let width = if low.len() > 1 && low.starts_with('0') { low.len() } else { 1 };
    let (low, high) = (low.parse().map_err(|_| wrong())?, high.parse().map_err(|_| wrong())?);
    if low > high {
        return Err(wrong());
    }
    Ok(Part::Numbers { low, high, step, width })
}

/// `cart,list`.
fn words(text: &str) -> Result<Part, String> {
    if text.contains(['{', '[', '\'', '"', '\\']) {
        return Err(format!(
            "'{{{text}}}' has a pattern, a quote or \\ in it, which it cannot have"
        ));
    }
    Ok(Part::Words(text.split(',').map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_fields_and_the_last_varies_first() {
        for (path, fields) in [
            ("/item/[1-100]", "/item/{{cycle.int 1 100}}"),
            ("/[007-100:10]/x", "/{{cycle.int 007 100 10}}/x"),
            (
                "/{a,b}/[1-3]?q=[y-z]",
                "/{{cycle.pick 'a' 'b' every 6}}/{{cycle.int 1 3 every 2}}?q={{cycle.pick 'y' 'z'}}",
            ),
            ("/[a-f:2]", "/{{cycle.pick 'a' 'c' 'e'}}"),
            ("/{one}{,two}", "/{{cycle.pick 'one' every 2}}{{cycle.pick '' 'two'}}"),
            (r"/\[1-2\]/\{\{x\}\}/[5-5]", r#"/[1-2]/{{"{{"}}x}}/{{cycle.int 5 5}}"#),
            (r"/a\b/[0-1]", r"/a\b/{{cycle.int 0 1}}"),
        ] {
            assert_eq!(template(path, Choice::InTurn(1)), Ok(Some(fields.to_owned())), "{path}");
        }
        let two = template("/[1-3]", Choice::InTurn(2));
        assert_eq!(two, Ok(Some("/{{cycle.int 1 3 every 2}}".to_owned())));
        assert_eq!(template("/plain?x", Choice::InTurn(1)), Ok(None));
        for (path, fields) in [
            ("/[1-100]", "/{{random.int 1 100}}"),
            ("/[08-10]", "/{{random.pick '08' '09' '10'}}"),
            ("/[0-4:2]{a,b}", "/{{random.pick '0' '2' '4'}}{{random.pick 'a' 'b'}}"),
        ] {
            assert_eq!(template(path, Choice::Random), Ok(Some(fields.to_owned())), "{path}");
        }
    }

    #[test]
    fn wrong_patterns_are_refused() {
        for (path, why) in [
            ("/[1-", "'[' is not closed; write \\[ for the sign"),
            ("/a]", "']' has nothing to close; write \\] for the sign"),
            ("/{a,b", "'{' is not closed"),
            ("/[1]", "'[1]' is no range; write [1-100], [001-100:10] or [a-z]"),
            ("/[3-1]", "'[3-1]' is no range"),
            ("/[1-3:0]", "'[1-3:0]' is no range"),
            ("/[a-Z]", "'[a-Z]' is no range"),
            ("/[a-3]", "'[a-3]' is no range"),
            ("/{a,'b}", "'{a,'b}' has a pattern, a quote or \\ in it"),
            ("/[0-18446744073709551615][1-9]", "the patterns have too many values"),
        ] {
            let refused = template(path, Choice::InTurn(1)).expect_err(path);
            assert!(refused.starts_with(why), "{path}: {refused}");
        }
        let refused = template("/[00-99999]", Choice::Random).expect_err("too many");
        assert!(refused.starts_with("a range with a step or leading zeros"), "{refused}");
    }
}
