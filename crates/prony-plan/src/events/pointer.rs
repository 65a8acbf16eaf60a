//! Whether a JSON text has content at the place of a JSON pointer (RFC 6901). Allocates nothing,
//! and reads no further than it must: a text that is not JSON has content if it is well formed up
//! to the end of the value.

use super::json::{is_content, is_key, skip, string};

/// A compiled JSON pointer.
#[derive(Clone, Debug)]
pub struct Pointer {
    /// Its keys and indices, unescaped.
    steps: Vec<Vec<u8>>,
}

impl Pointer {
    /// Compile a pointer that is valid: empty, or with a `/` before each step.
    pub fn new(text: &str) -> Self {
        let steps = text.split('/').skip(1);
        let unescaped = |step: &str| step.replace("~1", "/").replace("~0", "~").into_bytes();
        Self { steps: steps.map(unescaped).collect() }
    }

    /// Whether there is a value at its place that is neither `null` nor an empty string, array or
    /// object.
    pub fn finds_content(&self, json: &[u8]) -> bool {
        self.value(json).is_some_and(is_content)
    }

    fn value<'a>(&self, json: &'a [u8]) -> Option<&'a [u8]> {
        let mut rest = json.trim_ascii_start();
        for step in &self.steps {
            rest = match rest.split_first()? {
                (b'{', inner) => member(inner, step)?,
                (b'[', inner) => element(inner, step)?,
                _ => return None,
            };
        }
        let after = skip(rest)?;
        Some(&rest[..rest.len() - after.len()])
    }
}

/// The value of a member of an object, from its start; `rest` follows the opening brace.
fn member<'a>(mut rest: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    loop {
        rest = rest.trim_ascii_start();
        let after = string(rest)?;
        let name = &rest[1..rest.len() - after.len() - 1];
        let value = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        if is_key(name, key) {
            return Some(value);
        }
        rest = skip(value)?.trim_ascii_start().strip_prefix(b",")?;
    }
}

/// An element of an array, from its start; `rest` follows the opening bracket.
fn element<'a>(rest: &'a [u8], index: &[u8]) -> Option<&'a [u8]> {
    if index.is_empty() || (index.len() > 1 && index[0] == b'0') {
        return None;
    }
    let index: usize = std::str::from_utf8(index).ok()?.parse().ok()?;
    let mut rest = rest.trim_ascii_start();
    for _ in 0..index {
        rest = skip(rest)?.trim_ascii_start().strip_prefix(b",")?.trim_ascii_start();
    }
    (!rest.starts_with(b"]")).then_some(rest)
}
