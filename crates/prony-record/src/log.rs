//! What was recorded: the exchanges, in the order of their ends, and what was not recorded.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::head::{self, ReplyHead, RequestHead};

/// The most bytes of a request's body that are recorded.
pub const REQUEST_LIMIT: usize = 16 << 20;

/// The most bytes of a reply's body that are recorded: prony searches no longer ones for values.
pub const REPLY_LIMIT: usize = 1 << 20;

/// A body, without the framing of chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Its start, as far as it is recorded.
    pub bytes: Vec<u8>,
    /// Its whole length in bytes.
    pub length: u64,
}

/// A reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its head.
    pub head: ReplyHead,
    /// Its body. Of types other than text, only the length is recorded.
    pub body: Body,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The whole reply was passed on.
    Complete,
    /// The connection changed to another protocol, such as WebSocket.
    Upgraded,
    /// The target refused the connection or closed it, and sent no reply.
    NoReply,
    /// The target closed the connection within the reply.
    Cut,
    /// The client left before the reply was complete.
    ClientLeft,
    /// The recording ended before the reply was complete.
    Stopped,
}

/// A request and its reply. Times count from the start of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The number of the client's connection, from 1.
    pub connection: u64,
    /// The client's address.
    pub client: IpAddr,
    /// When the head of the request was complete.
    pub begun: Duration,
    /// When the first byte of the reply arrived.
    pub first: Option<Duration>,
    /// When the last byte of the reply arrived.
    pub ended: Duration,
    /// The value of `Host`, as the client sent it.
    pub host: String,
    /// The request's head, as the target received it.
    pub request: RequestHead,
    /// The request's body.
    pub body: Body,
    /// The reply, as far as it has arrived.
    pub reply: Option<Reply>,
    /// How it ended.
    pub how: Ended,
}

/// What was passed on, or refused, and is no exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections of clients.
    pub connections: u64,
    /// Requests that got 502 because the target did not accept a connection, or did not reply.
    pub bad_gateway: u64,
    /// Requests to a forward proxy, which got 501.
    pub forward: u64,
    /// Requests that are not HTTP/1, which got 400.
    pub bad_requests: u64,
    /// Connections on which the target did not send HTTP/1; the bytes were passed on.
    pub bad_replies: u64,
    /// Clients whose TLS handshake failed.
    pub bad_handshakes: u64,
}

/// The exchanges so far, for all threads.
#[derive(Debug, Default)]
pub struct Log {
    state: Mutex<State>,
    finished: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    exchanges: Vec<Exchange>,
    counts: Counts,
}

impl Body {
    pub(crate) fn push(&mut self, piece: &[u8], limit: usize) {
        self.length += piece.len() as u64;
        let room = limit.saturating_sub(self.bytes.len()).min(piece.len());
        self.bytes.extend_from_slice(&piece[..room]);
    }

    /// Whether it is recorded in full.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.length
    }
}

impl Reply {
    /// How many bytes of the body are to be recorded.
    pub(crate) fn limit(&self) -> usize {
        const TEXTS: [&str; 5] = ["text/", "json", "xml", "javascript", "x-www-form-urlencoded"];
        let kind = head::header(&self.head.headers, "content-type").unwrap_or_default();
        let kind = kind.to_ascii_lowercase();
        if TEXTS.iter().any(|text| kind.contains(text)) { REPLY_LIMIT } else { 0 }
    }
}

impl Log {
    /// How many exchanges have ended.
    pub fn finished(&self) -> u64 {
        self.finished.load(Ordering::Relaxed)
    }

    /// What was recorded so far, in the order in which the requests began.
    pub fn read(&self) -> (Vec<Exchange>, Counts) {
        let state = self.state();
        let mut exchanges = state.exchanges.clone();
        exchanges.sort_by_key(|exchange| (exchange.begun, exchange.connection));
        (exchanges, state.counts)
    }

    pub(crate) fn add(&self, exchange: Exchange) {
        self.state().exchanges.push(exchange);
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state().counts);
    }

    /// The number of a new connection.
    pub(crate) fn connection(&self) -> u64 {
        let mut state = self.state();
        state.counts.connections += 1;
        state.counts.connections
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
