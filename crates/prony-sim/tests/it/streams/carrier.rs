//! A small carrier of many streams over one connection. Each frame has a kind, a stream, and a
//! payload. The carrier has the features of real ones that HTTP/1 does not have: a handshake,
//! interleaved streams, a stream limit that the peer changes, refusals, failures, flow control,
//! pings from both sides, and draining.

use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::plan::Plan;
use prony_proto::proto::{Call, Cancelled, Carrier, Out, Reply, Sink};

/// The length of a frame's header: kind, stream or number, length of the payload.
pub(crate) const HEADER: usize = 7;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    // From the client.
    Hello,
    Open,
    Close,
    Cancel,
    // From both.
    Data,
    End,
    Ping,
    Pong,
    // From the server.
    Limit,
    Window,
    Refused,
    Failed,
    Drain,
}

const KINDS: [Kind; 13] = [
    Kind::Hello,
    Kind::Open,
    Kind::Close,
    Kind::Cancel,
    Kind::Data,
    Kind::End,
    Kind::Ping,
    Kind::Pong,
    Kind::Limit,
    Kind::Window,
    Kind::Refused,
    Kind::Failed,
    Kind::Drain,
];

/// Append a frame.
pub(crate) fn frame(out: &mut Vec<u8>, kind: Kind, number: u32, payload: &[u8]) {
    out.push(kind as u8);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    out.extend_from_slice(payload);
}

/// Kind, number, payload.
pub(crate) type Frame<'a> = (Kind, u32, &'a [u8]);

/// The first frame, if it is complete.
pub(crate) fn read(data: &[u8]) -> Result<Option<Frame<'_>>, Fault> {
    let Some((head, rest)) = data.split_at_checked(HEADER) else { return Ok(None) };
    let kind = *KINDS.get(usize::from(head[0])).ok_or(Fault::BadFrame)?;
    let number = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let length = usize::from(u16::from_be_bytes([head[5], head[6]]));
    Ok(rest.get(..length).map(|payload| (kind, number, payload)))
}

/// The carrier of a worker.
pub(crate) struct Streams {
    /// The length of each call's body.
    bodies: Vec<usize>,
    /// How often a connection pings its peer; `None`: never.
    ping: Option<Span>,
}

#[derive(Debug, Default)]
pub(crate) struct Conn {
    phase: Phase,
    streams: Vec<Stream>,
    /// The number of the next stream.
    next: u32,
    /// The limit of concurrent streams.
    limit: u32,
    drains: bool,
    /// How many bytes of bodies may be sent.
    window: usize,
    /// Pings without a reply, and cancelled streams.
    pongs: u32,
    cancels: Vec<u32>,
    ping_at: Option<Nanos>,
    ping_is_due: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Fresh,
    Greeted,
    Ready,
}

#[derive(Debug)]
struct Stream {
    number: u32,
    id: RequestId,
    /// Bytes of the body that are not sent yet.
    left: usize,
    /// Since when they wait for the window.
    waits: Option<Nanos>,
    /// Bytes of the reply so far: headers of frames, and body.
    head: u64,
    body: u64,
}

impl Streams {
    pub(crate) fn new(plan: &Plan, ping: Option<Span>) -> Self {
        Self { bodies: plan.calls.iter().map(|c| c.body.len()).collect(), ping }
    }
}

impl Conn {
    fn position(&self, number: u32) -> Option<usize> {
        self.streams.iter().position(|s| s.number == number)
    }

    /// Send as much of the stream's body as the window allows.
    fn send_body(&mut self, at: usize, now: Nanos, out: &mut Out) {
        let stream = &mut self.streams[at];
        let n = stream.left.min(self.window).min(usize::from(u16::MAX));
        if n > 0 {
            frame(out.bytes(), Kind::Data, stream.number, &vec![b'x'; n]);
            stream.left -= n;
            self.window -= n;
            if let Some(since) = stream.waits.take() {
                out.waited_for_window(stream.id, now.since(since));
            }
        }
        if stream.left > 0 {
            stream.waits.get_or_insert(now);
        } else {
            frame(out.bytes(), Kind::Close, stream.number, &[]);
        }
    }
}

impl Carrier for Streams {
    type Conn = Conn;

    const MULTIPLEXES: bool = true;

    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        if conn.drains { 0 } else { conn.limit.min(limit).saturating_sub(in_flight) }
    }

    fn submit(&mut self, conn: &mut Conn, id: RequestId, call: Call<'_>, _: bool, out: &mut Out) {
        let left = self.bodies[call.index as usize];
        let number = conn.next;
        conn.next += 1;
        out.begin(id);
        frame(out.bytes(), Kind::Open, number, &[]);
        if left == 0 {
            frame(out.bytes(), Kind::Close, number, &[]);
        }
        conn.streams.push(Stream { number, id, left, waits: None, head: 0, body: 0 });
    }

    fn owes(&self, conn: &Conn) -> bool {
        let bodies = conn.streams.iter().any(|s| s.is_owed(conn.window));
        let frames = conn.pongs > 0 || !conn.cancels.is_empty() || conn.ping_is_due;
        conn.phase == Phase::Fresh || frames || bodies
    }

    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        if conn.phase == Phase::Fresh {
            conn.phase = Phase::Greeted;
            frame(out.bytes(), Kind::Hello, 0, &[]);
            conn.ping_at = self.ping.map(|every| now + every);
        }
        for number in conn.cancels.drain(..) {
            frame(out.bytes(), Kind::Cancel, number, &[]);
        }
        for _ in 0..std::mem::take(&mut conn.pongs) {
            frame(out.bytes(), Kind::Pong, 0, &[]);
        }
        if std::mem::take(&mut conn.ping_is_due) {
            frame(out.bytes(), Kind::Ping, 0, &[]);
        }
        for at in 0..conn.streams.len() {
            if conn.streams[at].is_owed(conn.window) {
                conn.send_body(at, now, out);
            }
        }
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        _: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let mut at = 0;
        while let Some((kind, number, payload)) = read(&data[at..])? {
            at += HEADER + payload.len();
            match kind {
                Kind::Limit => {
                    conn.limit = number;
                    conn.phase = Phase::Ready;
                }
                Kind::Window => conn.window += number as usize,
                Kind::Ping => conn.pongs += 1,
                Kind::Pong => {}
                Kind::Drain => {
                    conn.drains = true;
                    sink.draining();
                }
                Kind::Data | Kind::End | Kind::Refused | Kind::Failed => {
                    conn.take(kind, number, payload, sink)?;
                }
                Kind::Hello | Kind::Open | Kind::Close | Kind::Cancel => {
                    return Err(Fault::BadFrame);
                }
            }
        }
        Ok(at)
    }

    fn end(&mut self, _: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match sink.outstanding() {
            _ if !left.is_empty() => Err(Fault::Truncated),
            0 => Ok(()),
            _ => Err(Fault::ClosedEarly),
        }
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        if let Some(at) = conn.streams.iter().position(|s| s.id == id) {
            conn.cancels.push(conn.streams.remove(at).number);
        }
        Cancelled::Exchange
    }

    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        conn.ping_at
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        conn.ping_is_due = true;
        conn.ping_at = self.ping.map(|every| now + every);
        Ok(())
    }

    fn opens(&self) -> bool {
        true
    }

    fn is_ready(&self, conn: &Conn) -> bool {
        conn.phase == Phase::Ready
    }
}

impl Stream {
    /// Whether a part of the body can be sent, or starts to wait.
    fn is_owed(&self, window: usize) -> bool {
        self.left > 0 && (window > 0 || self.waits.is_none())
    }
}

impl Conn {
    /// Handle a frame of a stream.
    fn take(
        &mut self,
        kind: Kind,
        number: u32,
        payload: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let Some(at) = self.position(number) else {
            // The stream was cancelled, or never existed.
            return if number < self.next { Ok(()) } else { Err(Fault::BadFrame) };
        };
        let stream = &mut self.streams[at];
        let id = stream.id;
        assert!(sink.call(id).is_some(), "the engine knows what it submitted");
        stream.head += HEADER as u64;
        match kind {
            Kind::Data => {
                stream.body += payload.len() as u64;
                sink.began(id);
                if sink.wants_body(id) {
                    sink.body(id, payload);
                }
            }
            Kind::End => {
                let Stream { head, body, .. } = self.streams.remove(at);
                sink.done(id, &reply(head, body));
            }
            Kind::Refused => {
                self.streams.remove(at);
                sink.refused(id);
            }
            _ => {
                self.streams.remove(at);
                sink.failed(id, Fault::Truncated);
            }
        }
        Ok(())
    }
}

fn reply(head_bytes: u64, body_bytes: u64) -> Reply {
    Reply {
        status: 200,
        head_bytes,
        framing_bytes: 0,
        footer_bytes: 0,
        body_bytes,
        interim: 0,
        keeps_open: true,
        fault: None,
    }
}
