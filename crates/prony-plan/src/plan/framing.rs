//! The framing of a request's body by its own headers.

use super::{CallSpec, HttpVersion};
use crate::vars::Template;

const LENGTH: &str = "Content-Length";
const CODING: &str = "Transfer-Encoding";

impl CallSpec {
    /// Whether the body is sent as one chunk, because the request's own headers require it. A
    /// `bare` request is sent as written.
    pub fn is_chunked(&self) -> bool {
        !self.bare && self.values(CODING).next().is_some()
    }

    /// Check that the request's own headers match its body. With a wrong length, or an unknown
    /// coding, a server waits for bytes that never arrive.
    pub(crate) fn check_framing(&self) -> Result<(), String> {
        let (mut lengths, mut codings) = (self.values(LENGTH), self.values(CODING));
        match (lengths.next(), codings.next()) {
            (None, None) => Ok(()),
            (Some(_), Some(_)) => {
                Err(format!("the headers {LENGTH} and {CODING} exclude each other; omit {LENGTH}"))
            }
            (Some(length), None) => match lengths.next() {
                None => self.check_length(length),
                Some(_) => Err(format!("the header {LENGTH} is given twice; omit it")),
            },
            (None, Some(coding)) => match codings.next() {
                None => check_coding(coding),
                Some(_) => Err(format!("the header {CODING} is given twice; omit one of them")),
            },
        }
    }

    fn check_length(&self, length: &str) -> Result<(), String> {
        if self.template && Template::has_fields(&self.body) {
            return Err(format!(
                "the header {LENGTH} is '{}', but the body is filled in for each request; omit \
                 the header: prony sends the correct one",
                length.escape_debug()
            ));
        }
        let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
        if digits && length.parse() == Ok(self.body_length()) {
            return Ok(());
        }
        let bytes = if self.body_length() == 1 { "byte" } else { "bytes" };
        Err(format!(
            "the header {LENGTH} is '{}', but the body has {} {bytes}; omit the header: prony sends \
             the correct one",
            length.escape_debug(),
            self.body_length()
        ))
    }

    /// The values of the request's own headers with this name.
    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.trim_matches([' ', '\t']))
    }
}

fn check_coding(coding: &str) -> Result<(), String> {
    if coding.eq_ignore_ascii_case("chunked") {
        return Ok(());
    }
    Err(format!(
        "the header {CODING} is '{}', but prony supports only 'chunked'; write that, or omit the \
         header",
        coding.escape_debug()
    ))
}

/// HTTP/1.0 has no transfer codings (RFC 9112, section 6.1).
pub(crate) fn check_version(call: &CallSpec, version: HttpVersion) -> Result<(), String> {
    if version == HttpVersion::Http10 && call.is_chunked() {
        return Err(format!("HTTP/1.0 has no {CODING}; use HTTP/1.1, or omit the header"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(headers: &[(&str, &str)], body: &str) -> CallSpec {
        let headers: Vec<_> =
            headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        CallSpec {
            method: "POST".into(),
            path: "/".into(),
            authority: "h".into(),
            headers: headers.into(),
            body: body.into(),
            ..CallSpec::default()
        }
    }

    #[test]
    fn accepts_framing_that_matches_the_body() {
        for (headers, body) in [
            (&[("content-length", "5")][..], "hello"),
            (&[("Content-Length", " 5 ")], "hello"),
            (&[("Content-Length", "0")], ""),
            (&[("Transfer-Encoding", "chunked")], "hello"),
            (&[("transfer-encoding", " Chunked")], ""),
            (&[("X", "1")], "hello"),
        ] {
            assert_eq!(call(headers, body).check(), Ok(()), "{headers:?} {body}");
        }
        assert!(call(&[("transfer-encoding", "CHUNKED")], "").is_chunked());
    }

    #[test]
    fn rejects_framing_that_does_not_match_the_body() {
        let length = |value, body| call(&[("Content-Length", value)], body);
        let mut filled = length("9", "{{user}}");
        filled.template = true;
        let both = [("Content-Length", "5"), ("Transfer-Encoding", "chunked")];
        let refused = [
            length("5", ""),
            length("4", "hello"),
            length("1", "hello"),
            length("+5", "hello"),
            length("-1", ""),
            length("{{n}}", "hello"),
            length("", "hello"),
            filled,
            call(&[("Content-Length", "5"), ("content-length", "5")], "hello"),
            call(&both, "hello"),
            call(&[("Transfer-Encoding", "gzip, chunked")], "hello"),
            call(&[("Transfer-Encoding", "identity")], "hello"),
            call(&[("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")], "hello"),
        ];
        for call in refused {
            let why = call.check().expect_err("it is refused");
            assert!(why.contains("omit"), "it says what to do: {why}");
            // The framing of `bare` requests is not checked.
            assert_eq!(CallSpec { bare: true, ..call }.check(), Ok(()));
        }
    }

    #[test]
    fn http_1_0_has_no_transfer_coding() {
        let chunked = call(&[("Transfer-Encoding", "chunked")], "hello");
        assert_eq!(check_version(&chunked, HttpVersion::Http11), Ok(()));
        assert!(check_version(&chunked, HttpVersion::Http10).is_err());
        let bare = CallSpec { bare: true, ..chunked };
        assert_eq!(check_version(&bare, HttpVersion::Http10), Ok(()));
    }
}
