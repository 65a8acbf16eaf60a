//! The server driven by hand: virtual time, every byte and every close seen.

mod budget;
mod faults;
mod h2;
mod hostile;
mod paths;
mod service;
mod text;
mod wire;

use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};

use super::{Serve, Served, ServerBehavior};

/// A test driver of one server: follows the machine's contract, advances the clock, and records
/// the output.
struct Rig {
    serve: Serve,
    now: Nanos,
    links: Vec<Link>,
    finished: bool,
    /// Whether a connection whose output was accepted so far sends all of the rest at once, and a
    /// turn that the server asks for follows at once.
    drains: bool,
    /// Whether the server has asked for a turn.
    yielded: bool,
}

impl Link {
    /// Whether its output was accepted so far, but is not over.
    fn has_more(&self) -> bool {
        self.blocked && self.window > 0 && self.closed.is_none()
    }

    /// Whether there is something that the server may read now.
    fn is_unread(&self) -> bool {
        !self.paused && self.closed.is_none() && !self.unread.is_empty()
    }
}

/// The client side of a connection.
struct Link {
    id: ConnId,
    /// Received bytes with their times.
    got: Vec<(Nanos, Vec<u8>)>,
    closed: Option<(Nanos, CloseHow)>,
    /// Free space in the socket buffer; an increase calls `take_output` again.
    window: usize,
    blocked: bool,
    /// Whether the server does not read from it, and what is sent meanwhile.
    paused: bool,
    unread: Vec<u8>,
}

impl Rig {
    fn new(behavior: ServerBehavior) -> Self {
        Self {
            serve: Serve::new(behavior, 7),
            now: Nanos::ZERO,
            links: Vec::new(),
            finished: false,
            drains: true,
            yielded: false,
        }
    }

    /// Connect; return the index of the connection.
    fn connect(&mut self) -> usize {
        let id = self.serve.on_accepted(0, self.now).expect("accepted");
        assert!(self.links.iter().all(|l| l.id != id), "an id is used once");
        let (got, unread) = (Vec::new(), Vec::new());
        let (window, blocked, paused) = (usize::MAX, false, false);
        let link = Link { id, got, closed: None, window, blocked, paused, unread };
        self.links.push(link);
        self.poll();
        self.links.len() - 1
    }

    fn send(&mut self, link: usize, bytes: impl AsRef<[u8]>) {
        let l = &mut self.links[link];
        if l.closed.is_some() {
            return;
        }
        if l.paused || !l.unread.is_empty() {
            return l.unread.extend_from_slice(bytes.as_ref());
        }
        let id = l.id;
        self.serve.on_recv(id, &mut bytes.as_ref().to_vec(), self.now);
        self.poll();
    }

    fn half_close(&mut self, link: usize) {
        self.serve.on_closed(self.links[link].id, None, self.now);
        self.poll();
    }

    fn stop(&mut self, how: StopRequest) {
        self.serve.on_stop(how, self.now);
        self.poll();
    }

    /// Increase the free space in the socket buffer.
    fn open_window(&mut self, link: usize, bytes: usize) {
        self.links[link].window = bytes;
        if self.links[link].blocked {
            self.fetch(link);
            self.poll();
        }
    }

    /// Advance the clock to `end`, with a tick at every deadline.
    fn run_until(&mut self, end: Nanos) {
        while let Some(at) = self.serve.deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.serve.on_tick(self.now);
            self.poll();
        }
        self.now = end;
    }

    fn poll(&mut self) {
        self.act();
        while self.drains {
            if std::mem::take(&mut self.yielded) {
                self.serve.on_turn(self.now);
            } else if let Some(link) = self.links.iter().position(Link::has_more) {
                self.fetch(link);
            } else if !self.deliver_unread() {
                return;
            }
            self.act();
        }
    }

    /// Deliver what was sent while the server did not read. Returns whether there was something.
    fn deliver_unread(&mut self) -> bool {
        let Some(l) = self.links.iter_mut().find(|l| l.is_unread()) else { return false };
        let n = l.unread.len().min(256 << 10);
        let mut bytes: Vec<u8> = l.unread.drain(..n).collect();
        let id = l.id;
        self.serve.on_recv(id, &mut bytes, self.now);
        true
    }

    fn act(&mut self) {
        while let Some(action) = self.serve.poll_action() {
            match action {
                Action::Connect { .. } => panic!("a server connects to nobody"),
                Action::Yield => self.yielded = true,
                Action::Pause { id } => {
                    let link = self.find(id);
                    self.links[link].paused = true;
                }
                Action::Resume { id } => {
                    let link = self.find(id);
                    self.links[link].paused = false;
                }
                Action::Transmit { id } => {
                    let link = self.find(id);
                    self.fetch(link);
                }
                Action::Close { id, how } => {
                    let link = self.find(id);
                    self.links[link].closed = Some((self.now, how));
                }
                Action::Finished => {
                    assert!(!self.finished, "finished twice");
                    self.finished = true;
                }
            }
        }
        let s = self.serve.served();
        let ends = s.replies + s.truncated + s.resets + s.stream_resets + s.cancelled;
        let ends = ends + s.unanswered + s.outstanding;
        assert_eq!(s.requests + s.bad_requests, ends, "{s:?}");
        assert_eq!(s.replies, s.statuses.values().sum::<u64>());
    }

    fn fetch(&mut self, link: usize) {
        let l = &mut self.links[link];
        let (got, window, now) = (&mut l.got, &mut l.window, self.now);
        let all = self.serve.take_output(l.id, now, &mut |bytes| {
            let n = bytes.len().min(*window);
            *window -= n;
            if n > 0 {
                got.push((now, bytes[..n].to_vec()));
            }
            n
        });
        l.blocked = !all;
    }

    fn find(&self, id: ConnId) -> usize {
        let link = self.links.iter().position(|l| l.id == id).expect("a known connection");
        assert!(self.links[link].closed.is_none(), "named after its close");
        link
    }

    fn bytes(&self, link: usize) -> Vec<u8> {
        self.links[link].got.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
    }

    fn text(&self, link: usize) -> String {
        String::from_utf8(self.bytes(link)).expect("text")
    }

    /// The statuses of the received replies. Asserts that their bodies are complete.
    fn statuses(&self, link: usize) -> Vec<u16> {
        replies(&self.bytes(link)).into_iter().map(|r| r.status).collect()
    }

    fn served(&self) -> &Served {
        self.serve.served()
    }
}

/// A parsed reply.
#[derive(Debug, PartialEq)]
struct Got {
    status: u16,
    head: String,
    body: Vec<u8>,
}

/// Parse complete replies with a Content-Length, or without a body.
fn replies(mut bytes: &[u8]) -> Vec<Got> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a whole head") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let status = head[9..12].parse().expect("a status");
        let length = head
            .lines()
            .find_map(|l| l.strip_prefix("Content-Length: "))
            .map_or(0, |n| n.parse().expect("a number"));
        all.push(Got { status, head, body: bytes[end..end + length].to_vec() });
        bytes = &bytes[end + length..];
    }
    all
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn at(n: u64) -> Nanos {
    Nanos::ZERO + ms(n)
}
