//! One request on its way, and the check of its reply's body.

use crate::record::Stamps;
use crate::units::{Nanos, Span};

/// A request from its intended start to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Its intended start.
    pub(super) intended: Nanos,
    /// When its first byte was given to the kernel; meaningless before.
    pub(super) sent: Nanos,
    /// When the first byte of its reply came; `Nanos::MAX` before.
    pub(super) first: Nanos,
    /// Waits are accounted for up to here.
    pub(super) waits_until: Nanos,
    /// Waited for a connection or for room on one.
    pub(super) queue: Span,
    /// Waited for the connection that was opened for it.
    pub(super) connect: Span,
    /// Index into the plan's calls.
    pub(super) call: u32,
    /// Who wants it: the user of a closed loop, the session; [`NOBODY`] in the open loop.
    pub(super) user: u32,
    /// Which request of its session it is, from 0.
    pub(super) nth: u32,
    /// How often it was sent again because its reply was not as expected.
    pub(super) tries: u32,
    /// In which write its last byte went, where that is followed (`trail.rs`); 0 = unknown.
    pub(super) write: u32,
    /// It was the next to be answered when the peer closed its connection, and went out again.
    pub(super) retried: bool,
    /// How often its connection was closed before its turn came, without an announcement.
    pub(super) passed_over: u8,
    /// Its send was recorded.
    pub(super) counted: bool,
}

/// The user of a request that an open-loop schedule wants.
pub(super) const NOBODY: u32 = u32::MAX;

impl Flight {
    pub(super) fn new(intended: Nanos, call: u32, user: u32) -> Self {
        Self {
            intended,
            sent: Nanos::ZERO,
            first: Nanos::MAX,
            waits_until: intended,
            queue: Span::ZERO,
            connect: Span::ZERO,
            call,
            user,
            nth: 0,
            tries: 0,
            write: 0,
            retried: false,
            passed_over: 0,
            counted: false,
        }
    }

    /// Its stamps, ended at `done`.
    #[inline]
    pub(super) fn stamps(&self, done: Nanos) -> Stamps {
        Stamps {
            intended: self.intended,
            sent: self.sent,
            first: self.first.min(done),
            done,
            queue: self.queue,
            connect: self.connect,
        }
    }

    /// Whether it is sent for the first time, at the very time at which it is wanted.
    #[inline]
    pub(super) fn is_on_time(&self, now: Nanos) -> bool {
        self.intended == now && !self.counted
    }

    /// Whether nothing has been done about it yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.waits_until == self.intended && !self.counted
    }

    /// The time since the waits were last accounted for went into waiting for room.
    pub(super) fn waited_in_queue(&mut self, now: Nanos) {
        self.queue += now.since(self.waits_until);
        self.waits_until = self.waits_until.max(now);
    }

    /// The time since the waits were last accounted for went into connecting.
    pub(super) fn waited_for_connect(&mut self, now: Nanos) {
        self.connect += now.since(self.waits_until);
        self.waits_until = self.waits_until.max(now);
    }
}

/// Looks for a text in a body that comes in pieces (Knuth, Morris and Pratt): no byte is looked at
/// twice, none is kept.
#[derive(Clone, Debug)]
pub(super) struct BodyPattern {
    text: Vec<u8>,
    /// For each length of a matched prefix: the longest shorter prefix that is its suffix.
    borders: Vec<u16>,
}

/// How far one body has matched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BodyMatch {
    matched: u16,
    found: bool,
}

impl BodyPattern {
    pub(super) fn new(text: &[u8]) -> Self {
        let text = text[..text.len().min(usize::from(u16::MAX))].to_vec();
        let mut borders = vec![0_u16; text.len() + 1];
        let mut k = 0_usize;
        for i in 1..text.len() {
            while k > 0 && text[i] != text[k] {
                k = usize::from(borders[k]);
            }
            k += usize::from(text[i] == text[k]);
            borders[i + 1] = k as u16;
        }
        Self { text, borders }
    }

    pub(super) fn feed(&self, state: &mut BodyMatch, piece: &[u8]) {
        if self.text.is_empty() {
            state.found = true;
        }
        if state.found {
            return;
        }
        let mut k = usize::from(state.matched);
        for &byte in piece {
            while k > 0 && byte != self.text[k] {
                k = usize::from(self.borders[k]);
            }
            k += usize::from(byte == self.text[k]);
            if k == self.text.len() {
                state.found = true;
                return;
            }
        }
        state.matched = k as u16;
    }

    /// Whether the body that ended held the text; readies the state for the next body.
    pub(super) fn finish(&self, state: &mut BodyMatch) -> bool {
        let found = state.found || self.text.is_empty();
        *state = BodyMatch::default();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_across_pieces() {
        let p = BodyPattern::new(b"aabaaab");
        for (body, found) in
            [("aabaabaaab", true), ("xaabaaabx", true), ("aabaaaab", false), ("", false)]
        {
            for cut in 0..=body.len() {
                let mut m = BodyMatch::default();
                p.feed(&mut m, &body.as_bytes()[..cut]);
                p.feed(&mut m, &body.as_bytes()[cut..]);
                assert_eq!(p.finish(&mut m), found, "{body} cut at {cut}");
            }
        }
    }
}
