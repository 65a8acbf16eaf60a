//! Whether a JSON text has content at the place of a JSON pointer (RFC 6901). Allocates nothing,
//! and reads no further than it must: a text that is not JSON has content if it is well formed up
//! to the end of the value.

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
        self.value(json).is_some_and(|value| match value {
            b"null" => false,
            [b'"' | b'[' | b'{', inner @ .., _] => {
                !inner.trim_ascii().is_empty() || is_blank(value)
            }
            _ => true,
        })
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

/// Whether it is a string of white space, which is content.
fn is_blank(value: &[u8]) -> bool {
    value.starts_with(b"\"") && value.len() > 2
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

/// What follows a value.
fn skip(json: &[u8]) -> Option<&[u8]> {
    match json.first()? {
        b'"' => string(json),
        b'{' | b'[' => nested(json),
        _ => {
            let ends = |b: &u8| matches!(b, b',' | b']' | b'}') || b.is_ascii_whitespace();
            let end = json.iter().position(ends).unwrap_or(json.len());
            (end > 0).then_some(&json[end..])
        }
    }
}

/// What follows an array or object.
fn nested(json: &[u8]) -> Option<&[u8]> {
    let (mut rest, mut depth) = (json, 0_usize);
    loop {
        match rest.first()? {
            b'"' => {
                rest = string(rest)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        rest = &rest[1..];
        if depth == 0 {
            return Some(rest);
        }
    }
}

/// What follows a string.
fn string(json: &[u8]) -> Option<&[u8]> {
    let mut rest = json.strip_prefix(b"\"")?;
    loop {
        let end = memchr::memchr2(b'"', b'\\', rest)?;
        match rest[end] {
            b'"' => return Some(&rest[end + 1..]),
            _ => rest = rest.get(end + 2..)?,
        }
    }
}

/// Whether the inside of a string is this key. A key with escapes is decoded first.
fn is_key(name: &[u8], key: &[u8]) -> bool {
    if !name.contains(&b'\\') {
        return name == key;
    }
    let quoted = [b"\"", name, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|name| name.as_bytes() == key)
}
