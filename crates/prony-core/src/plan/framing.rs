//! The framing of a request's body by its own headers.

use super::{CallSpec, HttpVersion};
use crate::vars::Template;

const LENGTH: &str = "Content-Length";
const CODING: &str = "Transfer-Encoding";

impl CallSpec {
    /// Whether the body goes out as one chunk, because the request's own headers ask for it. What
    /// is sent to the byte (`bare`) is framed by whoever wrote it.
    pub(crate) fn is_chunked(&self) -> bool {
        !self.bare && self.values(CODING).next().is_some()
    }

    /// Whether the request's own headers frame its body rightly. A server that is given a wrong
    /// length, or an unknown coding, waits for bytes that never come.
    pub(crate) fn check_framing(&self) -> Result<(), String> {
        let (mut lengths, mut codings) = (self.values(LENGTH), self.values(CODING));
        match (lengths.next(), codings.next()) {
            (None, None) => Ok(()),
            (Some(_), Some(_)) => Err(format!(
                "the headers {LENGTH} and {CODING} exclude each other; leave {LENGTH} out"
            )),
            (Some(length), None) => match lengths.next() {
                None => self.check_length(length),
                Some(_) => Err(format!("the header {LENGTH} is there twice; leave it out")),
            },
            (None, Some(coding)) => match codings.next() {
                None => check_coding(coding),
                Some(_) => Err(format!("the header {CODING} is there twice; leave one out")),
            },
        }
    }

    fn check_length(&self, length: &str) -> Result<(), String> {
        if self.template && Template::has_fields(&self.body) {
            return Err(format!(
                "the header {LENGTH} is '{}', but the body is filled in for each request; leave \
                 the header out: prony sends the right one",
                length.escape_debug()
            ));
        }
        let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
        if digits && length.parse() == Ok(self.body.len()) {
            return Ok(());
        }
        let bytes = if self.body.len() == 1 { "byte" } else { "bytes" };
        Err(format!(
            "the header {LENGTH} is '{}', but the body has {} {bytes}; leave the header out: prony \
             sends the right one",
            length.escape_debug(),
            self.body.len()
        ))
    }

    /// The values of the request's own headers of that name.
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
        "the header {CODING} is '{}', and prony sends 'chunked' only; write that, or leave the \
         header out",
        coding.escape_debug()
    ))
}

/// HTTP/1.0 has no transfer codings (RFC 9112, section 6.1).
pub(crate) fn check_version(call: &CallSpec, version: HttpVersion) -> Result<(), String> {
    if version == HttpVersion::Http10 && call.is_chunked() {
        return Err(format!("HTTP/1.0 has no {CODING}; use HTTP/1.1, or leave the header out"));
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
    fn framing_that_fits_the_body_is_accepted() {
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
    fn framing_that_does_not_fit_the_body_is_refused() {
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
            assert!(why.contains("leave"), "it says what to do: {why}");
            // What is sent to the byte is the user's own.
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
