//! Application protocols: how a call becomes bytes and bytes become replies. Each is monomorphised
//! into `engine::Engine<P>`; a new protocol is one folder here and one arm where the engine is
//! chosen.

pub mod echo;
pub mod h1;

use crate::fault::Fault;
use crate::script::Filled;
use crate::units::Nanos;

/// One application protocol, client side. Knows nothing of sessions, schedules, recorders or
/// sockets.
pub trait Protocol {
    /// What one connection must remember; lives inline in the connection table.
    type Conn: Default;

    /// How many more calls may be put in flight, where `in_flight` are and `limit` is the plan's
    /// pipelining depth.
    fn room(&self, conn: &Self::Conn, in_flight: u32, limit: u32) -> u32;

    /// Append the bytes of call `call` (index into the plan's calls). `last`: no further call will
    /// follow on this connection, so the protocol tells the peer (HTTP/1: `Connection: close`).
    fn encode(&mut self, conn: &mut Self::Conn, call: u32, last: bool, out: &mut Vec<u8>);

    /// The same for a call that is filled in: `filled` has the parts that take the place of the
    /// plan's. A protocol whose calls have no such parts keeps this one.
    fn encode_filled(
        &mut self,
        conn: &mut Self::Conn,
        call: u32,
        filled: &Filled,
        last: bool,
        out: &mut Vec<u8>,
    ) {
        let _ = filled;
        self.encode(conn, call, last, out);
    }

    /// Take in received bytes; report replies to the sink in the order in which they end. Returns
    /// how many bytes were used: the rest is kept by the connection and comes again in front of
    /// what arrives next. After an error the connection is of no more use.
    fn decode(
        &mut self,
        conn: &mut Self::Conn,
        data: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<usize, Fault>;

    /// The peer has ended its stream, `left` bytes of what it sent being unused. Ends a reply that
    /// lasts until the close (by `sink.reply`); otherwise says what this means for the oldest call:
    /// `Truncated` or `ShortBody` inside a reply, `ClosedEarly` before it. `Ok` with nothing
    /// outstanding.
    fn end(
        &mut self,
        conn: &mut Self::Conn,
        left: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<(), Fault>;

    /// Whether connections begin with an exchange of the protocol's own before they carry calls.
    /// Until it is done a connection counts as connecting; a closed loop's calls then start when it
    /// is done, as connecting is no part of them.
    #[inline]
    fn greets(&self) -> bool {
        false
    }

    /// What the connection has to send next of its greeting is appended to `out`. `ends` gets where
    /// pieces of it end, each of which is offered to the kernel by itself.
    fn greet(
        &mut self,
        conn: &mut Self::Conn,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Greeting {
        let _ = (conn, out, ends);
        Greeting::Done
    }

    /// Take in bytes that came during the greeting; returns how many were used, after which `greet`
    /// is asked again. 0: more must come, or (a message) it is none that is awaited.
    fn greeted(&mut self, conn: &mut Self::Conn, data: &[u8]) -> Result<usize, Fault> {
        let _ = conn;
        Ok(data.len())
    }

    /// The greeting has had no answer for a while: whether `greet` has something to send again.
    fn greets_again(&mut self, conn: &mut Self::Conn) -> bool {
        let _ = conn;
        false
    }

    /// Whether each call must be offered to the kernel by itself, because it is a message whose
    /// boundaries count.
    #[inline]
    fn one_by_one(&self) -> bool {
        false
    }

    /// Whether messages may be lost on the way: a call that runs out of time then does not end its
    /// connection.
    #[inline]
    fn is_lossy(&self) -> bool {
        false
    }

    /// Nobody waits any longer for the reply to a call; it was the one at that position among those
    /// sent and not answered, from 0. Asked of lossy protocols alone.
    fn gave_up(&mut self, conn: &mut Self::Conn, position: u32) {
        let _ = (conn, position);
    }

    /// When the protocol itself wants to act (pings, QUIC); `None` for HTTP/1.
    fn deadline(&self, conn: &Self::Conn) -> Option<Nanos> {
        let _ = conn;
        None
    }
}

/// How far a greeting has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// An answer must come first.
    Waits,
    /// With what is to be sent now it is over.
    Done,
}

/// What a protocol may ask and tell while it decodes. Replies answer the oldest unanswered call of
/// the connection.
pub trait ReplySink {
    /// The oldest unanswered call of this connection: its index into the plan's calls. `None`:
    /// nobody asked.
    fn awaited(&self) -> Option<u32>;

    /// How many calls of this connection were sent and are not yet answered.
    fn outstanding(&self) -> u32;

    /// The first byte of the oldest call's reply is here, but not its last. May be called more than
    /// once.
    fn began(&mut self);

    /// Whether `header` wants to be called for the oldest call.
    fn wants_headers(&self) -> bool {
        false
    }

    /// A header of the oldest call's reply (no interim one): its name as it came, and its value
    /// with the blanks around it, in which a folded line still has its line end.
    fn header(&mut self, name: &[u8], value: &[u8]) {
        let _ = (name, value);
    }

    /// Whether `body` wants to be called (the plan expects something of the bodies).
    fn wants_body(&self) -> bool;

    /// A piece of the oldest call's body, without transfer coding.
    fn body(&mut self, piece: &[u8]);

    /// The oldest call is answered.
    fn reply(&mut self, reply: Reply);

    /// The call at that position among those sent and not answered, from 0, is answered: for
    /// protocols whose replies may come in another order.
    fn reply_to(&mut self, position: u32, reply: Reply) {
        debug_assert_eq!(position, 0, "this sink takes replies in order only");
        self.reply(reply);
    }

    /// A message has come that is not simply the next reply.
    fn odd(&mut self, what: Odd) {
        let _ = what;
    }
}

/// What may happen to messages that a network may lose, double and overtake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// A reply that was overtaken by one to a later call. It counts as a reply, too.
    Reordered,
    /// A second reply to the same call.
    Duplicate,
    /// A reply to a call for which nobody waits any longer.
    Late,
    /// No reply of this protocol, or one to a call that was never made.
    Foreign,
}

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code, 200 to 599 (or 101).
    pub status: u16,
    /// Bytes of status line and headers, interim replies, chunk framing and trailers: all that is
    /// not body.
    pub head_bytes: u64,
    /// Those among them that are the size lines and line ends of chunks.
    pub framing_bytes: u64,
    /// Those among them that follow the last chunk: trailers and the empty line.
    pub footer_bytes: u64,
    /// Bytes of body, without transfer coding.
    pub body_bytes: u64,
    /// Interim (1xx) replies before this one.
    pub interim: u32,
    /// Whether the connection can carry further calls.
    pub keeps_open: bool,
    /// The reply is whole but something about it is wrong (`Surplus`): the request has failed.
    pub fault: Option<Fault>,
}
