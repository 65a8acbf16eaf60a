//! HTTP with bodies that are sent from their files, piece by piece, so that memory does not depend
//! on their lengths. Plans without such bodies use the carriers below it, which know nothing of
//! files.

use std::io::Write as _;

use crate::fault::Fault;
use crate::plan::{BodyFile, Plan};
use crate::proto::h1::{self, H1};
use crate::proto::out::PIECE;
use crate::proto::{Call, Carrier, Out, Sink};
use crate::units::{Nanos, RequestId};

/// The carrier of plans with such bodies over HTTP/1: the head of a request is written as always,
/// and its body follows in pieces, before anything else on the connection.
#[derive(Debug)]
pub struct Uploads {
    h1: H1,
    /// For each call, its body, if it is in a file.
    bodies: Vec<Option<Body>>,
}

#[derive(Debug)]
struct Body {
    file: BodyFile,
    /// Whether it is sent as a chunk.
    is_chunked: bool,
}

/// The state of a connection.
#[derive(Debug, Default)]
pub struct Conn {
    replies: h1::Conn,
    sending: Option<Sending>,
    /// Whether a file could not be read, so that a body remains incomplete.
    is_broken: bool,
}

/// A body that is incomplete.
#[derive(Clone, Copy, Debug)]
struct Sending {
    call: u32,
    /// How many of its bytes are appended.
    at: u64,
}

impl Uploads {
    /// The carrier for a plan's calls.
    pub fn new(plan: &Plan) -> Self {
        let body = plan.calls.iter().map(|call| {
            let file = call.file.as_deref()?.clone();
            Some(Body { file, is_chunked: call.is_chunked() })
        });
        Self { h1: H1::new(plan), bodies: body.collect() }
    }
}

impl Body {
    /// Append the piece at `at`, and what frames it. Returns its length, or `None` if the file
    /// cannot be read: nothing is appended then.
    fn append(&self, at: u64, out: &mut Vec<u8>) -> Option<u64> {
        let begin = out.len();
        if at == 0 && self.is_chunked {
            write!(out, "{:x}\r\n", self.file.length).expect("writing to memory does not fail");
        }
        let (piece, n) = (out.len(), (self.file.length - at).min(PIECE));
        out.resize(piece + n as usize, 0);
        if !self.file.fill(at, &mut out[piece..]) {
            out.truncate(begin);
            return None;
        }
        if at + n == self.file.length && self.is_chunked {
            out.extend_from_slice(b"\r\n0\r\n\r\n");
        }
        Some(n)
    }
}

impl Carrier for Uploads {
    type Conn = Conn;

    fn reads_files(&self) -> bool {
        true
    }

    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        if conn.is_broken {
            return 0;
        }
        self.h1.capacity(&conn.replies, in_flight, limit)
    }

    fn submit(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    ) {
        debug_assert!(conn.sending.is_none(), "bodies follow each other");
        self.h1.submit(&mut conn.replies, id, call, last, out);
        // A redirect that has become GET has no body.
        let moved = call.filled.and_then(|filled| filled.moved());
        if self.bodies[call.index as usize].is_some() && !moved.is_some_and(|moved| moved.is_get) {
            conn.sending = Some(Sending { call: call.index, at: 0 });
        }
    }

    fn owes(&self, conn: &Conn) -> bool {
        conn.sending.is_some() && !conn.is_broken
    }

    fn is_in_body(&self, conn: &Conn) -> bool {
        conn.sending.is_some()
    }

    fn transmit(&mut self, conn: &mut Conn, _: Nanos, out: &mut Out) {
        let Some(sending) = conn.sending.as_mut().filter(|_| !conn.is_broken) else { return };
        let Some(body) = &self.bodies[sending.call as usize] else { return };
        match body.append(sending.at, out.bytes()) {
            None => conn.is_broken = true,
            Some(n) => {
                sending.at += n;
                if sending.at == body.file.length {
                    conn.sending = None;
                }
            }
        }
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        self.h1.receive(&mut conn.replies, data, now, sink)
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        self.h1.end(&mut conn.replies, left, sink)
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        self.h1.stop(&mut conn.replies, id, sink);
    }

    /// The connection ends at once when a body cannot be completed, as nothing can follow it.
    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        conn.is_broken.then_some(Nanos::ZERO)
    }

    fn on_deadline(&mut self, _: &mut Conn, _: Nanos) -> Result<(), Fault> {
        Err(Fault::BodyFile)
    }
}
