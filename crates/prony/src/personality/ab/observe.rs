//! What ab looks at in replies beyond what every run counts: who serves, and whether all documents
//! have the length of the first.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use prony_core::fault::Fault;
use prony_core::proto::{Protocol, Reply, ReplySink};

use crate::personality::pass_on::pass_on;

/// What was seen, over all workers.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The first word of the first `Server` header.
    server: OnceLock<String>,
    /// The body's length of the first reply.
    length: OnceLock<u64>,
    /// Replies of another length.
    other_lengths: AtomicU64,
    /// Replies after which the connection could be used again.
    kept_alive: AtomicU64,
}

impl Seen {
    pub(super) fn server(&self) -> &str {
        self.server.get().map_or("", String::as_str)
    }

    /// The length of the document, 0 where there was no reply.
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

/// A protocol whose replies are looked at.
#[derive(Debug)]
pub(super) struct Observed<'a, P> {
    inner: P,
    seen: &'a Seen,
}

impl<'a, P> Observed<'a, P> {
    pub(super) fn new(inner: P, seen: &'a Seen) -> Self {
        Self { inner, seen }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<P: Protocol> Protocol for Observed<'_, P> {
    type Conn = P::Conn;

    pass_on!(inner: room encode encode_filled deadline);
    pass_on!(inner: greets greet greeted greets_again one_by_one is_lossy gave_up);
    pass_on!(inner through Looking(seen): decode end);
}

/// A sink that looks at what passes.
struct Looking<'a, S> {
    sink: &'a mut S,
    seen: &'a Seen,
}

#[deny(clippy::missing_trait_methods)]
impl<S: ReplySink> ReplySink for Looking<'_, S> {
    pass_on!(sink: awaited outstanding began wants_body body odd);

    fn wants_headers(&self) -> bool {
        self.seen.length.get().is_none() || self.sink.wants_headers()
    }

    fn header(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"server") {
            let word = value.trim_ascii().split(u8::is_ascii_whitespace).next();
            let word = word.unwrap_or_default().escape_ascii().to_string();
            self.seen.server.get_or_init(|| word);
        }
        if self.sink.wants_headers() {
            self.sink.header(name, value);
        }
    }

    fn reply(&mut self, reply: Reply) {
        self.seen.reply(&reply);
        self.sink.reply(reply);
    }

    fn reply_to(&mut self, position: u32, reply: Reply) {
        self.seen.reply(&reply);
        self.sink.reply_to(position, reply);
    }
}
