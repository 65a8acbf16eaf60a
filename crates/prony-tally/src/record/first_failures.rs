//! The first failed exchange of each kind of error, which explains the others of its kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Recorder, Stamps, Tally};
use prony_base::fault::Fault;
use prony_base::merge::Merge;
use prony_base::units::{RequestId, Span};

/// How many bytes of a body are kept.
const BODY_MAX: usize = 200;
/// How many bytes are kept that came in place of a reply.
const UNREADABLE_MAX: usize = 60;
/// A body that has not ended is given up for the next one after this many others.
const PASSED_OVER_MAX: u32 = 100;

/// The first failed exchange of a kind; one with a body comes before one without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstFailure {
    /// When it failed, from the start of the section.
    pub after: Span,
    /// The index of its request in the plan; `None` if it had no reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u32>,
    /// The status of its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The first 200 bytes of the body of its reply, if the status was not expected. Without a
    /// status, the first 60 bytes that came in place of a reply, if some did; those that are not
    /// printable characters of ASCII are escaped, as `\r` or `\x15`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}

impl FirstFailure {
    /// What comes first. All fields take part, so that the order of merging does not matter.
    fn key(&self) -> (bool, Span, Option<u32>, Option<u16>, &str) {
        (self.body.is_empty(), self.after, self.request, self.status, &self.body)
    }
}

impl Merge for FirstFailure {
    /// The epoch of all workers is the same.
    fn merge(&mut self, other: &Self) {
        if other.key() < self.key() {
            self.clone_from(other);
        }
    }
}

/// The body of a reply with a status that is not expected, while it arrives.
#[derive(Debug, Default)]
pub(super) struct FailedBody {
    of: Option<RequestId>,
    bytes: Vec<u8>,
    passed_over: u32,
    /// Whether one is known.
    is_known: bool,
}

/// The start of what came last in place of a reply, and its fault.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    fault: Option<Fault>,
    bytes: Vec<u8>,
}

impl Tally {
    fn failed_first(&mut self, fault: Fault, failure: impl FnOnce() -> FirstFailure) {
        let known = self.first_failures.get(&fault);
        if known.is_none_or(|known| known.body.is_empty()) {
            let failure = failure();
            if known.is_none_or(|known| !failure.body.is_empty() || failure.after < known.after) {
                self.first_failures.insert(fault, failure);
            }
        }
    }
}

impl Recorder {
    /// Whether the body of a reply whose status is not expected should be passed to
    /// [`failed_body`](Self::failed_body).
    pub fn wants_failed_body(&self, id: RequestId) -> bool {
        let FailedBody { of, passed_over, is_known, .. } = &self.failed_body;
        !is_known && (of.is_none_or(|of| of == id) || *passed_over >= PASSED_OVER_MAX)
    }

    /// A body starts that is wanted.
    pub fn failed_body_starts(&mut self, id: RequestId) {
        let is_known = self.failed_body.is_known;
        self.failed_body = FailedBody { of: Some(id), is_known, ..FailedBody::default() };
    }

    /// A piece of a body. Ignores those of others.
    #[inline]
    pub fn failed_body(&mut self, id: RequestId, piece: &[u8]) {
        let FailedBody { of, bytes, .. } = &mut self.failed_body;
        if *of == Some(id) {
            let room = BODY_MAX.saturating_sub(bytes.len());
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        }
    }

    /// These bytes came in place of a reply: the fault with which its request fails.
    pub fn unreadable(&mut self, bytes: &[u8], fault: Fault) {
        let Unreadable { fault: last, bytes: kept } = &mut self.unreadable;
        *last = Some(fault);
        kept.clear();
        kept.extend_from_slice(&bytes[..bytes.len().min(UNREADABLE_MAX)]);
    }

    /// A reply was no success.
    #[cold]
    pub fn reply_failed_first(
        &mut self,
        id: RequestId,
        stamps: &Stamps,
        (request, status): (u32, u16),
        fault: Fault,
    ) {
        let mut body = String::new();
        if self.failed_body.of == Some(id) {
            body = String::from_utf8_lossy(&self.failed_body.bytes).into_owned();
            self.failed_body = FailedBody { is_known: !body.is_empty(), ..FailedBody::default() };
        } else {
            self.failed_body.passed_over += 1;
        }
        let tally = &mut self.section(stamps.intended).tally;
        let after = stamps.done.since(tally.start);
        let (request, status) = (Some(request), Some(status));
        tally.failed_first(fault, || FirstFailure { after, request, status, body });
    }

    /// A request failed without a reply.
    pub(super) fn failed_first(&mut self, stamps: &Stamps, fault: Fault) {
        let unreadable = std::mem::take(&mut self.unreadable);
        let tally = &mut self.section(stamps.intended).tally;
        let after = stamps.done.since(tally.start);
        tally.failed_first(fault, || {
            let is_its = unreadable.fault == Some(fault);
            let body = is_its.then(|| unreadable.bytes.escape_ascii().to_string());
            let body = body.unwrap_or_default();
            FirstFailure { after, request: None, status: None, body }
        });
        self.unreadable = Unreadable { fault: None, ..unreadable };
    }
}

/// By the kind of error.
pub type FirstFailures = BTreeMap<Fault, FirstFailure>;
