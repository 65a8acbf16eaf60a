//! Messages that have arrived while no step waits for one.

use std::collections::VecDeque;

/// How much is kept, in bytes.
pub(super) const KEPT_MAX: usize = 1 << 20;

/// What a message needs besides its bytes, so that empty ones count, too.
const OVERHEAD: usize = 16;

/// The latest messages, oldest first.
#[derive(Debug, Default)]
pub(in crate::proto::ws) struct Inbox {
    /// The bytes of all messages, after those that were taken.
    bytes: Vec<u8>,
    taken: usize,
    lengths: VecDeque<usize>,
}

impl Inbox {
    /// Keep a message. The oldest ones make room for it.
    pub(in crate::proto::ws) fn push(&mut self, message: &[u8]) {
        while !self.lengths.is_empty() && self.size() + message.len() + OVERHEAD > KEPT_MAX {
            self.drop_oldest();
        }
        self.bytes.extend_from_slice(message);
        self.lengths.push_back(message.len());
    }

    /// Take the oldest message into `out`. Returns whether there is one.
    pub(in crate::proto::ws) fn pop(&mut self, out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some(&length) = self.lengths.front() else { return false };
        out.extend_from_slice(&self.bytes[self.taken..self.taken + length]);
        self.drop_oldest();
        true
    }

    /// Drop all messages.
    pub(in crate::proto::ws) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_MAX / 16);
        self.lengths.clear();
        self.taken = 0;
    }

    fn size(&self) -> usize {
        self.bytes.len() - self.taken + self.lengths.len() * OVERHEAD
    }

    fn drop_oldest(&mut self) {
        self.taken += self.lengths.pop_front().unwrap_or(0);
        if self.lengths.is_empty() {
            self.clear();
        } else if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_messages_in_their_order() {
        let (mut inbox, mut out) = (Inbox::default(), Vec::new());
        assert!(!inbox.pop(&mut out));
        for message in [&b"one"[..], b"", b"three"] {
            inbox.push(message);
        }
        let mut all = Vec::new();
        while inbox.pop(&mut out) {
            all.push(out.clone());
        }
        assert_eq!(all, [&b"one"[..], b"", b"three"]);
    }

    #[test]
    fn keeps_the_latest_messages_up_to_its_limit() {
        let (mut inbox, mut out) = (Inbox::default(), Vec::new());
        let message = |k: u32| [k.to_be_bytes(); 250].concat();
        for k in 0..5_000 {
            inbox.push(&message(k));
        }
        let kept = KEPT_MAX / (1_000 + OVERHEAD);
        assert_eq!(inbox.lengths.len(), kept);
        assert!(inbox.bytes.capacity() <= 4 * KEPT_MAX, "{}", inbox.bytes.capacity());
        for k in 5_000 - kept as u32..5_000 {
            assert!(inbox.pop(&mut out) && out == message(k), "{k}");
        }
        assert!(!inbox.pop(&mut out));
        for _ in 0..200_000 {
            inbox.push(b"");
        }
        assert_eq!(inbox.lengths.len(), KEPT_MAX / OVERHEAD);
    }
}
