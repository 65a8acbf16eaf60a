//! What reports and messages must not show: credentials, and every value that may be one.
//!
//! A URL shows its host, path and the names in its query. A header shows its value only where its
//! name is on a list of harmless ones.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What stands in the place of a hidden value.
pub const HIDDEN: &str = "(hidden)";

/// Headers whose values carry no credentials, in lower case and in order.
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

/// A text that neither `{}` nor `{:?}` shows. A plan that can be run keeps it (serde writes it as
/// it is); [`Plan::hidden`](crate::plan::Plan::hidden) takes it out of a plan that is shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text, for those who send it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The same with [`HIDDEN`] as its text.
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

/// Whether the value of a header of that name may be shown.
pub fn is_harmless_header(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    HARMLESS_HEADERS.binary_search(&&*name).is_ok()
}

/// The value of a header as it may be shown.
pub fn shown_header<'a>(name: &str, value: &'a str) -> &'a str {
    if value.is_empty() || is_harmless_header(name) { value } else { HIDDEN }
}

/// Path and query with the names of the query's parameters, and without their values. A parameter
/// without a name is a value, and a path's segment may have parameters too (`;jsessionid=...`).
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

/// A URL, with or without a scheme, without user information and the values of its query.
pub fn shown_url(text: &str) -> String {
    let (scheme, rest) = split_scheme(text);
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let user = if authority.contains('@') { format!("{HIDDEN}@") } else { String::new() };
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}{user}{host}{}", shown_path(path))
}

/// A text that is no URL, as a message about it may quote it. Nobody knows where its parts end, so
/// whatever may belong to user information, a port that is none, what follows a blank, a fragment
/// and the values of a query are hidden.
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

/// The scheme with its `://`, empty where there is none, and the rest.
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
    fn secrets_are_not_formatted() {
        let secret = Secret::from("pw");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), {
            "(hidden) (hidden) Some((hidden))"
        });
        let text = serde_json::to_string(&secret).unwrap();
        assert_eq!((text.as_str(), secret.expose()), ("\"pw\"", "pw"));
        assert_eq!(serde_json::from_str::<Secret>(&text).unwrap(), secret);
    }

    #[test]
    fn only_headers_of_the_list_are_shown() {
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
            assert_eq!(shown_url(shown), shown, "once more");
        }
    }

    #[test]
    fn what_is_no_url_is_quoted_without_credentials() {
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
