//! Streams of server-sent events on streams of HTTP/2: each event is a DATA frame, if windows and
//! the length of frames allow it.

use prony_base::http2::FRAME_SIZE;
use prony_base::http2::frame::{self, flag, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::units::Nanos;

use super::super::events::Events;
use super::super::out::{Counted, Out};
use super::Session;
use super::streams::{Progress, TINY, allowed};

impl Session {
    /// Write the events that are due, as far as the windows allow.
    pub(super) fn write_events(
        &mut self,
        id: u32,
        mut events: Box<Events>,
        out: &mut Out,
        now: Nanos,
    ) {
        if events.must_wait() {
            return self.keep_events(id, events);
        }
        if events.starts() {
            let kind: &[u8] =
                if events.is_whole() { b"application/json" } else { b"text/event-stream" };
            let mut block = Vec::new();
            encode_static(&mut block, b":status", b"200");
            encode_static(&mut block, b"server", b"prony");
            encode_static(&mut block, b"content-type", kind);
            encode_static(&mut block, b"cache-control", b"no-cache");
            frame::header_block(out.bytes(), id, 0, &block);
        }
        let limit = out.bytes().len() + FRAME_SIZE as usize;
        loop {
            if events.at == events.piece.len() {
                events.piece.clear();
                events.at = 0;
                let mut piece = std::mem::take(&mut events.piece);
                let has_next = events.next(&mut piece, &mut self.events_sent);
                events.piece = piece;
                if !has_next {
                    break;
                }
            }
            if out.bytes().len() >= limit {
                // The others have their turn.
                self.keep_events(id, events);
                return self.queue(id);
            }
            let Some(stream) = self.streams.get_mut(id) else { return };
            let left = (events.piece.len() - events.at) as u64;
            let n = allowed(stream, &mut self.send_window, &mut self.starved, left);
            if n == 0 {
                return self.keep_events(id, events);
            }
            self.dribbles |= n < left.min(TINY) && !self.calm.take(now);
            let to = events.at + n as usize;
            let is_last = n == left && events.is_over() && !events.is_cut;
            let flags = if is_last { flag::END_STREAM } else { 0 };
            frame::head(out.bytes(), n as usize, kind::DATA, flags, id);
            out.bytes().extend_from_slice(&events.piece[events.at..to]);
            events.at = to;
        }
        if !events.is_over() {
            return self.keep_events(id, events);
        }
        if events.is_cut {
            return self.cut(id, Counted::Truncated, out);
        }
        out.count(Counted::Reply(200));
        self.finish(id, out.bytes());
    }

    fn keep_events(&mut self, id: u32, mut events: Box<Events>) {
        self.unparked.extend(events.unpark().map(|(next, at)| (id, next, at)));
        if let Some(stream) = self.streams.get_mut(id) {
            stream.reply = Progress::Events(events);
        }
    }
}
