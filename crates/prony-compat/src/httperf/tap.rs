//! Prints requests and replies to standard output while they are sent and received.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prony_base::fault::Fault;
use prony_base::units::{ConnId, RequestId};
use prony_core::engine::Tap;
use prony_plan::plan::Plan;
use prony_proto::proto::Reply;

use super::options::Opts;
use super::values::{Print, Uris};

/// What is printed, and counters of all workers that no other part of prony has.
pub(super) struct Taps {
    out: Out,
    program: String,
    request: Option<Print>,
    reply: Option<Print>,
    /// The URIs of the plan's calls, if each request is printed as its URI.
    uris: Option<Vec<String>>,
    /// The number of the next request.
    next: AtomicU64,
    /// The bytes of the requests, before they are encrypted.
    bytes: AtomicU64,
    /// Whether statuses are counted.
    periodic: bool,
    /// Replies with status 200, and with 302.
    statuses: [AtomicU64; 2],
}

/// Writes the lines; each call gets complete lines.
pub(super) type Out = Box<dyn Fn(&[u8]) + Send + Sync>;

/// A longer line of a body is printed in pieces.
const LINE_MAX: usize = 64 * 1024;

impl Taps {
    /// `None`: nothing needs to be printed or counted.
    pub(super) fn new(o: &Opts, plan: &Plan, out: Out) -> Option<Self> {
        let uris = (o.verbose > 0 && o.uris != Uris::One)
            .then(|| plan.calls.iter().map(|c| c.path.clone()).collect());
        let wanted = o.print_request.is_some()
            || o.print_reply.is_some()
            || uris.is_some()
            || o.periodic_stats
            || o.ssl.on;
        wanted.then(|| Self {
            out,
            program: o.program.clone(),
            request: o.print_request,
            reply: o.print_reply,
            uris,
            next: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            periodic: o.periodic_stats,
            statuses: Default::default(),
        })
    }

    /// Replies with status 200, and with 302, so far.
    pub(super) fn statuses(&self) -> [u64; 2] {
        [0, 1].map(|i| self.statuses[i].load(Ordering::Relaxed))
    }

    /// The bytes of the requests so far, before they are encrypted.
    pub(super) fn request_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether replies are printed or counted.
    fn reads(&self) -> bool {
        self.reply.is_some() || self.periodic
    }

    /// Print and count a request that is sent. Returns its number.
    fn sent(&self, call: u32, bytes: &[u8]) -> u64 {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut text = Vec::new();
        if let Some(uri) = self.uris.as_ref().and_then(|all| all.get(call as usize)) {
            text.extend(format!("{}: accessing URI `{uri}'\n", self.program).into_bytes());
        }
        if let Some(print) = self.request {
            let (head, body) = bytes.split_at(end_of_block(bytes).unwrap_or(bytes.len()));
            if print.header() {
                lines(&mut text, "SH", number, head);
            }
            if print.body() {
                lines(&mut text, "SB", number, body);
            }
            let sizes = format!("SS{number}: header {} content {}\n", head.len(), body.len());
            text.extend(sizes.into_bytes());
        }
        self.show(&text);
        number
    }

    fn replied(&self, number: u64, reply: &Reply, mut text: Vec<u8>) {
        let counted = [200, 302].iter().position(|&s| s == reply.status);
        if let Some(i) = counted {
            self.statuses[i].fetch_add(1, Ordering::Relaxed);
        }
        if self.reply.is_some() {
            let head = reply.head_bytes - reply.framing_bytes - reply.footer_bytes;
            let sizes = format!(
                "RS{number}: header {head} content {} footer {}\n",
                reply.body_bytes, reply.footer_bytes
            );
            text.extend(sizes.into_bytes());
        }
        self.show(&text);
    }

    fn show(&self, text: &[u8]) {
        if !text.is_empty() {
            (self.out)(text);
        }
    }
}

/// Prints the traffic of one worker's connections.
pub(super) struct Printer {
    taps: Arc<Taps>,
    streams: HashMap<ConnId, Stream>,
    /// The bytes that the carrier is reading.
    arrived: Vec<u8>,
}

impl Printer {
    pub(super) fn new(taps: &Arc<Taps>) -> Self {
        Self { taps: Arc::clone(taps), streams: HashMap::new(), arrived: Vec::new() }
    }
}

/// The position in the stream of one connection.
#[derive(Debug, Default)]
struct Stream {
    /// The numbers of the calls that have no reply yet.
    numbers: VecDeque<(RequestId, u64)>,
    /// How many bytes have been parsed.
    used: u64,
    /// The position at which the current reply starts.
    start: u64,
    /// The part of its head that has been parsed.
    head: Vec<u8>,
    /// Whether its head has been printed.
    shown: bool,
    /// An incomplete line of its body.
    line: Vec<u8>,
}

impl Stream {
    fn number(&self) -> u64 {
        self.numbers.front().map_or(0, |(_, number)| *number)
    }

    /// The part of `data` that belongs to the current reply. `data` follows the parsed bytes.
    fn own<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        let skipped = usize::try_from(self.start.saturating_sub(self.used)).unwrap_or(usize::MAX);
        data.get(skipped..).unwrap_or_default()
    }

    /// Print the head unless it has been printed.
    fn show_head(&mut self, taps: &Taps, data: &[u8]) {
        if std::mem::replace(&mut self.shown, true) {
            return;
        }
        let mut head = std::mem::take(&mut self.head);
        head.extend_from_slice(self.own(data));
        head.truncate(end_of_head(&head));
        if taps.reply.is_some_and(Print::header) {
            let mut text = Vec::new();
            lines(&mut text, "RH", self.number(), &head);
            taps.show(&text);
        }
    }

    fn body(&mut self, taps: &Taps, piece: &[u8]) {
        if !taps.reply.is_some_and(Print::body) {
            return;
        }
        self.line.extend_from_slice(piece);
        let whole = self.line.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let n = if self.line.len() - whole > LINE_MAX { self.line.len() } else { whole };
        let mut text = Vec::new();
        lines(&mut text, "RB", self.number(), &self.line[..n]);
        self.line.drain(..n);
        taps.show(&text);
    }

    /// Take the rest of the body, as text to print.
    fn tail(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        lines(&mut text, "RB", self.number(), &self.line);
        self.line.clear();
        text
    }

    /// The reply to this exchange is complete: print the rest of it.
    fn done(&mut self, taps: &Taps, id: RequestId, reply: &Reply, data: &[u8]) {
        if let Some(at) = self.numbers.iter().position(|(of, _)| *of == id)
            && let Some(number) = self.numbers.remove(at)
        {
            self.numbers.push_front(number);
        }
        self.show_head(taps, data);
        let tail = self.tail();
        taps.replied(self.number(), reply, tail);
        self.numbers.pop_front();
        self.start += reply.head_bytes + reply.body_bytes;
        self.shown = false;
    }

    /// The carrier has parsed these bytes.
    fn read(&mut self, used: &[u8]) {
        if !self.shown {
            let own = self.own(used).to_vec();
            self.head.extend_from_slice(&own);
        }
        self.used += used.len() as u64;
    }

    /// The connection has failed: print what has arrived of the current reply.
    fn give_up(&mut self, taps: &Taps, data: &[u8]) {
        let is_started = !self.head.is_empty() || !self.own(data).is_empty();
        if is_started && !self.numbers.is_empty() {
            self.show_head(taps, data);
        }
        let tail = self.tail();
        taps.show(&tail);
    }
}

impl Tap for Printer {
    fn submitted(&mut self, conn: ConnId, id: RequestId, call: u32, bytes: &[u8]) {
        let number = self.taps.sent(call, bytes);
        if self.taps.reads() {
            self.streams.entry(conn).or_default().numbers.push_back((id, number));
        }
    }

    fn arrived(&mut self, _: ConnId, bytes: &[u8]) {
        if self.taps.reads() {
            self.arrived.clear();
            self.arrived.extend_from_slice(bytes);
        }
    }

    fn wants_body(&self) -> bool {
        self.taps.reply.is_some()
    }

    fn body(&mut self, conn: ConnId, _: RequestId, piece: &[u8]) {
        let stream = self.streams.entry(conn).or_default();
        stream.show_head(&self.taps, &self.arrived);
        stream.body(&self.taps, piece);
    }

    fn done(&mut self, conn: ConnId, id: RequestId, reply: &Reply) {
        if self.taps.reads() {
            let stream = self.streams.entry(conn).or_default();
            stream.done(&self.taps, id, reply, &self.arrived);
        }
    }

    fn read(&mut self, conn: ConnId, used: Result<usize, Fault>) {
        if !self.taps.reads() {
            return;
        }
        let stream = self.streams.entry(conn).or_default();
        match used {
            Ok(used) => stream.read(&self.arrived[..used]),
            Err(_) => stream.give_up(&self.taps, &self.arrived),
        }
    }

    fn cancelled(&mut self, conn: ConnId, id: RequestId) {
        if let Some(stream) = self.streams.get_mut(&conn) {
            stream.numbers.retain(|(of, _)| *of != id);
        }
    }

    fn closed(&mut self, conn: ConnId) {
        self.streams.remove(&conn);
    }
}

/// Append the lines of a text, each with a prefix. The last one gets a newline if it has none.
fn lines(out: &mut Vec<u8>, prefix: &str, number: u64, text: &[u8]) {
    for line in text.split_inclusive(|&b| b == b'\n') {
        out.extend(format!("{prefix}{number}:").into_bytes());
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
}

/// The end of the first block of lines, including the empty line after it.
fn end_of_block(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive(|&b| b == b'\n') {
        at += line.len();
        if line == b"\r\n" || line == b"\n" {
            return Some(at);
        }
    }
    None
}

/// The end of a reply's head, including interim replies before it.
fn end_of_head(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(n) = end_of_block(&text[at..]) {
        let status = text[at..].split(|&b| b == b' ').nth(1).unwrap_or_default();
        at += n;
        let interim = status.starts_with(b"1") && !status.starts_with(b"101");
        // An empty line before a status line belongs to the head.
        if !interim && n > 2 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests;
