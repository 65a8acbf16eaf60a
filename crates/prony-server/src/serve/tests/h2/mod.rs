//! HTTP/2: a client that writes and reads single frames.

mod attacks;
mod calls;
mod faults;
mod flow;
mod rules;
mod sockets;
mod streams;

use prony_base::http2::PREFACE;
use prony_base::http2::frame::{self, Code, HEADER, Head, flag, kind};
use prony_base::http2::hpack::{Decoder, Encoder, Indexing};

use super::*;

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// What a stream has received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reply {
    /// Of interim replies, then of the final one.
    statuses: Vec<String>,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    ended: bool,
    reset: Option<Code>,
}

impl Reply {
    fn status(&self) -> &str {
        self.statuses.last().map_or("", String::as_str)
    }
}

/// Frames to send.
#[derive(Default)]
struct Frames {
    out: Vec<u8>,
    encoder: Encoder,
}

impl Frames {
    /// The preface and empty settings.
    fn start() -> Self {
        Self::with_settings(&[])
    }

    fn with_settings(pairs: &[(u16, u32)]) -> Self {
        let mut frames = Self::default();
        frames.out.extend_from_slice(PREFACE);
        frame::settings(&mut frames.out, pairs);
        frames
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            let how = Indexing::Incremental;
            self.encoder.literal(&mut block, name.as_bytes(), value.as_bytes(), how);
        }
        block
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> &mut Self {
        frame::head(&mut self.out, payload.len(), kind, flags, stream);
        self.out.extend_from_slice(payload);
        self
    }

    fn request(&mut self, stream: u32, method: &str, path: &str, more: &[(&str, &str)]) {
        let mut fields =
            vec![(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)];
        fields.extend_from_slice(more);
        let block = self.block(&fields);
        self.frame(kind::HEADERS, flag::END_HEADERS, stream, &block);
    }

    fn get(&mut self, stream: u32, path: &str) -> &mut Self {
        let at = self.out.len();
        self.request(stream, "GET", path, &[]);
        self.out[at + 4] |= flag::END_STREAM;
        self
    }

    fn post(&mut self, stream: u32, path: &str, more: &[(&str, &str)]) -> &mut Self {
        self.request(stream, "POST", path, more);
        self
    }

    fn data(&mut self, stream: u32, bytes: &[u8], ends: bool) -> &mut Self {
        self.frame(kind::DATA, u8::from(ends), stream, bytes)
    }

    fn window(&mut self, stream: u32, more: u32) -> &mut Self {
        self.frame(kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
    }

    fn reset(&mut self, stream: u32) -> &mut Self {
        self.frame(kind::RST_STREAM, 0, stream, &Code::CANCEL.0.to_be_bytes())
    }

    fn ping(&mut self, data: &[u8; 8]) -> &mut Self {
        self.frame(kind::PING, 0, 0, data)
    }
}

impl Rig {
    /// The frames that have come.
    fn frames(&self, link: usize) -> Vec<Frame> {
        let bytes = self.bytes(link);
        let (mut rest, mut frames) = (&bytes[..], Vec::new());
        while let Some(head) = Head::read(rest) {
            let (payload, after) = rest[HEADER..].split_at(head.length as usize);
            let Head { kind, flags, stream, .. } = head;
            frames.push(Frame { kind, flags, stream, payload: payload.to_vec() });
            rest = after;
        }
        assert!(rest.is_empty(), "a frame is incomplete");
        frames
    }

    /// What a stream has received. All header blocks are decoded, to keep the table right.
    fn reply(&self, link: usize, stream: u32) -> Reply {
        let (mut decoder, mut reply) = (Decoder::default(), Reply::default());
        for frame in self.frames(link) {
            if frame.kind == kind::HEADERS {
                let mut fields = Vec::new();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                let decoded = decoder.decode(&frame.payload, 1 << 16, |name, value| {
                    fields.push((text(name), text(value)));
                });
                assert_eq!(decoded, Ok(()));
                if frame.stream == stream {
                    reply.statuses.push(fields.remove(0).1);
                    reply.fields = fields;
                }
            }
            if frame.stream != stream {
                continue;
            }
            let is_over = reply.reset.is_some() || (reply.ended && frame.kind != kind::RST_STREAM);
            assert!(!is_over, "a frame after the end of a stream");
            match frame.kind {
                kind::DATA => reply.body.extend_from_slice(&frame.payload),
                kind::RST_STREAM => reply.reset = Some(code(&frame.payload)),
                _ => {}
            }
            let may_end = matches!(frame.kind, kind::DATA | kind::HEADERS);
            reply.ended |= may_end && frame.flags & flag::END_STREAM != 0;
        }
        reply
    }

    fn statuses_h2(&self, link: usize, streams: &[u32]) -> Vec<String> {
        streams
            .iter()
            .map(|&stream| {
                let reply = self.reply(link, stream);
                assert!(reply.ended, "stream {stream}: {reply:?}");
                reply.status().to_owned()
            })
            .collect()
    }

    /// The last stream and the code of each GOAWAY.
    fn goaways(&self, link: usize) -> Vec<(u32, Code)> {
        let goaways = self.frames(link).into_iter().filter(|frame| frame.kind == kind::GOAWAY);
        goaways
            .map(|frame| {
                let last = u32::from_be_bytes(*frame.payload.first_chunk().expect("8 bytes"));
                (last, code(&frame.payload[4..]))
            })
            .collect()
    }

    fn count(&self, link: usize, what: u8) -> usize {
        self.frames(link).iter().filter(|frame| frame.kind == what).count()
    }
}

fn code(bytes: &[u8]) -> Code {
    Code(u32::from_be_bytes(*bytes.first_chunk().expect("4 bytes")))
}

/// Connect and send the preface and these frames.
fn rig(behavior: ServerBehavior, frames: &mut Frames) -> Rig {
    let mut rig = Rig::new(behavior);
    rig.connect();
    rig.send(0, frames.take());
    rig
}
