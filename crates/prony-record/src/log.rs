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

/// The most bytes of all bodies that are recorded. What is made of them needs a few times as much.
pub const BODIES_LIMIT: u64 = 64 << 20;

/// The most bytes of all heads that are recorded.
pub const HEADS_LIMIT: u64 = 64 << 20;

/// A body, without the framing of chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Its start, as far as it is recorded.
    pub bytes: Vec<u8>,
    /// Its whole length in bytes.
    pub length: u64,
    /// Whether there was no room for it.
    pub is_left_out: bool,
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
    /// Requests whose length or host servers may understand differently, which got 400.
    pub ambiguous: u64,
    /// Clients whose TLS handshake failed.
    pub bad_handshakes: u64,
    /// Bodies for which there was no room: passed on, not recorded.
    pub bodies_left_out: u64,
    /// Exchanges for which there was no room: passed on, not recorded.
    pub exchanges_left_out: u64,
    /// Idle connections that were closed, as others wanted their places.
    pub idle_closed: u64,
}

/// The exchanges so far, for all threads.
#[derive(Debug, Default)]
pub struct Log {
    state: Mutex<State>,
    finished: AtomicU64,
    /// How many bytes of bodies and of heads are recorded.
    bodies: AtomicU64,
    heads: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    exchanges: Vec<Exchange>,
    counts: Counts,
}

impl Body {
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

    /// Takes what was recorded, in the order in which the requests began.
    pub fn take(&self) -> (Vec<Exchange>, Counts) {
        let mut state = self.state();
        let mut exchanges = std::mem::take(&mut state.exchanges);
        exchanges.sort_by_key(|exchange| (exchange.begun, exchange.connection));
        (exchanges, state.counts)
    }

    /// The same, and keeps it.
    #[cfg(test)]
    pub(crate) fn read(&self) -> (Vec<Exchange>, Counts) {
        let (exchanges, counts) = self.take();
        self.state().exchanges.clone_from(&exchanges);
        (exchanges, counts)
    }

    /// Records an exchange, if there is room for it.
    pub(crate) fn add(&self, exchange: Exchange) {
        if has_room(&self.heads, HEADS_LIMIT, heads(&exchange)) {
            self.state().exchanges.push(exchange);
        } else {
            let reply = exchange.reply.map_or(0, |reply| reply.body.bytes.len());
            let bytes = exchange.body.bytes.len() + reply;
            self.bodies.fetch_sub(bytes as u64, Ordering::Relaxed);
            self.count(|counts| counts.exchanges_left_out += 1);
        }
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a piece of a body, up to `limit` bytes of it. A body for which there is no room is
    /// left out as a whole.
    pub(crate) fn keep(&self, body: &mut Body, piece: &[u8], limit: usize) {
        body.length += piece.len() as u64;
        if body.is_left_out {
            return;
        }
        let room = limit.saturating_sub(body.bytes.len()).min(piece.len());
        if has_room(&self.bodies, BODIES_LIMIT, room as u64) {
            body.bytes.extend_from_slice(&piece[..room]);
            return;
        }
        let kept = std::mem::take(&mut body.bytes);
        self.bodies.fetch_sub(kept.len() as u64, Ordering::Relaxed);
        body.is_left_out = true;
        self.count(|counts| counts.bodies_left_out += 1);
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

/// Takes this many bytes of what there is, if there are as many.
fn has_room(used: &AtomicU64, limit: u64, bytes: u64) -> bool {
    let more = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// What the heads of an exchange need, about.
fn heads(exchange: &Exchange) -> u64 {
    /// Of an exchange without headers, and of each header.
    const EACH: usize = 512;
    const HEADER: usize = 64;
    let list = |headers: &[head::Header]| -> usize {
        headers.iter().map(|(name, value)| HEADER + name.len() + value.len()).sum()
    };
    let request = &exchange.request;
    let reply = exchange.reply.as_ref().map_or(0, |reply| list(&reply.head.headers));
    let all = EACH + request.target.len() + exchange.host.len() + list(&request.headers) + reply;
    all as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_beyond_the_budget_are_left_out_as_a_whole() {
        let log = Log::default();
        let piece = vec![b'x'; 1 << 20];
        let mut bodies = vec![Body::default(); 40];
        for body in &mut bodies {
            (0..15).for_each(|_| log.keep(body, &piece, REQUEST_LIMIT));
        }
        let kept: usize = bodies.iter().map(|body| body.bytes.len()).sum();
        assert!(kept as u64 <= BODIES_LIMIT && kept > 45 << 20, "{kept}");
        assert!(bodies.iter().all(|body| body.length == 15 << 20));
        assert!(bodies.iter().all(|body| body.is_whole() != body.is_left_out));
        let left_out = bodies.iter().filter(|body| body.is_left_out).count() as u64;
        // Small ones still find the room that is left.
        let mut small = Body::default();
        log.keep(&mut small, b"small", REQUEST_LIMIT);
        assert!(small.is_whole());
        let (_, counts) = log.take();
        assert_eq!((counts.bodies_left_out, left_out), (36, 36));
    }

    #[test]
    fn exchanges_beyond_the_budget_are_counted() {
        let exchange = Exchange {
            connection: 1,
            client: IpAddr::from([127, 0, 0, 1]),
            begun: Duration::ZERO,
            first: None,
            ended: Duration::ZERO,
            host: "h".into(),
            request: RequestHead { target: "a".repeat(250 << 10), ..RequestHead::default() },
            body: Body::default(),
            reply: None,
            how: Ended::NoReply,
        };
        let log = Log::default();
        (0..400).for_each(|_| log.add(exchange.clone()));
        assert_eq!(log.finished(), 400);
        let (exchanges, counts) = log.take();
        assert_eq!(exchanges.len() as u64 + counts.exchanges_left_out, 400);
        assert!((200..300).contains(&exchanges.len()), "{}", exchanges.len());
    }
}
