//! Received frames, and what they mean for the exchanges.

use super::conn::{Block, Conn, IDLE_FRAMES_MAX, OWED_MAX, Progress};
use super::content::Kind;
use super::head::{Head, Reader};
use super::{H2, LIST_MAX};
use crate::proto::{Sink, wants};
use prony_base::fault::Fault;
use prony_base::http2::control::Control;
use prony_base::http2::frame::{self, Code, flag, kind};
use prony_base::http2::hpack::HpackError;
use prony_base::http2::{FRAME_SIZE, WINDOW_MAX};
use prony_base::units::Nanos;

/// How many interim replies a stream may receive.
const INTERIM_MAX: u16 = 32;
/// How many frames a header block may have.
const BLOCK_FRAMES_MAX: u32 = 64;
/// The longest header block that is kept for comparison, in bytes.
const MEMO_MAX: usize = 256;

impl H2 {
    /// Process all complete frames. Returns how many bytes were used.
    pub(super) fn frames(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let mut at = 0;
        loop {
            if conn.data.is_some() {
                at += self.data_goes_on(conn, &data[at..], sink);
                if conn.data.is_some() {
                    return Ok(at);
                }
            }
            let rest = &data[at..];
            let Some(head) = frame::Head::read(rest) else {
                is_text(conn, rest, sink)?;
                return Ok(at);
            };
            if head.length > self.options.frame_size.max(FRAME_SIZE) {
                is_text(conn, rest, sink)?;
                return conn.fails(Code::FRAME_SIZE_ERROR);
            }
            if head.kind == kind::DATA {
                match self.data_begins(conn, head, &rest[frame::HEADER..], sink)? {
                    Some(used) => at += frame::HEADER + used,
                    None => return Ok(at),
                }
                continue;
            }
            let end = frame::HEADER + head.length as usize;
            let Some(payload) = rest.get(frame::HEADER..end) else { return Ok(at) };
            if head.kind == kind::HEADERS && conn.block.is_none() && conn.has_settings {
                self.headers(conn, head, payload, sink)?;
            } else {
                self.other(conn, head, payload, sink)?;
            }
            at += end;
        }
    }

    /// Frames other than DATA, and HEADERS where they may not be.
    #[inline(never)]
    fn other(
        &mut self,
        conn: &mut Conn,
        head: frame::Head,
        payload: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let is_settings = head.kind == kind::SETTINGS && !head.has(flag::ACK);
        if !conn.has_settings && !is_settings {
            return conn.fails(Code::PROTOCOL_ERROR);
        }
        if conn.block.is_some() != (head.kind == kind::CONTINUATION) {
            return conn.fails(Code::PROTOCOL_ERROR);
        }
        match head.kind {
            kind::CONTINUATION => return self.continuation(conn, head, payload, sink),
            // Pushes are forbidden by our settings.
            kind::PUSH_PROMISE => return conn.fails(Code::PROTOCOL_ERROR),
            _ => {}
        }
        let control = match Control::read(head, payload) {
            Ok(control) => control,
            Err(wrong) => return conn.fails(wrong.code),
        };
        match control {
            Control::Settings(payload) => {
                if conn.has_settings {
                    self.is_idle(conn)?;
                }
                conn.settings(payload, &mut self.counts)
            }
            Control::Ping(data) => self.ping(conn, data),
            Control::Goaway(last, code, text) => {
                self.counts.goaway(code, text);
                match self.goaway(conn, last, sink) {
                    true => Ok(()),
                    false => self.is_idle(conn),
                }
            }
            Control::Reset(code) => self.rst_stream(conn, head.stream, code, sink),
            Control::WindowUpdate(more) => self.window_update(conn, head.stream, more, sink),
            Control::PingAck(_) if conn.keepalive.awaits => {
                conn.keepalive.awaits = false;
                Ok(())
            }
            Control::SettingsAck | Control::PingAck(_) | Control::Priority { .. } => {
                self.is_idle(conn)
            }
            Control::Unknown => {
                self.counts.unknown_frames += 1;
                self.is_idle(conn)
            }
        }
    }

    /// Count a frame that does nothing.
    fn is_idle(&mut self, conn: &mut Conn) -> Result<(), Fault> {
        conn.idle_frames += 1;
        match conn.idle_frames > IDLE_FRAMES_MAX {
            true => conn.fails(Code::ENHANCE_YOUR_CALM),
            false => Ok(()),
        }
    }

    /// The start of a DATA frame. Returns how many bytes after its header were used; `None`: more
    /// are needed.
    fn data_begins(
        &mut self,
        conn: &mut Conn,
        head: frame::Head,
        rest: &[u8],
        sink: &mut impl Sink,
    ) -> Result<Option<usize>, Fault> {
        if conn.block.is_some() || !conn.has_settings || head.stream == 0 {
            return conn.fails(Code::PROTOCOL_ERROR);
        }
        let (mut used, mut padding) = (0, 0);
        if head.has(flag::PADDED) {
            if head.length == 0 {
                return conn.fails(Code::FRAME_SIZE_ERROR);
            }
            let Some(&length) = rest.first() else { return Ok(None) };
            (used, padding) = (1, u32::from(length));
            if padding >= head.length {
                return conn.fails(Code::PROTOCOL_ERROR);
            }
        }
        // Padding counts, too (RFC 9113, 6.1).
        conn.receive_window -= i64::from(head.length);
        conn.credit += head.length;
        if conn.receive_window < 0 {
            return conn.fails(Code::FLOW_CONTROL_ERROR);
        }
        let ends = head.has(flag::END_STREAM);
        if head.length == 0 && !ends {
            self.is_idle(conn)?;
        } else {
            conn.idle_frames = 0;
        }
        match conn.streams.get(head.stream) {
            Some(stream) if stream.status == 0 => {
                // A body without a head.
                self.fail_stream(conn, head.stream, Code::PROTOCOL_ERROR, Fault::BadHeader, sink);
            }
            Some(stream) => {
                if stream.blocked != Nanos::MAX {
                    self.counts.unblocked(self.now.since(stream.blocked));
                    stream.blocked = Nanos::MAX;
                }
                stream.credit += head.length;
                stream.head_bytes += frame::HEADER as u32 + used as u32 + padding;
                if stream.credit > self.options.window {
                    return conn.fails(Code::FLOW_CONTROL_ERROR);
                }
                let old = stream.credit - head.length;
                let half = self.options.window / 2;
                if !ends && stream.credit > half && old <= half {
                    conn.credited.push(head.stream);
                }
            }
            None => conn.is_for_closed(head.stream, false)?,
        }
        let left = head.length - used as u32;
        let progress = Progress { stream: head.stream, left, padding, ends };
        conn.data = Some(progress);
        Ok(Some(used))
    }

    /// Bytes of a DATA frame in progress. Returns how many were used.
    fn data_goes_on(&mut self, conn: &mut Conn, data: &[u8], sink: &mut impl Sink) -> usize {
        let Some(progress) = &mut conn.data else { return 0 };
        let used = data.len().min(progress.left as usize);
        let body = used.min((progress.left - progress.padding.min(progress.left)) as usize);
        progress.left -= used as u32;
        let Progress { stream: id, left, padding, ends } = *progress;
        if left == 0 {
            conn.data = None;
        }
        let Some(place) = conn.streams.find(id) else {
            if left == 0 && ends {
                conn.peer_ended(id);
            }
            return used;
        };
        let stream = conn.streams.at(place);
        let most = if stream.bodiless { 0 } else { stream.length };
        let fits = most.saturating_sub(stream.body_bytes).min(body as u64) as usize;
        stream.body_bytes += body as u64;
        if left == 0 && !ends && (conn.receive_window == 0 || stream.credit == self.options.window)
        {
            stream.blocked = self.now;
        }
        if stream.content.kind != Kind::Http {
            self.message_bytes(conn, place, &data[..fits], sink);
            // Its messages may have ended it.
            if conn.streams.find(id) != Some(place) {
                return used;
            }
        } else if fits > 0 && wants(sink, stream.request, stream.status) {
            if stream.body_bytes == body as u64 {
                sink.head(stream.request, stream.status, stream.has_events);
            }
            sink.body(stream.request, &data[..fits]);
            if left <= padding {
                sink.chunk_ended(stream.request);
            }
        }
        if fits < body {
            self.fail_stream(conn, id, Code::PROTOCOL_ERROR, Fault::Surplus, sink);
        } else if left == 0 && ends {
            self.reply_ends(conn, place, sink);
        }
        used
    }

    /// A complete HEADERS frame.
    fn headers(
        &mut self,
        conn: &mut Conn,
        head: frame::Head,
        payload: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let Some(block) = frame::unpadded(head, payload) else {
            return conn.fails(Code::PROTOCOL_ERROR);
        };
        if conn.is_idle(head.stream) {
            return conn.fails(Code::PROTOCOL_ERROR);
        }
        if let Some(stream) = conn.streams.get(head.stream) {
            stream.head_bytes += (frame::HEADER + payload.len()) as u32;
        }
        let ends = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.block(conn, head.stream, ends, block, sink);
        }
        let bytes = block.to_vec();
        conn.block = Some(Box::new(Block { stream: head.stream, ends, frames: 1, bytes }));
        Ok(())
    }

    #[cold]
    fn continuation(
        &mut self,
        conn: &mut Conn,
        head: frame::Head,
        payload: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let Some(mut block) = conn.block.take() else { return conn.fails(Code::PROTOCOL_ERROR) };
        if block.stream != head.stream {
            return conn.fails(Code::PROTOCOL_ERROR);
        }
        if let Some(stream) = conn.streams.get(head.stream) {
            stream.head_bytes += (frame::HEADER + payload.len()) as u32;
        }
        block.frames += 1;
        block.bytes.extend_from_slice(payload);
        if block.frames > BLOCK_FRAMES_MAX || block.bytes.len() > LIST_MAX {
            return conn.fails(Code::ENHANCE_YOUR_CALM);
        }
        if head.has(flag::END_HEADERS) {
            return self.block(conn, block.stream, block.ends, &block.bytes, sink);
        }
        conn.block = Some(block);
        Ok(())
    }

    /// A complete header block.
    fn block(
        &mut self,
        conn: &mut Conn,
        id: u32,
        ends: bool,
        block: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let place = conn.streams.find(id);
        if place.is_none() {
            conn.is_for_closed(id, ends)?;
        }
        let wants = place.map(|place| conn.streams.at(place).request);
        let wants = wants.filter(|&request| sink.wants_headers(request));
        let is_trailer = place.is_some_and(|place| conn.streams.at(place).status != 0);
        let head = match decode(conn, block, is_trailer, wants, (sink, &mut self.message)) {
            Ok(head) => head,
            Err(HpackError::Invalid) => return conn.fails(Code::COMPRESSION_ERROR),
            Err(HpackError::TooLarge) if place.is_none() => return self.is_idle(conn),
            Err(HpackError::TooLarge) => {
                self.fail_stream(conn, id, Code::CANCEL, Fault::HeaderTooLarge, sink);
                return Ok(());
            }
        };
        // Of a stream that is gone. Its reply may come, but not one head after the other.
        let Some(place) = place else { return if ends { Ok(()) } else { self.is_idle(conn) } };
        conn.idle_frames = 0;
        self.counts.head_received(head.plain, block.len());
        let stream = conn.streams.at(place);
        if is_trailer {
            stream.footer_bytes += block.len() as u32;
        }
        let is_valid = match (is_trailer, head.status) {
            (true, 0) => ends,
            (true, _) => false,
            (false, 100..=199) => !ends && head.status != 101 && stream.interim < INTERIM_MAX,
            (false, status) => (200..=599).contains(&status),
        };
        if head.is_malformed || !is_valid {
            self.fail_stream(conn, id, Code::PROTOCOL_ERROR, Fault::BadHeader, sink);
            return Ok(());
        }
        if !conn.all_sent(sink) && !sink.was_sent(conn.streams.at(place).request) {
            return conn.fails(Code::PROTOCOL_ERROR);
        }
        let stream = conn.streams.at(place);
        if head.status >= 200 {
            stream.status = head.status;
            stream.has_events = head.has_events;
            stream.bodiless |= matches!(head.status, 204 | 304);
            if !stream.bodiless {
                stream.length = head.length;
            }
        } else if !is_trailer {
            stream.interim += 1;
        }
        if stream.content.kind != Kind::Http && (is_trailer || head.status >= 200) {
            stream.content.head(&head, is_trailer, ends);
            if let Some(status) = head.grpc_status.filter(|_| ends && !self.message.is_empty()) {
                self.counts.grpc_message(status, &self.message);
            }
        }
        if ends {
            self.reply_ends(conn, place, sink);
        } else {
            sink.began(conn.streams.at(place).request);
        }
        Ok(())
    }

    /// The reply of the stream at this place is complete.
    #[inline]
    fn reply_ends(&mut self, conn: &mut Conn, place: usize, sink: &mut impl Sink) {
        let mut stream = conn.streams.remove(place);
        let is_short = stream.length != u64::MAX && stream.body_bytes < stream.length;
        if is_short {
            sink.failed(stream.request, Fault::ShortBody);
            return;
        }
        if stream.is_incomplete() {
            // The peer has replied without the whole body; it needs no more of it.
            conn.reset_ended(stream.id, Code::CANCEL);
            conn.drain_if_cancelled_often(sink);
        }
        if let Some(own) = stream.own.take() {
            self.spare.put(own);
        }
        match stream.content.kind {
            Kind::Http => sink.done(stream.request, &stream.reply()),
            Kind::Unary | Kind::Streams => self.call_ends(&stream, sink),
        }
    }

    /// The reply of a stream cannot be used.
    #[cold]
    fn fail_stream(
        &mut self,
        conn: &mut Conn,
        id: u32,
        code: Code,
        fault: Fault,
        sink: &mut impl Sink,
    ) {
        if let Some(place) = conn.streams.find(id) {
            let stream = conn.streams.remove(place);
            conn.reset(id, code);
            sink.failed(stream.request, fault);
            conn.drain_if_cancelled_often(sink);
        }
    }

    fn rst_stream(
        &mut self,
        conn: &mut Conn,
        id: u32,
        code: Code,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        if conn.is_idle(id) {
            return conn.fails(Code::PROTOCOL_ERROR);
        }
        let Some(place) = conn.streams.find(id) else {
            conn.peer_ended(id);
            return self.is_idle(conn);
        };
        let request = conn.streams.at(place).request;
        if !conn.all_sent(sink) && !sink.was_sent(request) {
            return conn.fails(Code::PROTOCOL_ERROR);
        }
        conn.streams.remove(place);
        self.counts.reset(code);
        let is_refused = code == Code::REFUSED_STREAM;
        self.counts.refused += u64::from(is_refused);
        match is_refused {
            true if self.options.retries_refused => sink.refused(request),
            true => sink.failed(request, Fault::Refused),
            false => sink.failed(request, Fault::StreamReset),
        }
        Ok(())
    }

    fn ping(&mut self, conn: &mut Conn, data: [u8; 8]) -> Result<(), Fault> {
        conn.pongs.push(data);
        match conn.pongs.len() > OWED_MAX {
            true => conn.fails(Code::ENHANCE_YOUR_CALM),
            false => self.is_idle(conn),
        }
    }

    /// The peer accepts no more streams, and has not processed those above `last`. Returns whether
    /// that is news.
    fn goaway(&mut self, conn: &mut Conn, last: u32, sink: &mut impl Sink) -> bool {
        let mut is_news = !std::mem::replace(&mut conn.drains, true);
        sink.draining();
        for id in conn.streams.above(last) {
            if let Some(place) = conn.streams.find(id) {
                let stream = conn.streams.remove(place);
                conn.is_gone(id);
                self.counts.moved += 1;
                is_news = true;
                sink.refused(stream.request);
            }
        }
        is_news
    }

    fn window_update(
        &mut self,
        conn: &mut Conn,
        id: u32,
        more: u32,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let (increment, most) = (i64::from(more), i64::from(WINDOW_MAX));
        if id == 0 {
            if increment == 0 {
                return conn.fails(Code::PROTOCOL_ERROR);
            }
            conn.send_window += increment;
            if conn.send_window > most {
                return conn.fails(Code::FLOW_CONTROL_ERROR);
            }
            conn.may_send |= !conn.sending.is_empty();
            return Ok(());
        }
        if conn.is_idle(id) {
            return conn.fails(Code::PROTOCOL_ERROR);
        }
        let Some(stream) = conn.streams.get(id) else { return self.is_idle(conn) };
        stream.window += increment;
        let waits = stream.left > 0;
        if increment == 0 {
            self.fail_stream(conn, id, Code::PROTOCOL_ERROR, Fault::BadHttp2, sink);
        } else if stream.window > most {
            let code = Code::FLOW_CONTROL_ERROR;
            self.fail_stream(conn, id, code, Fault::FlowControl, sink);
        } else {
            conn.may_send |= waits;
        }
        Ok(())
    }
}

impl Conn {
    /// A frame for a stream that is not open. The peer may not know yet that it is reset or moved.
    /// `ends`: the peer ends it.
    #[cold]
    fn is_for_closed(&mut self, id: u32, ends: bool) -> Result<(), Fault> {
        if self.is_idle(id) {
            return self.fails(Code::PROTOCOL_ERROR);
        }
        match self.gone.binary_search(&id) {
            Err(_) => return self.fails(Code::STREAM_CLOSED),
            Ok(place) if ends => _ = self.gone.remove(place),
            Ok(_) => {}
        }
        Ok(())
    }

    /// Whether the kernel has accepted the first byte of every open stream.
    #[inline]
    fn all_sent(&self, sink: &impl Sink) -> bool {
        sink.outstanding() >= self.streams.len()
    }
}

/// Decode a header block. `wants`: the exchange whose headers the engine wants.
// Once for each request: requests and sockets both call it.
#[inline(always)]
fn decode(
    conn: &mut Conn,
    block: &[u8],
    is_trailer: bool,
    wants: Option<prony_base::units::RequestId>,
    (sink, message): (&mut impl Sink, &mut Vec<u8>),
) -> Result<Head, HpackError> {
    let state = conn.decoder.state();
    if wants.is_none()
        && let Some(memo) = &conn.memos[usize::from(is_trailer)]
        && memo.state == state
        && memo.bytes == block
    {
        message.clear();
        return Ok(memo.head);
    }
    let mut reader = Reader::new(std::mem::take(message));
    conn.decoder.decode(block, LIST_MAX, |name, value| {
        reader.field(name, value);
        if let Some(request) = wants {
            sink.header(request, name, value);
        }
    })?;
    let head;
    (head, *message) = reader.finish();
    if conn.decoder.state() == state && block.len() <= MEMO_MAX {
        let memo = conn.memos[usize::from(is_trailer)].get_or_insert_default();
        memo.bytes.clear();
        memo.bytes.extend_from_slice(block);
        (memo.state, memo.head) = (state, head);
    }
    Ok(head)
}

/// Fails if the peer's first bytes are text, such as a reply of HTTP/1, or a record of TLS: they
/// would be a frame of more than 1 MiB.
#[cold]
fn is_text(conn: &Conn, data: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
    let starts_with_text = data.first().is_some_and(|&byte| byte >= b' ');
    let is_record = matches!(data, [0x15 | 0x16, 3, ..]);
    if conn.has_settings || !starts_with_text && !is_record {
        return Ok(());
    }
    sink.unreadable(data, Fault::NotHttp2);
    Err(Fault::NotHttp2)
}
