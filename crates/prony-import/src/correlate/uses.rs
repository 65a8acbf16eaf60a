//! The values in a request: parts of the path, parameters, members of JSON, headers.

use crate::secrets::is_secret_header;
use crate::text::Text;
use crate::{Body, Request};

/// A value that a request sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use<'a> {
    /// The name of the parameter or header, or the part of the path before it.
    pub(crate) name: &'a str,
    /// The value, without percent-encoding and escapes.
    pub(crate) value: &'a str,
    /// It is replaced if it is known, but no reason to extract it.
    pub(crate) is_passive: bool,
}

/// Gives the variable for a value, if there is one.
pub(crate) type Resolve<'a> = &'a mut dyn FnMut(&Use<'_>) -> Option<String>;

/// Replaces the values of the request by variables.
pub(crate) fn rewrite(request: &mut Request, resolve: Resolve<'_>) {
    request.path.map_literals(|text| path(text, false, resolve));
    for (name, value) in &mut request.headers {
        let lower = name.to_ascii_lowercase();
        if lower == "referer" {
            value.map_literals(|text| referer(text, resolve));
        } else if lower != "cookie" && is_secret_header(name) {
            value.map_literals(|text| header(name, text, resolve));
        }
    }
    let kind = request.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case("content-type"));
    let kind = kind.and_then(|(_, v)| v.literal()).unwrap_or_default().to_ascii_lowercase();
    if let Body::Text(text) = &mut request.body {
        text.map_literals(|text| {
            let start = text.trim_start();
            if kind.contains("x-www-form-urlencoded") {
                parameters(text, false, resolve)
            } else if kind.starts_with("multipart/") {
                parts(text, resolve)
            } else if kind.contains("json") || start.starts_with(['{', '[']) {
                json(text, resolve)
            } else {
                text.into()
            }
        });
    }
}

/// The path and the query of a URL.
fn path(text: &str, is_passive: bool, resolve: Resolve<'_>) -> Text {
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let mut all = Text::default();
    let mut before = "";
    for (nth, segment) in path.split('/').enumerate() {
        all.push(if nth > 0 { "/" } else { "" });
        // Parameters of the segment: `;jsessionid=...`.
        for (nth, part) in segment.split(';').enumerate() {
            all.push(if nth > 0 { ";" } else { "" });
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => {
                    all.push(&part[..=name.len()]);
                    (name, value)
                }
                None => (before, part),
            };
            encoded(name, value, false, is_passive, resolve, &mut all);
        }
        before = segment;
    }
    if let Some(query) = query {
        all.push("?");
        all.append(parameters(query, is_passive, resolve));
    }
    all
}

fn referer(text: &str, resolve: Resolve<'_>) -> Text {
    let host = text.find("://").map(|at| at + 3);
    let start = host.and_then(|at| text[at..].find('/').map(|n| at + n));
    match start {
        Some(at) => path(&text[at..], true, resolve).after(&text[..at]),
        None => text.into(),
    }
}

fn header(name: &str, text: &str, resolve: Resolve<'_>) -> Text {
    let schemes = ["Bearer ", "Token ", "bearer ", "token "];
    let scheme = schemes.into_iter().find(|s| text.starts_with(s)).unwrap_or_default();
    let mut all = Text::from(scheme);
    let value = &text[scheme.len()..];
    // A name such as X-CSRF-Token is worth more than `authorization`.
    let name = if scheme.is_empty() { name } else { "" };
    match resolve(&Use { name, value, is_passive: false }) {
        Some(variable) => all.push_field(&variable),
        None => all.push(value),
    }
    all
}

/// `name=value&name=value`.
fn parameters(text: &str, is_passive: bool, resolve: Resolve<'_>) -> Text {
    let mut all = Text::default();
    for (nth, pair) in text.split('&').enumerate() {
        all.push(if nth > 0 { "&" } else { "" });
        match pair.split_once('=') {
            Some((name, value)) => {
                all.push(&pair[..=name.len()]);
                let name = decoded(name, true).unwrap_or_else(|| name.to_owned());
                encoded(&name, value, true, is_passive, resolve, &mut all);
            }
            None => all.push(pair),
        }
    }
    all
}

/// A value with percent-encoding.
fn encoded(
    name: &str,
    raw: &str,
    is_form: bool,
    is_passive: bool,
    resolve: Resolve<'_>,
    all: &mut Text,
) {
    let plain = decoded(raw, is_form);
    let plain = plain.as_deref().unwrap_or(raw);
    if let Some(variable) = resolve(&Use { name, value: plain, is_passive }) {
        all.push_field(&format!("{variable} | url"));
    } else if plain != raw
        && let Some(variable) = resolve(&Use { name, value: raw, is_passive })
    {
        // The reply had it with its encoding.
        all.push_field(&variable);
    } else {
        all.push(raw);
    }
}

/// A text without percent-encoding; none if it is not UTF-8 then.
pub(crate) fn decoded(text: &str, is_form: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        match (bytes[at], digits) {
            (b'%', Some(digits)) => {
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            (b'+', _) if is_form => out.push(b' '),
            (b, _) => out.push(b),
        }
        at += 1;
    }
    String::from_utf8(out).ok()
}

/// The parts of a form: `name="..."`, an empty line, the value, and the next delimiter.
fn parts(text: &str, resolve: Resolve<'_>) -> Text {
    let mut all = Text::default();
    let mut rest = text;
    while let Some(at) = rest.find(" name=\"") {
        let start = at + " name=\"".len();
        let name_end = rest[start..].find('"').map_or(rest.len(), |n| start + n);
        let value = rest[name_end..].find("\r\n\r\n").map_or(rest.len(), |n| name_end + n + 4);
        let end = rest[value..].find("\r\n--").map_or(rest.len(), |n| value + n);
        all.push(&rest[..value]);
        let used =
            Use { name: &rest[start..name_end], value: &rest[value..end], is_passive: false };
        match resolve(&used) {
            Some(variable) => all.push_field(&variable),
            None => all.push(&rest[value..end]),
        }
        rest = &rest[end..];
    }
    all.push(rest);
    all
}

/// JSON, or what looks like it: strings and numbers that are values, each with the last name before
/// it. Everything else stays as it is.
fn json(text: &str, resolve: Resolve<'_>) -> Text {
    let mut all = Text::default();
    let mut name = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let Some(end) = string_end(rest) else { break };
            let (token, after) = rest.split_at(end);
            let value: Option<String> = serde_json::from_str(token).ok();
            if after.trim_start().starts_with(':') {
                name = value.unwrap_or_default();
                all.push(token);
            } else if let Some(value) = value
                && let Some(found) = resolve(&Use { name: &name, value: &value, is_passive: false })
            {
                all.push("\"");
                all.push_field(&format!("{found} | json"));
                all.push("\"");
            } else {
                all.push(token);
            }
            rest = after;
        } else if c.is_ascii_digit() {
            let is_number = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
            let end = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
            let (value, after) = rest.split_at(end);
            match resolve(&Use { name: &name, value, is_passive: false }) {
                Some(found) => all.push_field(&found),
                None => all.push(value),
            }
            rest = after;
        } else {
            let (one, after) = rest.split_at(c.len_utf8());
            all.push(one);
            rest = after;
        }
    }
    all.push(rest);
    all
}

/// The end of a string that starts with quotes.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, b) in text.bytes().enumerate().skip(1) {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request's parts with `{{<name>}}` for each value `v...`.
    fn rewritten(
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (String, Vec<String>, String) {
        let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), Text::from(*v))).collect();
        let mut request = Request {
            path: path.into(),
            headers,
            body: Body::Text(body.into()),
            ..Request::default()
        };
        rewrite(&mut request, &mut |used| {
            (used.value.starts_with("v ") && !used.is_passive || used.value == "vraw")
                .then(|| used.name.to_owned())
        });
        let headers = request.headers.iter().map(|(_, v)| v.template()).collect();
        let Body::Text(body) = request.body else { panic!("a text") };
        (request.path.template(), headers, body.template())
    }

    #[test]
    fn finds_values_everywhere_in_requests() {
        let (path, headers, body) = rewritten(
            "/a/v%20x/b;s=v%20y?q=v%20z&w=v+u&o=vraw&flag",
            &[
                ("X-Token", "v 1"),
                ("Authorization", "Bearer vraw"),
                ("Accept", "vraw"),
                ("Cookie", "vraw"),
                ("Referer", "http://h/vraw?a=v%201"),
                ("Content-Type", "application/x-www-form-urlencoded"),
            ],
            "a%5Bb%5D=v+1&c=d&e=%zz",
        );
        assert_eq!(
            path,
            "/a/{{a | url}}/b;s={{s | url}}?q={{q | url}}&w={{w | url}}&o={{o | url}}&flag"
        );
        assert_eq!(headers[0], "{{X-Token}}");
        assert_eq!(headers[1], "Bearer {{}}");
        assert_eq!(&headers[2..5], ["vraw", "vraw", "http://h/{{ | url}}?a=v%201"]);
        assert_eq!(body, "a%5Bb%5D={{a[b] | url}}&c=d&e=%zz");
    }

    #[test]
    fn finds_values_in_json_and_parts() {
        let (_, _, body) = rewritten(
            "/",
            &[("Content-Type", "application/json")],
            r#"{"a": "v 1", "b": ["x", "v \u00e9", 1], "v ": {"c": "vraw"}, "#,
        );
        assert_eq!(
            body,
            r#"{"a": "{{a | json}}", "b": ["x", "{{b | json}}", 1], "v ": {"c": "{{c | json}}"}, "#
        );
        let form = "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nv 1\r\n--b--\r\n";
        let (_, _, body) = rewritten("/", &[("Content-Type", "multipart/form-data")], form);
        assert_eq!(body, form.replace("v 1", "{{x}}"));
        assert_eq!(rewritten("/", &[], "plain v 1").2, "plain v 1");
    }
}
