//! The bodies of requests: which bytes a stream sends next, and messages that are sent at their
//! time.

use super::conn::Conn;
use super::own::{Messages, Own, Spare, Upload};
use super::requests::Requests;
use super::streams::Stream;
use crate::proto::Out;
use crate::proto::out::PIECE;
use prony_base::grpc;
use prony_base::http2::frame::{self, Code, flag, kind};
use prony_base::units::{Nanos, RequestId};

impl Stream {
    fn messages(&mut self) -> Option<&mut Messages> {
        self.own.as_mut()?.messages.as_mut()
    }

    /// Whether bytes wait to be sent.
    pub(super) fn has_more(&self) -> bool {
        let more = |m: &Messages| m.owed > 0 || (m.ends && !m.ended);
        let own = self.own.as_ref();
        self.left > 0
            || own.is_some_and(|o| o.messages.as_ref().is_some_and(more) || o.is_in_file())
    }

    /// Whether the peer waits for more of the request.
    pub(super) fn is_incomplete(&self) -> bool {
        let own = self.own.as_ref();
        self.left > 0
            || own.is_some_and(|o| o.messages.as_ref().is_some_and(|m| !m.ended) || o.is_in_file())
    }

    /// The buffer for the message of the reply that is incomplete, if messages have a schedule.
    pub(super) fn reply_buffer(&mut self) -> Option<&mut Vec<u8>> {
        self.messages().map(|messages| &mut messages.reply)
    }

    /// The buffer for the compressed message of the reply that is incomplete.
    pub(super) fn packed_buffer(&mut self, spare: &mut Spare) -> &mut Vec<u8> {
        &mut self.own.get_or_insert_with(|| spare.take(None)).packed
    }

    /// Take the next message that is due, if the last one was sent completely.
    pub(super) fn take_message(&mut self, requests: &Requests) {
        let Some(own) = self.own.as_deref_mut() else { return };
        let Some(messages) = own.messages.as_mut().filter(|m| m.owed > 0) else { return };
        let bytes = own.has_bytes.then_some(&own.bytes[..]);
        let body = bytes.unwrap_or_else(|| requests.body(self.call));
        let begin = if messages.at == body.len() { 0 } else { messages.at };
        let length = grpc::length(&body[begin..]);
        messages.owed -= 1;
        messages.at = begin + length;
        messages.is_fresh = true;
        self.left = length as u32;
    }

    /// Read the next piece of a body that is in a file. Returns whether there is none, or it was
    /// read.
    fn take_piece(&mut self, requests: &Requests) -> bool {
        let Some(own) = self.own.as_deref_mut() else { return true };
        let Some(upload) = own.upload.as_mut().filter(|upload| upload.has_more()) else {
            return true;
        };
        let Some(file) = requests.file(self.call) else { return false };
        let n = (upload.length - upload.at).min(Upload::PIECE);
        own.bytes.resize(n as usize, 0);
        if !file.fill(upload.at, &mut own.bytes) {
            return false;
        }
        upload.at += n;
        self.left = n as u32;
        true
    }

    /// End a stream whose messages are all sent.
    fn end_messages(&mut self, out: &mut Out) {
        let (id, left) = (self.id, self.left);
        let Some(messages) = self.messages() else { return };
        if left == 0 && messages.owed == 0 && messages.ends && !messages.ended {
            messages.ended = true;
            frame::head(out.bytes(), 0, kind::DATA, flag::END_STREAM, id);
        }
    }

    /// Append the next `n` bytes of the body, which a window allows.
    pub(super) fn send_piece(
        &mut self,
        (requests, spare): (&Requests, &mut Spare),
        n: u32,
        now: Nanos,
        out: &mut Out,
    ) {
        if self.waits != Nanos::MAX {
            out.waited_for_window(self.request, now.since(self.waits));
            self.waits = Nanos::MAX;
        }
        let mut own = self.own.take();
        let bytes = own.as_deref().and_then(Own::bytes);
        let body = bytes.unwrap_or_else(|| requests.body(self.call));
        let messages = own.as_ref().and_then(|own| own.messages.as_ref());
        let Some(Messages { at, owed, ends, is_fresh, .. }) = messages else {
            let is_in_file = own.as_deref().is_some_and(Own::is_in_file);
            self.write_piece(body, n, !is_in_file, out.bytes());
            match own {
                Some(own) if self.left == 0 && own.packed.is_empty() && !is_in_file => {
                    spare.put(own)
                }
                own => self.own = own,
            }
            return;
        };
        let message = &body[..*at];
        if *is_fresh {
            let whole = &message[message.len() - self.left as usize..];
            let field = requests.tokens(self.call).map(|(request, _)| request);
            let token = field.map_or(0, |field| spare.token(whole, field));
            out.wrote_message(self.request, token);
        }
        let is_last = *ends && *owed == 0;
        self.write_piece(message, n, is_last, out.bytes());
        if let Some(messages) = own.as_mut().and_then(|own| own.messages.as_mut()) {
            messages.is_fresh = false;
            messages.ended = is_last && self.left == 0;
        }
        self.own = own;
    }

    /// Append `n` of the last bytes of `body`, of which `left` are not sent. With the last one, the
    /// stream ends if `ends`.
    pub(super) fn write_piece(&mut self, body: &[u8], n: u32, ends: bool, out: &mut Vec<u8>) {
        let begin = body.len() - self.left as usize;
        let piece = &body[begin..begin + n as usize];
        self.left -= n;
        self.window -= i64::from(n);
        let flags = if self.left == 0 && ends { flag::END_STREAM } else { 0 };
        frame::head(out, piece.len(), kind::DATA, flags, self.id);
        out.extend_from_slice(piece);
    }
}

impl Conn {
    /// The next `n` messages of the stream at this place are due. `ends`: no further one follows.
    pub(super) fn owes_messages(&mut self, place: usize, n: u64, ends: bool) {
        let stream = self.streams.at(place);
        let id = stream.id;
        let Some(messages) = stream.messages() else { return };
        messages.owed += n;
        messages.ends |= ends;
        if !std::mem::replace(&mut messages.is_queued, true) {
            self.sending.push(id);
        }
        self.may_send = true;
    }

    /// Append as much of the bodies as the windows allow: a frame of each stream in turn.
    /// `reads_files`: bodies may be in files; then they are appended up to a limit, beyond which
    /// the connection still owes the rest.
    pub(super) fn send_bodies(
        &mut self,
        (requests, reads_files): (&Requests, bool),
        spare: &mut Spare,
        now: Nanos,
        out: &mut Out,
    ) {
        self.may_send = false;
        let mut sending = std::mem::take(&mut self.sending);
        let mut least = PIECE_MIN;
        let (mut is_full, mut unread) = (false, Vec::new());
        loop {
            let (mut moved, mut had_turn) = (false, 0);
            sending.retain(|&id| {
                let Some(stream) = self.streams.get(id) else { return false };
                if reads_files && out.len() as u64 >= PIECE {
                    is_full = true;
                    return true;
                }
                if stream.left == 0 {
                    stream.take_message(requests);
                    if reads_files && !stream.take_piece(requests) {
                        unread.push(stream.request);
                        return false;
                    }
                }
                let n = piece(stream, self.send_window, self.peer.frame_size, least);
                if n > 0 {
                    moved = true;
                    self.send_window -= i64::from(n);
                    stream.send_piece((requests, &mut *spare), n, now, out);
                }
                stream.end_messages(out);
                let stays = stream.has_more();
                if let Some(messages) = stream.messages() {
                    messages.is_queued = stays;
                }
                had_turn += usize::from(reads_files && stays);
                stays
            });
            match moved {
                _ if is_full => {
                    // What is next in turn comes first.
                    sending.rotate_left(had_turn);
                    break;
                }
                true => {}
                // Nothing else moves: small pieces are better than none.
                false if least > 1 => least = 1,
                false => break,
            }
        }
        for request in unread {
            self.cannot_read(request);
        }
        // What is next in turn does not wait for a window.
        self.may_send |= is_full;
        for &id in sending.iter().filter(|_| !is_full) {
            if let Some(stream) = self.streams.get(id) {
                stream.waits = stream.waits.min(now);
            }
        }
        self.sending = sending;
    }

    /// The body of this request cannot be read: its stream is reset.
    #[cold]
    fn cannot_read(&mut self, request: RequestId) {
        if let Some(place) = self.streams.of(request) {
            let stream = self.streams.remove(place);
            self.reset(stream.id, Code::CANCEL);
            self.unread.push(request);
        }
    }
}

/// The smallest part of a body worth a frame of its own, in bytes.
const PIECE_MIN: i64 = 1 << 10;

/// How many bytes of the stream's body to send now.
fn piece(stream: &Stream, window: i64, frame_size: u32, least: i64) -> u32 {
    let left = i64::from(stream.left);
    let n = left.min(window).min(stream.window).min(i64::from(frame_size));
    if n < left.min(least) { 0 } else { n.max(0) as u32 }
}
