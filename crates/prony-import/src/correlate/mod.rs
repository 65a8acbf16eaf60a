//! Finds values of replies in later requests, and makes the requests use what their session got.
//!
//! A value is taken if it looks generated, or if it has the same name in the reply and in the
//! request (a hidden field of a form, a member of JSON), and if the client has not sent it before.
//! Everything else is what the user has typed or chosen, or is the same for everybody.
//!
//! Its time grows with the length of the recording, not with the number of its requests times that
//! of its replies: [`Index`] reads all replies once.

mod index;
mod names;
mod places;
mod uses;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use crate::notes::Notes;
use crate::text::Text;
use crate::unique::Unique;
use crate::{Extract, Import, Progress, Request, Session};
use index::Index;
pub(crate) use names::attribute;
use places::Found;
use uses::Use;
pub(crate) use uses::decoded;

/// The most bytes of a body that prony searches.
const SEARCHED: usize = 1 << 20;

/// The least and the most bytes of a generated value.
const GENERATED: std::ops::RangeInclusive<usize> = 8..=4096;

/// The least bytes of a value that has the same name in the reply and in the request.
const NAMED: usize = 4;

/// The most bytes that are looked at for the values of a session: only recordings in which many
/// values are much alike need as many.
const WORK: u64 = 8 << 30;

/// A reply, as far as it is searched.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Its `Content-Type`, in lower case.
    pub(crate) kind: String,
}

/// Whether a server has made up this value: 8 to 4096 characters without spaces, quotes and angle
/// brackets, with a digit, and no date.
pub fn looks_generated(value: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_graphic() && !b"\"'<>\\".contains(&b);
    GENERATED.contains(&value.len())
        && value.bytes().all(is_part)
        && value.bytes().any(|b| b.is_ascii_digit())
        && !starts_with_date(value)
}

/// `2026-11-25` and what follows it.
fn starts_with_date(value: &str) -> bool {
    let is_date = |text: &[u8]| {
        let at = |range: std::ops::Range<usize>| text[range].iter().all(u8::is_ascii_digit);
        at(0..4) && b"-/.".contains(&text[4]) && at(5..7) && text[7] == text[4] && at(8..10)
    };
    value.as_bytes().get(..10).is_some_and(is_date)
}

/// Makes the requests of all sessions use the values of their own replies.
pub(crate) fn correlate(import: &mut Import, progress: Option<&Progress>) {
    correlate_within(import, WORK, progress);
}

/// The same with at most this many bytes to look at for each session. Returns how many it were.
fn correlate_within(import: &mut Import, work: u64, progress: Option<&Progress>) -> u64 {
    let mut read = 0;
    for session in &mut import.sessions {
        let walk = Walk { work, progress, ..Walk::default() };
        let (count, looked_at) = walk.session(session, &mut import.notes);
        import.extracted += count;
        read += looked_at;
    }
    read
}

/// The way through a session.
#[derive(Default)]
struct Walk<'a> {
    replies: Vec<Reply>,
    /// The values in them that requests have.
    index: Index,
    /// How many replies have arrived before this request, and how many belong to earlier ones.
    before: usize,
    seen: usize,
    known: HashMap<String, Variable>,
    /// What the client knew by itself.
    own: HashSet<String>,
    /// What replies have, too.
    common: HashSet<String>,
    /// Up to which reply a value has no rule, under this name.
    missed: HashMap<(String, String), usize>,
    names: Unique,
    /// What is to be extracted: from which request's reply, as what, and how.
    extracts: Vec<(usize, String, Extract)>,
    /// The most bytes to look at.
    work: u64,
    /// Where values were no longer looked for.
    end: Option<String>,
    progress: Option<&'a Progress>,
}

struct Variable {
    name: String,
    /// The number of the reply.
    of: usize,
}

impl Walk<'_> {
    /// Returns how many values are extracted, and how many bytes were looked at.
    fn session(mut self, session: &mut Session, notes: &mut Notes) -> (usize, u64) {
        self.read(session);
        for step in &mut session.steps {
            let (first, lead) = (self.seen, step.lead);
            for (index, request) in step.requests.iter_mut().enumerate() {
                // A reply is known in the next step, that of the leading request at once.
                self.before = if lead && index > 0 { first + 1 } else { first };
                self.request(request);
                self.seen += 1;
                self.progress.inspect(|progress| progress.searched());
            }
        }
        let read = self.index.read.get();
        if let Some(nth) = self.index.end() {
            let request = session.steps.iter().flat_map(|step| &step.requests).nth(nth);
            self.end.get_or_insert_with(|| request.map_or_else(String::new, |r| r.place.clone()));
        }
        if let Some(place) = &self.end {
            let what = "from here on, values of replies are sent as recorded: there are too many";
            notes.add(what, place);
        }
        let count = self.extracts.len();
        let mut extracts = self.extracts;
        extracts.sort_by_key(|(of, ..)| *of);
        let mut extracts = extracts.into_iter().peekable();
        let requests = session.steps.iter_mut().flat_map(|step| &mut step.requests);
        for (nth, request) in requests.enumerate() {
            while let Some((_, name, extract)) = extracts.next_if(|(of, ..)| *of == nth) {
                if !matches!(extract, Extract::Header(..)) {
                    // Bodies are searched, so they must have an encoding that prony decodes.
                    request.headers.retain_mut(|(name, value)| {
                        !name.eq_ignore_ascii_case("accept-encoding") || keep_known(value)
                    });
                }
                request.extract.push((name, extract));
            }
        }
        (count, read)
    }

    /// Takes the replies, and finds in them what requests send.
    fn read(&mut self, session: &mut Session) {
        for request in session.steps.iter_mut().flat_map(|step| &mut step.requests) {
            let is_resource = is_resource(&request.reply.kind);
            uses::rewrite(request, &mut |used| {
                if !(used.is_passive || is_resource) && used.value.len() >= NAMED {
                    self.index.want(used.value);
                }
                None
            });
            self.replies.push(std::mem::take(&mut request.reply));
        }
        for (nth, reply) in self.replies.iter().enumerate() {
            self.index.add(nth, reply);
        }
    }

    fn request(&mut self, request: &mut Request) {
        let is_resource = is_resource(&self.replies[self.seen].kind);
        let place = request.place.clone();
        let mut own = Vec::new();
        uses::rewrite(request, &mut |used| {
            let is_passive = used.is_passive || is_resource;
            self.variable(&Use { is_passive, ..*used }, &place, &mut own)
        });
        self.own.extend(own);
    }

    /// The variable that has this value; none if it is to be sent as it is.
    fn variable(&mut self, used: &Use<'_>, place: &str, own: &mut Vec<String>) -> Option<String> {
        let value = used.value;
        if let Some(known) = self.known.get(value).filter(|known| known.of < self.before) {
            return Some(known.name.clone());
        }
        if used.is_passive || value.len() < NAMED || self.own.contains(value) {
            return None;
        }
        if self.index.read.get() > self.work {
            self.end.get_or_insert_with(|| place.to_owned());
            return None;
        }
        // Under which name a generated value is sent does not matter.
        let name = if looks_generated(value) { "" } else { used.name };
        let missed = (value.to_owned(), name.to_owned());
        let start = self.missed.get(&missed).copied().unwrap_or(0);
        // The last one before the request is the one that the client had on its screen.
        let search = places::Search { index: &self.index, replies: &self.replies, used };
        let Some((of, Found { extract, hint })) = search.last(start..self.before) else {
            self.missed.insert(missed, self.before);
            if !self.common.contains(value) {
                match search.is_in(0..self.seen) {
                    true => drop(self.common.insert(value.to_owned())),
                    false => own.push(value.to_owned()),
                }
            }
            return None;
        };
        // The part of a path before it can be another ID.
        let is_name = !used.name.is_empty() && !looks_generated(used.name);
        let name = self.names.like(if is_name { used.name } else { &hint });
        self.extracts.push((of, name.clone(), extract));
        self.known.insert(value.to_owned(), Variable { name: name.clone(), of });
        Some(name)
    }
}

/// Whether a reply is a script, a style, an image or a font: its URL is the same for everybody.
fn is_resource(kind: &str) -> bool {
    let starts = ["image/", "font/", "audio/", "video/", "text/css", "text/javascript"];
    starts.iter().any(|start| kind.starts_with(start)) || kind.contains("javascript")
}

/// Leaves only the encodings that prony decodes. Returns whether there is one.
fn keep_known(accepted: &mut Text) -> bool {
    const KNOWN: [&str; 5] = ["gzip", "x-gzip", "deflate", "br", "zstd"];
    let is_known = |name: &&str| {
        let name = name.split(';').next().unwrap_or_default().trim();
        KNOWN.iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    let literals = accepted.literals();
    let known: Vec<&str> = literals.split(',').map(str::trim).filter(is_known).collect();
    let known = known.join(", ");
    let is_left = !known.is_empty();
    *accepted = known.into();
    is_left
}
