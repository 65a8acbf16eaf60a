//! Bodies that are sent from their files, piece by piece, so that memory does not depend on their
//! lengths.

use std::io::Write as _;

use crate::proto::out::{BodyRest, PIECE};
use prony_plan::plan::{BodyFile, Plan};

/// For each call, its body, if it is in a file.
#[derive(Clone, Debug)]
pub(super) struct Files(Vec<Option<Body>>);

#[derive(Clone, Debug)]
struct Body {
    file: BodyFile,
    /// Whether it is sent as a chunk.
    is_chunked: bool,
}

impl Files {
    /// `None`: all bodies are in memory.
    pub(super) fn new(plan: &Plan) -> Option<Box<Self>> {
        let body = plan.calls.iter().map(|call| {
            let file = call.file.as_deref()?.clone();
            Some(Body { file, is_chunked: call.is_chunked() })
        });
        plan.has_body_files().then(|| Box::new(Self(body.collect())))
    }

    /// Append the next piece of a body, and what frames it. Returns whether it is the last one.
    /// `None`: the file cannot be read, and nothing is appended.
    pub(super) fn append(&self, rest: &mut BodyRest, out: &mut Vec<u8>) -> Option<bool> {
        let body = self.0[rest.call as usize].as_ref()?;
        let begin = out.len();
        if rest.at == 0 && body.is_chunked {
            write!(out, "{:x}\r\n", body.file.length).expect("writing to memory does not fail");
        }
        let (piece, n) = (out.len(), (body.file.length - rest.at).min(PIECE));
        out.resize(piece + n as usize, 0);
        if !body.file.fill(rest.at, &mut out[piece..]) {
            out.truncate(begin);
            return None;
        }
        rest.at += n;
        let is_last = rest.at == body.file.length;
        if is_last && body.is_chunked {
            out.extend_from_slice(b"\r\n0\r\n\r\n");
        }
        Some(is_last)
    }
}
