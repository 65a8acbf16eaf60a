//! The oracle records the true times of every request on the network, independently of the client.
//! A [`Tally`](prony_tally::record::Tally) can be compared with them.
//!
//! The oracle identifies a request by its path: if the k-th request of a run is for `/k`, it knows
//! the request's arrival in the schedule.

mod truth;
pub(crate) mod wire;

use std::collections::VecDeque;

use prony_base::units::{Nanos, Span};

pub use truth::{Truth, histogram_mismatch, violated_invariants};
use wire::{Mark, Parser};

/// One request, as observed on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedRequest {
    /// Which client sent it.
    pub client: usize,
    /// The number in its path, if any.
    pub number: Option<u64>,
    /// When the client sent its first byte.
    pub sent: Nanos,
    /// When its last byte arrived at the server.
    pub arrived: Option<Nanos>,
    /// When the client read the first byte of its reply.
    pub first: Option<Nanos>,
    /// When the client read the last byte of its reply.
    pub done: Option<Nanos>,
    /// When the last byte of its reply arrived at the client's host.
    pub reached_host: Option<Nanos>,
    /// How long its connection was open before the client read the event. Zero if the request was
    /// not sent at that moment.
    pub connect_unread: Span,
    /// The reply's status; 0 without a reply.
    pub status: u16,
    /// Bytes of the reply's head, interim replies included.
    pub head_bytes: u64,
    /// Bytes of the reply's body.
    pub body_bytes: u64,
}

/// The traffic of one client, as observed on the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTraffic {
    /// Connects that it started.
    pub connects: u64,
    /// The connect times of the connections that opened.
    pub opened: Vec<Span>,
    /// Bytes that it sent.
    pub bytes_sent: u64,
    /// Bytes that it received.
    pub bytes_received: u64,
}

/// Observes the network.
#[derive(Debug)]
pub struct Oracle {
    watch: bool,
    requests: Vec<ObservedRequest>,
    clients: Vec<ClientTraffic>,
    conns: Vec<Conn>,
}

/// One connection.
#[derive(Debug, Default)]
struct Conn {
    client: usize,
    requested: Nanos,
    /// When the connection opened, and when the client read the event.
    opened: (Nanos, Nanos),
    sent: Parser,
    arrived: Parser,
    replies: Parser,
    /// Requests that have not arrived completely; the last may have been sent in part.
    to_arrive: VecDeque<usize>,
    /// Requests without a complete reply.
    to_reply: VecDeque<usize>,
    /// The request that has been sent in part.
    sending: Option<usize>,
}

impl Oracle {
    pub(crate) fn new(watch: bool) -> Self {
        Self { watch, requests: Vec::new(), clients: Vec::new(), conns: Vec::new() }
    }

    /// All requests, in the order in which they were sent.
    pub fn requests(&self) -> &[ObservedRequest] {
        &self.requests
    }

    /// The traffic of each client.
    pub fn clients(&self) -> &[ClientTraffic] {
        &self.clients
    }

    pub(crate) fn connecting(&mut self, c: usize, client: usize, now: Nanos) {
        if self.conns.len() <= c {
            self.conns.resize_with(c + 1, Conn::default);
        }
        if self.clients.len() <= client {
            self.clients.resize_with(client + 1, ClientTraffic::default);
        }
        self.conns[c] = Conn { client, requested: now, ..Conn::default() };
        self.clients[client].connects += 1;
    }

    pub(crate) fn opened(&mut self, c: usize, at: Nanos, now: Nanos) {
        self.conns[c].opened = (at, now);
        if self.watch {
            let conn = &self.conns[c];
            self.clients[conn.client].opened.push(now.since(conn.requested));
        }
    }

    pub(crate) fn sent(&mut self, c: usize, data: &[u8], now: Nanos) {
        let conn = &mut self.conns[c];
        self.clients[conn.client].bytes_sent += data.len() as u64;
        if !self.watch {
            return;
        }
        let (requests, client) = (&mut self.requests, conn.client);
        let (to_arrive, to_reply) = (&mut conn.to_arrive, &mut conn.to_reply);
        let (sending, opened) = (&mut conn.sending, conn.opened);
        conn.sent.feed(data, false, |mark| match mark {
            Mark::Start => {
                to_arrive.push_back(requests.len());
                to_reply.push_back(requests.len());
                *sending = Some(requests.len());
                let mut new = ObservedRequest::new(client, now);
                if opened.1 == now {
                    new.connect_unread = opened.1.since(opened.0);
                }
                requests.push(new);
            }
            Mark::End { head, .. } => {
                if let Some(k) = sending.take() {
                    requests[k].number = wire::number_of(head);
                }
            }
        });
    }

    pub(crate) fn arrived(&mut self, c: usize, data: &[u8], now: Nanos) {
        if self.watch {
            let conn = &mut self.conns[c];
            let (requests, to_arrive) = (&mut self.requests, &mut conn.to_arrive);
            conn.arrived.feed(data, false, |mark| {
                if let Mark::End { .. } = mark
                    && let Some(k) = to_arrive.pop_front()
                {
                    requests[k].arrived = Some(now);
                }
            });
        }
    }

    pub(crate) fn received(&mut self, c: usize, data: &[u8], reached_host: Nanos, now: Nanos) {
        let conn = &mut self.conns[c];
        self.clients[conn.client].bytes_received += data.len() as u64;
        if !self.watch {
            return;
        }
        let (requests, to_reply) = (&mut self.requests, &mut conn.to_reply);
        conn.replies.feed(data, true, |mark| {
            let Some(&k) = to_reply.front() else { return };
            match mark {
                Mark::Start => {
                    requests[k].first.get_or_insert(now);
                }
                Mark::End { status, head, body } => {
                    requests[k].head_bytes += head.len() as u64;
                    requests[k].body_bytes += body;
                    if status >= 200 {
                        requests[k].status = status;
                        (requests[k].done, requests[k].reached_host) =
                            (Some(now), Some(reached_host));
                        to_reply.pop_front();
                    }
                }
            }
        });
    }

    /// The connection has ended for the client: a request that was sent in part stays incomplete.
    pub(crate) fn ended(&mut self, c: usize) {
        self.conns[c].sending = None;
    }
}

impl ObservedRequest {
    fn new(client: usize, sent: Nanos) -> Self {
        Self {
            client,
            number: None,
            sent,
            arrived: None,
            first: None,
            done: None,
            reached_host: None,
            connect_unread: Span::ZERO,
            status: 0,
            head_bytes: 0,
            body_bytes: 0,
        }
    }
}
