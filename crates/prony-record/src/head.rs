//! The heads of requests and replies: what they say, and where the value of `Host` is.

use std::ops::Range;

/// How many headers a head may have.
const HEADERS: usize = 256;

/// The most bytes of a head.
pub(crate) const LIMIT: usize = 256 << 10;

/// A header: name and value. Bytes that are no ASCII are read as Latin-1.
pub type Header = (String, String);

/// The head of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: String,
    /// Path and query, as sent.
    pub target: String,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: &'static str,
    /// The headers, in order.
    pub headers: Vec<Header>,
}

/// The head of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyHead {
    /// The status.
    pub status: u16,
    /// The words after it.
    pub reason: String,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: &'static str,
    /// The headers, in order.
    pub headers: Vec<Header>,
}

/// What is not a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A request's head, its length, and where the values of `Host` are.
pub(crate) type Request = (RequestHead, usize, Vec<Range<usize>>);

/// Reads the head of a request; none if it is not complete yet.
pub(crate) fn request(bytes: &[u8]) -> Result<Option<Request>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() <= LIMIT => return Ok(None),
        _ => return Err(Malformed),
    };
    let hosts = parsed.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("host"));
    let place = |value: &[u8]| {
        let start = value.as_ptr().addr() - bytes.as_ptr().addr();
        start..start + value.len()
    };
    let hosts = hosts.map(|header| place(header.value)).collect();
    let head = RequestHead {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        version: version(parsed.version),
        headers: listed(parsed.headers),
    };
    Ok(Some((head, length, hosts)))
}

/// Reads the head of a reply and its length; none if it is not complete yet.
pub(crate) fn reply(bytes: &[u8]) -> Result<Option<(ReplyHead, usize)>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() <= LIMIT => return Ok(None),
        _ => return Err(Malformed),
    };
    let head = ReplyHead {
        status: parsed.code.unwrap_or_default(),
        reason: parsed.reason.unwrap_or_default().to_owned(),
        version: version(parsed.version),
        headers: listed(parsed.headers),
    };
    Ok(Some((head, length)))
}

/// The first header with this name, in any case.
pub(crate) fn header<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map(|(_, value)| &**value)
}

/// All headers with this name.
pub(crate) fn all<'a>(headers: &'a [Header], name: &'a str) -> impl Iterator<Item = &'a str> {
    headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
}

/// Whether a header is a list that has this word.
pub(crate) fn has_word(headers: &[Header], name: &str, word: &str) -> bool {
    let words = all(headers, name).flat_map(|value| value.split(','));
    words.map(str::trim).any(|found| found.eq_ignore_ascii_case(word))
}

/// Why two servers may understand this head differently: then the one behind could take a part of a
/// body for a request.
pub(crate) fn ambiguous(head: &RequestHead, hosts: usize) -> Option<&'static str> {
    let codings: Vec<&str> =
        all(&head.headers, "transfer-encoding").flat_map(|v| v.split(',')).map(str::trim).collect();
    let lengths = all(&head.headers, "content-length").count();
    if hosts > 1 {
        return Some("the request has several Host headers");
    }
    if lengths > 1 {
        return Some("the request has several Content-Length headers");
    }
    let last = codings.last()?;
    if lengths > 0 {
        return Some("the request has a Content-Length and a Transfer-Encoding");
    }
    let is_chunked = |coding: &&&str| coding.eq_ignore_ascii_case("chunked");
    let is_clear = is_chunked(&last) && codings.iter().filter(is_chunked).count() == 1;
    match is_clear && head.version == "HTTP/1.1" {
        true => None,
        false => Some("the Transfer-Encoding does not say where the body ends"),
    }
}

fn version(minor: Option<u8>) -> &'static str {
    if minor == Some(0) { "HTTP/1.0" } else { "HTTP/1.1" }
}

fn listed(headers: &[httparse::Header<'_>]) -> Vec<Header> {
    let text = |bytes: &[u8]| match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    };
    headers.iter().map(|h| (h.name.to_owned(), text(h.value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_heads_and_the_place_of_the_host() {
        let bytes = b"GET /a?b HTTP/1.1\r\nhOsT:  h:1 \r\nConnection: a, Upgrade\r\n\r\nbody";
        let (head, length, hosts) = request(bytes).unwrap().unwrap();
        assert_eq!((head.method.as_str(), head.target.as_str(), length), ("GET", "/a?b", 58));
        assert_eq!(&bytes[hosts[0].clone()], b"h:1");
        assert!(has_word(&head.headers, "connection", "upgrade"));
        assert_eq!(request(&bytes[..50]), Ok(None));
        assert_eq!(request(b"no request\r\n\r\n"), Err(Malformed));
        assert_eq!(request(&[b'a'; LIMIT + 1]), Err(Malformed));
        let (head, length) =
            reply(b"HTTP/1.0 404 Not\xa0Found\r\nA: \xe9\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.status, head.version, length), (404, "HTTP/1.0", 32));
        assert_eq!(header(&head.headers, "a"), Some("\u{e9}"));
        assert_eq!(reply(b"SSH-2.0-x\r\n\r\n"), Err(Malformed));
    }
}
