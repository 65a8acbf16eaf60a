//! Sockets over HTTP/1.1 (RFC 6455): the first exchange of a connection decides whether it is a
//! socket, or carries requests.

use super::frames::State;
use super::script::{Script, handshakes};
use super::socket::Socket;
use crate::proto::h1::{self, H1};
use crate::proto::{Call, Cancelled, Carrier, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_base::websocket::ReplyFields;
use prony_plan::plan::Plan;
use prony_plan::script::Filled;

/// The part of a carrier that is for connections with HTTP/1.1.
#[derive(Debug)]
pub struct OverH1 {
    pub(in crate::proto) h1: H1,
    script: Script,
    /// A handshake without its message.
    head: Filled,
}

/// The state of one connection.
#[derive(Debug)]
pub enum Conn {
    /// It carries requests of HTTP, or nothing yet.
    Http(Box<h1::Conn>),
    /// It is a socket.
    Socket(Box<Upgraded>),
}

impl Default for Conn {
    fn default() -> Self {
        Self::Http(Box::default())
    }
}

/// A socket, and its handshake. Thousands of them may be idle, so that what is needed only for the
/// handshake is gone after it.
#[derive(Debug)]
pub struct Upgraded {
    socket: Socket,
    /// The handshake, until it is over.
    handshake: Option<Box<Handshake>>,
    /// The head of its reply.
    reply: Option<Reply>,
}

/// A handshake whose reply is not complete.
#[derive(Debug, Default)]
struct Handshake {
    http: h1::Conn,
    fields: ReplyFields,
    /// How many bytes of the reply were used.
    head_bytes: u64,
}

impl OverH1 {
    /// The carrier for a plan's calls.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub fn new(plan: &Plan) -> Self {
        let fixed = [("Upgrade", "websocket"), ("Connection", "Upgrade")];
        Self {
            h1: H1::new(&handshakes(plan, "GET", &fixed)),
            script: Script::new(plan, false),
            head: Filled::default(),
        }
    }

    /// How many more exchanges a new connection can take.
    pub(in crate::proto) fn capacity_of_new(&self, in_flight: u32, limit: u32) -> u32 {
        let most = if self.script.has_steps() { limit } else { limit.min(1) };
        most.saturating_sub(in_flight)
    }

    /// Send the handshake of a socket.
    fn open(&mut self, id: RequestId, call: Call<'_>, last: bool, out: &mut Out) -> Upgraded {
        let (socket, mut handshake) = (self.script.begin(id, &call), Box::<Handshake>::default());
        let filled = call.filled.map(|filled| {
            self.head.copy_without_body(filled);
            &self.head
        });
        self.h1.submit(&mut handshake.http, id, Call { filled, ..call }, last, out);
        let out = out.bytes();
        // Before the empty line.
        out.truncate(out.len() - 2);
        out.extend_from_slice(b"Sec-WebSocket-Key: ");
        out.extend_from_slice(&socket.frames.key());
        out.extend_from_slice(b"\r\n\r\n");
        Upgraded { socket, handshake: Some(handshake), reply: None }
    }

    /// Read the reply to the handshake. Returns how many bytes were used.
    fn handshake(
        &mut self,
        up: &mut Upgraded,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let (key, protocols) = (up.socket.frames.key(), self.script.protocols(&up.socket));
        let Some(mut shake) = up.handshake.take() else { return Ok(data.len()) };
        let fields = &mut shake.fields;
        let mut watch = Watch { sink: &mut *sink, fields, key: &key, protocols, switch: None };
        let used = self.h1.receive(&mut shake.http, data, now, &mut watch)?;
        let Some(reply) = watch.switch else {
            shake.head_bytes += used as u64;
            up.handshake = Some(shake);
            return Ok(used);
        };
        shake.fields.check(self.script.deflates()).map_err(|_| Fault::BadUpgrade)?;
        let used = (reply.head_bytes - shake.head_bytes) as usize;
        up.reply = Some(Reply { framing_bytes: 0, keeps_open: false, fault: None, ..reply });
        self.script.opened(&mut up.socket, (&reply, &shake.fields), now, sink);
        Ok(used + self.frames(up, &data[used..], sink)?)
    }

    /// Read frames. Returns how many bytes were used.
    fn frames(
        &mut self,
        up: &mut Upgraded,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let (used, code) = self.script.read(&mut up.socket, data, sink)?;
        if let Some(code) = code
            && self.script.closed(&mut up.socket, code, up.reply.as_ref(), sink)
        {
            sink.closed(code.0);
            sink.draining();
        }
        Ok(used)
    }
}

impl Carrier for OverH1 {
    type Conn = Conn;

    /// As a socket takes one exchange at a time, this decides only who is to blame for a loss, that
    /// peers are sent last words, and that a wait can be given up alone.
    const MULTIPLEXES: bool = true;

    fn ends_alone(&self) -> bool {
        self.script.has_steps()
    }

    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        let has_steps = self.script.has_steps();
        match conn {
            Conn::Http(conn) if has_steps => self.h1.capacity(conn, in_flight, limit),
            Conn::Http(_) => self.capacity_of_new(in_flight, limit),
            Conn::Socket(up) => match up.socket.frames.state {
                State::Open | State::Ended if has_steps => limit.min(1).saturating_sub(in_flight),
                _ => 0,
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
        match (self.script.opens(call.index), &mut *conn) {
            (None, Conn::Http(conn)) => self.h1.submit(conn, id, call, last, out),
            (Some(true), Conn::Http(_)) => {
                *conn = Conn::Socket(Box::new(self.open(id, call, last, out)));
            }
            // A connection that is new, or has carried requests.
            (Some(false), Conn::Http(_)) => {
                let socket = self.script.no_socket(id, &call);
                *conn = Conn::Socket(Box::new(Upgraded { socket, handshake: None, reply: None }));
            }
            (_, Conn::Socket(up)) => {
                if self.script.start_step(&mut up.socket, id, &call) {
                    out.begin(id);
                    self.script.write_step(&mut up.socket, &call, out.bytes());
                }
            }
        }
    }

    fn owes(&self, conn: &Conn) -> bool {
        matches!(conn, Conn::Socket(up) if self.script.owes(&up.socket))
    }

    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        if let Conn::Socket(up) = conn {
            while self.script.write_next(&mut up.socket, now, out) {}
        }
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let result = match conn {
            Conn::Http(conn) => self.h1.receive(conn, data, now, sink),
            Conn::Socket(up) => match up.socket.frames.state {
                State::Handshake => self.handshake(up, data, now, sink),
                State::Open | State::Closing => self.frames(up, data, sink),
                State::Ended | State::Over => Ok(data.len()),
            },
        };
        result.inspect_err(|_| sink.blame_oldest())
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match conn {
            Conn::Http(conn) => self.h1.end(conn, left, sink),
            Conn::Socket(up) => match up.socket.frames.state {
                State::Handshake => match &mut up.handshake {
                    Some(shake) => self.h1.end(&mut shake.http, left, sink),
                    None => Ok(()),
                },
                State::Open | State::Closing => {
                    if let Some(id) = up.socket.exchange() {
                        // The fault is that of the exchange.
                        sink.began(id);
                    }
                    Err(Fault::Truncated)
                }
                State::Ended | State::Over => Ok(()),
            },
        }
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        match conn {
            Conn::Http(_) => Cancelled::Connection,
            Conn::Socket(up) if up.socket.exchange() != Some(id) => Cancelled::Exchange,
            Conn::Socket(up) => match up.socket.cancel() {
                true => Cancelled::Exchange,
                false => Cancelled::Connection,
            },
        }
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        match conn {
            Conn::Http(conn) => self.h1.stop(conn, id, sink),
            Conn::Socket(up) => match (&mut up.handshake, &up.reply) {
                (Some(shake), _) => self.h1.stop(&mut shake.http, id, sink),
                (None, Some(head)) => {
                    up.socket.stop(id, head, sink);
                }
                (None, None) => {}
            },
        }
    }

    fn send_messages(&mut self, conn: &mut Conn, id: RequestId, n: u64, ends: bool) {
        if let Conn::Socket(up) = conn
            && up.socket.exchange() == Some(id)
        {
            up.socket.due(n, ends);
        }
    }

    fn messages_due(&mut self, conn: &mut Conn, _: RequestId, times: &[Nanos]) {
        if let Conn::Socket(up) = conn {
            up.socket.due_since(times);
        }
    }

    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        match conn {
            Conn::Http(_) => None,
            Conn::Socket(up) => up.socket.deadline(),
        }
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        if let Conn::Socket(up) = conn {
            up.socket.on_deadline(now);
        }
        Ok(())
    }

    fn report_ends(&mut self, conn: &mut Conn, now: Nanos, sink: &mut impl Sink) -> bool {
        match conn {
            Conn::Http(_) => false,
            Conn::Socket(up) => self.script.report_end(&mut up.socket, now, sink),
        }
    }

    fn close(&mut self, conn: &mut Conn, out: &mut Vec<u8>) {
        if let Conn::Socket(up) = conn {
            up.socket.frames.write_last(out);
        }
    }
}

/// Looks at the reply to a handshake while HTTP/1.1 reads it. Passes everything on to the engine's
/// sink, but a reply with the status 101.
struct Watch<'a, S> {
    sink: &'a mut S,
    fields: &'a mut ReplyFields,
    key: &'a [u8; 24],
    protocols: &'a [String],
    /// The reply with the status 101.
    switch: Option<Reply>,
}

impl<S: Sink> Sink for Watch<'_, S> {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        self.sink.oldest()
    }

    fn outstanding(&self) -> u32 {
        self.sink.outstanding()
    }

    fn unreadable(&mut self, bytes: &[u8], fault: Fault) {
        self.sink.unreadable(bytes, fault);
    }

    fn began(&mut self, id: RequestId) {
        self.sink.began(id);
    }

    fn wants_headers(&self, _: RequestId) -> bool {
        true
    }

    fn header(&mut self, id: RequestId, name: &[u8], value: &[u8]) {
        self.fields.field(name, value, (self.key, self.protocols));
        if self.sink.wants_headers(id) {
            self.sink.header(id, name, value);
        }
    }

    fn head(&mut self, id: RequestId, status: u16, has_events: bool) {
        self.sink.head(id, status, has_events);
    }

    fn wants_body(&self, id: RequestId) -> bool {
        self.sink.wants_body(id)
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        self.sink.body(id, piece);
    }

    fn chunk_ended(&mut self, id: RequestId) {
        self.sink.chunk_ended(id);
    }

    fn done(&mut self, id: RequestId, reply: &Reply) {
        match reply.status {
            101 => self.switch = Some(*reply),
            // It has no use for anything else.
            _ => self.sink.done(id, &Reply { keeps_open: false, ..*reply }),
        }
    }
}
