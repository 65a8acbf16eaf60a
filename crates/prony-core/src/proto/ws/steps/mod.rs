//! Steps of a session on a WebSocket that stays open between them, next to requests of HTTP/1.1
//! (in `over_h2`: on streams of HTTP/2, next to other streams).
//!
//! An exchange is a step: a handshake, a message that is sent, a message that is awaited, a close.
//! The first exchange of a connection decides what it is: a connection of HTTP, or a socket.

mod calls;
mod inbox;
mod over_h2;
mod socket;
#[cfg(test)]
mod tests;

use super::handshake::Watch;
use crate::fault::Fault;
use crate::messages::Numbering;
use crate::plan::Plan;
use crate::proto::h1::{self, H1};
use crate::proto::http::Negotiated;
use crate::proto::{Call, Cancelled, Carrier, Out, Reply, Sink};
use crate::rng::{self, Stream};
use crate::script::Filled;
use crate::units::{Nanos, RequestId};
use crate::websocket::{Frame, Opcode, key_of};
use calls::{StepCall, What, with_handshakes};
use over_h2::StepsOverH2;
use socket::{Current, Needs, Socket, State};

/// The carrier of one worker.
#[derive(Debug)]
pub struct Steps {
    h1: H1,
    /// The steps on sockets, by the number of their call.
    calls: Vec<Option<StepCall>>,
    seed: u64,
    numbers: Numbering,
}

/// The carrier of plans with HTTP/2. As both versions divide a session's connections differently,
/// no connection falls back to HTTP/1.1.
pub type StepsHttp = Negotiated<Steps, StepsOverH2>;

impl StepsHttp {
    /// The carrier for a plan's calls.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub fn new(plan: &Plan) -> Self {
        Self::of(plan, Steps::new, StepsOverH2::new)
    }
}

/// The state of one connection.
#[derive(Debug)]
pub struct Conn(Kind);

#[derive(Debug)]
enum Kind {
    /// It carries requests of HTTP, or nothing yet.
    Http(h1::Conn),
    /// It is a socket.
    Socket(Box<Socket>),
}

impl Default for Conn {
    fn default() -> Self {
        Self(Kind::Http(h1::Conn::default()))
    }
}

impl Steps {
    /// The carrier for a plan's calls.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub fn new(plan: &Plan) -> Self {
        Self {
            h1: H1::new(&with_handshakes(plan)),
            calls: plan.calls.iter().map(StepCall::new).collect(),
            seed: plan.seed,
            numbers: Numbering::new(plan),
        }
    }

    /// The key of the handshake with this number.
    fn key(&self, number: u64) -> [u8; 24] {
        let bits = |place| rng::keyed(self.seed, Stream::Masks, number, place);
        key_of([bits(u64::MAX), bits(u64::MAX - 1)])
    }

    /// Send the handshake of a socket.
    fn open(&mut self, id: RequestId, call: Call<'_>, last: bool, out: &mut Out) -> Socket {
        let mut socket = Socket::new(self.numbers.take(), State::Handshake);
        self.h1.submit(&mut socket.http, id, call, last, out);
        let key = self.key(socket.number);
        let out = out.bytes();
        // Before the empty line.
        out.truncate(out.len() - 2);
        out.extend_from_slice(b"Sec-WebSocket-Key: ");
        out.extend_from_slice(&key);
        out.extend_from_slice(b"\r\n\r\n");
        socket
    }

    /// Make a step on an open socket. Returns what it needs to end.
    fn make(&self, socket: &mut Socket, id: RequestId, call: Call<'_>, out: &mut Out) -> Needs {
        let Some(step) = &self.calls[call.index as usize] else {
            unreachable!("sockets have endpoints of their own");
        };
        let own = call.filled.and_then(Filled::body);
        let needs = socket.needs(step, own);
        if needs.writes() {
            out.begin(id);
            socket.write_step(step, own, self.seed, out.bytes());
        }
        needs
    }

    /// Read the reply to the handshake. Returns how many bytes were used.
    fn handshake(
        &mut self,
        socket: &mut Socket,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let key = self.key(socket.number);
        let call = socket.current.as_ref().map_or(0, |current| current.call);
        let protocols = match &self.calls[call as usize] {
            Some(StepCall { what: What::Open(protocols), .. }) => &protocols[..],
            _ => &[],
        };
        let fields = &mut socket.fields;
        let mut watch = Watch { sink: &mut *sink, fields, key: &key, protocols, switch: None };
        let used = self.h1.receive(&mut socket.http, data, now, &mut watch)?;
        let Some(reply) = watch.switch else {
            socket.head_bytes += used as u64;
            return Ok(used);
        };
        let Some(current) = socket.current.take() else { return Err(Fault::Surplus) };
        socket.fields.check(false).map_err(|_| Fault::BadUpgrade)?;
        socket.state = State::Open;
        let used = (reply.head_bytes - socket.head_bytes) as usize;
        sink.done(current.id, &Reply { keeps_open: true, fault: None, ..reply });
        Ok(used + socket.frames(&mut self.calls, &data[used..], sink)?)
    }
}

impl Carrier for Steps {
    type Conn = Conn;

    /// A socket takes one step at a time. This decides who is to blame for a loss, that peers are
    /// sent last words, and that a wait can be given up alone.
    const MULTIPLEXES: bool = true;

    const ENDS_ALONE: bool = true;

    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        match &conn.0 {
            Kind::Http(conn) => self.h1.capacity(conn, in_flight, limit),
            Kind::Socket(socket) => match socket.state {
                State::Open | State::Ended(_) => limit.min(1).saturating_sub(in_flight),
                State::Handshake | State::Closing(_) | State::Over => 0,
            },
        }
    }

    fn submit(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    ) {
        let needs = match (&self.calls[call.index as usize], &mut conn.0) {
            (None, Kind::Http(conn)) => return self.h1.submit(conn, id, call, last, out),
            (Some(StepCall { what: What::Open(_), .. }), Kind::Http(_)) => {
                conn.0 = Kind::Socket(Box::new(self.open(id, call, last, out)));
                Needs::Answer
            }
            // A connection that is new, or has carried requests.
            (Some(_), Kind::Http(_)) => {
                conn.0 = Kind::Socket(Box::new(Socket::new(0, State::Over)));
                Needs::Failed(Fault::NoSocket)
            }
            (_, Kind::Socket(socket)) => self.make(socket, id, call, out),
        };
        if let Kind::Socket(socket) = &mut conn.0 {
            let equals = call.filled.and_then(Filled::awaited).map(<[u8]>::to_vec);
            socket.current = Some(Current { id, call: call.index, needs, equals, until: None });
        }
    }

    fn owes(&self, conn: &Conn) -> bool {
        match &conn.0 {
            Kind::Http(_) => false,
            Kind::Socket(socket) => socket.owes_pong && socket.state == State::Open,
        }
    }

    fn transmit(&mut self, conn: &mut Conn, _: Nanos, out: &mut Out) {
        if self.owes(conn)
            && let Kind::Socket(socket) = &mut conn.0
        {
            socket.owes_pong = false;
            let mask = socket.mask(self.seed);
            Frame { opcode: Opcode::Pong, is_final: true, mask }.write(&socket.ping, out.bytes());
        }
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let result = match &mut conn.0 {
            Kind::Http(conn) => self.h1.receive(conn, data, now, sink),
            Kind::Socket(socket) => match socket.state {
                State::Handshake => self.handshake(socket, data, now, sink),
                State::Open | State::Closing(_) => socket.frames(&mut self.calls, data, sink),
                State::Ended(_) | State::Over => Ok(data.len()),
            },
        };
        result.inspect_err(|_| sink.blame_oldest())
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match &mut conn.0 {
            Kind::Http(conn) => self.h1.end(conn, left, sink),
            Kind::Socket(socket) => match socket.state {
                State::Handshake => self.h1.end(&mut socket.http, left, sink),
                State::Open | State::Closing(_) => {
                    if let Some(current) = &socket.current {
                        // The fault is that of the step.
                        sink.began(current.id);
                    }
                    Err(Fault::Truncated)
                }
                State::Ended(_) | State::Over => Ok(()),
            },
        }
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        let Kind::Socket(socket) = &mut conn.0 else { return Cancelled::Connection };
        match socket.current.take_if(|current| current.id == id) {
            Some(current) if matches!(current.needs, Needs::Answer | Needs::Close) => {
                Cancelled::Connection
            }
            _ => Cancelled::Exchange,
        }
    }

    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        let Kind::Socket(socket) = &conn.0 else { return None };
        socket.current.as_ref()?.until
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        if let Kind::Socket(socket) = &mut conn.0 {
            socket.time_out(now);
        }
        Ok(())
    }

    fn report_ends(&mut self, conn: &mut Conn, now: Nanos, sink: &mut impl Sink) -> bool {
        match &mut conn.0 {
            Kind::Http(_) => false,
            Kind::Socket(socket) => socket.report_end(&mut self.calls, now, sink),
        }
    }

    fn close(&mut self, conn: &mut Conn, out: &mut Vec<u8>) {
        if let Kind::Socket(socket) = &mut conn.0 {
            socket.write_close(self.seed, out);
        }
    }
}
