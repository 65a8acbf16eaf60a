//! The parts of a JSON text, found without a copy: each function gets a text from its start, and
//! reads no further than it must. A text that is not well formed has fewer parts.

/// The members of an object: the inside of each name, and the value.
pub(super) fn members(json: &[u8]) -> Members<'_> {
    Members { rest: json.trim_ascii_start().strip_prefix(b"{") }
}

/// The elements of an array.
pub(super) fn elements(json: &[u8]) -> Elements<'_> {
    Elements { rest: json.trim_ascii_start().strip_prefix(b"[") }
}

/// See [`members`].
pub(super) struct Members<'a> {
    rest: Option<&'a [u8]>,
}

/// See [`elements`].
pub(super) struct Elements<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?.trim_ascii_start();
        let after = string(rest)?;
        let name = &rest[1..rest.len() - after.len() - 1];
        let value = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let after = skip(value)?;
        self.rest = after.trim_ascii_start().strip_prefix(b",");
        Some((name, &value[..value.len() - after.len()]))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.rest.take()?.trim_ascii_start();
        if value.starts_with(b"]") {
            return None;
        }
        let after = skip(value)?;
        self.rest = after.trim_ascii_start().strip_prefix(b",");
        Some(&value[..value.len() - after.len()])
    }
}

/// Whether a value is neither `null` nor an empty string, array or object.
pub(super) fn is_content(value: &[u8]) -> bool {
    match value {
        b"null" => false,
        // A string of white space is content.
        [b'"', inner @ .., _] => !inner.is_empty(),
        [b'[' | b'{', inner @ .., _] => !inner.trim_ascii().is_empty(),
        _ => true,
    }
}

/// Whether a value says that something is the case: neither `null`, `false`, zero, nor an empty
/// string, array or object, nor an array or object of nothing but such values.
pub(super) fn is_real(value: &[u8]) -> bool {
    is_real_within(value, REAL_DEPTH)
}

/// What is deeper than this counts as it is.
const REAL_DEPTH: u8 = 4;

fn is_real_within(value: &[u8], depth: u8) -> bool {
    match value {
        b"null" | b"false" => false,
        [b'[', ..] if depth > 0 => elements(value).any(|value| is_real_within(value, depth - 1)),
        [b'{', ..] if depth > 0 => {
            members(value).any(|(_, value)| is_real_within(value, depth - 1))
        }
        [b'-' | b'0'..=b'9', ..] => value.iter().any(|digit| matches!(digit, b'1'..=b'9')),
        _ => is_content(value),
    }
}

/// What follows a value.
pub(super) fn skip(json: &[u8]) -> Option<&[u8]> {
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
pub(super) fn string(json: &[u8]) -> Option<&[u8]> {
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
pub(super) fn is_key(name: &[u8], key: &[u8]) -> bool {
    if !name.contains(&b'\\') {
        return name == key;
    }
    let quoted = [b"\"", name, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|name| name.as_bytes() == key)
}
