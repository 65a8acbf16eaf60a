//! The cases of compressed messages that a conformance suite must have: contents of every length,
//! whole, in fragments and in any split, with each set of parameters; and what is refused.

use flate2::{Compress, Compression, FlushCompress};

use super::*;

/// A peer that compresses: all messages with one window, or each by itself.
struct Peer {
    inner: Compress,
    is_alone: bool,
    role: Role,
    bytes: Vec<u8>,
    masks: u32,
}

impl Peer {
    /// The peer of an endpoint with this role.
    fn of(role: Role, is_alone: bool, level: u32) -> Self {
        let inner = Compress::new(Compression::new(level), false);
        Self { inner, is_alone, role, bytes: Vec::new(), masks: 7 }
    }

    fn payload(&mut self, content: &[u8]) -> Vec<u8> {
        if self.is_alone {
            self.inner.reset();
        }
        let mut out = Vec::with_capacity(content.len() * 2 + 100);
        self.inner.compress_vec(content, &mut out, FlushCompress::Sync).expect("compressed");
        assert!(out.len() < out.capacity() && out.ends_with(&[0, 0, 0xFF, 0xFF]));
        out.truncate(out.len() - 4);
        out
    }

    fn frame(&mut self, opcode: Opcode, is_final: bool, is_compressed: bool, payload: &[u8]) {
        self.masks = self.masks.wrapping_mul(0x9E37_79B9).wrapping_add(1);
        let mask = (self.role == Role::Server).then_some(self.masks);
        let frame = Frame { opcode, is_final, mask };
        match is_compressed {
            true => frame.write_compressed(payload, &mut self.bytes),
            false => frame.write(payload, &mut self.bytes),
        }
    }

    /// A compressed message in fragments of this many bytes.
    fn message(&mut self, kind: Kind, content: &[u8], fragment: usize) {
        let payload = self.payload(content);
        let opcode = if kind == Kind::Text { Opcode::Text } else { Opcode::Binary };
        let mut fragments = payload.chunks(fragment).peekable();
        let mut is_first = true;
        while let Some(part) = fragments.next() {
            let opcode = if is_first { opcode } else { Opcode::Continuation };
            self.frame(opcode, fragments.peek().is_none(), is_first, part);
            is_first = false;
        }
    }
}

type Found = (Vec<(Kind, Vec<u8>)>, Option<Violation>);

fn read(role: Role, is_alone: bool, most: u64, bytes: &[u8], step: usize) -> Found {
    let mut reader = Reader::new(role, most);
    reader.accept_compressed(is_alone);
    let (mut kept, mut found, mut open) = (Vec::new(), Vec::new(), None);
    for piece in bytes.chunks(step) {
        kept.extend_from_slice(piece);
        let used = reader.read(&kept, |event| match event {
            Event::Start(kind) => assert!(open.replace((kind, Vec::new())).is_none()),
            Event::Piece(piece) => {
                assert!(!piece.is_empty());
                open.as_mut().expect("inside a message").1.extend_from_slice(piece);
            }
            Event::End(length) => {
                let message = open.take().expect("a message ends once");
                assert_eq!(message.1.len() as u64, length);
                found.push(message);
            }
            Event::Ping(_) | Event::Pong(_) | Event::Close(_) => {}
        });
        match used {
            Ok(used) => drop(kept.drain(..used)),
            Err(violation) => return (found, Some(violation)),
        }
    }
    assert!(kept.is_empty());
    (found, None)
}

/// JSON that repeats itself, as applications send it.
fn content(length: usize) -> Vec<u8> {
    let mut text = String::new();
    for k in 0.. {
        text.push_str(&format!(
            "{{\"id\":{k},\"name\":\"ü{}\",\"list\":[1,2,3]}},",
            k * 7919 % 1_000
        ));
        if text.len() >= length {
            break;
        }
    }
    // Characters of the text have one or two bytes.
    let end = (0..=length).rev().find(|&at| text.is_char_boundary(at)).expect("at 0");
    text.truncate(end);
    text.into_bytes()
}

/// Cases 12: texts and binary messages from 16 bytes to 128 KiB, in fragments, many on each
/// connection, with and without references to earlier messages.
#[test]
fn messages_of_every_length_are_read_with_and_without_a_window_over_all() {
    for length in [0, 16, 64, 256, 1_024, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072] {
        let content = content(length);
        for (is_alone, level, fragment) in
            [(true, 1, usize::MAX), (false, 6, usize::MAX), (false, 9, 100), (true, 6, 13)]
        {
            for role in [Role::Client, Role::Server] {
                let mut peer = Peer::of(role, is_alone, level);
                let kinds = [Kind::Text, Kind::Binary, Kind::Text];
                kinds.iter().for_each(|&kind| peer.message(kind, &content, fragment));
                let expected: Vec<_> = kinds.map(|kind| (kind, content.clone())).to_vec();
                for step in [usize::MAX, peer.bytes.len() / 200 + 1] {
                    let found = read(role, is_alone, MESSAGE_MAX, &peer.bytes, step);
                    assert_eq!(found.1, None, "{length} {is_alone} {fragment} {role:?}");
                    assert!(found.0 == expected, "{length} {is_alone} {fragment} {role:?}");
                }
            }
        }
    }
    let mut peer = Peer::of(Role::Server, false, 6);
    let expected: Vec<_> = (0..1_000).map(|k| (Kind::Text, content(k))).collect();
    expected.iter().for_each(|(kind, content)| peer.message(*kind, content, 50));
    assert!(read(Role::Server, false, MESSAGE_MAX, &peer.bytes, 1_460) == (expected, None));
}

#[test]
fn compressed_and_other_messages_follow_each_other() {
    let mut peer = Peer::of(Role::Client, false, 6);
    peer.message(Kind::Text, b"one, two, three", 4);
    peer.frame(Opcode::Text, true, false, b"one, two, three");
    peer.frame(Opcode::Ping, true, false, b"ping");
    peer.message(Kind::Text, b"one, two, three", 4);
    peer.frame(Opcode::Binary, true, true, &[0]);
    let text = (Kind::Text, b"one, two, three".to_vec());
    let expected = vec![text.clone(), text.clone(), text, (Kind::Binary, Vec::new())];
    assert_eq!(read(Role::Client, false, MESSAGE_MAX, &peer.bytes, 1), (expected, None));
}

#[test]
fn only_the_first_frame_of_a_message_says_that_it_is_compressed() {
    for opcode in [Opcode::Continuation, Opcode::Ping, Opcode::Pong, Opcode::Close] {
        let mut peer = Peer::of(Role::Client, false, 6);
        peer.frame(Opcode::Text, false, false, b"a");
        peer.frame(opcode, true, true, b"");
        let found = read(Role::Client, false, MESSAGE_MAX, &peer.bytes, 1);
        assert_eq!(found, (vec![], Some(Violation::ReservedBit)), "{opcode:?}");
    }
    // The other reserved bits have no meaning.
    for bits in [0x20, 0x10, 0x60, 0x50, 0x70] {
        let mut peer = Peer::of(Role::Client, false, 6);
        peer.message(Kind::Text, b"a", 9);
        peer.bytes[0] |= bits;
        let found = read(Role::Client, false, MESSAGE_MAX, &peer.bytes, 1);
        assert_eq!(found, (vec![], Some(Violation::ReservedBit)), "{bits:x}");
    }
}

#[test]
fn what_cannot_be_decompressed_is_refused() {
    let mut peer = Peer::of(Role::Client, false, 6);
    peer.frame(Opcode::Text, true, true, &[0x06, 0, 0]);
    let found = read(Role::Client, false, MESSAGE_MAX, &peer.bytes, 1);
    assert_eq!(
        (found, Violation::Deflate.close_code().0),
        ((vec![], Some(Violation::Deflate)), 1002)
    );
    // Text is checked after it was decompressed, also where it ends within a character.
    for text in [&b"\xFF"[..], b"na\xC3"] {
        let mut peer = Peer::of(Role::Client, false, 6);
        peer.message(Kind::Text, text, 9);
        let found = read(Role::Client, false, MESSAGE_MAX, &peer.bytes, 1);
        assert_eq!(found, (vec![], Some(Violation::Utf8)));
    }
}

/// A message of 64 MiB in 64 KiB: it is refused when it exceeds the limit, not when it is complete.
#[test]
fn the_limit_is_that_of_the_decompressed_message() {
    let mut peer = Peer::of(Role::Client, false, 9);
    let zeros = vec![0; 64 << 20];
    peer.message(Kind::Binary, &zeros, 1_000);
    assert!(peer.bytes.len() < 80_000, "{}", peer.bytes.len());
    let mut reader = Reader::new(Role::Client, MESSAGE_MAX);
    reader.accept_compressed(false);
    let mut longest = 0;
    let result = reader.read(&peer.bytes, |event| {
        if let Event::Piece(piece) = event {
            longest += piece.len() as u64;
        }
    });
    assert_eq!(result, Err(Violation::TooLong));
    assert!((MESSAGE_MAX - 65_536..=MESSAGE_MAX).contains(&longest), "{longest}");
    let mut peer = Peer::of(Role::Client, false, 9);
    peer.message(Kind::Binary, &zeros[..1_000], 1_000);
    assert_eq!(read(Role::Client, false, 999, &peer.bytes, 1).1, Some(Violation::TooLong));
    assert_eq!(read(Role::Client, false, 1_000, &peer.bytes, 1).1, None);
}

/// The bytes of messages are counted as they were sent.
#[test]
fn bytes_are_counted_as_they_were_sent() {
    let mut peer = Peer::of(Role::Server, true, 6);
    peer.message(Kind::Text, &content(10_000), 500);
    let mut reader = Reader::new(Role::Server, MESSAGE_MAX);
    reader.accept_compressed(true);
    assert_eq!(reader.read(&peer.bytes, |_| {}), Ok(peer.bytes.len()));
    let payload = peer.payload(&content(10_000)).len() as u64;
    assert_eq!(reader.payload_bytes(), payload);
    assert!(payload < 5_000, "{payload}");
}
