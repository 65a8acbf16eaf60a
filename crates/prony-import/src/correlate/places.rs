//! Where a value is in a reply, as a rule that finds the one of another reply there.

use serde_json::Value;

use super::uses::Use;
use super::{NAMED, Reply, SEARCHED, looks_generated};
use crate::Extract;

/// How many bytes before a value a rule has, outside of tags.
const CONTEXT: usize = 40;

/// The most bytes before a value that a rule can have.
const MOST: usize = 400;

/// How many occurrences of a value are tried.
const TRIED: usize = 50;

/// A rule that extracts the value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) extract: Extract,
    /// The name that the value has in the reply.
    pub(crate) hint: String,
}

/// Finds the value.
pub(crate) fn find(reply: &Reply, used: &Use<'_>) -> Option<Found> {
    in_body(reply, used).or_else(|| in_headers(reply, used))
}

fn in_body(reply: &Reply, used: &Use<'_>) -> Option<Found> {
    if reply.body.len() > SEARCHED || !reply.body.contains(used.value) {
        // Escapes can hide it in JSON.
        let is_escaped = reply.kind.contains("json") && reply.body.contains('\\');
        if reply.body.len() > SEARCHED || !is_escaped {
            return None;
        }
    }
    if reply.kind.contains("json") {
        let value: Value = serde_json::from_str(&reply.body).ok()?;
        let mut pointer = String::new();
        return in_json(&value, used, &mut pointer, "");
    }
    let occurrences = reply.body.match_indices(used.value).map(|(at, _)| at).take(TRIED);
    let found = |at| Some((at, text_rule(&reply.body, at, used)?));
    // A field of the same name is the best place.
    let mut all: Vec<(usize, Found)> = occurrences.filter_map(found).collect();
    let best = all.iter().position(|(at, _)| is_field(&reply.body, *at, used.name)).unwrap_or(0);
    (best < all.len()).then(|| all.swap_remove(best).1)
}

/// A member or an element of JSON; `name` is that of the member that it is in.
fn in_json(value: &Value, used: &Use<'_>, pointer: &mut String, name: &str) -> Option<Found> {
    let is_it = match value {
        Value::String(text) => text == used.value,
        Value::Number(number) => number.to_string() == used.value,
        Value::Array(all) => {
            return all
                .iter()
                .enumerate()
                .find_map(|(nth, value)| within(value, used, pointer, &nth.to_string(), name));
        }
        Value::Object(all) => {
            return all.iter().find_map(|(key, value)| {
                let part = key.replace('~', "~0").replace('/', "~1");
                within(value, used, pointer, &part, key)
            });
        }
        _ => false,
    };
    let is_id = {
        let lower = name.to_ascii_lowercase();
        (lower == "id" || lower.ends_with("_id") || name.ends_with("Id") || name.ends_with("ID"))
            && used.value.bytes().any(|b| b.is_ascii_digit())
    };
    let is_taken = looks_generated(used.value) || is_same(name, used.name) || is_id;
    (is_it && is_taken)
        .then(|| Found { extract: Extract::Json(pointer.clone()), hint: name.to_owned() })
}

fn within(
    value: &Value,
    used: &Use<'_>,
    pointer: &mut String,
    part: &str,
    name: &str,
) -> Option<Found> {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(part);
    let found = in_json(value, used, pointer, name);
    pointer.truncate(length);
    found
}

/// Whether two names are one, in spite of different spellings.
fn is_same(a: &str, b: &str) -> bool {
    let letters = |text: &str| -> String {
        let alphanumeric = text.chars().filter(char::is_ascii_alphanumeric);
        alphanumeric.map(|c| c.to_ascii_lowercase()).collect()
    };
    !letters(a).is_empty() && letters(a) == letters(b)
}

/// The text before and after the value at `at`, if it is a whole value and the first one there.
fn text_rule(body: &str, at: usize, used: &Use<'_>) -> Option<Found> {
    let end = at + used.value.len();
    let inside = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    if body[..at].ends_with(inside) || body[end..].starts_with(inside) {
        return None;
    }
    let is_named = || used.value.len() >= NAMED && is_field(body, at, used.name);
    if !(looks_generated(used.value) || is_named()) {
        return None;
    }
    let right = body[end..].chars().next().filter(|c| !used.value.contains(*c))?;
    let left = starts(body, at).find(|&start| {
        let left = &body[start..at];
        !left.is_empty() && body.find(left) == Some(start)
    })?;
    let left = body[left..at].to_owned();
    let hint = attribute(tag(body, at).unwrap_or(&left), "name").unwrap_or_default().to_owned();
    Some(Found { extract: Extract::Between(left, right.to_string()), hint })
}

/// Where the text before a value can start: first at its tag, or near it; then further away.
fn starts(body: &str, at: usize) -> impl Iterator<Item = usize> {
    let on_char = move |mut start: usize| {
        while !body.is_char_boundary(start) {
            start += 1;
        }
        start
    };
    let line = body[..at].rfind('\n').map_or(0, |n| n + 1);
    let near = on_char(at.saturating_sub(CONTEXT).max(line));
    let tag = tag_start(body, at).filter(|start| at - start <= MOST);
    let first = tag.unwrap_or(near);
    let further = (1..=MOST / CONTEXT).map(move |n| on_char(at.saturating_sub(n * CONTEXT)));
    let all = [first].into_iter().chain(further.filter(move |start| *start < first));
    // What the server has made up itself is no context.
    all.map(move |start| start + generated_end(&body[start..at]))
}

/// Where the last value that looks generated ends in this text; 0 without one.
fn generated_end(text: &str) -> usize {
    let mut end = 0;
    let mut start = 0;
    let separators = |c: char| c.is_whitespace() || "\"'=<>&?/;:,()[]{}".contains(c);
    for (at, c) in text.char_indices().filter(|(_, c)| separators(*c)) {
        if looks_generated(&text[start..at]) {
            end = at;
        }
        start = at + c.len_utf8();
    }
    end
}

/// The start of the tag that a position is in.
fn tag_start(body: &str, at: usize) -> Option<usize> {
    let start = body[..at].rfind('<')?;
    (!body[start..at].contains('>')).then_some(start)
}

/// The tag that a position is in.
fn tag(body: &str, at: usize) -> Option<&str> {
    let start = tag_start(body, at)?;
    let end = body[at..].find('>').map_or(body.len(), |n| at + n);
    Some(&body[start..end])
}

/// Whether the value at `at` is that of a hidden field with this name.
fn is_field(body: &str, at: usize, name: &str) -> bool {
    tag(body, at).is_some_and(|tag| {
        let kind = attribute(tag, "type").unwrap_or_default();
        kind.eq_ignore_ascii_case("hidden") && attribute(tag, "name") == Some(name)
    })
}

/// The value of an attribute of a tag.
pub(crate) fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag;
    while let Some((before, after)) = rest.split_once('=') {
        let word = before.trim_end().rsplit(|c: char| c.is_whitespace() || "\"'".contains(c));
        let is_it = word.into_iter().next().is_some_and(|w| w.eq_ignore_ascii_case(name));
        let after = after.trim_start();
        let (value, next) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                after[1..].split_once(quote).unwrap_or_else(|| (&after[1..], ""))
            }
            _ => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
        };
        if is_it {
            return Some(value);
        }
        rest = next;
    }
    None
}

fn in_headers(reply: &Reply, used: &Use<'_>) -> Option<Found> {
    reply.headers.iter().find_map(|(name, text)| {
        let lower = name.to_ascii_lowercase();
        // These describe the reply itself.
        let ignored = ["date", "etag", "last-modified", "expires", "age", "content-length"];
        if ignored.contains(&lower.as_str()) || lower.starts_with("content-") {
            return None;
        }
        let is_id = lower == "location" && used.value.bytes().any(|b| b.is_ascii_digit());
        if !(looks_generated(used.value) || is_same(name, used.name) || is_id) {
            return None;
        }
        if text == used.value {
            let extract = Extract::Header(name.clone(), None);
            return Some(Found { extract, hint: name.clone() });
        }
        let inside = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        let is_whole = |at: usize| {
            !text[..at].ends_with(inside) && !text[at + used.value.len()..].starts_with(inside)
        };
        let mut places = text.match_indices(used.value).map(|(at, _)| at);
        let at = places.find(|at| *at > 0 && is_whole(*at))?;
        let left = &text[..at];
        let host = left.find("://").map_or(0, |n| n + 3);
        let path = left[host..].find('/').map_or(0, |n| if host > 0 { host + n } else { 0 });
        let start = left.rfind([' ', ';', ',', '?', '&']).map_or(path, |n| n + 1);
        let start = if left[start..].is_empty() { path } else { start };
        let left = &left[start + generated_end(&left[start..])..];
        let rest = &text[at + used.value.len()..];
        let end = rest.chars().next().filter(|c| !used.value.contains(*c));
        if !rest.is_empty() && end.is_none() {
            return None;
        }
        let part = end.map_or_else(|| ".+".to_owned(), |c| format!("[^{}]+", class(c)));
        // It must be the first one that the expression finds.
        let same = reply.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let first = same.clone().find(|(_, text)| text.contains(left)).map(|(_, text)| text);
        if left.is_empty()
            || first.is_none_or(|f| f != text || f.find(left) != Some(at - left.len()))
        {
            return None;
        }
        let regex = format!("{}({part})", literal(left));
        let hint = if lower == "location" { String::from("location") } else { name.clone() };
        Some(Found { extract: Extract::Header(name.clone(), Some(regex)), hint })
    })
}

/// A character in the brackets of an expression.
fn class(c: char) -> String {
    if c.is_alphanumeric() { c.to_string() } else { format!("\\x{{{:x}}}", u32::from(c)) }
}

/// A text as an expression that matches only it.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
