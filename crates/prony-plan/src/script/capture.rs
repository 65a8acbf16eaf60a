//! Collects the parts of a reply that extracts and cookies need, while it arrives.

use std::ops::Range;

use super::Locals;
use super::compile::Script;
use super::cookies::{Jar, Origin};
use super::decode::Coding;
use crate::vars::{BODY_LIMIT, Body};
use prony_base::fault::Fault;
use prony_base::units::Nanos;

/// The headers and the body of one reply, as far as its call needs them. Reused for the next reply.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// The collected parts of headers, concatenated.
    bytes: Vec<u8>,
    /// The index of an extractor of the call, and the part that it found.
    found: Vec<(usize, Range<usize>)>,
    /// The values of Set-Cookie headers.
    set_cookies: Vec<Range<usize>>,
    /// The value of the Date header.
    date: Option<Range<usize>>,
    body: Vec<u8>,
    too_long: bool,
    /// The headers that checks look at: the index of the check, and whether one has matched.
    noted: Vec<(u32, bool)>,
    /// How the body is encoded, and not decoded yet.
    codings: Vec<Coding>,
    /// The body is not valid in its encoding.
    is_malformed: bool,
}

impl Capture {
    /// Handle a header of the reply to `call`.
    pub fn header(&mut self, script: &Script, call: u32, name: &[u8], value: &[u8]) {
        let value = value.trim_ascii();
        if script.wants_body(call) {
            self.encoding(name, value);
        }
        for (index, extractor) in script.extractors(call).iter().enumerate() {
            if let Some(part) = extractor.in_header(name, value)
                && !self.found.iter().any(|(i, _)| *i == index)
            {
                let range = self.keep(part);
                self.found.push((index, range));
            }
        }
        if script.has_cookies() && name.eq_ignore_ascii_case(b"Set-Cookie") {
            let range = self.keep(value);
            self.set_cookies.push(range);
        } else if script.has_cookies() && name.eq_ignore_ascii_case(b"Date") {
            self.date = Some(self.keep(value));
        }
    }

    /// Handle a piece of the body.
    pub fn body(&mut self, piece: &[u8]) {
        if self.too_long || self.body.len() + piece.len() > BODY_LIMIT {
            self.too_long = true;
        } else {
            self.body.extend_from_slice(piece);
        }
    }

    /// A header of the reply that this check looks at has arrived, and matches its text or not.
    pub(super) fn note(&mut self, check: u32, matches: bool) {
        match self.noted.iter_mut().find(|(other, _)| *other == check) {
            Some((_, before)) => *before |= matches,
            None => self.noted.push((check, matches)),
        }
    }

    /// Whether a header that this check looks at has matched; `None` if there is none.
    pub(super) fn noted(&self, check: u32) -> Option<bool> {
        self.noted.iter().find(|(other, _)| *other == check).map(|(_, matches)| *matches)
    }

    /// Handle a header that may say how the body is encoded.
    pub(super) fn encoding(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"Content-Encoding") {
            self.codings.clear();
            Coding::parse(value, &mut self.codings);
        }
    }

    /// Decode the body, if it is encoded and not decoded yet. Returns whether it can be searched.
    pub(super) fn decode(&mut self) -> bool {
        if self.body.is_empty() {
            // As in a reply to HEAD.
            self.codings.clear();
        }
        while let Some(coding) = self.codings.pop().filter(|_| !self.too_long) {
            let mut plain = Vec::new();
            if coding.decode(&self.body, BODY_LIMIT, &mut plain).is_err() {
                self.too_long |= plain.len() > BODY_LIMIT;
                self.is_malformed = true;
                plain.clear();
            }
            self.body = plain;
        }
        !self.too_long && !self.is_malformed
    }

    /// The body that is searched.
    pub(super) fn searched(&self) -> &[u8] {
        &self.body
    }

    /// Whether the reply set cookies.
    pub fn has_cookies(&self) -> bool {
        !self.set_cookies.is_empty()
    }

    /// Put the cookies of the reply into the jar, once.
    pub fn take_cookies(&mut self, jar: &mut Jar, origin: Origin<'_>, now: Nanos) {
        let date = self.date.clone().map(|range| &self.bytes[range]);
        for range in self.set_cookies.drain(..) {
            jar.set(&self.bytes[range], origin, date, now);
        }
    }

    /// Set the variables of the session from a successful reply.
    ///
    /// # Errors
    /// `ExtractMissing`: the reply lacks one that has no default. `ExtractTooLong`: its body is
    /// longer than [`BODY_LIMIT`].
    pub fn extract(
        &mut self,
        script: &Script,
        call: u32,
        locals: &mut Locals,
    ) -> Result<(), Fault> {
        let extractors = script.extractors(call);
        if script.wants_body(call) {
            self.decode();
        }
        if self.too_long && extractors.iter().any(|e| !e.wants_headers()) {
            return Err(Fault::ExtractTooLong);
        }
        let mut body = Body::new(&self.body);
        let mut missing = false;
        for (index, extractor) in extractors.iter().enumerate() {
            let in_header = self.found.iter().find(|(i, _)| *i == index).map(|(_, r)| r.clone());
            let start = self.bytes.len();
            let range = match in_header {
                Some(range) => Some(range),
                None => {
                    extractor.in_body(&mut body, &mut self.bytes).then_some(start..self.bytes.len())
                }
            };
            match (range, &extractor.default) {
                (Some(range), _) => locals.set(extractor.variable, &self.bytes[range]),
                (None, Some(default)) => locals.set(extractor.variable, default.as_bytes()),
                (None, None) => {
                    locals.unset(extractor.variable);
                    missing = true;
                }
            }
        }
        if missing { Err(Fault::ExtractMissing) } else { Ok(()) }
    }

    /// Clear everything for the next reply. Keeps the memory unless it is unusually large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.found.clear();
        self.set_cookies.clear();
        self.date = None;
        self.body.clear();
        self.body.shrink_to(BODY_LIMIT / 16);
        self.too_long = false;
        self.noted.clear();
        self.codings.clear();
        self.is_malformed = false;
    }

    fn keep(&mut self, value: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        // A folded header line still contains its line ends.
        let plain = |b: &u8| if matches!(b, b'\r' | b'\n') { b' ' } else { *b };
        self.bytes.extend(value.iter().map(plain));
        start..self.bytes.len()
    }
}
