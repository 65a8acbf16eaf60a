//! Messages in a body: five bytes of prefix, then the message.

/// The length of a message's prefix, in bytes.
pub const PREFIX: usize = 5;

/// The prefix of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The first byte: 1 if the message is compressed, 0 if not. Others are invalid.
    pub flag: u8,
    /// The length of the message, in bytes.
    pub length: u32,
}

/// The prefix of a message of this length, in bytes.
#[inline]
pub fn prefix(is_compressed: bool, length: u32) -> [u8; PREFIX] {
    let [a, b, c, d] = length.to_be_bytes();
    [u8::from(is_compressed), a, b, c, d]
}

/// The length of the first message of a body with its prefix, in bytes; that of the body if it is
/// shorter.
pub fn length(body: &[u8]) -> usize {
    let Some([_, length @ ..]) = body.first_chunk::<PREFIX>() else { return body.len() };
    (PREFIX + u32::from_be_bytes(*length) as usize).min(body.len())
}

/// What comes next in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A message starts.
    Start(Prefix),
    /// A part of the message, not empty.
    Part(&'a [u8]),
    /// The message ends.
    End,
}

/// A message is longer than the reader allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The length that its prefix states, in bytes.
    pub length: u32,
}

/// Splits a body, in any pieces, into messages. Keeps no byte of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Splitter {
    /// The part of a prefix that has arrived.
    head: [u8; PREFIX],
    /// How many bytes of `head` have arrived; `PREFIX`: inside a message.
    have: u8,
    /// Bytes of the message that have not arrived.
    left: u32,
}

impl Splitter {
    /// At the start of a body.
    pub const NEW: Self = Self { head: [0; PREFIX], have: 0, left: 0 };

    /// The next item; `None`: `data` is used up. A message over `limit` bytes is an error.
    #[inline]
    pub fn next<'a>(
        &mut self,
        data: &mut &'a [u8],
        limit: u32,
    ) -> Result<Option<Item<'a>>, TooLong> {
        if usize::from(self.have) == PREFIX {
            return Ok(self.inside(data));
        }
        let wanted = PREFIX - usize::from(self.have);
        let (part, rest) = data.split_at(wanted.min(data.len()));
        self.head[usize::from(self.have)..][..part.len()].copy_from_slice(part);
        self.have += part.len() as u8;
        *data = rest;
        if usize::from(self.have) < PREFIX {
            return Ok(None);
        }
        let [flag, length @ ..] = self.head;
        let length = u32::from_be_bytes(length);
        if length > limit {
            return Err(TooLong { length });
        }
        self.left = length;
        Ok(Some(Item::Start(Prefix { flag, length })))
    }

    #[inline]
    fn inside<'a>(&mut self, data: &mut &'a [u8]) -> Option<Item<'a>> {
        if self.left == 0 {
            self.have = 0;
            return Some(Item::End);
        }
        if data.is_empty() {
            return None;
        }
        let (part, rest) = data.split_at(data.len().min(self.left as usize));
        self.left -= part.len() as u32;
        *data = rest;
        Some(Item::Part(part))
    }

    /// Whether the body may end here: no message has started that has not ended.
    #[inline]
    pub fn is_between_messages(&self) -> bool {
        self.have == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The flag and the bytes of each message.
    type Messages = Vec<(u8, Vec<u8>)>;

    /// The messages in these pieces; `None`: the body ends inside one.
    fn read(pieces: &[&[u8]], limit: u32) -> Result<Option<Messages>, TooLong> {
        let (mut splitter, mut messages) = (Splitter::default(), Vec::new());
        let mut current = None;
        for piece in pieces {
            let mut data = *piece;
            while let Some(item) = splitter.next(&mut data, limit)? {
                match item {
                    Item::Start(prefix) => current = Some((prefix.flag, Vec::new())),
                    Item::Part(part) => current.as_mut().expect("started").1.extend(part),
                    Item::End => messages.push(current.take().expect("started")),
                }
            }
            assert!(data.is_empty());
        }
        Ok(splitter.is_between_messages().then_some(messages))
    }

    proptest! {
        #[test]
        fn reads_messages_from_any_pieces(
            messages in vec((0_u8..3, vec(any::<u8>(), 0..20)), 0..5),
            cuts in vec(0_usize..80, 0..6),
        ) {
            let mut body = Vec::new();
            for (flag, message) in &messages {
                let mut head = prefix(false, message.len() as u32);
                head[0] = *flag;
                body.extend(head);
                body.extend(message);
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &body[w[0]..w[1]]).collect();
            prop_assert_eq!(read(&pieces, 20), Ok(Some(messages)));
        }
    }

    #[test]
    fn a_body_that_ends_inside_a_message_is_incomplete() {
        let body = [&prefix(true, 2)[..], b"ab"].concat();
        assert_eq!(body, [1, 0, 0, 0, 2, b'a', b'b']);
        for end in 1..body.len() {
            assert_eq!(read(&[&body[..end]], 2), Ok(None), "{end} bytes");
        }
        assert_eq!(read(&[&body], 2), Ok(Some(vec![(1, b"ab".to_vec())])));
        assert_eq!(read(&[&body], 1), Err(TooLong { length: 2 }));
        assert_eq!([length(&body), length(&body[..6]), length(b"ab"), length(b"")], [7, 6, 2, 0]);
        assert_eq!(length(&[&body[..], &body[..]].concat()), 7);
    }
}
