//! Application protocols, client side. A [`Carrier`] moves exchanges over a connection: it turns
//! calls into bytes and bytes into replies. Each one is monomorphised into `engine::Engine<P>`. A
//! new one needs a folder here and an arm where the engine is chosen.

mod counts;
pub mod echo;
pub mod h1;
pub mod h2;
pub mod http;
mod out;
pub mod ws;

use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::messages::Stamp;
use prony_plan::script::Filled;

/// The lowest status of a failure, in most plans.
pub const FAILURE: u16 = 400;

/// Whether the sink wants the body of a reply with this status.
#[inline(always)]
fn wants(sink: &impl Sink, id: RequestId, status: u16) -> bool {
    sink.wants_body(id) || (status >= FAILURE && sink.wants_failed_body(id, status))
}

pub use counts::StreamCounts;
pub use out::{Begin, BodyRest, Out};

/// Moves exchanges over connections. Knows nothing of sessions, schedules, recorders or sockets.
///
/// The engine identifies each exchange by a [`RequestId`]. It submits an exchange once. The carrier
/// must then report its end exactly once, by [`Sink::done`], [`Sink::failed`] or [`Sink::refused`],
/// unless the engine cancels it or closes the connection.
pub trait Carrier {
    /// The state of one connection, stored in the connection table. After the warm-up of a
    /// connection, nothing is allocated per exchange.
    type Conn: Default;

    /// Whether exchanges of one connection are independent of each other: their replies may arrive
    /// in any order, and [`capacity`](Self::capacity) may fall while exchanges wait. If false,
    /// replies arrive in the order of the requests, and an exchange that fails closes its
    /// connection.
    const MULTIPLEXES: bool = false;

    /// Whether exchanges may end without bytes of the peer, so that
    /// [`report_ends`](Self::report_ends) is called.
    #[inline]
    fn ends_alone(&self) -> bool {
        false
    }

    /// Whether parts of exchanges may be sent from files, in pieces: after
    /// [`transmit`](Self::transmit), the connection may [`owe`](Self::owes) the next one.
    #[inline]
    fn reads_files(&self) -> bool {
        false
    }

    /// The connection is open. `alpn` is the protocol that TLS has negotiated, if any; `None`
    /// without TLS. After an error the connection cannot be used. Only called if the carrier
    /// [`MULTIPLEXES`](Self::MULTIPLEXES).
    fn connected(
        &mut self,
        conn: &mut Self::Conn,
        alpn: Option<Option<&[u8]>>,
    ) -> Result<(), Fault> {
        let _ = (conn, alpn);
        Ok(())
    }

    /// How many more exchanges the connection can take now. `in_flight` have been submitted and
    /// have not ended, and the plan allows `limit` at once.
    fn capacity(&self, conn: &Self::Conn, in_flight: u32, limit: u32) -> u32;

    /// Whether the peer allows fewer concurrent exchanges on the connection than the plan's
    /// `limit`. What waits for room on it then waits for the peer. Only called if the carrier
    /// [`MULTIPLEXES`](Self::MULTIPLEXES).
    fn is_limited_by_peer(&self, conn: &Self::Conn, limit: u32) -> bool {
        let _ = (conn, limit);
        false
    }

    /// The exchange that is submitted next is this late: it should have been sent before. Only
    /// called if the carrier [`MULTIPLEXES`](Self::MULTIPLEXES).
    #[inline]
    fn set_lateness(&mut self, late: Span) {
        let _ = late;
    }

    /// Submit an exchange: append its bytes to `out` (after [`Out::begin`]), or keep what cannot be
    /// sent yet for [`transmit`](Self::transmit). `last`: no further exchange follows on this
    /// connection, so the carrier announces this to the peer (HTTP/1: `Connection: close`).
    fn submit(
        &mut self,
        conn: &mut Self::Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    );

    /// Whether [`transmit`](Self::transmit) has something to append.
    #[inline]
    fn owes(&self, conn: &Self::Conn) -> bool {
        let _ = conn;
        false
    }

    /// Append the next piece of a body that is sent from its file, and of which a part was
    /// [left for later](Out::continue_later). Returns whether it is the last piece; `None`: the
    /// file cannot be read.
    fn append_body(&self, body: &mut BodyRest, out: &mut Vec<u8>) -> Option<bool> {
        let _ = (body, out);
        None
    }

    /// Append output other than new exchanges: the carrier's own frames (settings,
    /// acknowledgements, pings), its opening exchange, and parts of exchanges that were held back.
    /// Called before the exchanges of a turn are submitted and again after them, each time if the
    /// connection [`owes`](Self::owes) something.
    #[inline]
    fn transmit(&mut self, conn: &mut Self::Conn, now: Nanos, out: &mut Out) {
        let _ = (conn, now, out);
    }

    /// Process received bytes. Returns how many were used. The connection keeps the rest and passes
    /// it again before the bytes that arrive next. After an error the connection cannot be used
    /// again.
    fn receive(
        &mut self,
        conn: &mut Self::Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault>;

    /// The peer has ended its stream; `left` are its unused bytes. Completes a reply that lasts
    /// until the close. Otherwise returns what this means for the oldest exchange: `Truncated` or
    /// `ShortBody` inside a reply, `ClosedEarly` before it. `Ok` if nothing is outstanding.
    fn end(
        &mut self,
        conn: &mut Self::Conn,
        left: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault>;

    /// The end of a submitted exchange is no longer awaited. Returns what that ends.
    fn cancel(&mut self, conn: &mut Self::Conn, id: RequestId) -> Cancelled {
        let _ = (conn, id);
        Cancelled::Connection
    }

    /// Since when a submitted exchange waits for the peer's permission to send more of it; `None`:
    /// it does not. Only called if the carrier [`MULTIPLEXES`](Self::MULTIPLEXES).
    fn waits_for_window(&self, conn: &Self::Conn, id: RequestId) -> Option<Nanos> {
        let _ = (conn, id);
        None
    }

    /// Enough of the reply to an exchange has arrived. If its head is complete, the exchange ends
    /// now, by [`Sink::done`] with what has arrived; otherwise nothing happens.
    fn stop(&mut self, conn: &mut Self::Conn, id: RequestId, sink: &mut impl Sink) {
        let _ = (conn, id, sink);
    }

    /// The next `n` messages of a submitted exchange are due: send them, each as soon as possible,
    /// and call [`Out::wrote_message`] for each. `ends`: no further one follows. Only for calls
    /// with a schedule of messages.
    fn send_messages(&mut self, conn: &mut Self::Conn, id: RequestId, n: u64, ends: bool) {
        let _ = (conn, id, n, ends);
    }

    /// The intended times of the messages that the next call of
    /// [`send_messages`](Self::send_messages) for this exchange reports. Only if they are stamped.
    fn messages_due(&mut self, conn: &mut Self::Conn, id: RequestId, times: &[Nanos]) {
        let _ = (conn, id, times);
    }

    /// When to call [`on_deadline`](Self::on_deadline); `None`: not before another event.
    #[inline]
    fn deadline(&self, conn: &Self::Conn) -> Option<Nanos> {
        let _ = conn;
        None
    }

    /// The deadline has passed. After an error the connection cannot be used again.
    fn on_deadline(&mut self, conn: &mut Self::Conn, now: Nanos) -> Result<(), Fault> {
        let _ = (conn, now);
        Ok(())
    }

    /// Report the exchanges that have ended without bytes of the peer: because they were sent, or
    /// by the deadline. Returns whether there were any. Called after the output of a connection
    /// was given to the kernel, and after its deadline, if the carrier
    /// [ends them alone](Self::ends_alone).
    fn report_ends(&mut self, conn: &mut Self::Conn, now: Nanos, sink: &mut impl Sink) -> bool {
        let _ = (conn, now, sink);
        false
    }

    /// Whether connections start with an exchange of the carrier's own before they carry others.
    /// Until [`is_ready`](Self::is_ready) reports its end, a connection counts as connecting. The
    /// exchanges of a closed loop then start at that time, as connecting is not a part of them.
    #[inline]
    fn opens(&self) -> bool {
        false
    }

    /// Whether the opening exchange of the connection is complete. Only called if the carrier
    /// [`opens`](Self::opens).
    fn is_ready(&self, conn: &Self::Conn) -> bool {
        let _ = conn;
        true
    }

    /// Append what the peer should receive before the connection is closed. Only called if the
    /// carrier [`MULTIPLEXES`](Self::MULTIPLEXES).
    fn close(&mut self, conn: &mut Self::Conn, out: &mut Vec<u8>) {
        let _ = (conn, out);
    }

    /// The first position in `bytes`, not before `at`, where other bytes of the carrier may follow.
    /// The bytes are its output, from such a position on. Only called if the carrier
    /// [`MULTIPLEXES`](Self::MULTIPLEXES).
    fn boundary(&self, conn: &Self::Conn, bytes: &[u8], at: usize) -> usize {
        let _ = (conn, at);
        bytes.len()
    }

    /// What the carrier has counted since the start of the measurement, if it counts anything.
    fn counts(&self) -> Option<&StreamCounts> {
        None
    }

    /// Whether messages may be lost, and may arrive when they are not awaited.
    #[inline]
    fn is_lossy(&self) -> bool {
        false
    }
}

/// The call of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Index into the plan's calls.
    pub index: u32,
    /// The parts that replace the plan's, if the call has variable parts.
    pub filled: Option<&'a Filled>,
}

/// What a cancelled wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// Only the exchange: the connection stays open.
    Exchange,
    /// The same, but the connection accepts no new exchanges.
    Last,
    /// The connection, as the carrier cannot skip the reply of the exchange.
    Connection,
}

/// What a carrier asks and reports while it processes bytes.
pub trait Sink {
    /// The oldest exchange of this connection that was sent and has not ended, and its call (an
    /// index into the plan's). For carriers whose replies come in the order of their requests.
    fn oldest(&self) -> Option<(RequestId, u32)>;

    /// How many exchanges of this connection were sent and have not ended.
    fn outstanding(&self) -> u32;

    /// The call of an exchange of this connection that was submitted and has not ended.
    fn call(&self, id: RequestId) -> Option<u32> {
        self.oldest().filter(|(oldest, _)| *oldest == id).map(|(_, call)| call)
    }

    /// Whether the kernel has accepted the first byte of an exchange that was submitted.
    fn was_sent(&self, id: RequestId) -> bool {
        let _ = id;
        true
    }

    /// The first byte of the reply has arrived, but not its last. May be called more than once.
    fn began(&mut self, id: RequestId);

    /// These bytes came in place of a reply, or of the peer's first bytes: the fault that follows.
    fn unreadable(&mut self, bytes: &[u8], fault: Fault) {
        let _ = (bytes, fault);
    }

    /// Whether to call `header` for this exchange.
    fn wants_headers(&self, id: RequestId) -> bool {
        let _ = id;
        false
    }

    /// A header of the (final) reply: its name as received, and its value with the whitespace
    /// around it. A folded line still has its line end.
    fn header(&mut self, id: RequestId, name: &[u8], value: &[u8]) {
        let _ = (id, name, value);
    }

    /// The head of a reply, before the first piece of a body that is wanted (of WebSocket: as soon
    /// as it is complete). `has_events`: its
    /// content type is that of server-sent events.
    fn head(&mut self, id: RequestId, status: u16, has_events: bool) {
        let _ = (id, status, has_events);
    }

    /// Whether to call `body` for this exchange.
    fn wants_body(&self, id: RequestId) -> bool;

    /// The same for the body of a reply with such a status, which may be that of a failure.
    #[cold]
    fn wants_failed_body(&self, id: RequestId, status: u16) -> bool {
        let _ = (id, status);
        false
    }

    /// A piece of the reply's body, without transfer coding.
    fn body(&mut self, id: RequestId, piece: &[u8]);

    /// The last piece was the end of a chunk, or of a DATA frame.
    fn chunk_ended(&mut self, id: RequestId) {
        let _ = id;
    }

    /// A message of the reply is complete, in a stream with any number of them. `token` is that of
    /// the message to which it replies, if they are matched by more than their order.
    fn message(&mut self, id: RequestId, token: u64) {
        let _ = (id, token);
    }

    /// The pong to a ping that was due and sent at these times has arrived.
    fn ping_answered(&mut self, times: [Nanos; 2]) {
        let _ = times;
    }

    /// The connection of a subscriber of a broadcast is open.
    fn subscribed(&mut self, id: RequestId) {
        let _ = id;
    }

    /// A subscriber of a broadcast has received a message; `None`: without a stamp of this run.
    fn delivered(&mut self, id: RequestId, stamp: Option<Stamp>) {
        let _ = (id, stamp);
    }

    /// An exchange that was submitted has no bytes to send: it counts as sent now.
    fn sent(&mut self, id: RequestId) {
        let _ = id;
    }

    /// The peer has closed the socket of a session with this code, while no step was made on it.
    fn closed(&mut self, code: u16) {
        let _ = code;
    }

    /// What the peer has sent is a fault of the oldest exchange, even if it is in the first byte of
    /// its reply. For carriers that [multiplex](Carrier::MULTIPLEXES) and also use HTTP/1.1.
    fn blame_oldest(&mut self) {
        if let Some((id, _)) = self.oldest() {
            self.began(id);
        }
    }

    /// The exchange has ended with a complete reply.
    fn done(&mut self, id: RequestId, reply: &Reply);

    /// The exchange has failed; the connection stays open.
    fn failed(&mut self, id: RequestId, fault: Fault) {
        let _ = (id, fault);
    }

    /// The peer reports that it has not processed the exchange: it is sent again.
    fn refused(&mut self, id: RequestId) {
        let _ = id;
    }

    /// The peer accepts no new exchanges on this connection; those that were submitted continue.
    fn draining(&mut self) {}

    /// A message has arrived that is not simply the next reply.
    fn odd(&mut self, what: Anomaly) {
        let _ = what;
    }
}

/// What can happen to messages that a network may lose, duplicate and reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A reply that arrived after one to a later call. It also counts as a reply.
    Reordered,
    /// A second reply to the same call.
    Duplicate,
    /// A reply to a call that is no longer awaited.
    Late,
    /// Not a reply of this protocol, or a reply to a call that was never made.
    Unexpected,
}

/// Whether a content type is that of server-sent events.
fn is_of_events(value: &[u8]) -> bool {
    let name = value.split(|&byte| byte == b';').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// A complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code, 200 to 599 (or 101); that of gRPC, 0 to 16, if the call is one of gRPC; the
    /// close code of WebSocket, 1000 to 4999; 200 for a step on a socket that is neither a
    /// handshake nor a close.
    pub status: u16,
    /// Bytes of status line and headers, interim replies, chunk framing and trailers: everything
    /// that is not body.
    pub head_bytes: u64,
    /// The part of `head_bytes` in the size lines and line ends of chunks.
    pub framing_bytes: u64,
    /// The part of `head_bytes` after the last chunk: trailers and the empty line.
    pub footer_bytes: u64,
    /// Bytes of body, without transfer coding.
    pub body_bytes: u64,
    /// Interim (1xx) replies before this one.
    pub interim: u32,
    /// Whether the connection can carry further exchanges.
    pub keeps_open: bool,
    /// The reply is complete but has an error (`Surplus`): the request has failed.
    pub fault: Option<Fault>,
}
