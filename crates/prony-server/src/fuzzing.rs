//! The fuzz targets of the servers, and the tests that replay their corpora.

use std::collections::BTreeSet;

use prony_base::http2::PREFACE;
use prony_base::http2::frame::{self, HEADER, Head, flag, kind};
use prony_base::http2::hpack::Decoder;
use prony_base::machine::{Action, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};

use crate::echo::{self, Echo, EchoBehavior};
use crate::serve::{Serve, ServerBehavior};

/// The bound on the fields of a block.
const MAX_LIST: usize = 16 << 10;

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
            let decoded = decoder.decode(&frame[HEADER..], MAX_LIST, |_, _| {});
            assert_eq!(decoded, Ok(()), "{head:?}");
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

/// Fuzz target: bytes from a client to the responder. The outcome does not depend on how they are
/// split, and no reply to a datagram is itself replied to. The first byte selects the split.
///
/// # Panics
/// If a guarantee is violated.
pub fn echo(data: &[u8]) {
    let Some((&cut, stream)) = data.split_first() else { return };
    let stream = &stream[..stream.len().min(1 << 16)];
    let whole = respond(stream, stream.len().max(1));
    let pieces = respond(stream, usize::from(cut).max(1));
    assert_eq!(whole.0, pieces.0, "messages and refusals");
    // A refusal discards the replies that were not sent yet.
    assert!(whole.0.1 > 0 || whole.1 == pieces.1, "replies");
    let mut out = Vec::new();
    if echo::answer(stream, true, &mut out) {
        assert!(!echo::answer(&out, true, &mut Vec::new()), "an answer is answered");
    }
}

/// The numbers of messages and refusals, and the bytes that the responder has sent.
fn respond(stream: &[u8], cut: usize) -> ((u64, u64), Vec<u8>) {
    let behavior = EchoBehavior { length_max: 4_096, ..EchoBehavior::default() };
    let mut echo = Echo::new(behavior, vec![false]);
    let mut heard = Vec::new();
    let Some(id) = echo.on_accepted(0, Nanos::ZERO) else { return ((0, 0), heard) };
    let mut open = true;
    for piece in stream.chunks(cut) {
        if open {
            echo.on_recv(id, &mut piece.to_vec(), Nanos::ZERO);
        }
        while let Some(action) = echo.poll_action() {
            match action {
                Action::Transmit { id } => {
                    echo.take_output(id, Nanos::ZERO, &mut |bytes| {
                        heard.extend_from_slice(bytes);
                        bytes.len()
                    });
                }
                Action::Close { .. } => open = false,
                Action::Connect { .. }
                | Action::Pause { .. }
                | Action::Resume { .. }
                | Action::Yield
                | Action::Finished => {
                    panic!("it only answers")
                }
            }
        }
    }
    ((echo.echoed().messages, echo.echoed().refused), heard)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Run a target over its committed corpus.
    fn replay(target: &str, run: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .expect("a corpus")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        assert!(files.len() >= 20, "{} files in {}", files.len(), folder.display());
        for file in files {
            println!("{}", file.display());
            run(&fs::read(&file).expect("a readable file"));
        }
    }

    #[test]
    fn corpora_of_the_servers() {
        replay("echo", super::echo);
        replay("serve", super::serve);
    }
}
