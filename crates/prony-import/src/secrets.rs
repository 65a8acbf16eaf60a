//! What nobody should read becomes a variable that the user fills in.
//!
//! Headers follow an allowlist: all but those that never carry credentials are secret. Parameters
//! of URLs and forms, and values in JSON, are secret by their names.

mod prose;

use std::collections::HashMap;

use prony_base::secret::is_harmless_header;

use crate::Import;
use crate::needles::{self, Needles};
use crate::text::{MARK, Text};
use crate::unique::Unique;
use prose::prose;

/// Headers of browsers that say nothing about a user.
const OF_BROWSERS: [&str; 6] =
    ["priority", "referer", "x-requested-with", "sec-gpc", "save-data", "accept-datetime"];

/// A parameter whose name has one of these in it is secret.
const PARTS: [&str; 22] = [
    "pass",
    "pwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "auth",
    "session",
    "sessid",
    "bearer",
    "signature",
    "credential",
    "csrf",
    "xsrf",
    "jwt",
    "assertion",
    "otp",
    "cvv",
    "cvc",
    "iban",
    "card",
];

/// So is one with one of these names.
const NAMES: [&str; 8] = ["key", "sid", "sig", "pin", "code", "nonce", "ticket", "ssn"];

/// So is one with one of these words in it.
const WORDS: [&str; 5] = ["pw", "psw", "pswd", "mfa", "tan"];

/// The least bytes of a value that is secret wherever it is.
const LONG: usize = needles::LEAST;

pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.contains(&name.as_str())
        || PARTS.iter().any(|part| name.contains(part))
        || name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

pub(crate) fn is_secret_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let of_browser = OF_BROWSERS.contains(&lower.as_str())
        || ["sec-ch-", "sec-fetch-"].iter().any(|start| lower.starts_with(start));
    !of_browser && !is_harmless_header(name)
}

/// The most variables of an import.
const VARIABLES: usize = 100_000;

/// Replaces the secrets of all requests.
///
/// # Errors
/// There are too many.
pub(crate) fn replace(import: &mut Import) -> Result<(), String> {
    let extracted = import.all().flat_map(|r| &r.extract).map(|(name, _)| name.clone());
    let blanks = import.variables.iter().map(|(name, _)| name.clone());
    let mut variables = Variables::default();
    extracted.chain(blanks).for_each(|name| variables.names.take(name));
    for request in import.all_mut() {
        request.path.map_whole(|text| path(text, &mut variables));
        for (name, value) in &mut request.headers {
            value.map_whole(|text| header(name, text, &mut variables));
        }
        let kind = request.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case("content-type"));
        let kind = kind.and_then(|(_, value)| value.literal()).unwrap_or_default();
        let kind = kind.to_ascii_lowercase();
        for text in request.body.texts_mut() {
            text.map_whole(|text| body(text, &kind, &mut variables));
        }
    }
    if variables.all.len() > VARIABLES {
        return Err(
            "more than 100,000 values look like secrets; with --with-secrets, they stay as \
                    they are"
                .into(),
        );
    }
    let known = Needles::new(variables.long());
    for request in import.all_mut() {
        request.path.map_literals(|text| with_known(text, &known));
        for (_, value) in &mut request.headers {
            value.map_literals(|text| with_known(text, &known));
        }
        for text in request.body.texts_mut() {
            text.map_literals(|text| with_known(text, &known));
        }
    }
    import.variables.extend(variables.all);
    match known.is_over() {
        true => Err("too much of it is like its secrets to find them everywhere; with \
                     --with-secrets, they stay as they are"
            .into()),
        false => Ok(()),
    }
}

/// The text with the variables of secrets, which can be in it under other names too.
fn with_known(text: &str, known: &Needles) -> Text {
    let mut all = Text::default();
    known.each(text, |part, name| {
        all.push(part);
        name.into_iter().for_each(|name| all.push_field(name));
    });
    all
}

/// A path or a URL, whose parameters can be secret.
pub(crate) fn path(text: &str, variables: &mut Variables) -> Text {
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let mut all = Text::default();
    // Segments may have parameters, too: `/a;jsessionid=1/b`.
    for (nth, part) in path.split_inclusive([';', '/']).enumerate() {
        match part.split_once('=') {
            // The `=` at the end of a text in base64 have no value after them.
            Some((name, value))
                if nth > 0
                    && is_secret_name(name)
                    && !value.trim_matches(['=', ';', '/']).is_empty() =>
            {
                let end = value.trim_end_matches([';', '/']).len();
                all.push(&format!("{name}="));
                if end > 0 {
                    variables.push(name, &value[..end], &mut all);
                }
                all.push(&value[end..]);
            }
            _ => all.push(part),
        }
    }
    if let Some(query) = query {
        all.push("?");
        parameters(query, variables, &mut all);
    }
    all
}

/// The value of a header.
pub(crate) fn header(name: &str, value: &str, variables: &mut Variables) -> Text {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "cookie" => cookies(value, variables),
        "referer" => path(value, variables),
        _ if is_secret_header(name) => variables.text(&lower.replace('-', "_"), value),
        _ => value.into(),
    }
}

pub(crate) fn body(text: &str, kind: &str, variables: &mut Variables) -> Text {
    if kind.contains("x-www-form-urlencoded") {
        let mut all = Text::default();
        parameters(text, variables, &mut all);
        all
    } else if kind.starts_with("multipart/") {
        parts(text, variables)
    } else {
        let is_json = kind.contains("json") || text.trim_start().starts_with(['{', '[']);
        let mut all = values(text, variables);
        all.map_literals(|literal| prose(literal, is_json, variables));
        all
    }
}

/// `name=value&name=value`.
fn parameters(query: &str, variables: &mut Variables, all: &mut Text) {
    for (nth, pair) in query.split('&').enumerate() {
        all.push(if nth > 0 { "&" } else { "" });
        match pair.split_once('=') {
            Some((name, value)) if is_secret_name(name) && !value.is_empty() => {
                all.push(&format!("{name}="));
                variables.push(name, value, all);
            }
            _ => all.push(pair),
        }
    }
}

/// `name=value; name=value`: every value is secret.
fn cookies(text: &str, variables: &mut Variables) -> Text {
    let mut all = Text::default();
    for (nth, pair) in text.split(';').map(str::trim).enumerate() {
        all.push(if nth > 0 { "; " } else { "" });
        match pair.split_once('=') {
            Some((name, value)) => {
                all.push(&format!("{name}="));
                variables.push(&format!("cookie_{name}"), value, &mut all);
            }
            None => all.push(pair),
        }
    }
    all
}

/// The parts of a form: `name="..."`, an empty line, the value, and the next delimiter.
fn parts(text: &str, variables: &mut Variables) -> Text {
    let mut all = Text::default();
    let mut rest = text;
    while let Some(at) = rest.find("name=\"") {
        let start = at + "name=\"".len();
        let name_end = rest[start..].find('"').map_or(rest.len(), |n| start + n);
        let value = rest[name_end..].find("\r\n\r\n").map_or(rest.len(), |n| name_end + n + 4);
        let end = rest[value..].find("\r\n--").map_or(rest.len(), |n| value + n);
        all.push(&rest[..value]);
        match is_secret_name(&rest[start..name_end]) && value < end {
            true => variables.push(&rest[start..name_end], &rest[value..end], &mut all),
            false => all.push(&rest[value..end]),
        }
        rest = &rest[end..];
    }
    all.push(rest);
    all
}

/// The values of secret names in JSON, or in what looks like it: a string, a colon, and a string or
/// a number. Everything else stays as it is.
pub(crate) fn values(text: &str, variables: &mut Variables) -> Text {
    let mut all = Text::default();
    let mut rest = text;
    while let Some((_, name, after)) = next_string(rest) {
        let space = after.len() - after.trim_start().len();
        let Some(value) = after[space..].strip_prefix(':') else {
            all.push(&rest[..rest.len() - after.len()]);
            rest = after;
            continue;
        };
        let value = value.trim_start();
        all.push(&rest[..rest.len() - value.len()]);
        rest = value;
        if !is_secret_name(name) {
            continue;
        }
        if value.starts_with('"')
            && let Some((_, inner, after)) = next_string(value)
            && !inner.is_empty()
        {
            all.push("\"");
            variables.push(name, inner, &mut all);
            all.push("\"");
            rest = after;
        } else {
            let is_number = |c: char| c.is_ascii_digit() || c == '-' || c == '.';
            let end = value.find(|c| !is_number(c)).unwrap_or(value.len());
            if end > 0 {
                variables.push(name, &value[..end], &mut all);
                rest = &value[end..];
            }
        }
    }
    all.push(rest);
    all
}

/// The first string in quotes: what is before it, its inner part, and what follows.
fn next_string(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find('"')?;
    let inner = &text[start + 1..];
    let mut escaped = false;
    for (at, b) in inner.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((&text[..start], &inner[..at], &inner[at + 1..])),
            _ => {}
        }
    }
    None
}

/// The variables so far: a value has one name wherever it is.
#[derive(Default)]
pub(crate) struct Variables {
    by_value: HashMap<String, String>,
    names: Unique,
    all: Vec<(String, String)>,
}

impl Variables {
    /// The values that cannot be a part of something else by accident, with their names.
    fn long(&self) -> Vec<(String, String)> {
        let long = self.by_value.iter().filter(|(value, _)| value.len() >= LONG);
        long.map(|(value, name)| (value.clone(), name.clone())).collect()
    }

    /// Values with the names of their variables.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_value.iter().map(|(value, name)| (value.as_str(), name.as_str()))
    }

    pub(crate) fn push(&mut self, name: &str, value: &str, all: &mut Text) {
        // It is the value of a field already.
        if value.contains(MARK) {
            return all.push(value);
        }
        if let Some(known) = self.by_value.get(value) {
            all.push_field(known);
            return;
        }
        let name_of = self.names.like(name);
        self.by_value.insert(value.to_owned(), name_of.clone());
        all.push_field(&name_of);
        self.all.push((name_of, name.to_owned()));
    }

    fn text(&mut self, name: &str, value: &str) -> Text {
        let mut all = Text::default();
        // The kind of credentials may be read.
        let start = ["Bearer ", "Basic ", "Token "].into_iter().find(|s| value.starts_with(s));
        let start = start.unwrap_or_default();
        all.push(start);
        // What follows may be a field already.
        if value.len() > start.len() {
            self.push(name, &value[start.len()..], &mut all);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_values_by_name() {
        let cases = [
            (
                "a=1&password=x%20y&b",
                "application/x-www-form-urlencoded",
                "a=1&password={{password}}&b",
            ),
            (
                r#"{"a": "token", "pass": "p\"q", "n": [1]}"#,
                "",
                r#"{"a": "token", "pass": "{{pass}}", "n": [1]}"#,
            ),
            (
                r#"{"pin":1234,"key":null,"token":""}"#,
                "application/json",
                r#"{"pin":{{pin}},"key":null,"token":""}"#,
            ),
            (
                r#"{"a": {"auth": {"secret": "s"}}}"#,
                "",
                r#"{"a": {"auth": {"secret": "{{secret}}"}}}"#,
            ),
            (
                "--b\r\nContent-Disposition: form-data; name=\"pwd\"\r\n\r\nabc\r\n--b--\r\n",
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"pwd\"\r\n\r\n{{pwd}}\r\n--b--\r\n",
            ),
            ("no \"end", "", "no \"end"),
            ("user=ann\npw=x", "text/plain", "user=ann\npw={{pw}}"),
            (r#"{"pw":"x"}"#, "application/json", r#"{"pw":"{{pw}}"}"#),
            (
                "<a><Password>x</Password></a>",
                "text/xml",
                "<a><Password>{{password}}</Password></a>",
            ),
            (
                r#"{"query":"{in(password: \"x\")}"}"#,
                "application/json",
                r#"{"query":"{in(password: \"{{password}}\")}"}"#,
            ),
        ];
        for (text, kind, wanted) in cases {
            assert_eq!(body(text, kind, &mut Variables::default()).template(), wanted);
        }
    }

    #[test]
    fn secrets_beside_fields_are_found() {
        let mut text = Text::from("{\"csrf\": \"");
        text.push_field("csrf");
        text.push("\", \"password\": \"hush\"}");
        text.map_whole(|text| body(text, "application/json", &mut Variables::default()));
        assert_eq!(text.template(), r#"{"csrf": "{{csrf}}", "password": "{{password}}"}"#);
    }

    #[test]
    fn paths_have_parameters_in_their_segments() {
        for (text, wanted) in [
            ("/a;jsessionid=A1/b?x=1", "/a;jsessionid={{jsessionid}}/b?x=1"),
            ("http://h/a;v=1;PHPSESSID=z", "http://h/a;v=1;PHPSESSID={{phpsessid}}"),
            ("/a;jsessionid=", "/a;jsessionid="),
            ("/a?token=t;b", "/a?token={{token}}"),
        ] {
            assert_eq!(path(text, &mut Variables::default()).template(), wanted, "{text}");
        }
    }

    #[test]
    fn a_value_has_one_name() {
        let mut variables = Variables::default();
        let mut all = Text::default();
        for (name, value) in [("X-Key", "a"), ("other", "a"), ("x_key", "b"), ("1", "c")] {
            variables.push(name, value, &mut all);
        }
        assert_eq!(all.template(), "{{x_key}}{{x_key}}{{x_key_2}}{{value_1}}");
        assert_eq!(
            variables.text("authorization", "Bearer abc").template(),
            "Bearer {{authorization}}"
        );
        let text = cookies("sid=1; theme=dark; flag", &mut variables);
        assert_eq!(text.template(), "sid={{cookie_sid}}; theme={{cookie_theme}}; flag");
    }

    #[test]
    fn knows_the_headers_of_browsers() {
        for name in ["Accept", "Sec-CH-UA", "sec-fetch-mode", "Referer", "User-Agent"] {
            assert!(!is_secret_header(name), "{name}");
        }
        for name in ["Authorization", "Cookie", "X-Api-Key", "X-Anything", "Sec-WebSocket-Key"] {
            assert!(is_secret_header(name), "{name}");
        }
    }
}
