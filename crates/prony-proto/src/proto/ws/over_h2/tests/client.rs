//! A client on one connection, and what a server sends to it.

use std::collections::BTreeMap;

use crate::proto::ws::over_h2::{Conn, OverH2};
use crate::proto::{Call, Carrier, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::http2::frame::{self, Code, HEADER, Settings, flag, kind};
use prony_base::http2::hpack::{Decoder, encode_static};
use prony_base::units::{Nanos, RequestId, Span};
use prony_base::websocket::{Event, Frame, Kind, MESSAGE_MAX, Opcode, Reader, Role};
use prony_plan::plan::{HttpVersion, Plan};

/// What the exchanges were reported to do, by their slots.
#[derive(Debug, Default)]
pub(super) struct Log {
    seen: BTreeMap<u32, Vec<String>>,
    pub(super) open: Vec<RequestId>,
    pub(super) drains: bool,
}

impl Log {
    pub(super) fn note(&mut self, id: RequestId, what: impl Into<String>) {
        self.seen.entry(id.slot).or_default().push(what.into());
    }

    pub(super) fn ends(&mut self, id: RequestId, what: String) {
        let place = self.open.iter().position(|open| *open == id);
        self.open.remove(place.expect("an exchange ends once"));
        self.note(id, what);
    }

    pub(super) fn of(&self, slot: u32) -> String {
        self.seen.get(&slot).map(|seen| seen.join(", ")).unwrap_or_default()
    }
}

impl Sink for Log {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        self.open.first().map(|id| (*id, 0))
    }

    fn outstanding(&self) -> u32 {
        self.open.len() as u32
    }

    fn was_sent(&self, id: RequestId) -> bool {
        self.open.contains(&id)
    }

    fn began(&mut self, id: RequestId) {
        assert!(self.open.contains(&id));
    }

    fn wants_headers(&self, id: RequestId) -> bool {
        assert!(self.open.contains(&id), "only of exchanges that have not ended");
        false
    }

    fn wants_body(&self, id: RequestId) -> bool {
        assert!(self.open.contains(&id), "only of exchanges that have not ended");
        false
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        self.note(id, format!("body {}", piece.len()));
    }

    fn message(&mut self, id: RequestId, _: u64) {
        self.note(id, "message");
    }

    fn done(&mut self, id: RequestId, reply: &Reply) {
        assert!(reply.keeps_open);
        self.ends(id, format!("{} {}", reply.status, reply.body_bytes));
    }

    fn failed(&mut self, id: RequestId, fault: Fault) {
        self.ends(id, format!("{fault:?}"));
    }

    fn refused(&mut self, id: RequestId) {
        self.ends(id, "refused".into());
    }

    fn draining(&mut self) {
        self.drains = true;
    }
}

/// What the client has sent on one stream.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) fields: Vec<String>,
    pub(super) bytes: Vec<u8>,
    /// Whether it has ended the stream, and the code with which it has reset it.
    ended: bool,
    reset: Option<u32>,
}

impl Sent {
    /// The frames of WebSocket.
    pub(super) fn frames(&self) -> String {
        let (mut reader, mut found) = (Reader::new(Role::Server, MESSAGE_MAX), Vec::new());
        let used = reader.read(&self.bytes, |event| match event {
            Event::Start(kind) => {
                found.push(if kind == Kind::Text { "text " } else { "binary " }.to_owned());
            }
            Event::Piece(piece) => {
                let last = found.last_mut().expect("a message");
                last.push_str(&String::from_utf8_lossy(piece));
            }
            Event::End(_) => {}
            Event::Ping(_) => found.push("ping".into()),
            Event::Pong(bytes) => found.push(format!("pong {}", String::from_utf8_lossy(bytes))),
            Event::Close(close) => found.push(format!("close {}", close.code.0)),
        });
        assert_eq!(used, Ok(self.bytes.len()), "whole frames");
        found.join(", ")
    }

    /// The same, and how the stream has ended.
    pub(super) fn all(&self) -> String {
        let end = match (self.ended, self.reset) {
            (false, None) => String::new(),
            (true, None) => " END".into(),
            (false, Some(code)) => format!(" RST {code}"),
            (true, Some(code)) => format!(" END RST {code}"),
        };
        self.frames() + &end
    }
}

/// A client on one connection.
pub(super) struct Client {
    pub(super) over: OverH2,
    pub(super) conn: Conn,
    pub(super) log: Log,
    stash: Vec<u8>,
    pub(super) now: Nanos,
    pub(super) streams: BTreeMap<u32, Sent>,
    decoder: Decoder,
    pub(super) messages_sent: usize,
    pub(super) waited: u64,
    greeted: bool,
}

impl Client {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut plan = plan.clone();
        plan.http = HttpVersion::Http2Only;
        assert_eq!(plan.check(), Ok(()));
        Self {
            over: OverH2::new(&plan),
            conn: Conn::default(),
            log: Log::default(),
            stash: Vec::new(),
            now: Nanos(1),
            streams: BTreeMap::new(),
            decoder: Decoder::default(),
            messages_sent: 0,
            waited: 0,
            greeted: false,
        }
    }

    /// After settings that allow WebSocket, with `n` exchanges that are sent.
    pub(super) fn with_sockets(plan: &Plan, n: u32) -> Self {
        let mut client = Self::new(plan);
        client.transmit();
        client.receive(&Server::new().0, &[]).expect("settings");
        assert!(client.over.is_ready(&client.conn));
        (0..n).for_each(|slot| client.submit(slot));
        client
    }

    pub(super) fn id(slot: u32) -> RequestId {
        RequestId { slot, generation: 7 }
    }

    pub(super) fn submit(&mut self, slot: u32) {
        let mut out = Out::default();
        let call = Call { index: 0, filled: None };
        self.over.submit(&mut self.conn, Self::id(slot), call, false, &mut out);
        self.log.open.push(Self::id(slot));
        self.read(out);
    }

    /// A message of an exchange is due.
    pub(super) fn due(&mut self, slot: u32, n: u64, ends: bool) {
        self.over.send_messages(&mut self.conn, Self::id(slot), n, ends);
        self.transmit();
    }

    pub(super) fn transmit(&mut self) {
        while self.over.owes(&self.conn) {
            let mut out = Out::default();
            self.over.transmit(&mut self.conn, self.now, &mut out);
            self.read(out);
        }
    }

    /// Read what the client has sent, as a server does.
    pub(super) fn read(&mut self, mut out: Out) {
        self.messages_sent += out.take_messages().count();
        self.waited += out.take_waits().map(|(_, wait)| wait.0).sum::<u64>();
        self.read_bytes(out.as_bytes());
    }

    pub(super) fn read_bytes(&mut self, bytes: &[u8]) {
        let skips = if self.greeted { 0 } else { prony_base::http2::PREFACE.len() };
        self.greeted |= !bytes.is_empty();
        let mut rest = bytes.get(skips..).unwrap_or_default();
        while let Some(head) = frame::Head::read(rest) {
            let end = HEADER + head.length as usize;
            let payload = &rest[HEADER..end];
            rest = &rest[end..];
            let sent = self.streams.entry(head.stream).or_default();
            match head.kind {
                kind::HEADERS => {
                    let decoded = self.decoder.decode(payload, 1 << 16, |name, value| {
                        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                        sent.fields.push(format!("{}={}", text(name), text(value)));
                    });
                    assert_eq!(decoded, Ok(()));
                    assert_eq!(head.flags, flag::END_HEADERS, "the stream stays open");
                }
                kind::DATA => {
                    assert!(!sent.ended && sent.reset.is_none(), "{}", head.stream);
                    sent.bytes.extend_from_slice(payload);
                    sent.ended = head.has(flag::END_STREAM);
                }
                kind::RST_STREAM => {
                    assert!(sent.reset.is_none());
                    sent.reset = Some(u32::from_be_bytes(payload.try_into().expect("a code")));
                }
                _ => {}
            }
        }
        assert!(rest.is_empty());
    }

    /// Receive bytes in pieces that end at `cuts`.
    pub(super) fn receive(&mut self, bytes: &[u8], cuts: &[usize]) -> Result<(), Fault> {
        let mut from = 0;
        for &to in cuts.iter().chain([&bytes.len()]) {
            let to = to.clamp(from, bytes.len());
            self.stash.extend_from_slice(&bytes[from..to]);
            from = to;
            let stash = std::mem::take(&mut self.stash);
            let used = self.over.receive(&mut self.conn, &stash, self.now, &mut self.log)?;
            self.stash = stash[used..].to_vec();
            self.transmit();
        }
        Ok(())
    }

    pub(super) fn later(&mut self, time: Span) {
        self.now = self.now + time;
        if self.over.deadline(&self.conn).is_some_and(|at| at <= self.now) {
            self.over.on_deadline(&mut self.conn, self.now).expect("no keepalive");
        }
        self.transmit();
    }

    pub(super) fn sent(&self, slot: u32) -> String {
        self.streams[&(2 * slot + 1)].all()
    }

    /// Whether the connection knows no socket any more.
    pub(super) fn is_empty(&self) -> bool {
        self.conn.lines.iter().next().is_none() && self.conn.lines.lingering() == 0
    }
}

/// What a server sends.
#[derive(Clone, Debug, Default)]
pub(super) struct Server(pub(super) Vec<u8>);

impl Server {
    /// With settings that allow WebSocket.
    pub(super) fn new() -> Self {
        Self::default().settings(&[(Settings::CONNECT, 1)])
    }

    pub(super) fn settings(mut self, pairs: &[(u16, u32)]) -> Self {
        frame::settings(&mut self.0, pairs);
        self
    }

    pub(super) fn headers(mut self, slot: u32, flags: u8, fields: &[(&str, &str)]) -> Self {
        let mut block = Vec::new();
        for (name, value) in fields {
            encode_static(&mut block, name.as_bytes(), value.as_bytes());
        }
        frame::header_block(&mut self.0, 2 * slot + 1, flags, &block);
        self
    }

    pub(super) fn accept(self, slot: u32) -> Self {
        self.headers(slot, 0, &[(":status", "200")])
    }

    pub(super) fn data(mut self, slot: u32, flags: u8, bytes: &[u8]) -> Self {
        frame::head(&mut self.0, bytes.len(), kind::DATA, flags, 2 * slot + 1);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn frame(self, slot: u32, opcode: Opcode, payload: &[u8]) -> Self {
        self.data(slot, 0, &frame_of(opcode, payload))
    }

    pub(super) fn close(self, slot: u32, flags: u8, code: u16) -> Self {
        self.data(slot, flags, &frame_of(Opcode::Close, &code.to_be_bytes()))
    }

    pub(super) fn rst(mut self, slot: u32, code: Code) -> Self {
        frame::rst_stream(&mut self.0, 2 * slot + 1, code);
        self
    }

    pub(super) fn window(mut self, stream: u32, increment: u32) -> Self {
        frame::window_update(&mut self.0, stream, increment);
        self
    }
}

pub(super) fn frame_of(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame { opcode, is_final: true, mask: None }.write(payload, &mut bytes);
    bytes
}
