//! What was true: the world follows every request on the wires and knows each one's real times,
//! independently of the client's own records, and holds a [`Tally`](prony_core::record::Tally)
//! against them.
//!
//! A request is recognised by its path: where the k-th request of a run asks for `/k`,
//! the oracle knows which arrival of the schedule it is.

mod truth;
pub(crate) mod wire;

use std::collections::VecDeque;

use prony_core::units::{Nanos, Span};

pub use truth::{Truth, conserves, differs};
use wire::{Mark, Parser};

/// One request, as the wires saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which client sent it.
    pub client: usize,
    /// Its number, if its path says it.
    pub number: Option<u64>,
    /// When its first byte was taken from the client.
    pub sent: Nanos,
    /// When its last byte arrived at the server.
    pub arrived: Option<Nanos>,
    /// When the first byte of its reply was given to the client.
    pub first: Option<Nanos>,
    /// When the last byte of its reply was given to the client.
    pub done: Option<Nanos>,
    /// The reply's status; 0 while there is none.
    pub status: u16,
    /// Bytes of the reply that are no body.
    pub head_bytes: u64,
    /// Bytes of the reply's body.
    pub body_bytes: u64,
}

/// What the wires saw of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wires {
    /// Connections that it asked for.
    pub connects: u64,
    /// How long each connection took that opened.
    pub opened: Vec<Span>,
    /// Bytes taken from it.
    pub bytes_sent: u64,
    /// Bytes given to it.
    pub bytes_received: u64,
}

/// Follows the wires.
#[derive(Debug)]
pub struct Oracle {
    watch: bool,
    seen: Vec<Seen>,
    clients: Vec<Wires>,
    lines: Vec<Line>,
}

/// One connection.
#[derive(Debug, Default)]
struct Line {
    client: usize,
    asked: Nanos,
    sent: Parser,
    arrived: Parser,
    replies: Parser,
    /// Sent and not yet whole at the server; the last may be sent in part.
    to_arrive: VecDeque<usize>,
    /// Sent and not yet answered.
    to_answer: VecDeque<usize>,
    /// The request that is being sent.
    sending: Option<usize>,
}

impl Oracle {
    pub(crate) fn new(watch: bool) -> Self {
        Self { watch, seen: Vec::new(), clients: Vec::new(), lines: Vec::new() }
    }

    /// All requests in the order in which they were sent.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// What the wires saw of each client.
    pub fn clients(&self) -> &[Wires] {
        &self.clients
    }

    pub(crate) fn connecting(&mut self, c: usize, client: usize, now: Nanos) {
        if self.lines.len() <= c {
            self.lines.resize_with(c + 1, Line::default);
        }
        if self.clients.len() <= client {
            self.clients.resize_with(client + 1, Wires::default);
        }
        self.lines[c] = Line { client, asked: now, ..Line::default() };
        self.clients[client].connects += 1;
    }

    pub(crate) fn opened(&mut self, c: usize, now: Nanos) {
        if self.watch {
            let line = &self.lines[c];
            self.clients[line.client].opened.push(now.since(line.asked));
        }
    }

    pub(crate) fn sent(&mut self, c: usize, data: &[u8], now: Nanos) {
        let line = &mut self.lines[c];
        self.clients[line.client].bytes_sent += data.len() as u64;
        if !self.watch {
            return;
        }
        let (seen, client) = (&mut self.seen, line.client);
        let (to_arrive, to_answer) = (&mut line.to_arrive, &mut line.to_answer);
        let sending = &mut line.sending;
        line.sent.feed(data, false, |mark| match mark {
            Mark::Begins => {
                to_arrive.push_back(seen.len());
                to_answer.push_back(seen.len());
                *sending = Some(seen.len());
                seen.push(Seen::new(client, now));
            }
            Mark::Ends { head, .. } => {
                if let Some(k) = sending.take() {
                    seen[k].number = wire::number_of(head);
                }
            }
        });
    }

    pub(crate) fn arrived(&mut self, c: usize, data: &[u8], now: Nanos) {
        if self.watch {
            let line = &mut self.lines[c];
            let (seen, to_arrive) = (&mut self.seen, &mut line.to_arrive);
            line.arrived.feed(data, false, |mark| {
                if let Mark::Ends { .. } = mark
                    && let Some(k) = to_arrive.pop_front()
                {
                    seen[k].arrived = Some(now);
                }
            });
        }
    }

    pub(crate) fn received(&mut self, c: usize, data: &[u8], now: Nanos) {
        let line = &mut self.lines[c];
        self.clients[line.client].bytes_received += data.len() as u64;
        if !self.watch {
            return;
        }
        let (seen, to_answer) = (&mut self.seen, &mut line.to_answer);
        line.replies.feed(data, true, |mark| {
            let Some(&k) = to_answer.front() else { return };
            match mark {
                Mark::Begins => {
                    seen[k].first.get_or_insert(now);
                }
                Mark::Ends { status, head, body } => {
                    seen[k].head_bytes += head.len() as u64;
                    seen[k].body_bytes += body;
                    if status >= 200 {
                        seen[k].status = status;
                        seen[k].done = Some(now);
                        to_answer.pop_front();
                    }
                }
            }
        });
    }

    /// The client knows of the end of the server's stream: a reply without a length ends here.
    pub(crate) fn ended(&mut self, c: usize) {
        self.lines[c].sending = None;
    }
}

impl Seen {
    fn new(client: usize, sent: Nanos) -> Self {
        Self {
            client,
            number: None,
            sent,
            arrived: None,
            first: None,
            done: None,
            status: 0,
            head_bytes: 0,
            body_bytes: 0,
        }
    }
}
