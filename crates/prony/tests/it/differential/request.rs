//! Requests as they arrived, and what differs between those of two programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A request that has arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: Vec<u8>,
    pub(crate) version: String,
    /// Their values have no spaces around them.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// Without the framing of chunks.
    pub(crate) body: Vec<u8>,
}

/// In what programs may differ. Each rule is in docs/import.md.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// Headers that both may send or not, with any value.
    pub(crate) ignored: &'static [&'static str],
    /// Headers with the starts of values that programs send by themselves.
    pub(crate) defaults: &'static [(&'static str, &'static str)],
}

/// The value of the first header with this name.
pub(crate) fn header<'a>(headers: &'a [(String, Vec<u8>)], name: &str) -> Option<&'a [u8]> {
    let found = headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_slice())
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.method, self.target.escape_ascii(), self.version)?;
        for (name, value) in &self.headers {
            write!(f, " | {name}: {}", value.escape_ascii())?;
        }
        let shown = &self.body[..self.body.len().min(400)];
        write!(f, " | {} bytes: {}", self.body.len(), shown.escape_ascii())
    }
}

/// What differs between the requests of two programs, a line for each thing. Both must have the
/// same number of requests in the same order. Headers with different names may have any order.
pub(crate) fn compare(expected: &[Request], got: &[Request], rules: &Rules) -> Vec<String> {
    let mut all = Vec::new();
    if expected.len() != got.len() {
        all.push(format!("{} requests, expected {}", got.len(), expected.len()));
    }
    for (nth, (expected, got)) in expected.iter().zip(got).enumerate() {
        let (expected, got) = (normal(expected, rules), normal(got, rules));
        let mut differ = |what: &str, ours: &[u8], theirs: &[u8]| {
            if ours != theirs {
                let (ours, theirs) = (excerpt(ours, theirs), excerpt(theirs, ours));
                all.push(format!("request {}: {what} is {ours}, expected {theirs}", nth + 1));
            }
        };
        differ("the method", got.method.as_bytes(), expected.method.as_bytes());
        differ("the target", &got.target, &expected.target);
        let names: BTreeSet<_> = got.headers.keys().chain(expected.headers.keys()).collect();
        for name in names {
            let joined = |headers: &BTreeMap<String, Vec<Vec<u8>>>| {
                headers
                    .get(name.as_str())
                    .map_or_else(|| b"(none)".to_vec(), |values| values.join(&b"\n"[..]))
            };
            differ(name, &joined(&got.headers), &joined(&expected.headers));
        }
        differ("the body", &got.body, &expected.body);
    }
    all
}

/// The part of a text around the first byte in which it differs from another.
fn excerpt(text: &[u8], other: &[u8]) -> String {
    let same = text.iter().zip(other).take_while(|(a, b)| a == b).count();
    let start = if same > 60 { same - 20 } else { 0 };
    let end = text.len().min(start + 200);
    let dots = if start > 0 { "..." } else { "" };
    format!("'{dots}{}'", text[start..end].escape_ascii())
}

/// A request without that in which programs may differ.
struct Normal {
    method: String,
    target: Vec<u8>,
    headers: BTreeMap<String, Vec<Vec<u8>>>,
    body: Vec<u8>,
}

fn normal(request: &Request, rules: &Rules) -> Normal {
    let mut headers: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    // Each program has its own boundary between the parts of a form.
    let boundary = header(&request.headers, "content-type").and_then(boundary);
    let replaced = |text: &[u8]| match &boundary {
        Some(boundary) => replace(text, boundary, b"BOUNDARY"),
        None => text.to_vec(),
    };
    for (name, value) in &request.headers {
        let name = name.to_ascii_lowercase();
        let is_default =
            |&(n, start): &(&str, &str)| n == name && value.starts_with(start.as_bytes());
        let is_of_boundary = boundary.is_some() && name == "content-length";
        if rules.ignored.contains(&&*name)
            || rules.defaults.iter().any(is_default)
            || is_of_boundary
        {
            continue;
        }
        // It may be in quotes.
        let value = replace(&replaced(value), b"\"BOUNDARY\"", b"BOUNDARY");
        headers.entry(name).or_default().push(value);
    }
    Normal {
        method: request.method.clone(),
        target: encoded(&request.target),
        headers,
        body: replaced(&request.body),
    }
}

fn boundary(kind: &[u8]) -> Option<Vec<u8>> {
    let key = b"boundary=";
    // The last one counts, if there are several.
    let at = kind.windows(key.len()).rposition(|part| part.eq_ignore_ascii_case(key))?;
    let value = kind[at + key.len()..].split(|&b| b == b';').next()?.trim_ascii();
    let value = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value);
    (!value.is_empty()).then(|| value.to_vec())
}

/// The text with the bytes that its escapes stand for.
pub(super) fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        let escaped = byte.filter(|_| *first == b'%');
        out.push(escaped.unwrap_or(*first));
        rest = &after[if escaped.is_some() { 2 } else { 0 }..];
    }
    out
}

/// The request with its target and the values of its headers in UTF-8, if they are in Latin-1.
pub(super) fn in_utf8(request: &Request) -> Request {
    let mut request = request.clone();
    let values = request.headers.iter_mut().map(|(_, value)| value);
    for text in values.chain([&mut request.target]) {
        if std::str::from_utf8(text).is_err() {
            *text = text.iter().map(|&b| char::from(b)).collect::<String>().into_bytes();
        }
    }
    request
}

/// The text with each `old` replaced.
pub(super) fn replace(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(old.len()).position(|part| part == old) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// No request line of prony has bytes beyond ASCII: they are percent-encoded. The digits of what is
/// encoded mean the same in upper and in lower case.
fn encoded(target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len());
    for (at, &b) in target.iter().enumerate() {
        let is_digit = target[at.saturating_sub(2)..at].contains(&b'%');
        match b {
            0x80.. => out.extend(format!("%{b:02X}").into_bytes()),
            b if is_digit => out.push(b.to_ascii_uppercase()),
            b => out.push(b),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)], body: &str) -> Request {
        let pair = |&(name, value): &(&str, &str)| (name.to_owned(), value.as_bytes().to_vec());
        Request {
            method: "POST".into(),
            target: b"/\xff".to_vec(),
            headers: headers.iter().map(pair).collect(),
            body: body.as_bytes().to_vec(),
            ..Request::default()
        }
    }

    #[test]
    fn finds_what_differs() {
        let rules = Rules { ignored: &["host"], defaults: &[("user-agent", "curl/")] };
        let kind = |boundary: &str| format!("multipart/form-data; boundary={boundary}");
        let ours = request(
            &[("Host", "a"), ("X", "1"), ("x", "2"), ("content-type", &kind("q"))],
            "--q\r\n",
        );
        let theirs = request(
            &[("Content-Type", &kind("\"rs\"")), ("User-Agent", "curl/8"), ("X", "1"), ("X", "2")],
            "--rs\r\n",
        );
        let theirs = [theirs];
        assert_eq!(compare(&theirs, std::slice::from_ref(&ours), &rules), [""; 0]);
        let mut other = ours.clone();
        (other.method, other.target) = ("PUT".into(), b"/a".to_vec());
        other.headers.remove(2);
        other.body.push(b'!');
        assert_eq!(
            compare(&theirs, &[other, ours], &rules),
            [
                "2 requests, expected 1",
                "request 1: the method is 'PUT', expected 'POST'",
                "request 1: the target is '/a', expected '/%FF'",
                "request 1: x is '1', expected '1\\n2'",
                "request 1: the body is '--BOUNDARY\\r\\n!', expected '--BOUNDARY\\r\\n'",
            ]
        );
    }
}
