//! Tunnels: streams whose bytes, in both directions, are those of another protocol, which writes
//! and reads them (RFC 8441). To the streams of a connection, a tunnel is a request without a body
//! whose head does not end it.

use super::H2;
use super::conn::Conn;
use super::streams::Stream;
use crate::proto::{Call, Carrier, Out, Reply};
use prony_base::fault::Fault;
use prony_base::http2::frame::{self, Code, HEADER, flag, kind};
use prony_base::units::RequestId;

/// Where the flags of a frame are in its header.
const FLAGS: usize = 4;

impl H2 {
    /// Submit an exchange that opens a tunnel. Returns the ID of its stream.
    pub(in crate::proto) fn open_tunnel(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        out: &mut Out,
    ) -> u32 {
        let at = out.len();
        self.submit(conn, id, call, false, out);
        out.bytes()[at + FLAGS] &= !flag::END_STREAM;
        2 * conn.started - 1
    }

    /// Reset a stream now, after what was sent on it.
    pub(in crate::proto) fn reset_tunnel(&mut self, conn: &mut Conn, stream: u32, out: &mut Out) {
        if let Some(place) = conn.streams.find(stream) {
            conn.streams.remove(place);
        }
        conn.is_gone(stream);
        conn.cancels += 1;
        frame::rst_stream(out.bytes(), stream, Code::CANCEL);
    }

    /// Count a stream that was cancelled.
    pub(in crate::proto) fn count_cancelled(&mut self) {
        self.counts.cancelled += 1;
    }
}

impl Conn {
    /// The peer has sent settings, which must allow tunnels from the first on. `is_allowed`:
    /// whether they have, before and now.
    ///
    /// # Errors
    /// It does not allow them, or takes its permission back.
    pub(in crate::proto) fn check_tunnels(&mut self, is_allowed: &mut bool) -> Result<(), Fault> {
        match (*is_allowed, self.has_settings.then_some(self.peer.connect)) {
            (false, Some(true)) => *is_allowed = true,
            (false, Some(false)) => return Err(Fault::NoExtendedConnect),
            // It may not take this back (RFC 8441, 3).
            (true, Some(false)) => return self.fails(Code::PROTOCOL_ERROR),
            _ => {}
        }
        Ok(())
    }

    /// Whether the connection fails.
    pub(in crate::proto) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Whether enough streams were cancelled: more would look like an attack to the peer.
    pub(in crate::proto) fn was_cancelled_often(&self) -> bool {
        self.cancels >= super::conn::CANCELS_MAX
    }

    /// Whether the peer has not ended the stream, and nobody has reset it.
    pub(in crate::proto) fn has_stream(&self, stream: u32) -> bool {
        self.streams.find(stream).is_some()
    }

    /// How many bytes the peer accepts on this stream, if the connection's window allows them.
    pub(in crate::proto) fn window_of(&self, stream: u32) -> Option<i64> {
        self.streams.peek(stream).map(|stream| stream.window)
    }

    /// How many bytes one frame may have on a stream with this window.
    pub(in crate::proto) fn room(&self, window: i64) -> usize {
        let most = self.send_window.min(window).min(i64::from(self.peer.frame_size));
        usize::try_from(most).unwrap_or(0)
    }

    /// Complete a DATA frame whose header has its place at `at` and whose payload ends the output.
    pub(in crate::proto) fn end_data(
        &mut self,
        stream: u32,
        at: usize,
        ends: bool,
        out: &mut [u8],
    ) {
        let length = out.len() - at - HEADER;
        self.send_window -= length as i64;
        if let Some(stream) = self.streams.get(stream) {
            stream.window -= length as i64;
        }
        let flags = if ends { flag::END_STREAM } else { 0 };
        let head = frame::Head { length: length as u32, kind: kind::DATA, flags, stream };
        out[at..at + HEADER].copy_from_slice(&head.bytes());
    }

    /// The reply on this stream so far.
    pub(in crate::proto) fn reply_so_far(&self, stream: u32) -> Option<Reply> {
        self.streams.peek(stream).map(Stream::reply)
    }

    /// The stream of the next frame in these bytes, or of the one that they continue, how many of
    /// them belong to it, and its kind.
    pub(in crate::proto) fn next_frame(&self, data: &[u8]) -> (u32, usize, u8) {
        if let Some(progress) = &self.data {
            return (progress.stream, data.len().min(progress.left as usize), kind::DATA);
        }
        match frame::Head::read(data) {
            None => (0, data.len(), u8::MAX),
            Some(head) => (head.stream, data.len().min(HEADER + head.length as usize), head.kind),
        }
    }
}
