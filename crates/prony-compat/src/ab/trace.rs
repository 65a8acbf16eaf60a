//! `-v 2` and above: prints the first request and the heads of replies on standard output, in ab's
//! form.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prony_base::fault::Fault;
use prony_base::units::ConnId;
use prony_proto::proto::Reply;

use crate::say;

/// The output, shared by all workers.
#[derive(Debug)]
pub(super) struct Trace {
    method: String,
    /// Whether the status of each reply is printed too (`-v 3` and above).
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

/// Prints requests and replies of a worker.
#[derive(Debug)]
pub(super) struct Tracer {
    trace: Arc<Trace>,
    conns: HashMap<ConnId, Conn>,
    /// The bytes of the current read.
    arrived: Vec<u8>,
    /// The status of the last reply in them.
    status: Option<u16>,
}

/// The bytes received on a connection of a reply whose head is not printed yet.
#[derive(Debug, Default)]
struct Conn {
    head: Vec<u8>,
    shown: bool,
}

impl Conn {
    /// The head and the bytes after it, once the head is complete.
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

impl Tracer {
    pub(super) fn new(trace: &Arc<Trace>) -> Self {
        let trace = Arc::clone(trace);
        Self { trace, conns: HashMap::new(), arrived: Vec::new(), status: None }
    }

    pub(super) fn submitted(&self, bytes: &[u8]) {
        self.trace.request(bytes);
    }

    pub(super) fn arrived(&mut self, bytes: &[u8]) {
        self.arrived.clear();
        self.arrived.extend_from_slice(bytes);
    }

    pub(super) fn done(&mut self, reply: &Reply) {
        self.status = Some(reply.status);
    }

    pub(super) fn read(&mut self, conn: ConnId, used: Result<usize, Fault>) {
        let conn = self.conns.entry(conn).or_default();
        // Bytes that are not consumed are passed again.
        conn.came(&self.arrived[..used.unwrap_or(self.arrived.len())]);
        if let Some(status) = self.status.take() {
            if self.trace.verbosity >= 3 {
                say(&format!("LOG: Response code = {status}\n"));
            }
            conn.shown = false;
        }
    }

    pub(super) fn ended(&mut self, conn: ConnId) {
        let conn = self.conns.entry(conn).or_default();
        if !conn.head.is_empty() {
            conn.show();
        }
    }

    pub(super) fn closed(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
    }
}

/// The end of the empty line after the headers.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}
