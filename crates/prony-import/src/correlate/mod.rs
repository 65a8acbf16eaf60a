//! Finds values of replies in later requests, and makes the requests use what their session got.
//!
//! A value is taken if it looks generated, or if it has the same name in the reply and in the
//! request (a hidden field of a form, a member of JSON), and if the client has not sent it before.
//! Everything else is what the user has typed or chosen, or is the same for everybody.

mod places;
mod uses;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use crate::text::{Text, variable_name};
use crate::{Extract, Import, Session};
use places::Found;
pub(crate) use places::attribute;
use uses::Use;
pub(crate) use uses::decoded;

/// The most bytes of a body that prony searches.
const SEARCHED: usize = 1 << 20;

/// The least and the most bytes of a generated value.
const GENERATED: std::ops::RangeInclusive<usize> = 8..=4096;

/// The least bytes of a value that has the same name in the reply and in the request.
const NAMED: usize = 4;

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
pub(crate) fn correlate(import: &mut Import) {
    let mut count = 0;
    for session in &mut import.sessions {
        count += Walk::default().session(session);
    }
    import.extracted = count;
}

/// Where a request is: its step, and its position there.
type At = (usize, usize);

/// The way through a session.
#[derive(Default)]
struct Walk {
    replies: Vec<(At, bool, Reply)>,
    known: HashMap<String, Variable>,
    /// What the client knew by itself.
    own: HashSet<String>,
    names: HashSet<String>,
    /// What is to be extracted: from which reply, as what, and how.
    extracts: Vec<(At, String, Extract)>,
}

#[derive(Clone)]
struct Variable {
    name: String,
    at: At,
    is_lead: bool,
}

impl Walk {
    /// Returns how many values are extracted.
    fn session(mut self, session: &mut Session) -> usize {
        for (nth, step) in session.steps.iter_mut().enumerate() {
            for (index, request) in step.requests.iter_mut().enumerate() {
                let at = (nth, index);
                let is_lead = step.lead && index == 0;
                let reply = std::mem::take(&mut request.reply);
                let is_resource = is_resource(&reply.kind);
                let mut own = Vec::new();
                uses::rewrite(request, &mut |used| {
                    let is_passive = used.is_passive || is_resource;
                    self.variable(&Use { is_passive, ..*used }, at, &mut own)
                });
                self.own.extend(own);
                self.replies.push((at, is_lead, reply));
            }
        }
        let count = self.extracts.len();
        for ((step, index), name, extract) in self.extracts {
            let request = &mut session.steps[step].requests[index];
            if !matches!(extract, Extract::Header(..)) {
                // Bodies are searched, so they must have an encoding that prony decodes.
                request.headers.retain_mut(|(name, value)| {
                    !name.eq_ignore_ascii_case("accept-encoding") || keep_known(value)
                });
            }
            request.extract.push((name, extract));
        }
        count
    }

    /// The variable that has this value; none if it is to be sent as it is.
    fn variable(&mut self, used: &Use<'_>, at: At, own: &mut Vec<String>) -> Option<String> {
        let value = used.value;
        if let Some(known) = self.known.get(value).filter(|v| is_before(v.at, v.is_lead, at)) {
            return Some(known.name.clone());
        }
        if used.is_passive || value.len() < NAMED || self.own.contains(value) {
            return None;
        }
        // The last one before the request is the one that the client had on its screen.
        let sources = self.replies.iter().rev();
        let mut sources = sources.filter(|(of, is_lead, _)| is_before(*of, *is_lead, at));
        let found = sources.find_map(|(of, is_lead, reply)| {
            let found = places::find(reply, used)?;
            Some((*of, *is_lead, found))
        });
        let Some((of, is_lead, Found { extract, hint })) = found else {
            if !self.replies.iter().any(|(.., reply)| reply.has(value)) {
                own.push(value.to_owned());
            }
            return None;
        };
        // The part of a path before it can be another ID.
        let is_name = !used.name.is_empty() && !looks_generated(used.name);
        let name = self.name(if is_name { used.name } else { &hint });
        self.extracts.push((of, name.clone(), extract));
        self.known.insert(value.to_owned(), Variable { name: name.clone(), at: of, is_lead });
        Some(name)
    }

    fn name(&mut self, of: &str) -> String {
        let base = variable_name(of);
        let numbered = (2..).map(|n| format!("{base}_{n}"));
        let mut names = [base.clone()].into_iter().chain(numbered);
        let name = names.find(|name| !self.names.contains(name)).expect("there is no end of names");
        self.names.insert(name.clone());
        name
    }
}

/// Whether a request at `at` can use the reply to the one at `of`.
fn is_before(of: At, is_lead: bool, at: At) -> bool {
    of.0 < at.0 || of.0 == at.0 && is_lead && at.1 > 0
}

/// Whether a reply is a script, a style, an image or a font: its URL is the same for everybody.
fn is_resource(kind: &str) -> bool {
    let starts = ["image/", "font/", "audio/", "video/", "text/css", "text/javascript"];
    starts.iter().any(|start| kind.starts_with(start)) || kind.contains("javascript")
}

impl Reply {
    fn has(&self, value: &str) -> bool {
        self.body.contains(value) || self.headers.iter().any(|(_, v)| v.contains(value))
    }
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
