//! The fuzz targets of HTTP/2.

use std::collections::BTreeSet;

use crate::http2::PREFACE;
use crate::http2::frame::{self, HEADER, Head, flag, kind};
use crate::http2::hpack::{
    Decoder, Encoder, HpackError, Indexing, encode_static, huffman_decode, huffman_encode,
};

use crate::machine::{Action, Machine, StopRequest};
use crate::serve::{Serve, ServerBehavior};
use crate::units::{ConnId, Nanos, Span};

/// The bound on the fields of a block.
const MAX_LIST: usize = 16 << 10;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Fuzz target: blocks of headers. The first byte selects the size of the table, each block follows
/// its length in one byte. Blocks that are equal, in equal states, have equal fields; and what was
/// decoded can be encoded and decoded again.
///
/// # Panics
/// If not.
pub fn hpack(data: &[u8]) {
    let Some((&size, mut rest)) = data.split_first() else { return };
    let mut decoder = Decoder::new(u32::from(size) * 20);
    let (mut encoder, mut again) = (Encoder::new(), Decoder::default());
    while let Some((&length, after)) = rest.split_first() {
        let (block, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        let before = decoder.state();
        let mut copy = decoder.clone();
        let (result, fields) = decode(&mut decoder, block);
        assert_eq!(decode(&mut copy, block), (result, fields.clone()), "the same state");
        assert!(decoder.state() >= before, "the state never falls");
        if decoder.state() == before {
            assert_eq!(decode(&mut decoder, block), (result, fields.clone()), "decoded again");
        }
        let list: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert!(list <= MAX_LIST, "{list} bytes");
        let (mut ours, mut fixed) = (Vec::new(), Vec::new());
        for (i, (name, value)) in fields.iter().enumerate() {
            let how = [Indexing::Incremental, Indexing::Without, Indexing::Never][i % 3];
            encoder.literal(&mut ours, name, value, how);
            encode_static(&mut fixed, name, value);
        }
        assert_eq!(decode(&mut again, &ours), (Ok(()), fields.clone()), "encoded again");
        assert_eq!(decode(&mut Decoder::new(0), &fixed), (Ok(()), fields), "without a table");
        if result == Err(HpackError::Invalid) {
            return;
        }
    }
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> (Result<(), HpackError>, Fields) {
    let mut fields = Vec::new();
    let result = decoder.decode(block, MAX_LIST, |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
    });
    (result, fields)
}

/// Fuzz target: a Huffman code, and a text. What is decoded is encoded as the same bytes, because
/// the code is unique; any text makes a round trip.
///
/// # Panics
/// If not.
pub fn huffman(data: &[u8]) {
    let (mut text, mut code) = (Vec::new(), Vec::new());
    if huffman_decode(data, &mut text).is_some() {
        huffman_encode(&text, &mut code);
        assert_eq!(code, data, "another code for the same text");
    }
    (text, code) = (Vec::new(), Vec::new());
    huffman_encode(data, &mut code);
    assert!(huffman_decode(&code, &mut text).is_some(), "our own code");
    assert_eq!(text, data, "another text");
}

/// Fuzz target: bytes from a client of HTTP/2 to the target server. The first byte selects how they
/// are split, and whether preface and settings are put in front. Every request has one outcome, and
/// what the server sends is well-formed: whole frames, header blocks that can be decoded, nothing
/// on a stream after its end.
///
/// # Panics
/// If not.
pub fn serve(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let mut input = Vec::new();
    if choice >= 0x80 {
        input.extend_from_slice(PREFACE);
        frame::settings(&mut input, &[]);
    }
    input.extend_from_slice(&bytes[..bytes.len().min(1 << 16)]);
    let whole = client(&input, input.len().max(1));
    let pieces = client(&input, usize::from(choice & 0x7f) + 1);
    if input.starts_with(PREFACE) {
        check_frames(&whole);
        check_frames(&pieces);
    }
}

/// Send `input` to a server, in pieces of this length, and return what it sends.
fn client(input: &[u8], cut: usize) -> Vec<u8> {
    let behavior = ServerBehavior {
        max_streams: 4,
        window: 100,
        max_body: 1_000,
        size: 20_000,
        grpc: true,
        ..ServerBehavior::default()
    };
    let (mut serve, mut out) = (Serve::new(behavior, 1), Vec::new());
    let mut now = Nanos::ZERO;
    let Some(id) = serve.on_accepted(0, now) else { return out };
    let mut is_open = true;
    for piece in input.chunks(cut) {
        if is_open {
            now = now + Span::from_millis(1);
            while serve.deadline().is_some_and(|at| at <= now) {
                serve.on_tick(now);
                is_open &= drive(&mut serve, id, now, &mut out);
            }
        }
        if is_open {
            serve.on_recv(id, &mut piece.to_vec(), now);
            is_open &= drive(&mut serve, id, now, &mut out);
        }
    }
    if is_open {
        serve.on_closed(id, None, now);
        is_open = drive(&mut serve, id, now, &mut out);
    }
    if is_open {
        serve.on_stop(StopRequest::Now, now);
        assert!(!drive(&mut serve, id, now, &mut out), "it has stopped");
    }
    let s = serve.served();
    let ends = s.replies + s.truncated + s.resets + s.stream_resets + s.cancelled + s.unanswered;
    assert_eq!((s.requests + s.bad_requests, s.outstanding), (ends, 0), "{s:?}");
    out
}

/// Carry out the server's actions. Returns whether the connection stays open.
fn drive(serve: &mut Serve, id: ConnId, now: Nanos, out: &mut Vec<u8>) -> bool {
    let mut is_open = true;
    while let Some(action) = serve.poll_action() {
        match action {
            Action::Transmit { .. } => {
                while !serve.take_output(id, now, &mut |bytes| {
                    out.extend_from_slice(bytes);
                    bytes.len()
                }) {
                    assert!(out.len() < 64 << 20, "no end of output");
                }
                assert!(out.len() < 64 << 20, "no end of output");
            }
            Action::Close { .. } => is_open = false,
            Action::Yield => serve.on_turn(now),
            Action::Pause { .. } | Action::Resume { .. } => {}
            Action::Connect { .. } => panic!("it only answers"),
            Action::Finished => {}
        }
    }
    is_open
}

fn check_frames(mut bytes: &[u8]) {
    let (mut decoder, mut ended) = (Decoder::default(), BTreeSet::new());
    while let Some(head) = Head::read(bytes) {
        let (frame, rest) = bytes.split_at(HEADER + head.length as usize);
        bytes = rest;
        assert!(head.length <= 1 << 14, "{head:?}");
        if head.kind == kind::HEADERS {
            let decoded = decode(&mut decoder, &frame[HEADER..]);
            assert_eq!(decoded.0, Ok(()), "{head:?}");
        }
        if matches!(head.kind, kind::HEADERS | kind::DATA) {
            assert!(!ended.contains(&head.stream), "{head:?}");
            if head.has(flag::END_STREAM) {
                ended.insert(head.stream);
            }
        }
        if head.kind == kind::RST_STREAM {
            ended.insert(head.stream);
        }
    }
    assert!(bytes.is_empty(), "a frame is incomplete");
}
