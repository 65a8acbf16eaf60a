//! HTTP/1.0 and 1.1, client side.

mod chunked;
mod files;
mod head;
mod request;
#[cfg(test)]
mod tests;

use crate::proto::{BodyRest, Call, Carrier, Out, Reply, Sink, wants};
use chunked::ChunkLine;
use files::Files;
use head::{Body, Framing, Head, Kind, Line, Section, split_field};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_plan::plan::Plan;
use request::{CLOSES, IN_FILE, Requests};

/// The codec of one worker: the prebuilt requests of a plan, and the most recent reply heads.
#[derive(Clone, Debug)]
pub struct H1 {
    requests: Requests,
    seen: Seen,
    /// The bodies that are sent from their files, if there are any.
    files: Option<Box<Files>>,
}

/// The state of one connection: its position in a reply.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conn {
    head: Head,
    /// Bytes of this reply that are not body, so far.
    head_bytes: u64,
    /// Bytes of body so far.
    body_bytes: u64,
    /// Bytes of chunk framing so far.
    framing_bytes: u32,
    /// Bytes after the last chunk so far.
    footer_bytes: u32,
    phase: Phase,
    /// Interim replies before this one.
    interim: u32,
    /// The peer was asked to close the connection after the last call.
    closing: bool,
    keeps_open: bool,
    tunnel: bool,
}

// Keep ten thousand idle connections small.
const _: () = assert!(size_of::<Conn>() <= 72);

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Before the status line. An empty line may precede it: some servers send one too many after a
    /// body.
    Start { section: Section, blank: bool },
    /// Between status line and the end of the head.
    Fields(Section),
    /// In a body (`chunk: false`) or a chunk, with `left` bytes to come.
    Data { left: u64, chunk: bool },
    /// In a chunk's size line (the size so far), or in the line end of the chunk before.
    Size { line: ChunkLine, size: u64 },
    /// After the last chunk.
    Trailers(Section),
    /// In a body that ends with the connection.
    UntilClose,
    /// The last reply of this connection has been read.
    Over,
}

/// The result of reading some bytes.
enum Step {
    /// This many bytes are used; there may be more to do.
    Used(usize),
    /// This many bytes are used; the next ones can only be read with more bytes after them.
    NeedsMore(usize),
    /// The reply ended after this many bytes.
    Done(usize),
}

impl H1 {
    /// The codec for a plan's calls.
    pub fn new(plan: &Plan) -> Self {
        Self { requests: Requests::new(plan), seen: Seen::new(), files: Files::new(plan) }
    }
}

impl Carrier for H1 {
    type Conn = Conn;

    #[inline]
    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        if conn.closing || matches!(conn.phase, Phase::Over) {
            return 0;
        }
        limit.saturating_sub(in_flight)
    }

    #[inline(always)]
    fn submit(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    ) {
        out.begin(id);
        let flags = match call.filled {
            None => self.requests.write(call.index, last, out.bytes()),
            Some(filled) => self.requests.write_filled(call.index, filled, last, out.bytes()),
        };
        if flags != 0 {
            conn.closing |= flags & CLOSES != 0;
            if flags & IN_FILE != 0 {
                self.begin_body(call.index, out);
            }
        }
    }

    fn append_body(&self, body: &mut BodyRest, out: &mut Vec<u8>) -> Option<bool> {
        self.files.as_deref()?.append(body, out)
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        _: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let mut at = 0;
        // A reply that is read at once leaves the state as it is.
        let mut fresh = conn.is_fresh();
        while at < data.len() {
            let rest = &data[at..];
            if fresh && let Some((n, open)) = self.seen_reply(conn, rest, sink) {
                at += n;
                if !open {
                    return Ok(data.len());
                }
                continue;
            }
            let step = match conn.phase {
                Phase::Start { .. } | Phase::Fields(_) => self.head(conn, rest, sink)?,
                Phase::Data { left, chunk } => conn.data(left, chunk, rest, sink),
                Phase::Size { line, size } => conn.size(line, size, rest)?,
                Phase::Trailers(section) => conn.trailers(section, rest)?,
                Phase::UntilClose => {
                    conn.body(rest, false, sink);
                    Step::Used(rest.len())
                }
                Phase::Over => return Err(Fault::Surplus),
            };
            match step {
                Step::Used(n) => at += n,
                Step::NeedsMore(n) => {
                    at += n;
                    break;
                }
                Step::Done(n) => {
                    at += n;
                    if !conn.finish(data.len() - at, sink) {
                        return Ok(data.len());
                    }
                }
            }
            fresh = conn.is_fresh();
        }
        if (conn.has_begun() || at < data.len())
            && let Some((id, _)) = sink.oldest()
        {
            sink.began(id);
        }
        Ok(at)
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match conn.phase {
            Phase::UntilClose => {
                conn.finish(0, sink);
                return Ok(());
            }
            Phase::Data { chunk: false, .. } => return Err(Fault::ShortBody),
            _ => {}
        }
        if conn.has_begun() || !left.is_empty() {
            return Err(Fault::Truncated);
        }
        if sink.oldest().is_some() {
            return Err(Fault::ClosedEarly);
        }
        Ok(())
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        let is_in_body = match conn.phase {
            Phase::Start { .. } | Phase::Fields(_) | Phase::Over => false,
            Phase::Data { .. } | Phase::Size { .. } | Phase::Trailers(_) | Phase::UntilClose => {
                true
            }
        };
        if is_in_body && sink.oldest().is_some_and(|(oldest, _)| oldest == id) {
            let reply = Reply { keeps_open: false, ..conn.reply() };
            *conn = Conn { phase: Phase::Over, closing: conn.closing, ..Conn::default() };
            sink.done(id, &reply);
        }
    }
}

impl H1 {
    /// Append the first piece of the body of a call, which is in a file.
    #[cold]
    fn begin_body(&self, call: u32, out: &mut Out) {
        let mut rest = BodyRest { call, at: 0 };
        if self.append_body(&mut rest, out.bytes()) != Some(true) {
            out.continue_later(rest);
        }
    }

    /// Read a complete reply at the start of `data` with a head that was seen before, on a fresh
    /// connection. This is the usual case, in which the connection needs no state. Returns the
    /// length of the reply and whether the connection stays open.
    #[inline(always)]
    fn seen_reply(
        &self,
        conn: &mut Conn,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Option<(usize, bool)> {
        debug_assert!(conn.is_fresh());
        let (id, call) = sink.oldest()?;
        if sink.wants_headers(id) {
            return None;
        }
        let SeenHead { bytes, head, framing, .. } =
            self.seen.find(call, self.requests.kind(call), data)?;
        let n = bytes.len();
        let body = framing.whole_body(&data[n..])?;
        if !body.is_empty() && wants(sink, id, head.status) {
            sink.head(id, head.status, head.has_events);
            sink.body(id, body);
        }
        let reply = Reply {
            status: head.status,
            head_bytes: n as u64,
            framing_bytes: 0,
            footer_bytes: 0,
            body_bytes: body.len() as u64,
            interim: 0,
            keeps_open: framing.keeps_open,
            fault: None,
        };
        let n = n + body.len();
        let open = conn.give(id, reply, framing.tunnel, data.len() - n, sink);
        if !open {
            conn.phase = Phase::Over;
        }
        Some((n, open))
    }

    /// In a head, or before it.
    #[inline]
    fn head(&mut self, conn: &mut Conn, data: &[u8], sink: &mut impl Sink) -> Result<Step, Fault> {
        let Some((id, call)) = sink.oldest() else { return Err(Fault::Surplus) };
        let kind = self.requests.kind(call);
        let starts = matches!(conn.phase, Phase::Start { blank: false, .. });
        // If headers are wanted, the head must be parsed.
        let compares = starts && !sink.wants_headers(id);
        if compares && let Some(seen) = self.seen.find(call, kind, data) {
            let n = seen.bytes.len();
            conn.head = seen.head;
            conn.head_bytes += n as u64;
            return Ok(conn.head_done(seen.framing, n));
        }
        let (n, whole) = conn.head_lines(id, data, sink)?;
        conn.head_bytes += n as u64;
        if !whole {
            return Ok(Step::NeedsMore(n));
        }
        if conn.head.is_interim() {
            conn.interim = conn.interim.saturating_add(1);
            conn.phase = Phase::default();
            return Ok(Step::Used(n));
        }
        if compares {
            self.seen.keep(call, kind, &data[..n], conn.head);
        }
        Ok(conn.head_done(conn.head.framing(kind), n))
    }
}

/// No reply starts with these bytes.
#[cold]
fn unreadable<T>(bytes: &[u8], fault: Fault, sink: &mut impl Sink) -> Result<T, Fault> {
    sink.unreadable(bytes, fault);
    Err(fault)
}

impl Conn {
    /// Read the lines of a head. Returns the bytes used and whether the head is complete.
    fn head_lines(
        &mut self,
        id: RequestId,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(usize, bool), Fault> {
        let mut at = 0;
        if let Phase::Start { section, blank } = &mut self.phase {
            if !*blank {
                at = match data {
                    [b'\r'] => return Ok((0, false)),
                    [b'\r', b'\n', ..] => 2,
                    [b'\n', ..] => 1,
                    _ => 0,
                };
                *blank = at > 0;
            }
            let (line, n) = match section.simple_line(&data[at..]) {
                Some(found) => found,
                None => match section.status_line(&data[at..]) {
                    Ok(Line::Text(line, n)) => (line, n),
                    Ok(_) => return Ok((at, false)),
                    Err(fault) => return unreadable(&data[at..], fault, sink),
                },
            };
            self.head = match Head::status_line(line) {
                Ok(head) => head,
                Err(fault) => return unreadable(&data[at..], fault, sink),
            };
            at += n;
            self.phase = Phase::Fields(*section);
        }
        let Phase::Fields(section) = &mut self.phase else { return Ok((at, false)) };
        let reports = sink.wants_headers(id) && !self.head.is_interim();
        loop {
            let (name, value, n) = match section.simple_field(&data[at..]) {
                Some(field) => field,
                None => match section.field_line(&data[at..])? {
                    Line::Text(line, n) => {
                        let (name, value) = split_field(line)?;
                        (name, value, n)
                    }
                    Line::End(n) => return Ok((at + n, true)),
                    Line::NeedsMore => return Ok((at, false)),
                },
            };
            self.head.field(name, value)?;
            if reports {
                sink.header(id, name, value);
            }
            at += n;
        }
    }

    /// The head is complete, and ended after `n` bytes.
    #[inline]
    fn head_done(&mut self, framing: Framing, n: usize) -> Step {
        (self.keeps_open, self.tunnel) = (framing.keeps_open, framing.tunnel);
        self.phase = match framing.body {
            Body::Length(0) => return Step::Done(n),
            Body::Length(left) => Phase::Data { left, chunk: false },
            Body::Chunked => Phase::Size { line: ChunkLine::default(), size: 0 },
            Body::UntilClose => Phase::UntilClose,
        };
        Step::Used(n)
    }

    /// In a body of known length, or a chunk.
    #[inline]
    fn data(&mut self, left: u64, chunk: bool, data: &[u8], sink: &mut impl Sink) -> Step {
        let n = usize::try_from(left).map_or(data.len(), |left| left.min(data.len()));
        let left = left - n as u64;
        self.body(&data[..n], chunk && left == 0, sink);
        if left > 0 {
            self.phase = Phase::Data { left, chunk };
            return Step::Used(n);
        }
        if !chunk {
            return Step::Done(n);
        }
        self.phase = Phase::Size { line: ChunkLine::after_data(), size: 0 };
        Step::Used(n)
    }

    fn size(&mut self, mut line: ChunkLine, mut size: u64, data: &[u8]) -> Result<Step, Fault> {
        let (n, known) = line.read(data, &mut size)?;
        self.head_bytes += n as u64;
        self.framing_bytes = self.framing_bytes.saturating_add(n as u32);
        self.phase = match (known, size) {
            (false, _) => Phase::Size { line, size },
            (true, 0) => Phase::Trailers(Section::default()),
            // The sum over the chunks must fit as well.
            (true, left) => match self.body_bytes.checked_add(left) {
                Some(_) => Phase::Data { left, chunk: true },
                None => return Err(Fault::BadChunk),
            },
        };
        Ok(Step::Used(n))
    }

    fn trailers(&mut self, mut section: Section, data: &[u8]) -> Result<Step, Fault> {
        let mut at = 0;
        loop {
            let (n, end) = match section.field_line(&data[at..])? {
                Line::Text(line, n) => {
                    head::check_field(line)?;
                    (n, false)
                }
                Line::End(n) => (n, true),
                Line::NeedsMore => {
                    self.phase = Phase::Trailers(section);
                    return Ok(Step::NeedsMore(at));
                }
            };
            at += n;
            self.head_bytes += n as u64;
            self.footer_bytes = self.footer_bytes.saturating_add(n as u32);
            if end {
                return Ok(Step::Done(at));
            }
        }
    }

    #[inline]
    fn body(&mut self, piece: &[u8], ends_chunk: bool, sink: &mut impl Sink) {
        self.body_bytes += piece.len() as u64;
        if let Some((id, _)) = sink.oldest()
            && !piece.is_empty()
            && wants(sink, id, self.head.status)
        {
            if self.body_bytes == piece.len() as u64 {
                sink.head(id, self.head.status, self.head.has_events);
            }
            sink.body(id, piece);
            if ends_chunk {
                sink.chunk_ended(id);
            }
        }
    }

    /// The reply is complete; `rest` bytes follow it. Returns whether there is more to read on this
    /// connection.
    #[inline(never)]
    fn finish(&mut self, rest: usize, sink: &mut impl Sink) -> bool {
        let reply = self.reply();
        // A body is only read for an exchange that awaits it.
        let Some((id, _)) = sink.oldest() else { return false };
        let open = self.give(id, reply, self.tunnel, rest, sink);
        let phase = if open { Phase::default() } else { Phase::Over };
        *self = Self { phase, closing: self.closing, ..Self::default() };
        open
    }

    /// What has arrived of the reply.
    #[inline]
    fn reply(&self) -> Reply {
        Reply {
            status: self.head.status,
            head_bytes: self.head_bytes,
            framing_bytes: u64::from(self.framing_bytes),
            footer_bytes: u64::from(self.footer_bytes),
            body_bytes: self.body_bytes,
            interim: self.interim,
            keeps_open: self.keeps_open,
            fault: None,
        }
    }

    /// Pass a reply to the sink. Its `keeps_open` and `fault` follow from its own bytes; they also
    /// depend on the calls around it and on the bytes after it.
    #[inline(always)]
    fn give(
        &self,
        id: RequestId,
        mut reply: Reply,
        tunnel: bool,
        rest: usize,
        sink: &mut impl Sink,
    ) -> bool {
        let alone = sink.outstanding() <= 1;
        let open = reply.keeps_open && !(self.closing && alone);
        // After a switch of protocols, the following bytes are not HTTP.
        let surplus = rest > 0 && (alone || !open) && !tunnel;
        reply.keeps_open = open && !surplus;
        reply.fault = surplus.then_some(Fault::Surplus);
        sink.done(id, &reply);
        reply.keeps_open
    }

    /// Whether no byte of a reply has been read or scanned.
    #[inline]
    fn is_fresh(&self) -> bool {
        matches!(self.phase, Phase::Start { section, blank: false } if section.is_fresh())
            && self.head_bytes == 0
    }

    /// Whether a reply has started and not ended.
    #[inline]
    fn has_begun(&self) -> bool {
        self.head_bytes > 0
    }
}

impl Default for Phase {
    fn default() -> Self {
        Self::Start { section: Section::default(), blank: false }
    }
}

/// The most recent heads. A server sends the same head again and again (with a new `Date` every
/// second), and the same bytes have the same meaning: comparing them is several times faster than
/// parsing them.
#[derive(Clone, Debug)]
struct Seen {
    heads: Box<[SeenHead; Self::SLOTS]>,
}

#[derive(Clone, Debug)]
struct SeenHead {
    /// From status line to empty line; empty if there is none yet.
    bytes: Vec<u8>,
    head: Head,
    /// The kind of call that it answers.
    kind: Kind,
    framing: Framing,
}

impl Seen {
    /// Several, so that a few URLs in rotation do not evict each other's heads.
    const SLOTS: usize = 8;
    /// Longer heads are parsed each time.
    const LONGEST: usize = 1024;

    fn new() -> Self {
        // Allocate everything now, and nothing per reply.
        let (head, kind) = (Head::default(), Kind::Plain);
        let slot = || SeenHead {
            bytes: Vec::with_capacity(Self::LONGEST),
            head,
            kind,
            framing: head.framing(kind),
        };
        Self { heads: Box::new(std::array::from_fn(|_| slot())) }
    }

    #[inline]
    fn find(&self, call: u32, kind: Kind, data: &[u8]) -> Option<&SeenHead> {
        let seen = &self.heads[call as usize % Self::SLOTS];
        let known = !seen.bytes.is_empty() && seen.kind == kind;
        (known && data.starts_with(&seen.bytes)).then_some(seen)
    }

    #[inline]
    fn keep(&mut self, call: u32, kind: Kind, bytes: &[u8], head: Head) {
        if bytes.len() > Self::LONGEST {
            return;
        }
        let seen = &mut self.heads[call as usize % Self::SLOTS];
        seen.bytes.clear();
        seen.bytes.extend_from_slice(bytes);
        (seen.kind, seen.framing) = (kind, head.framing(kind));
        seen.head = head;
    }
}
