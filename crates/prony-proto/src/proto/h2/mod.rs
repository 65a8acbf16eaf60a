//! HTTP/2, client side (RFC 9113): streams over one connection.

mod bodies;
mod conn;
mod content;
mod grpc;
mod head;
mod keepalive;
mod own;
mod receive;
mod requests;
mod streams;
#[cfg(test)]
mod tests;
mod tunnels;

use crate::proto::{Call, Cancelled, Carrier, Out, Sink, StreamCounts as Counts};
pub use conn::Conn;
use content::Content;
use own::Spare;
use prony_base::fault::Fault;
use prony_base::http2::frame::{self, Code, Settings};
use prony_base::http2::{FRAME_SIZE, PREFACE, TABLE_SIZE, WINDOW};
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::plan::Plan;
use requests::{Requests, Table};
use streams::Stream;

/// The largest header list that is accepted, in bytes with the overhead of entries.
const LIST_MAX: usize = 64 << 10;
/// The most concurrent streams before the peer has stated its limit.
const STREAMS_BEFORE_SETTINGS: u32 = 100;

/// The carrier of one worker: the encoded requests of a plan, and what was counted.
#[derive(Debug)]
pub struct H2 {
    requests: Requests,
    /// Whether bodies may be sent from their files.
    reads_files: bool,
    options: Options,
    counts: Counts,
    spare: Spare,
    /// The `grpc-message` of the last header block that was decoded.
    message: Vec<u8>,
    /// The time of the bytes that are being read.
    now: Nanos,
    /// The start of the measurement: what happens before is not counted.
    begin: Nanos,
}

/// What the client announces.
#[derive(Clone, Copy, Debug)]
struct Options {
    /// The flow-control window of each stream and of the connection, in bytes.
    window: u32,
    /// The size of the decoder's dynamic table, in bytes.
    table_size: u32,
    /// The largest payload of a frame, in bytes.
    frame_size: u32,
    /// Whether requests wait for the peer's settings.
    waits: bool,
    /// Whether requests use no dynamic table.
    is_static: bool,
    /// Whether a request is sent again whose stream the peer has refused.
    retries_refused: bool,
    /// How often each connection is checked with a ping.
    keepalive: Option<Span>,
}

impl H2 {
    /// The carrier for a plan's calls.
    pub fn new(plan: &Plan) -> Self {
        let spec = plan.http2.as_deref().copied().unwrap_or_default();
        let options = Options {
            window: spec.window,
            table_size: spec.table_size,
            frame_size: spec.frame_size,
            waits: spec.wait_settings,
            is_static: spec.is_static,
            retries_refused: spec.retry_refused,
            keepalive: spec.keepalive,
        };
        let begin = Nanos::ZERO + plan.warmup;
        let (counts, spare, message) = Default::default();
        let (requests, reads_files) = (Requests::new(plan), plan.has_body_files());
        Self { requests, reads_files, options, counts, spare, message, now: begin, begin }
    }
}

impl Options {
    /// The settings that differ from what holds without them.
    fn settings(&self) -> Vec<(u16, u32)> {
        let all = [
            (Settings::TABLE_SIZE, self.table_size, TABLE_SIZE),
            (Settings::PUSH, 0, 1),
            (Settings::WINDOW, self.window, WINDOW),
            (Settings::FRAME_SIZE, self.frame_size, FRAME_SIZE),
            (Settings::LIST_SIZE, LIST_MAX as u32, u32::MAX),
        ];
        let differs = all.into_iter().filter(|(_, value, usual)| value != usual);
        differs.map(|(parameter, value, _)| (parameter, value)).collect()
    }
}

impl Carrier for H2 {
    type Conn = Conn;

    const MULTIPLEXES: bool = true;

    #[inline]
    fn ends_alone(&self) -> bool {
        self.reads_files
    }

    #[inline]
    fn reads_files(&self) -> bool {
        self.reads_files
    }

    #[inline]
    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        if conn.drains || conn.is_used_up() {
            return 0;
        }
        conn.limit(|| self.first_streams()).min(limit).saturating_sub(in_flight)
    }

    fn is_limited_by_peer(&self, conn: &Conn, limit: u32) -> bool {
        conn.limit(|| self.first_streams()) < limit
    }

    #[inline]
    fn set_lateness(&mut self, late: Span) {
        self.requests.late = late;
    }

    #[inline]
    fn submit(&mut self, conn: &mut Conn, id: RequestId, call: Call<'_>, _: bool, out: &mut Out) {
        let stream_id = 2 * conn.started + 1;
        conn.started += 1;
        out.begin(id);
        let (table, update) = conn.next_table(self.requests.common_size());
        let block = match call.filled {
            None => self.requests.write(call.index, stream_id, table, update, out.bytes()),
            Some(filled) => {
                let mut table = table;
                if table == Table::Empty && self.requests.changes_common(filled) {
                    // The next request enters the common fields.
                    (conn.table, table) = (Table::Empty, Table::Unused);
                }
                let at = (stream_id, table);
                self.requests.write_filled(call.index, filled, at, update, out.bytes())
            }
        };
        self.counts.heads_sent(block.plain, block.encoded);
        let own = call.filled.and_then(|filled| filled.body());
        let packed = own.filter(|own| self.requests.packs(call.index, own));
        let packed = packed.map(|own| self.spare.packed(own));
        // A filled body may be the plan's, which is compressed already.
        let own = match packed.as_deref() {
            None => own.filter(|_| !self.requests.is_packed(call.index)),
            packed => packed,
        };
        let body = own.unwrap_or_else(|| self.requests.body(call.index));
        let window = i64::from(conn.peer.window);
        let mut stream = Stream::new(stream_id, id, call.index, body.len() as u32, window);
        stream.bodiless = self.requests.is_head(call.index);
        stream.content = Content::new(self.requests.kind(call.index));
        if stream.left > 0 && self.requests.is_paced(call.index) {
            stream.left = 0;
            stream.own = Some(self.spare.messages(own));
        } else if stream.left > 0 {
            self.submit_body(conn, &mut stream, own, out);
        }
        if self.reads_files
            && let Some(file) = self.requests.file(call.index)
        {
            // A redirect that has become GET has no body.
            let moved = call.filled.and_then(|filled| filled.moved());
            if !moved.is_some_and(|moved| moved.is_get) {
                stream.own = Some(self.spare.upload(file.length));
                conn.sending.push(stream_id);
                conn.may_send = true;
            }
        }
        if let Some(packed) = packed {
            self.spare.unused(packed);
        }
        conn.streams.insert(stream);
    }

    #[inline]
    fn owes(&self, conn: &Conn) -> bool {
        conn.owes(&self.options)
    }

    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        if let Some(interval) = self.options.keepalive.filter(|_| !conn.greeted) {
            conn.keepalive.next = now + interval;
        }
        conn.send_frames(&self.options, out.bytes());
        if conn.may_send {
            let bodies = (&self.requests, self.reads_files);
            conn.send_bodies(bodies, &mut self.spare, now, out);
        }
        if now < self.begin {
            self.forget();
        }
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        self.now = now;
        let result = self.frames(conn, data, sink);
        if now < self.begin {
            self.forget();
        }
        result
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        if sink.outstanding() == 0 {
            return Ok(());
        }
        let is_cut = !left.is_empty() || conn.data.is_some() || conn.block.is_some();
        let has_begun = is_cut || conn.streams.all().any(|s| s.status != 0);
        Err(if has_begun { Fault::Truncated } else { Fault::ClosedEarly })
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        if let Some(place) = conn.streams.of(id) {
            let stream = conn.streams.remove(place);
            conn.reset(stream.id, Code::CANCEL);
            self.counts.cancelled += 1;
        }
        if conn.cancels < conn::CANCELS_MAX {
            return Cancelled::Exchange;
        }
        conn.drains = true;
        Cancelled::Last
    }

    fn waits_for_window(&self, conn: &Conn, id: RequestId) -> Option<Nanos> {
        conn.streams.of(id).and_then(|place| conn.streams.waits_since(place))
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        let Some(place) = conn.streams.of(id) else { return };
        if conn.streams.at(place).status == 0 {
            return;
        }
        let stream = conn.streams.remove(place);
        conn.reset(stream.id, Code::CANCEL);
        self.counts.cancelled += 1;
        conn.drain_if_cancelled_often(sink);
        sink.done(stream.request, &stream.reply());
    }

    fn send_messages(&mut self, conn: &mut Conn, id: RequestId, n: u64, ends: bool) {
        if let Some(place) = conn.streams.of(id) {
            conn.owes_messages(place, n, ends);
        }
    }

    #[inline]
    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        conn.keepalive.deadline()
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        match self.options.keepalive {
            Some(interval) => conn.keepalive.check(now, interval),
            None => Ok(()),
        }
    }

    fn report_ends(&mut self, conn: &mut Conn, _: Nanos, sink: &mut impl Sink) -> bool {
        let any = !conn.unread.is_empty();
        for id in conn.unread.drain(..) {
            sink.failed(id, Fault::BodyFile);
        }
        any
    }

    fn opens(&self) -> bool {
        self.options.waits
    }

    fn is_ready(&self, conn: &Conn) -> bool {
        conn.has_settings
    }

    fn close(&mut self, conn: &mut Conn, out: &mut Vec<u8>) {
        if conn.greeted {
            frame::goaway(out, 0, conn.error.unwrap_or(Code::NO_ERROR), b"");
        }
    }

    fn boundary(&self, _: &Conn, bytes: &[u8], at: usize) -> usize {
        let mut end = if bytes.starts_with(PREFACE) { PREFACE.len() } else { 0 };
        while end < at
            && let Some(head) = bytes.get(end..).and_then(frame::Head::read)
        {
            end += frame::HEADER + head.length as usize;
        }
        end.min(bytes.len())
    }

    fn counts(&self) -> Option<&Counts> {
        Some(&self.counts)
    }
}

impl H2 {
    /// A connection is open, and uses HTTP/2 or HTTP/1.1.
    pub(in crate::proto) fn negotiated(&mut self, is_h2: bool) {
        let n = if is_h2 { &mut self.counts.connections } else { &mut self.counts.fallbacks };
        *n += 1;
    }

    /// How many streams a connection may have before its peer has stated a limit, at least 1: the
    /// limit that the peer of another connection has stated. A server that sends GOAWAY would
    /// refuse the streams beyond it on the next connection, too.
    #[inline]
    pub(in crate::proto) fn first_streams(&self) -> u32 {
        self.counts
            .limit_last
            .map_or(STREAMS_BEFORE_SETTINGS, |n| n.clamp(1, STREAMS_BEFORE_SETTINGS))
    }

    /// What was counted belongs to the warm-up.
    #[cold]
    fn forget(&mut self) {
        let Counts { connections, fallbacks, limit_least, limit_last, .. } = self.counts;
        // Header blocks that repeat are not decoded again, so that their messages are kept.
        let grpc_messages = std::mem::take(&mut self.counts.grpc_messages);
        self.counts = Counts {
            connections,
            fallbacks,
            limit_least,
            limit_last,
            grpc_messages,
            ..Counts::default()
        };
    }

    /// Append as much of a new stream's body as the windows allow.
    fn submit_body(
        &mut self,
        conn: &mut Conn,
        stream: &mut Stream,
        own: Option<&[u8]>,
        out: &mut Out,
    ) {
        let body = own.unwrap_or_else(|| self.requests.body(stream.call));
        while stream.left > 0 && conn.sending.is_empty() {
            let room = conn.send_window.min(stream.window).min(i64::from(conn.peer.frame_size));
            let n = i64::from(stream.left).min(room).max(0) as u32;
            // A small piece waits for more room.
            if n < stream.left.min(1 << 10) {
                break;
            }
            conn.send_window -= i64::from(n);
            stream.write_piece(body, n, true, out.bytes());
        }
        if stream.left > 0 {
            stream.own = self.spare.body(own);
            conn.sending.push(stream.id);
            conn.may_send = true;
        }
    }
}
