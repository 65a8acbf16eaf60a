//! WebSocket, client side (RFC 6455): over HTTP/1.1 ([`Ws`]), and over streams of HTTP/2
//! ([`WsHttp`], RFC 8441). An exchange is a connection, from its handshake to its close; its status
//! is the close code. A handshake that is answered by anything but the status 101 (with HTTP/2, 200
//! to 299) is an exchange of HTTP.

mod deflating;
mod handshake;
mod over_h2;
mod pings;
mod socket;
mod stamps;
mod steps;
mod talk;
#[cfg(test)]
mod tests;

use crate::fault::Fault;
use crate::plan::Plan;
use crate::proto::h1::{self, H1};
use crate::proto::http::Negotiated;
use crate::proto::{Call, Carrier, Out, Reply, Sink};
use crate::script::Filled;
use crate::units::{Nanos, RequestId};
use crate::websocket::{CloseCode, ReplyFields};
use handshake::Watch;
use over_h2::OverH2;
use pings::Pings;
use socket::{Socket, Step};
pub use steps::{Steps, StepsHttp};
use talk::{Talk, handshakes};

/// The carrier of one worker, over HTTP/1.1.
#[derive(Debug)]
pub struct Ws {
    h1: H1,
    talk: Talk,
    /// A handshake without its message.
    head: Filled,
}

/// The carrier over the version of HTTP that each connection negotiates. Over HTTP/1.1, a
/// connection is one exchange; over HTTP/2, each exchange is a stream.
pub type WsHttp = Negotiated<Ws, OverH2>;

impl WsHttp {
    /// The carrier for a plan's calls.
    pub fn new(plan: &Plan) -> Self {
        Self::of(plan, Ws::new, OverH2::new)
    }
}

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Conn {
    http: h1::Conn,
    fields: ReplyFields,
    /// How many bytes of the handshake's reply were used.
    head_bytes: u64,
    /// The head of that reply.
    reply: Option<Reply>,
    socket: Socket,
}

impl Ws {
    /// The carrier for a plan's calls.
    pub fn new(plan: &Plan) -> Self {
        let spec = plan.websocket.as_deref().cloned().unwrap_or_default();
        let fixed = [("Upgrade", "websocket"), ("Connection", "Upgrade")];
        Self {
            h1: H1::new(&handshakes(plan, &spec, ("GET", &fixed))),
            talk: Talk::new(plan, &spec),
            head: Filled::default(),
        }
    }

    /// Read the reply to the handshake. Returns how many bytes were used.
    fn handshake(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let key = self.talk.key(conn.socket.number);
        let mut watch = Watch {
            sink: &mut *sink,
            fields: &mut conn.fields,
            key: &key,
            protocols: &self.talk.protocols,
            switch: None,
        };
        let result = self.h1.receive(&mut conn.http, data, now, &mut watch);
        let switch = watch.switch;
        let used = result.inspect_err(|_| sink.blame_oldest())?;
        let Some(reply) = switch else {
            conn.head_bytes += used as u64;
            return Ok(used);
        };
        sink.began(conn.socket.id);
        conn.fields.check(self.talk.deflates()).map_err(|_| Fault::BadUpgrade)?;
        if let Some(agreed) = conn.fields.deflate() {
            conn.socket.reader.accept_compressed(agreed.server_alone);
        }
        let used = (reply.head_bytes - conn.head_bytes) as usize;
        conn.reply = Some(reply);
        self.talk.opens(&mut conn.socket, reply.status, now, sink);
        Ok(used + self.frames(conn, &data[used..], sink)?)
    }

    /// Read frames. Returns how many bytes were used.
    fn frames(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let (used, code) = self.talk.read(&mut conn.socket, data, sink)?;
        if let Some(code) = code {
            conn.finish(code, sink);
        }
        Ok(used)
    }
}

impl Conn {
    /// The exchange has ended with this code.
    fn finish(&self, code: CloseCode, sink: &mut impl Sink) {
        let Some(head) = &self.reply else { return };
        let head = Reply { framing_bytes: 0, keeps_open: false, fault: None, ..*head };
        sink.done(self.socket.id, &self.socket.reply(code, &head));
    }
}

impl Carrier for Ws {
    type Conn = Conn;

    /// As the connection takes one exchange, this decides only who is to blame for its loss, and
    /// that peers are sent last words.
    const MULTIPLEXES: bool = true;

    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        if conn.socket.step == Step::New { limit.min(1).saturating_sub(in_flight) } else { 0 }
    }

    fn submit(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    ) {
        conn.socket = self.talk.begin(id, &call);
        let filled = match call.filled {
            None => None,
            Some(filled) => {
                self.head.copy_without_body(filled);
                Some(&self.head)
            }
        };
        self.h1.submit(&mut conn.http, id, Call { filled, ..call }, last, out);
        let key = self.talk.key(conn.socket.number);
        let out = out.bytes();
        // Before the empty line.
        out.truncate(out.len() - 2);
        out.extend_from_slice(b"Sec-WebSocket-Key: ");
        out.extend_from_slice(&key);
        out.extend_from_slice(b"\r\n\r\n");
    }

    fn owes(&self, conn: &Conn) -> bool {
        self.talk.owes(&conn.socket)
    }

    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        while self.talk.write_next(&mut conn.socket, now, out) {}
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        match conn.socket.step {
            Step::New => Err(Fault::Surplus),
            Step::Handshake => self.handshake(conn, data, now, sink),
            Step::Open | Step::Closing => self.frames(conn, data, sink),
            Step::Ended | Step::Over => Ok(data.len()),
        }
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match conn.socket.step {
            Step::New | Step::Handshake => self.h1.end(&mut conn.http, left, sink),
            Step::Open | Step::Closing => Err(Fault::Truncated),
            Step::Ended | Step::Over => Ok(()),
        }
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        match conn.socket.step {
            Step::Handshake => self.h1.stop(&mut conn.http, id, sink),
            Step::Open if conn.socket.id == id => {
                conn.socket.step = Step::Ended;
                conn.socket.last_words = CloseCode::NORMAL;
                conn.finish(CloseCode::NORMAL, sink);
            }
            _ => {}
        }
    }

    fn send_messages(&mut self, conn: &mut Conn, id: RequestId, n: u64, ends: bool) {
        if conn.socket.id == id {
            conn.socket.due(n, ends);
        }
    }

    fn messages_due(&mut self, conn: &mut Conn, _: RequestId, times: &[Nanos]) {
        if let Some(part) = conn.socket.part.as_deref_mut() {
            part.due(times);
        }
    }

    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        let pings = conn.socket.pings.as_deref().filter(|_| conn.socket.step == Step::Open);
        pings.map(Pings::next)
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        if let Some(pings) = &mut conn.socket.pings {
            pings.advance(now);
        }
        Ok(())
    }

    fn close(&mut self, conn: &mut Conn, out: &mut Vec<u8>) {
        self.talk.write_close(&mut conn.socket, out);
    }
}
