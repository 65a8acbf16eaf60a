//! An archive without its secrets: each is replaced by another value, the same one everywhere.
//!
//! What a reply has too (the token of a form, say) keeps its form: letters and digits are exchanged
//! for others. So an import finds the same values in later requests as before.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use crate::archive::{Archive, Field, Pair};
use crate::correlate::{attribute, decoded};
use crate::needles::{self, Needles};
use crate::secrets::{self, Variables};
use crate::text::Text;

/// Shorter values are replaced in their own places only: they occur elsewhere by accident.
const LEAST: usize = needles::LEAST;

/// A text of an archive.
#[derive(Clone, Copy)]
enum Part<'a> {
    Url,
    Header(&'a str),
    Parameter(&'a str),
    Cookie(&'a str),
    Body(&'a str),
    ReplyHeader(&'a str),
    ReplyBody(&'a str),
}

/// Replaces the secrets of all requests and replies.
pub fn conceal(archive: &mut Archive) {
    let mut variables = Variables::default();
    each_text(archive, &mut |part, text| {
        let _ = found(part, text, &mut variables);
    });
    let known = in_replies(archive, &variables);
    let disguise = Disguise::new(&variables, &known);
    each_text(archive, &mut |part, text| {
        let all = found(part, text, &mut variables);
        *text = all.rendered(|text| disguise.everywhere(text), |name| disguise.of(name));
    });
}

/// Calls the function with every text that can have a secret.
fn each_text(archive: &mut Archive, with: &mut dyn FnMut(Part<'_>, &mut String)) {
    for entry in &mut archive.log.entries {
        let request = &mut entry.request;
        with(Part::Url, &mut request.url);
        for Pair { name, value } in &mut request.headers {
            with(Part::Header(name), value);
        }
        for Pair { name, value } in &mut request.cookies {
            with(Part::Cookie(name), value);
        }
        for Pair { name, value } in &mut request.query_string {
            with(Part::Parameter(name), value);
        }
        if let Some(post) = &mut request.post_data {
            let kind = post.mime_type.to_ascii_lowercase();
            for Field { name, value, .. } in &mut post.params {
                with(Part::Parameter(name), value);
            }
            if let Some(text) = post.text.as_mut().filter(|_| post.encoding.is_none()) {
                with(Part::Body(&kind), text);
            }
        }
        let reply = &mut entry.response;
        for Pair { name, value } in &mut reply.headers {
            with(Part::ReplyHeader(name), value);
        }
        for Pair { name, value } in &mut reply.cookies {
            with(Part::Cookie(name), value);
        }
        with(Part::ReplyHeader("location"), &mut reply.redirect_url);
        let kind = reply.content.mime_type.to_ascii_lowercase();
        if let Some(text) = reply.content.text.as_mut().filter(|_| reply.content.encoding.is_none())
        {
            with(Part::ReplyBody(&kind), text);
        }
    }
}

/// The text with a field for each secret.
fn found(part: Part<'_>, text: &str, variables: &mut Variables) -> Text {
    let one = |name: &str, variables: &mut Variables| {
        let mut all = Text::default();
        match text {
            "" => {}
            text => variables.push(name, text, &mut all),
        }
        all
    };
    match part {
        Part::Url => secrets::path(text, variables),
        Part::Header(name) => secrets::header(name, text, variables),
        Part::Cookie(name) => one(&format!("cookie_{name}"), variables),
        Part::Parameter(name) if secrets::is_secret_name(name) => one(name, variables),
        Part::Body(kind) => secrets::body(text, kind, variables),
        Part::ReplyHeader(name) if name.eq_ignore_ascii_case("set-cookie") => {
            set_cookies(text, variables)
        }
        Part::ReplyHeader(name) if name.eq_ignore_ascii_case("location") => {
            secrets::path(text, variables)
        }
        Part::ReplyHeader(name) if secrets::is_secret_name(name) => one(name, variables),
        Part::ReplyBody(kind)
            if ["json", "xml", "plain", "graphql"].iter().any(|k| kind.contains(k))
                && !kind.contains("html") =>
        {
            secrets::body(text, kind, variables)
        }
        Part::ReplyBody(kind) if kind.contains("html") => fields(text, variables),
        Part::Parameter(_) | Part::ReplyHeader(_) | Part::ReplyBody(_) => text.into(),
    }
}

/// `name=value; Path=/`, one cookie on each line.
fn set_cookies(text: &str, variables: &mut Variables) -> Text {
    let mut all = Text::default();
    for (nth, line) in text.split('\n').enumerate() {
        all.push(if nth > 0 { "\n" } else { "" });
        let (cookie, attributes) = line.split_at(line.find(';').unwrap_or(line.len()));
        match cookie.split_once('=') {
            Some((name, value)) if !value.trim().is_empty() => {
                let space = value.len() - value.trim_start().len();
                all.push(&cookie[..=name.len() + space]);
                variables.push(&format!("cookie_{}", name.trim()), value.trim(), &mut all);
            }
            _ => all.push(cookie),
        }
        all.push(attributes);
    }
    all
}

/// The fields of forms, and what `meta` says, whose names are those of secrets.
fn fields(text: &str, variables: &mut Variables) -> Text {
    let mut all = Text::default();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').map_or(rest.len(), |n| start + n);
        let tag = &rest[start..end];
        let name = attribute(tag, "name").filter(|name| secrets::is_secret_name(name));
        let value = attribute(tag, "value").or_else(|| attribute(tag, "content"));
        match (name, value) {
            (Some(name), Some(value)) if !value.is_empty() => {
                let at = value.as_ptr().addr() - rest.as_ptr().addr();
                all.push(&rest[..at]);
                variables.push(name, value, &mut all);
                all.push(&rest[at + value.len()..end]);
            }
            _ => all.push(&rest[..end]),
        }
        rest = &rest[end..];
    }
    all.push(rest);
    all
}

/// The secrets that replies have, too, with or without their encoding: short ones as whole words.
fn in_replies(archive: &mut Archive, variables: &Variables) -> HashSet<String> {
    let values = variables.values().map(|(value, _)| value.to_owned());
    let plain = variables.values().filter_map(|(value, _)| decoded(value, true));
    let wanted: HashSet<String> = values.chain(plain).collect();
    let long = Needles::new(wanted.iter().map(|value| (value.clone(), value.clone())).collect());
    let mut found = HashSet::new();
    each_text(archive, &mut |part, text| {
        if !matches!(part, Part::ReplyHeader(_) | Part::ReplyBody(_)) {
            return;
        }
        long.each(text, |_, value| found.extend(value.map(str::to_owned)));
        let is_between = |c: char| !(c.is_alphanumeric() || c == '-' || c == '_');
        let short = text.split(is_between).filter(|word| (1..LEAST).contains(&word.len()));
        found.extend(short.filter(|word| wanted.contains(*word)).map(str::to_owned));
    });
    // All of them keep their form if it is not known which ones must.
    if long.is_over() { wanted } else { found }
}

/// What stands for the secrets.
struct Disguise {
    by_name: HashMap<String, String>,
    /// Secrets, and what stands for them.
    by_value: Needles,
}

impl Disguise {
    fn new(variables: &Variables, known: &HashSet<String>) -> Self {
        let hasher = RandomState::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let (mut by_name, mut by_value) = (HashMap::new(), Vec::new());
        let mut all: Vec<(&str, &str)> = variables.values().collect();
        all.sort_by_key(|(value, name)| (value.len(), *name));
        for (value, name) in all.into_iter().rev() {
            let plain = decoded(value, true).unwrap_or_else(|| value.to_owned());
            let in_reply = known.contains(value) || known.contains(plain.as_str());
            let letters: String = plain.chars().filter(char::is_ascii_alphanumeric).collect();
            let next = numbers.len() + 1;
            let number = *numbers.entry(plain.clone()).or_insert(next);
            let is_number = value.bytes().all(|b| b.is_ascii_digit());
            let other = match in_reply {
                true => exchanged(value, &letters, &hasher),
                false if is_number => (1_000 + number).to_string(),
                false => format!("hidden-{number}"),
            };
            if value.len() >= LEAST {
                by_value.push((value.to_owned(), other.clone()));
                if plain != value && in_reply {
                    let other = exchanged(&plain, &letters, &hasher);
                    by_value.push((plain, other));
                }
            }
            by_name.insert(name.to_owned(), other);
        }
        Self { by_name, by_value: Needles::new(by_value) }
    }

    fn of(&self, name: &str) -> String {
        self.by_name.get(name).cloned().unwrap_or_default()
    }

    fn everywhere(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.by_value.each(text, |part, other| {
            out.push_str(part);
            out.push_str(other.unwrap_or_default());
        });
        // Nothing of what was not searched may stay.
        if self.by_value.is_over() { "hidden".to_owned() } else { out }
    }
}

/// Another letter for each letter, another digit for each digit. `letters` are those of the value
/// without its encoding: two encodings of a value stay encodings of one.
fn exchanged(value: &str, letters: &str, hasher: &RandomState) -> String {
    let mut out = String::with_capacity(value.len());
    let mut nth = 0_u64;
    let bytes = value.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let is_code = bytes[at] == b'%'
            && bytes.get(at + 1..at + 3).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit));
        if is_code {
            out.push_str(&value[at..at + 3]);
            at += 3;
            continue;
        }
        let Some(c) = value[at..].chars().next() else { break };
        at += c.len_utf8();
        let drawn = hasher.hash_one((letters, nth));
        let letter = |first: u8| char::from(first + (drawn % 26) as u8);
        out.push(match c {
            '0'..='9' => char::from(b'1' + (drawn % 9) as u8),
            'a'..='z' => letter(b'a'),
            'A'..='Z' => letter(b'A'),
            c => c,
        });
        nth += u64::from(c.is_ascii_alphanumeric());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Content, Entry, Post, Reply, Sent};

    fn entry(request: Sent, response: Reply) -> Entry {
        Entry {
            pageref: None,
            started_date_time: "2026-11-25T10:00:00Z".into(),
            time: 1.0,
            request,
            response,
            cache: Default::default(),
            timings: Default::default(),
            connection: None,
            session: None,
            from_cache: None,
            resource: None,
        }
    }

    fn pair(name: &str, value: &str) -> Pair {
        Pair { name: name.into(), value: value.into() }
    }

    #[test]
    fn secrets_are_replaced_everywhere() {
        let page = "<input name=\"csrf\" type=hidden value=\"tok3n+Abc/9\"><p>tok3n+Abc/9</p>\
                    <input name=\"q\" value=\"lamp\">";
        let mut archive = Archive::default();
        archive.log.entries.push(entry(
            Sent {
                method: "GET".into(),
                url: "http://h/?token=secret-in-url".into(),
                ..Sent::default()
            },
            Reply {
                headers: vec![pair("Set-Cookie", "sid=s3ss10n-value; Path=/")],
                content: Content {
                    mime_type: "text/html".into(),
                    text: Some(page.into()),
                    ..Content::default()
                },
                ..Reply::default()
            },
        ));
        archive.log.entries.push(entry(
            Sent {
                method: "POST".into(),
                url: "http://h/login".into(),
                headers: vec![
                    pair("Cookie", "sid=s3ss10n-value"),
                    pair("Authorization", "Bearer the-bearer-1"),
                    pair("Accept", "*/*"),
                ],
                post_data: Some(Post {
                    mime_type: "application/x-www-form-urlencoded".into(),
                    text: Some("csrf=tok3n%2BAbc%2F9&password=p+w&user=ann".into()),
                    ..Post::default()
                }),
                ..Sent::default()
            },
            Reply::default(),
        ));
        conceal(&mut archive);
        let json = serde_json::to_string(&archive).expect("an archive");
        for secret in ["tok3n", "s3ss10n", "secret-in-url", "the-bearer", "p+w"] {
            assert!(!json.contains(secret), "{secret}: {json}");
        }
        let entries = &archive.log.entries;
        let text = entries[0].response.content.text.clone().expect("a page");
        let token = attribute(&text, "value").expect("a token").to_owned();
        assert_eq!((token.len(), &token[5..6], &token[9..10]), (11, "+", "/"));
        assert!(
            text.ends_with(&format!("<p>{token}</p><input name=\"q\" value=\"lamp\">")),
            "{text}"
        );
        let body =
            entries[1].request.post_data.as_ref().and_then(|p| p.text.clone()).expect("a body");
        let sent = token.replace('+', "%2B").replace('/', "%2F");
        assert!(body.starts_with(&format!("csrf={sent}&password=hidden-")), "{body} {token}");
        assert!(body.ends_with("&user=ann"), "{body}");
        let sid = &entries[1].request.headers[0].value;
        assert_eq!(entries[0].response.headers[0].value, format!("{sid}; Path=/"));
        assert_eq!(entries[1].request.headers[2].value, "*/*");
    }
}
