//! `-v 2` and above: the first request and the heads of replies on standard output, as ab shows
//! them.

use std::sync::atomic::{AtomicBool, Ordering};

use prony_core::fault::Fault;
use prony_core::proto::{Protocol, Reply, ReplySink};

use crate::personality::pass_on::pass_on;
use crate::personality::say;

/// What is shown, over all workers.
#[derive(Debug)]
pub(super) struct Trace {
    method: String,
    /// From 3 on, the status of each reply too.
    verbosity: u64,
    shown: AtomicBool,
}

impl Trace {
    pub(super) fn new(method: &str, verbosity: u64) -> Self {
        Self { method: method.to_owned(), verbosity, shown: AtomicBool::new(false) }
    }

    /// The first request, without its body.
    fn request(&self, bytes: &[u8]) {
        if !self.shown.swap(true, Ordering::Relaxed) {
            let head = String::from_utf8_lossy(&bytes[..end_of_head(bytes).unwrap_or(bytes.len())]);
            say(&format!("INFO: {} header == \n---\n{head}\n---\n", self.method));
        }
    }
}

/// A protocol whose requests and replies are shown.
#[derive(Debug)]
pub(super) struct Traced<'a, P> {
    inner: P,
    trace: &'a Trace,
}

/// A connection, and what came of the reply whose head is not yet shown.
#[derive(Debug, Default)]
pub(super) struct Conn<C> {
    inner: C,
    head: Vec<u8>,
    shown: bool,
}

impl<C> Conn<C> {
    /// The head and what came with it, once the head is whole.
    fn came(&mut self, bytes: &[u8]) {
        if self.shown {
            return;
        }
        self.head.extend_from_slice(bytes);
        if end_of_head(&self.head).is_some() {
            self.show();
        }
    }

    fn show(&mut self) {
        let head = String::from_utf8_lossy(&self.head);
        say(&format!("LOG: header received:\n{head}\n"));
        self.head.clear();
        self.shown = true;
    }
}

impl<'a, P> Traced<'a, P> {
    pub(super) fn new(inner: P, trace: &'a Trace) -> Self {
        Self { inner, trace }
    }
}

impl<P: Protocol> Protocol for Traced<'_, P> {
    type Conn = Conn<P::Conn>;

    fn room(&self, conn: &Self::Conn, in_flight: u32, limit: u32) -> u32 {
        self.inner.room(&conn.inner, in_flight, limit)
    }

    fn encode(&mut self, conn: &mut Self::Conn, call: u32, last: bool, out: &mut Vec<u8>) {
        let start = out.len();
        self.inner.encode(&mut conn.inner, call, last, out);
        self.trace.request(&out[start..]);
    }

    fn decode(
        &mut self,
        conn: &mut Self::Conn,
        data: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<usize, Fault> {
        let mut status = None;
        let result =
            self.inner.decode(&mut conn.inner, data, &mut Noting { sink, status: &mut status });
        // What is not used comes again.
        conn.came(&data[..result.unwrap_or(data.len())]);
        if let Some(status) = status {
            if self.trace.verbosity >= 3 {
                say(&format!("LOG: Response code = {status}\n"));
            }
            conn.shown = false;
        }
        result
    }

    fn end(
        &mut self,
        conn: &mut Self::Conn,
        left: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<(), Fault> {
        conn.came(left);
        if !conn.head.is_empty() {
            conn.show();
        }
        self.inner.end(&mut conn.inner, left, sink)
    }
}

/// A sink that notes the status of the reply.
struct Noting<'a, S> {
    sink: &'a mut S,
    status: &'a mut Option<u16>,
}

impl<S: ReplySink> ReplySink for Noting<'_, S> {
    pass_on!(sink: awaited outstanding began wants_headers header wants_body body);

    fn reply(&mut self, reply: Reply) {
        *self.status = Some(reply.status);
        self.sink.reply(reply);
    }
}

/// Where the empty line after the headers ends.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}
