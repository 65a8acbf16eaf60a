//! Where a value is in a reply, as a rule that finds the one of another reply there.

use std::ops::Range;

use memchr::memmem;

use super::index::{HEADER, Index, Member, Name, Place, is_inside};
use super::names::{attribute, is_id, letters};
use super::uses::Use;
use super::{NAMED, Reply, SEARCHED, looks_generated};
use crate::Extract;

/// How many bytes before a value a rule has, outside of tags.
const CONTEXT: usize = 40;

/// The most bytes before a value that a rule can have.
const MOST: usize = 400;

/// How many occurrences of a value are tried.
const TRIED: usize = 50;

/// The most bytes of a tag before and after a value in it.
const TAG: usize = 4096;

/// What a place costs: it is only compared.
const PLACE: usize = 16;

/// A rule that extracts the value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) extract: Extract,
    /// The name that the value has in the reply.
    pub(crate) hint: String,
}

/// Places of a value, in several lists.
type Places<'a> = (Vec<&'a [Place]>, Vec<&'a [Member]>);

/// Looks for a value in replies.
pub(super) struct Search<'a> {
    pub(super) index: &'a Index,
    pub(super) replies: &'a [Reply],
    pub(super) used: &'a Use<'a>,
}

impl Search<'_> {
    /// The rule for the last reply of a range that has the value, and the reply's number.
    pub(super) fn last(&self, replies: Range<usize>) -> Option<(usize, Found)> {
        let value = self.used.value;
        let (offset, word) = self.index.anchor(value)?;
        let (mut places, mut members) = if looks_generated(value) {
            let places = self.index.places(word, &replies);
            (vec![places], vec![self.index.members(value, &replies)])
        } else {
            self.under_names(word, &replies)
        };
        loop {
            let in_places = places.iter().filter_map(|all| Some(all.last()?.reply)).max();
            let in_members = members.iter().filter_map(|all| Some(all.last()?.reply)).max();
            let reply = in_places.max(in_members)?;
            let (mut here, mut inside) = (Vec::new(), Vec::new());
            for all in &mut places {
                let start = all.partition_point(|place| place.reply < reply);
                here.extend_from_slice(&all[start..]);
                *all = &all[..start];
            }
            for all in &mut members {
                let start = all.partition_point(|member| member.reply < reply);
                inside.extend(&all[start..]);
                *all = &all[..start];
            }
            here.sort_by_key(|place| place.at);
            inside.sort_by_key(|member| member.nth);
            self.charge((here.len() + inside.len() + 1) * PLACE);
            let nth = reply as usize;
            if let Some(found) = self.in_reply(&self.replies[nth], &here, &inside, offset) {
                return Some((nth, found));
            }
        }
    }

    /// The places of a value that does not look generated: those under its name, and IDs.
    fn under_names(&self, word: usize, replies: &Range<usize>) -> Places<'_> {
        let Self { index, used, .. } = self;
        let letters = letters(used.name);
        let mut places = vec![index.named(word, Name::Field(used.name.to_owned()), replies)];
        let mut members = Vec::new();
        if used.value.bytes().any(|b| b.is_ascii_digit()) {
            places.push(index.named(word, Name::Id, replies));
            members.push(index.named_members(used.value, Name::Id, replies));
        }
        if !letters.is_empty() {
            places.push(index.named(word, Name::Letters(letters.clone()), replies));
            members.push(index.named_members(used.value, Name::Letters(letters), replies));
        }
        (places, members)
    }

    /// Whether a reply of a range has the value, with a rule or without.
    pub(super) fn is_in(&self, replies: Range<usize>) -> bool {
        let value = self.used.value;
        let Some((offset, word)) = self.index.anchor(value) else { return false };
        let has = |place: &Place| {
            self.charge(PLACE);
            let reply = &self.replies[place.reply as usize];
            match place.at {
                HEADER => reply.headers.iter().any(|(_, text)| text.contains(value)),
                at => self.starts(reply, at, offset).is_some(),
            }
        };
        !self.index.members(value, &replies).is_empty()
            || self.index.places(word, &replies).iter().any(has)
    }

    /// Where the value starts in the body, if it is around the word at `at`.
    fn starts(&self, reply: &Reply, at: u32, offset: usize) -> Option<usize> {
        let start = (at as usize).checked_sub(offset)?;
        let rest = reply.body.as_bytes().get(start..)?;
        rest.starts_with(self.used.value.as_bytes()).then_some(start)
    }

    fn in_reply(
        &self,
        reply: &Reply,
        places: &[Place],
        members: &[&Member],
        offset: usize,
    ) -> Option<Found> {
        let found = match reply.kind.contains("json") {
            _ if reply.body.len() > SEARCHED => None,
            true => members.iter().find_map(|member| self.of_member(member)),
            false => self.in_text(reply, places, offset),
        };
        found.or_else(|| {
            places.iter().any(|place| place.at == HEADER).then(|| {
                self.charge(reply.headers.iter().map(|(name, text)| name.len() + text.len()).sum());
                in_headers(reply, self.used)
            })?
        })
    }

    /// The rule for a member or an element of JSON.
    fn of_member(&self, member: &Member) -> Option<Found> {
        let (value, name) = (self.used.value, &member.name);
        let has_digit = || value.bytes().any(|b| b.is_ascii_digit());
        let is_same = is_same(name, self.used.name);
        let is_taken = looks_generated(value) || is_same || is_id(name) && has_digit();
        let extract = || Extract::Json(member.pointer.clone());
        is_taken.then(|| Found { extract: extract(), hint: name.clone() })
    }

    /// The rule for a value in a text.
    fn in_text(&self, reply: &Reply, places: &[Place], offset: usize) -> Option<Found> {
        let places = places.iter().filter(|place| place.at != HEADER);
        let all: Vec<usize> =
            places.filter_map(|place| self.starts(reply, place.at, offset)).take(TRIED).collect();
        self.charge(all.len() * TAG);
        // A field of the same name is the best place.
        let is_best = |at: &usize| is_field(&reply.body, *at, self.used.name);
        let (best, others): (Vec<usize>, Vec<usize>) = all.into_iter().partition(is_best);
        best.into_iter().chain(others).find_map(|at| self.text_rule(&reply.body, at))
    }

    /// The text before and after the value at `at`, if it is a whole value and the first one there.
    fn text_rule(&self, body: &str, at: usize) -> Option<Found> {
        let value = self.used.value;
        let end = at + value.len();
        if body[..at].ends_with(is_inside) || body[end..].starts_with(is_inside) {
            return None;
        }
        let is_named = || value.len() >= NAMED && is_field(body, at, self.used.name);
        if !(looks_generated(value) || is_named()) {
            return None;
        }
        let right = body[end..].chars().next().filter(|c| !value.contains(*c))?;
        let left = starts(body, at).find(|&start| {
            let left = &body.as_bytes()[start..at];
            let first = || memmem::find(&body.as_bytes()[..at], left).unwrap_or(start);
            !left.is_empty() && {
                let first = first();
                self.charge(first);
                first == start
            }
        })?;
        let left = body[left..at].to_owned();
        let tag = tag(body, at).unwrap_or(&left);
        let hint = attribute(tag, "name").unwrap_or_default().to_owned();
        Some(Found { extract: Extract::Between(left, right.to_string()), hint })
    }

    /// Counts what was looked at.
    fn charge(&self, bytes: usize) {
        self.index.read.set(self.index.read.get() + bytes as u64);
    }
}

/// Whether two names are one, in spite of different spellings.
fn is_same(a: &str, b: &str) -> bool {
    !letters(a).is_empty() && letters(a) == letters(b)
}

/// Where the text before a value can start: first at its tag, or near it; then further away.
fn starts(body: &str, at: usize) -> impl Iterator<Item = usize> {
    let on_char = move |mut start: usize| {
        while !body.is_char_boundary(start) {
            start += 1;
        }
        start
    };
    let near = on_char(at.saturating_sub(CONTEXT));
    let near = body[near..at].rfind('\n').map_or(near, |n| near + n + 1);
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
    let mut near = at.saturating_sub(TAG);
    while !body.is_char_boundary(near) {
        near += 1;
    }
    let start = near + body[near..at].rfind('<')?;
    (!body[start..at].contains('>')).then_some(start)
}

/// The tag that a position is in.
fn tag(body: &str, at: usize) -> Option<&str> {
    let start = tag_start(body, at)?;
    let end = body.as_bytes()[at..].iter().take(2 * TAG).position(|&b| b == b'>');
    let mut end = at + end.unwrap_or(2 * TAG);
    while !body.is_char_boundary(end.min(body.len())) {
        end -= 1;
    }
    Some(&body[start..end.min(body.len())])
}

/// Whether the value at `at` is that of a hidden field with this name.
fn is_field(body: &str, at: usize, name: &str) -> bool {
    tag(body, at).is_some_and(|tag| {
        let kind = attribute(tag, "type").unwrap_or_default();
        kind.eq_ignore_ascii_case("hidden") && attribute(tag, "name") == Some(name)
    })
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
        let is_whole = |at: usize| {
            !text[..at].ends_with(is_inside)
                && !text[at + used.value.len()..].starts_with(is_inside)
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
