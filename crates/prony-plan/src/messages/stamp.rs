//! What a publisher writes into each message of a broadcast, so that a subscriber knows which
//! message it has received, and when it was due and sent.

use std::io::Write as _;

use memchr::memmem;

use prony_base::rng::{self, Stream};
use prony_base::units::Nanos;

/// The start of a stamp.
const MARK: &[u8] = b"prony:";
/// The digits of its numbers: publisher, sequence, intended, sent, check.
const DIGITS: [usize; 5] = [8, 8, 16, 16, 8];
/// The length of a stamp in bytes.
pub const STAMP_LENGTH: usize = 66;

/// The stamp of a message. As text: `prony:PUBLISHER:SEQUENCE:INTENDED:SENT:CHECK`, in hexadecimal
/// digits. The last number follows from the others and the seed, so that messages of other runs,
/// and damaged ones, are not taken for one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the publisher, from 0.
    pub publisher: u32,
    /// The number of the message among those of its publisher, from 0.
    pub sequence: u32,
    /// Its intended time.
    pub intended: Nanos,
    /// When it was sent.
    pub sent: Nanos,
}

impl Stamp {
    /// Append the text of the stamp, in a run with this seed.
    pub fn write(&self, seed: u64, out: &mut Vec<u8>) {
        let Self { publisher, sequence, intended, sent } = *self;
        let check = self.check(seed);
        write!(
            out,
            "prony:{publisher:08x}:{sequence:08x}:{:016x}:{:016x}:{check:08x}",
            intended.0, sent.0
        )
        .expect("a Vec takes all");
    }

    fn check(&self, seed: u64) -> u32 {
        let number = u64::from(self.publisher) << 32 | u64::from(self.sequence);
        let times = self.intended.0.rotate_left(32) ^ self.sent.0;
        (rng::keyed(seed, Stream::Stamps, number, times) >> 32) as u32
    }

    /// The stamp at the start of these bytes.
    fn parse(seed: u64, bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MARK)?;
        let mut numbers = [0; DIGITS.len()];
        for (i, (number, n)) in numbers.iter_mut().zip(DIGITS).enumerate() {
            if i > 0 {
                rest = rest.strip_prefix(b":")?;
            }
            let digits;
            (digits, rest) = rest.split_at_checked(n)?;
            *number = digits.iter().try_fold(0, |sum, &digit| {
                let digit = match digit {
                    b'0'..=b'9' => digit - b'0',
                    b'a'..=b'f' => digit - b'a' + 10,
                    _ => return None,
                };
                Some(sum << 4 | u64::from(digit))
            })?;
        }
        let [publisher, sequence, intended, sent, check] = numbers;
        let (publisher, sequence) = (publisher as u32, sequence as u32);
        let stamp = Self { publisher, sequence, intended: Nanos(intended), sent: Nanos(sent) };
        (u64::from(stamp.check(seed)) == check).then_some(stamp)
    }
}

/// Looks for a stamp in a message that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub struct StampFinder {
    /// The end of the pieces so far, in which a stamp may start.
    tail: Vec<u8>,
    found: Option<Stamp>,
}

impl StampFinder {
    /// The next piece of the message.
    pub fn piece(&mut self, seed: u64, piece: &[u8]) {
        if self.found.is_some() {
            return;
        }
        if !self.tail.is_empty() {
            let taken = piece.len().min(STAMP_LENGTH - 1);
            self.tail.extend_from_slice(&piece[..taken]);
            self.found = find(seed, &self.tail);
            if taken == piece.len() {
                let surplus = self.tail.len().saturating_sub(STAMP_LENGTH - 1);
                self.tail.drain(..surplus);
                return;
            }
            self.tail.clear();
        }
        if self.found.is_none() {
            self.found = find(seed, piece);
            let from = piece.len().saturating_sub(STAMP_LENGTH - 1);
            self.tail.extend_from_slice(&piece[from..]);
        }
    }

    /// The message is complete. Returns its first stamp.
    pub fn end(&mut self) -> Option<Stamp> {
        self.tail.clear();
        self.found.take()
    }
}

fn find(seed: u64, bytes: &[u8]) -> Option<Stamp> {
    memmem::find_iter(bytes, MARK).find_map(|at| Stamp::parse(seed, &bytes[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp =
        Stamp { publisher: 3, sequence: 0xABCDE, intended: Nanos(1 << 40), sent: Nanos(u64::MAX) };

    fn text(seed: u64) -> Vec<u8> {
        let mut text = Vec::new();
        STAMP.write(seed, &mut text);
        text
    }

    fn found(seed: u64, pieces: &[&[u8]]) -> Option<Stamp> {
        let mut finder = StampFinder::default();
        pieces.iter().for_each(|piece| finder.piece(seed, piece));
        let found = finder.end();
        assert_eq!(finder.end(), None);
        found
    }

    #[test]
    fn stamps_are_found_however_a_message_is_split() {
        let stamp = text(7);
        assert_eq!(stamp.len(), STAMP_LENGTH);
        assert!(stamp.starts_with(b"prony:00000003:000abcde:0000010000000000:ffffffffffffffff:"));
        // A mark without a stamp comes first.
        let message = [b"{\"prony:\":\"prony:0".as_slice(), &stamp, b"\"}"].concat();
        for a in 0..message.len() {
            for b in a..message.len() {
                let pieces = [&message[..a], &message[a..b], &message[b..]];
                assert_eq!(found(7, &pieces), Some(STAMP), "{a} {b}");
            }
        }
        let bytes: Vec<&[u8]> = message.chunks(1).collect();
        assert_eq!(found(7, &bytes), Some(STAMP));
    }

    #[test]
    fn stamps_of_other_runs_and_damaged_ones_are_none() {
        let stamp = text(7);
        assert_eq!(found(8, &[&stamp]), None);
        assert_eq!(found(7, &[&stamp[..STAMP_LENGTH - 1]]), None);
        for at in 0..stamp.len() {
            let mut damaged = stamp.clone();
            damaged[at] ^= 1;
            assert_eq!(found(7, &[&damaged]), None, "{at}");
        }
        assert_eq!(found(7, &[b"prony:", &[b'0'; 80]]), None);
        assert_eq!(found(7, &[]), None);
    }
}
