//! Where the values of requests are in replies: all replies are read once, for all values.
//!
//! A value in a reply is whole: no letter or digit stands beside it. So each word in it is a whole
//! word of the reply, too, and it is enough to know the places of the rarest one. Values that no
//! server has made up are only found under their names, which are known here, too.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use super::names::{attribute, is_id, letters};
use super::{Reply, SEARCHED};

/// The most places that are kept.
const PLACES: usize = 8_000_000;

/// How many places of a word in a reply are kept.
const OF_REPLY: usize = 200;

/// The bits of a filter for words.
const FILTER: u32 = 20;

/// How many words of a value are known.
const WORDS: usize = 8;

/// The places of the values.
#[derive(Default)]
pub(super) struct Index {
    /// The words, by their numbers below.
    words: HashMap<Box<str>, usize>,
    /// Whether a word may have this hash.
    filter: Vec<bool>,
    places: Vec<Vec<Place>>,
    /// The same of each word under a name.
    named: HashMap<(usize, Name), Vec<Place>>,
    /// The values that are looked for in JSON, by their numbers below.
    values: HashMap<Box<str>, usize>,
    members: Vec<Vec<Member>>,
    named_members: HashMap<(usize, Name), Vec<Member>>,
    /// How many places there are.
    count: usize,
    /// From this reply on, none are kept.
    end: Option<usize>,
    /// How many bytes were looked at.
    pub(super) read: Cell<u64>,
}

/// The name of a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// Of a hidden field.
    Field(String),
    /// Of a header, or of a member of JSON: its letters and digits.
    Letters(String),
    /// The name of an ID, or a place to go to.
    Id,
}

/// A word in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) reply: u32,
    /// Where it is in the body; [`HEADER`] if it is in a header.
    pub(super) at: u32,
}

/// A place in a header.
pub(super) const HEADER: u32 = u32::MAX;

/// A value in the body of a reply that is JSON.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) reply: u32,
    /// Its number among those of the reply.
    pub(super) nth: u32,
    pub(super) pointer: String,
    /// Its name, or that of the list that it is in.
    pub(super) name: String,
}

/// Whether a character is a part of a word.
pub(super) fn is_inside(c: char) -> bool {
    c.is_alphanumeric() || c == '-' || c == '_'
}

/// The longest words of a value, and where they are.
fn anchors(value: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    words(value, |range| all.push((range.start, &value[range])));
    all.sort_by_key(|(at, word)| (std::cmp::Reverse(word.len()), *at));
    all.truncate(WORDS);
    all
}

/// Calls the function with each word of a text.
fn words(text: &str, mut with: impl FnMut(Range<usize>)) {
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (is_inside(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                with(from..at);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        with(from..text.len());
    }
}

fn hash(word: &str) -> usize {
    let start = word.len() as u64;
    let hash =
        word.bytes().fold(start, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER)) as usize
}

impl Index {
    /// Looks for this value in what is added later.
    pub(super) fn want(&mut self, value: &str) {
        if self.values.contains_key(value) {
            return;
        }
        self.values.insert(value.into(), self.members.len());
        self.members.push(Vec::new());
        if self.filter.is_empty() {
            self.filter.resize(1 << FILTER, false);
        }
        for (_, word) in anchors(value) {
            if !self.words.contains_key(word) {
                self.words.insert(word.into(), self.places.len());
                self.places.push(Vec::new());
                self.filter[hash(word)] = true;
            }
        }
    }

    /// The word of a value with the fewest places: where it is in the value, and its number.
    pub(super) fn anchor(&self, value: &str) -> Option<(usize, usize)> {
        let known = anchors(value).into_iter();
        let all = known.filter_map(|(at, word)| Some((at, *self.words.get(word)?)));
        all.min_by_key(|(_, number)| self.places[*number].len())
    }

    /// Reads a reply. They are added in their order.
    pub(super) fn add(&mut self, nth: usize, reply: &Reply) {
        if self.words.is_empty() || self.end.is_some() {
            return;
        }
        if self.count > PLACES {
            self.end = Some(nth);
            return;
        }
        self.words_of(nth, &reply.body, &[], |range| range.start as u32);
        for (name, value) in &reply.headers {
            let is_place = name.eq_ignore_ascii_case("location");
            let names = [Name::Letters(letters(name)), Name::Id];
            self.words_of(nth, value, &names[..1 + usize::from(is_place)], |_| HEADER);
        }
        if !reply.kind.contains("json") && reply.body.len() <= SEARCHED {
            self.fields_of(nth, &reply.body);
        }
        if reply.kind.contains("json") && reply.body.len() <= SEARCHED {
            self.read.set(self.read.get() + reply.body.len() as u64);
            if let Ok(value) = serde_json::from_str(&reply.body) {
                let mut all = Members { reply: nth as u32, nth: 0, pointer: String::new() };
                self.members_of(&value, &mut all, "");
            }
        }
    }

    /// The reply from which on nothing was looked for.
    pub(super) fn end(&self) -> Option<usize> {
        self.end
    }

    /// The places of a word, in the replies of this range.
    pub(super) fn places(&self, word: usize, replies: &Range<usize>) -> &[Place] {
        of_replies(&self.places[word], replies, |place| place.reply)
    }

    /// Those under a name.
    pub(super) fn named(&self, word: usize, name: Name, replies: &Range<usize>) -> &[Place] {
        let all = self.named.get(&(word, name)).map_or(&[][..], Vec::as_slice);
        of_replies(all, replies, |place| place.reply)
    }

    /// The places of a value in JSON, in the replies of this range.
    pub(super) fn members(&self, value: &str, replies: &Range<usize>) -> &[Member] {
        let all = self.values.get(value).map_or(&[][..], |&number| &self.members[number]);
        of_replies(all, replies, |member| member.reply)
    }

    /// Those under a name.
    pub(super) fn named_members(
        &self,
        value: &str,
        name: Name,
        replies: &Range<usize>,
    ) -> &[Member] {
        let number = self.values.get(value).copied().unwrap_or(usize::MAX);
        let all = self.named_members.get(&(number, name)).map_or(&[][..], Vec::as_slice);
        of_replies(all, replies, |member| member.reply)
    }

    fn words_of(
        &mut self,
        reply: usize,
        text: &str,
        names: &[Name],
        place: impl Fn(&Range<usize>) -> u32,
    ) {
        self.read.set(self.read.get() + text.len() as u64);
        let Self { words: known, filter, places, named, count, .. } = self;
        words(text, |range| {
            let word = &text[range.clone()];
            if !filter[hash(word)] {
                return;
            }
            let Some(&number) = known.get(word) else { return };
            let place = Place { reply: reply as u32, at: place(&range) };
            // A word in a field was found before, without its name.
            if !names.iter().any(|name| matches!(name, Name::Field(_))) {
                *count += usize::from(push(&mut places[number], place, |place| place.reply));
            }
            for name in names {
                let all = named.entry((number, name.clone())).or_default();
                *count += usize::from(push(all, place, |place| place.reply));
            }
        });
    }

    /// The hidden fields of a page.
    fn fields_of(&mut self, reply: usize, body: &str) {
        let tags = memchr::memchr_iter(b'<', body.as_bytes());
        let mut tags = tags.peekable();
        while let Some(start) = tags.next() {
            let rest = &body[start..tags.peek().copied().unwrap_or(body.len())];
            let tag = &rest[..rest.find('>').unwrap_or(rest.len())];
            let kind = attribute(tag, "type").unwrap_or_default();
            let name = attribute(tag, "name").filter(|_| kind.eq_ignore_ascii_case("hidden"));
            if let Some(name) = name {
                let name = [Name::Field(name.to_owned())];
                self.words_of(reply, tag, &name, |range| (start + range.start) as u32);
            }
        }
    }

    fn members_of(&mut self, value: &Value, to: &mut Members, name: &str) {
        let length = to.pointer.len();
        match value {
            Value::String(text) => self.member(text, to, name),
            Value::Number(number) => self.member(&number.to_string(), to, name),
            Value::Array(all) => {
                for (nth, value) in all.iter().enumerate() {
                    to.pointer.push_str(&format!("/{nth}"));
                    self.members_of(value, to, name);
                    to.pointer.truncate(length);
                }
            }
            Value::Object(all) => {
                for (key, value) in all {
                    to.pointer.push('/');
                    to.pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                    self.members_of(value, to, key);
                    to.pointer.truncate(length);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn member(&mut self, text: &str, to: &mut Members, name: &str) {
        let Some(&number) = self.values.get(text) else { return };
        to.nth += 1;
        let member = || Member {
            reply: to.reply,
            nth: to.nth,
            pointer: to.pointer.clone(),
            name: name.to_owned(),
        };
        let mut count = 0;
        count += usize::from(push(&mut self.members[number], member(), |member| member.reply));
        let names = [Some(Name::Letters(letters(name))), is_id(name).then_some(Name::Id)];
        for name in names.into_iter().flatten() {
            let all = self.named_members.entry((number, name)).or_default();
            count += usize::from(push(all, member(), |member| member.reply));
        }
        // A pointer takes more memory.
        self.count += count * (1 + to.pointer.len() / 8);
    }
}

/// Where the members of a reply are.
struct Members {
    reply: u32,
    /// How many there were.
    nth: u32,
    pointer: String,
}

/// Adds a place, unless there are enough of its reply, which are at the end. Returns whether it is.
fn push<T>(all: &mut Vec<T>, one: T, reply: impl Fn(&T) -> u32) -> bool {
    let is_full =
        all.len().checked_sub(OF_REPLY).is_some_and(|nth| reply(&all[nth]) == reply(&one));
    if !is_full {
        all.push(one);
    }
    !is_full
}

/// The part of a list, in the order of replies, that is of these replies.
fn of_replies<'a, T>(all: &'a [T], replies: &Range<usize>, reply: impl Fn(&T) -> u32) -> &'a [T] {
    let at = |end: usize| all.partition_point(|one| (reply(one) as usize) < end);
    &all[at(replies.start)..at(replies.end).max(at(replies.start))]
}
