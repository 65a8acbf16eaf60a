//! Application protocols, client side. A [`Carrier`] moves exchanges over a connection: it turns
//! calls into bytes and bytes into replies. Each is monomorphised into `engine::Engine<P>`; a new
//! one is a folder here and an arm where the engine is chosen.

pub mod echo;
pub mod h1;
mod out;

use crate::fault::Fault;
use crate::script::Filled;
use crate::units::{Nanos, RequestId};

pub use out::{Begin, Out};

/// How exchanges are moved over connections. Knows nothing of sessions, schedules, recorders or
/// sockets.
///
/// The engine names each exchange by a [`RequestId`]. It submits an exchange once; the carrier then
/// owes it exactly one end, by [`Sink::done`], [`Sink::failed`] or [`Sink::refused`], unless the
/// engine cancels it or gives the connection up.
pub trait Carrier {
    /// What one connection must remember; lives inline in the connection table. Nothing is
    /// allocated per exchange once a connection has warmed up.
    type Conn: Default;

    /// Whether exchanges of one connection are independent of each other: their replies may come in
    /// any order, and [`capacity`](Self::capacity) may fall while exchanges wait. Where it is
    /// false, replies come in the order of the requests, and an exchange that fails takes its
    /// connection along.
    const MULTIPLEXES: bool = false;

    /// How many more exchanges the connection takes now, where `in_flight` are submitted and not
    /// ended, and the plan allows `limit` at once.
    fn capacity(&self, conn: &Self::Conn, in_flight: u32, limit: u32) -> u32;

    /// An exchange goes out: append its bytes to `out` (behind [`Out::begin`]), or keep what cannot
    /// go yet for [`transmit`](Self::transmit). `last`: no further exchange
    /// will follow on this connection, so the carrier tells the peer (HTTP/1: `Connection: close`).
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

    /// Append what the connection owes its peer beside new exchanges: frames of the carrier's own
    /// (settings, acknowledgements, pings), its opening exchange, and parts of exchanges that were
    /// held back. Called before the exchanges of a turn are submitted and again behind them, each
    /// time if the connection [`owes`](Self::owes) something.
    #[inline]
    fn transmit(&mut self, conn: &mut Self::Conn, now: Nanos, out: &mut Out) {
        let _ = (conn, now, out);
    }

    /// Take in received bytes. Returns how many were used: the rest is kept by the connection and
    /// comes again in front of what arrives next. After an error the connection is of no more use.
    fn receive(
        &mut self,
        conn: &mut Self::Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault>;

    /// The peer has ended its stream, `left` bytes of what it sent being unused. Ends a reply that
    /// lasts until the close; otherwise says what this means for the oldest exchange: `Truncated`
    /// or `ShortBody` inside a reply, `ClosedEarly` before it. `Ok` with nothing outstanding.
    fn end(
        &mut self,
        conn: &mut Self::Conn,
        left: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault>;

    /// Nobody waits any longer for the end of a submitted exchange. Says what that ends.
    fn cancel(&mut self, conn: &mut Self::Conn, id: RequestId) -> Cancelled {
        let _ = (conn, id);
        Cancelled::Connection
    }

    /// When [`on_deadline`](Self::on_deadline) wants to be called; `None`: not before something
    /// else happens.
    #[inline]
    fn deadline(&self, conn: &Self::Conn) -> Option<Nanos> {
        let _ = conn;
        None
    }

    /// The deadline has passed. An error: the connection is of no more use.
    fn on_deadline(&mut self, conn: &mut Self::Conn, now: Nanos) -> Result<(), Fault> {
        let _ = (conn, now);
        Ok(())
    }

    /// Whether connections begin with an exchange of the carrier's own before they carry others.
    /// Until [`is_ready`](Self::is_ready) says that it is over, a connection counts as connecting;
    /// a closed loop's exchanges then start when it is over, as connecting is no part of them.
    #[inline]
    fn opens(&self) -> bool {
        false
    }

    /// Whether the opening exchange of the connection is over. Asked where the carrier
    /// [`opens`](Self::opens).
    fn is_ready(&self, conn: &Self::Conn) -> bool {
        let _ = conn;
        true
    }

    /// Whether messages may be lost on the way, and come where nobody waits for them.
    #[inline]
    fn is_lossy(&self) -> bool {
        false
    }
}

/// What an exchange asks for.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Index into the plan's calls.
    pub index: u32,
    /// The parts that take the place of the plan's, where the call is filled in.
    pub filled: Option<&'a Filled>,
}

/// What the end of a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The exchange alone: the connection goes on.
    Exchange,
    /// The connection, as the carrier cannot pass over the exchange's reply.
    Connection,
}

/// What a carrier asks and reports while it takes in bytes.
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

    /// The first byte of the reply is here, but not its last. May be called more than once.
    fn began(&mut self, id: RequestId);

    /// Whether `header` wants to be called for this exchange.
    fn wants_headers(&self, id: RequestId) -> bool {
        let _ = id;
        false
    }

    /// A header of the reply (no interim one): its name as it came, and its value with the blanks
    /// around it, in which a folded line still has its line end.
    fn header(&mut self, id: RequestId, name: &[u8], value: &[u8]) {
        let _ = (id, name, value);
    }

    /// Whether `body` wants to be called for this exchange.
    fn wants_body(&self, id: RequestId) -> bool;

    /// A piece of the reply's body, without transfer coding.
    fn body(&mut self, id: RequestId, piece: &[u8]);

    /// The exchange has ended with a whole reply.
    fn done(&mut self, id: RequestId, reply: Reply);

    /// The exchange has failed; the connection goes on.
    fn failed(&mut self, id: RequestId, fault: Fault) {
        let _ = (id, fault);
    }

    /// The peer says that it has not begun to work on the exchange: it goes out again.
    fn refused(&mut self, id: RequestId) {
        let _ = id;
    }

    /// The peer takes no new exchange on this connection; those that were submitted go on.
    fn draining(&mut self) {}

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
    /// Whether the connection can carry further exchanges.
    pub keeps_open: bool,
    /// The reply is whole but something about it is wrong (`Surplus`): the request has failed.
    pub fault: Option<Fault>,
}
