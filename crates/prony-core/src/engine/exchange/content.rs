//! Searches the body of a reply, as it arrives, for an expected text.

use prony_base::fault::Fault;

/// Searches for a text in a body that arrives in pieces (Knuth-Morris-Pratt): each byte is read
/// once, and none is kept.
#[derive(Clone, Debug)]
pub(super) struct BodyPattern {
    text: Vec<u8>,
    /// For each length of a matched prefix: the length of the longest shorter prefix that is also
    /// its suffix.
    borders: Vec<u16>,
}

/// The state of the search in one body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BodyMatch {
    matched: u16,
    found: bool,
    /// What is wrong with the body, if it is a stream of messages.
    fault: Option<Fault>,
}

impl BodyMatch {
    /// The body has this fault.
    pub(super) fn find_fault(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// The fault of the body, if it has one. Resets it for the next body.
    pub(super) fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }
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

    /// The body has ended. Returns whether it contained the text; resets the state for the next
    /// body.
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
    fn finds_a_text_across_pieces() {
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
