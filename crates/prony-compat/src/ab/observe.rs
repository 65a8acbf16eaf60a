//! What ab records about replies beyond the counters of every run: the server's name, and whether
//! all documents have the length of the first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use prony_base::fault::Fault;
use prony_base::units::{ConnId, RequestId};
use prony_core::engine::Tap;
use prony_proto::proto::Reply;

use super::trace::{Trace, Tracer};

/// The observations of all workers.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The first word of the first `Server` header.
    server: OnceLock<String>,
    /// The body length of the first reply.
    length: OnceLock<u64>,
    /// Replies with another length.
    other_lengths: AtomicU64,
    /// Replies after which the connection could be used again.
    kept_alive: AtomicU64,
}

impl Seen {
    pub(super) fn server(&self) -> &str {
        self.server.get().map_or("", String::as_str)
    }

    /// The length of the document; 0 without a reply.
    pub(super) fn length(&self) -> u64 {
        self.length.get().copied().unwrap_or(0)
    }

    pub(super) fn other_lengths(&self) -> u64 {
        self.other_lengths.load(Ordering::Relaxed)
    }

    pub(super) fn kept_alive(&self) -> u64 {
        self.kept_alive.load(Ordering::Relaxed)
    }

    fn reply(&self, reply: &Reply) {
        if *self.length.get_or_init(|| reply.body_bytes) != reply.body_bytes {
            self.other_lengths.fetch_add(1, Ordering::Relaxed);
        }
        if reply.keeps_open {
            self.kept_alive.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Observes the replies of a worker.
#[derive(Debug)]
pub(super) struct Looker {
    seen: Arc<Seen>,
    trace: Option<Tracer>,
}

impl Looker {
    pub(super) fn new(seen: &Arc<Seen>, trace: Option<&Arc<Trace>>) -> Self {
        Self { seen: Arc::clone(seen), trace: trace.map(Tracer::new) }
    }
}

impl Tap for Looker {
    fn submitted(&mut self, _: ConnId, _: RequestId, _: u32, bytes: &[u8]) {
        if let Some(trace) = &self.trace {
            trace.submitted(bytes);
        }
    }

    fn arrived(&mut self, _: ConnId, bytes: &[u8]) {
        if let Some(trace) = &mut self.trace {
            trace.arrived(bytes);
        }
    }

    fn read(&mut self, conn: ConnId, used: Result<usize, Fault>) {
        if let Some(trace) = &mut self.trace {
            trace.read(conn, used);
        }
    }

    fn ended(&mut self, conn: ConnId) {
        if let Some(trace) = &mut self.trace {
            trace.ended(conn);
        }
    }

    fn closed(&mut self, conn: ConnId) {
        if let Some(trace) = &mut self.trace {
            trace.closed(conn);
        }
    }

    fn wants_headers(&self) -> bool {
        self.seen.length.get().is_none()
    }

    fn header(&mut self, _: ConnId, _: RequestId, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"server") {
            let word = value.trim_ascii().split(u8::is_ascii_whitespace).next();
            let word = word.unwrap_or_default().escape_ascii().to_string();
            self.seen.server.get_or_init(|| word);
        }
    }

    fn done(&mut self, _: ConnId, _: RequestId, reply: &Reply) {
        self.seen.reply(reply);
        if let Some(trace) = &mut self.trace {
            trace.done(reply);
        }
    }
}
