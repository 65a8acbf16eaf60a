//! Redaction of credentials, and of every value that may be one, in reports and messages.
//!
//! A URL is shown with its host, its path and the names in its query. The value of a header is
//! shown only if its name is on an allowlist.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The replacement for a hidden value.
pub const HIDDEN: &str = "(hidden)";

/// The allowlist: headers without credentials, in lower case, sorted.
pub const HARMLESS_HEADERS: [&str; 31] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "cache-control",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "dnt",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
];

/// A text that `{}` and `{:?}` do not show. serde writes it in full, because a saved plan must run;
/// `Plan::hidden` (prony-plan) removes it from a plan that is shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself, to be sent.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A secret with [`HIDDEN`] as its text.
    #[must_use]
    pub fn hidden() -> Self {
        Self(HIDDEN.into())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(HIDDEN)
    }
}

/// Whether the value of this header may be shown.
pub fn is_harmless_header(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    HARMLESS_HEADERS.binary_search(&&*name).is_ok()
}

/// The value of a header, or [`HIDDEN`] if it may not be shown.
pub fn shown_header<'a>(name: &str, value: &'a str) -> &'a str {
    if value.is_empty() || is_harmless_header(name) { value } else { HIDDEN }
}

/// Path and query without the values of parameters. A query parameter without a name counts as a
/// value. Path segments may have parameters too (`;jsessionid=...`).
pub fn shown_path(path: &str) -> Cow<'_, str> {
    if !path.contains(['?', ';']) {
        return path.into();
    }
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let segment = |segment: &str| match segment.split_once(';') {
        Some((name, parameters)) => {
            let parameters: Vec<String> = parameters.split(';').map(parameter).collect();
            format!("{name};{}", parameters.join(";"))
        }
        None => segment.to_owned(),
    };
    let segments: Vec<String> = path.split('/').map(segment).collect();
    let mut shown = segments.join("/");
    if let Some(query) = query {
        let parameters: Vec<String> = query.split('&').map(parameter).collect();
        shown.push('?');
        shown += &parameters.join("&");
    }
    shown.into()
}

fn parameter(text: &str) -> String {
    match text.split_once('=') {
        None if text.is_empty() => String::new(),
        None => HIDDEN.to_owned(),
        Some((_, "")) => text.to_owned(),
        Some((name, _)) => format!("{name}={HIDDEN}"),
    }
}

/// A URL, with or without a scheme, without user information and parameter values.
pub fn shown_url(text: &str) -> String {
    let (scheme, rest) = split_scheme(text);
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let user = if authority.contains('@') { format!("{HIDDEN}@") } else { String::new() };
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}{user}{host}{}", shown_path(path))
}

/// Quote an invalid URL in an error message. Its parts cannot be identified with certainty, so this
/// hides everything that may be user information, an invalid port, text after a space, a fragment
/// and parameter values.
pub fn quoted_url(text: &str) -> String {
    let (scheme, rest) = split_scheme(text);
    let rest = rest.rsplit('@').next().unwrap_or_default();
    let user = if text.contains('@') { format!("{HIDDEN}@") } else { String::new() };
    let ends = rest.find(|c: char| c.is_whitespace() || c.is_control() || c == '#');
    let (rest, more) = rest.split_at(ends.unwrap_or(rest.len()));
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let authority = match authority.split_once(':') {
        Some((host, port)) if !authority.starts_with('[') => {
            let is_port = port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit());
            format!("{host}:{}", if is_port { port } else { HIDDEN })
        }
        _ => authority.to_owned(),
    };
    let more = if more.is_empty() { "" } else { "..." };
    format!("{scheme}{user}{authority}{}{more}", shown_path(path)).escape_debug().to_string()
}

/// Split off the scheme with its `://`; empty if there is none.
fn split_scheme(text: &str) -> (&str, &str) {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    match text.find("://").filter(|&at| text[..at].chars().all(is_scheme)) {
        Some(at) => text.split_at(at + 3),
        None => ("", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_hides_secrets() {
        let secret = Secret::from("pw");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), {
            "(hidden) (hidden) Some((hidden))"
        });
        let text = serde_json::to_string(&secret).unwrap();
        assert_eq!((text.as_str(), secret.expose()), ("\"pw\"", "pw"));
        assert_eq!(serde_json::from_str::<Secret>(&text).unwrap(), secret);
    }

    #[test]
    fn only_allowlisted_headers_are_shown() {
        assert!(HARMLESS_HEADERS.is_sorted());
        for name in ["Accept", "CONTENT-TYPE", "If-None-Match", " Host "] {
            assert_eq!(shown_header(name, "v"), "v", "{name}");
        }
        for name in [
            "Authorization",
            "Cookie",
            "X-Auth-Token",
            "Private-Token",
            "X-Vault-Token",
            "Apikey",
            "X-Amz-Security-Token",
            "Ocp-Apim-Subscription-Key",
            "Referer",
            "Forwarded",
            "",
        ] {
            assert_eq!(shown_header(name, "v"), HIDDEN, "{name}");
        }
        assert_eq!(shown_header("X-Empty", ""), "");
    }

    #[test]
    fn urls_are_shown_without_credentials() {
        for (url, shown) in [
            ("http://me:p@w@h:80/a@b", "http://(hidden)@h:80/a@b"),
            ("me:pw@h:80", "(hidden)@h:80"),
            ("me:pw@h?a=1", "(hidden)@h?a=(hidden)"),
            ("h/a@b", "h/a@b"),
            ("http://h/a?b=1&c=&d&e=x=y", "http://h/a?b=(hidden)&c=&(hidden)&e=(hidden)"),
            ("http://h/a;s=1;t/b;c", "http://h/a;s=(hidden);(hidden)/b;(hidden)"),
            ("http://h/?u=http://me:pw@h/", "http://h/?u=(hidden)"),
            ("h/?u=http://me:pw@h/", "h/?u=(hidden)"),
            ("http://[::1]:80/", "http://[::1]:80/"),
        ] {
            assert_eq!(shown_url(url), shown);
            assert_eq!(shown_url(shown), shown, "shown twice");
        }
    }

    #[test]
    fn invalid_urls_are_quoted_without_credentials() {
        for (text, quoted) in [
            ("http://me:pw@h:99999/", "http://(hidden)@h:99999/"),
            ("http://me:p/w@h:99999/", "http://(hidden)@h:99999/"),
            ("http://me:p#w@h/", "http://(hidden)@h/"),
            ("http://me:pw", "http://me:(hidden)"),
            ("X-Token:pw", "X-Token:(hidden)"),
            ("Bearer pw", "Bearer..."),
            ("http://h/#pw", "http://h/..."),
            ("http://h/a?b=pw c", "http://h/a?b=(hidden)..."),
            ("http://h:80:81/", "http://h:(hidden)/"),
            ("", ""),
        ] {
            assert_eq!(quoted_url(text), quoted, "{text}");
        }
    }
}
