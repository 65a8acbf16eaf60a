//! A server of HTTP/2 that follows a script, frame by frame: also one that no server should follow.

mod ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prony_base::http2::frame::{self, Code, HEADER, Head, flag, kind};
use prony_base::http2::{PREFACE, STREAM_MAX, hpack};
use prony_base::units::{ConnId, Nanos, Span};

use super::{Connections, ServerAction, ServerModel};
use ledger::Ledger;

/// A server of HTTP/2. A script decides what it sends at each [`Event`]; the server itself only
/// acknowledges settings and pings, and keeps what clients have sent. It panics if a client breaks
/// a rule whose violation looks like an attack, or exceeds a window or the limit of streams.
pub struct FrameServer<F> {
    script: F,
    peers: BTreeMap<ConnId, Peer>,
    seen: Seen,
}

/// What has happened on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is open: the server's settings are due.
    Opened,
    /// The head of a request has arrived.
    Head,
    /// This many bytes of a request's body have arrived in a frame.
    Data(u32),
    /// A request is complete. Its number on its connection, from 0.
    Request(u64),
    /// A timer with this number has fired.
    Timer(u32),
}

/// What clients have sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections.
    pub connections: u64,
    /// Complete requests.
    pub requests: u64,
    /// RST_STREAM frames, by code.
    pub resets: BTreeMap<u32, u64>,
    /// The most RST_STREAM frames on one connection.
    pub resets_most: u64,
    /// GOAWAY frames, by code.
    pub goaways: BTreeMap<u32, u64>,
    /// Acknowledgements of settings.
    pub settings_acks: u64,
    /// Answers to pings.
    pub pongs: u64,
    /// The stream and the length of each DATA frame.
    pub data: Vec<(u32, u32)>,
    /// When each connection was opened (`true`) or ended, with its number.
    pub life: Vec<(Nanos, u64, bool)>,
}

/// A connection.
#[derive(Debug, Default)]
struct Peer {
    number: u64,
    received: Vec<u8>,
    greeted: bool,
    requests: u64,
    resets: u64,
    /// The last stream that was opened.
    last: u32,
    /// The streams that the client has ended or reset.
    ended: BTreeSet<u32>,
    decoder: hpack::Decoder,
    /// The requests that are incomplete, by stream.
    open: BTreeMap<u32, Received>,
    ledger: Ledger,
    /// Whether the script has closed it.
    closed: bool,
}

/// What a request contains.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Its header fields, in order.
    pub fields: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Peer {
    /// The client opens a stream with this header block.
    fn opens(&mut self, head: Head, payload: &[u8]) {
        let Head { stream, .. } = head;
        assert!(stream & 1 == 1 && stream > self.last, "{stream} after {}", self.last);
        assert!(!head.has(flag::PRIORITY), "no priorities");
        assert!(head.has(flag::END_HEADERS), "the heads of these tests are small");
        self.last = stream;
        let request = self.open.entry(stream).or_default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let block = self.decoder.decode(payload, usize::MAX, |name, value| {
            request.fields.push((text(name), text(value)));
        });
        block.expect("a valid block");
        self.ledger.opens(stream);
    }
}

impl Received {
    /// The value of the only field with this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(n, _)| n == name);
        let value = found.next().map(|(_, value)| &**value);
        value.filter(|_| found.next().is_none())
    }
}

/// An event and what the script does about it.
#[derive(Debug)]
pub struct Turn<'a> {
    /// What has happened.
    pub event: Event,
    /// The number of the connection, from 0.
    pub conn: u64,
    /// The stream of the event; 0: none.
    pub stream: u32,
    /// The request, if it is complete.
    pub request: Received,
    /// The frames to send.
    pub out: Vec<u8>,
    id: ConnId,
    conns: &'a mut Connections,
    closes: bool,
}

impl Turn<'_> {
    /// The current time.
    pub fn now(&self) -> Nanos {
        self.conns.now()
    }

    /// What a server usually does: send empty settings, and answer each request.
    pub fn usual(&mut self) -> &mut Self {
        match self.event {
            Event::Opened => self.settings(&[]),
            Event::Request(_) => self.ok(),
            _ => self,
        }
    }

    /// The usual reply: a head, and three bytes.
    pub fn ok(&mut self) -> &mut Self {
        self.headers(false, &[(":status", "200")]).data(true, b"abc")
    }

    /// A header block, in as many frames as it needs.
    pub fn headers(&mut self, ends: bool, fields: &[(&str, &str)]) -> &mut Self {
        let mut block = Vec::new();
        for (name, value) in fields {
            hpack::encode_static(&mut block, name.as_bytes(), value.as_bytes());
        }
        self.block(ends, &block)
    }

    /// The same, encoded.
    pub fn block(&mut self, ends: bool, block: &[u8]) -> &mut Self {
        let flags = if ends { flag::END_STREAM } else { 0 };
        frame::header_block(&mut self.out, self.stream, flags, block);
        self
    }

    /// A DATA frame.
    pub fn data(&mut self, ends: bool, bytes: &[u8]) -> &mut Self {
        self.frame(kind::DATA, if ends { flag::END_STREAM } else { 0 }, self.stream, bytes)
    }

    /// Any frame.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> &mut Self {
        frame::head(&mut self.out, payload.len(), kind, flags, stream);
        self.out.extend_from_slice(payload);
        self
    }

    /// SETTINGS.
    pub fn settings(&mut self, pairs: &[(u16, u32)]) -> &mut Self {
        frame::settings(&mut self.out, pairs);
        self
    }

    /// RST_STREAM of the stream.
    pub fn reset(&mut self, code: Code) -> &mut Self {
        frame::rst_stream(&mut self.out, self.stream, code);
        self
    }

    /// GOAWAY.
    pub fn goaway(&mut self, last: u32, code: Code, text: &str) -> &mut Self {
        frame::goaway(&mut self.out, last, code, text.as_bytes());
        self
    }

    /// WINDOW_UPDATE, also with an increment that is not allowed.
    pub fn window(&mut self, stream: u32, more: u32) -> &mut Self {
        self.frame(kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
    }

    /// Do the same for another stream.
    pub fn on(&mut self, stream: u32) -> &mut Self {
        self.stream = stream;
        self
    }

    /// Wake the script after this time, with this number and the stream of now.
    pub fn after(&mut self, span: Span, number: u32) -> &mut Self {
        let timer = u64::from(number) << 32 | u64::from(self.stream);
        let at = self.now() + span;
        self.conns.at(at, self.id, ServerAction::Timer(timer));
        self
    }

    /// Close the connection when everything is sent.
    pub fn close(&mut self) -> &mut Self {
        self.closes = true;
        self
    }
}

impl<F> fmt::Debug for FrameServer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameServer").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl<F: FnMut(&mut Turn<'_>)> FrameServer<F> {
    /// A server with this script.
    pub fn new(script: F) -> Self {
        Self { script, peers: BTreeMap::new(), seen: Seen::default() }
    }

    /// What clients have sent.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Let the script act.
    fn turn(
        &mut self,
        (id, peer): (ConnId, &mut Peer),
        event: Event,
        (stream, request): (u32, Received),
        conns: &mut Connections,
    ) {
        let (conn, out, closes) = (peer.number, Vec::new(), false);
        let mut turn = Turn { event, conn, stream, request, out, id, conns: &mut *conns, closes };
        (self.script)(&mut turn);
        let Turn { out, closes, .. } = turn;
        if !out.is_empty() {
            peer.ledger.sends(&out);
            conns.send(id, &out);
        }
        if closes && !std::mem::replace(&mut peer.closed, true) {
            self.seen.life.push((conns.now(), conn, false));
            conns.close(id);
        }
    }

    /// Read what has arrived, up to the first incomplete frame.
    fn read(&mut self, id: ConnId, peer: &mut Peer, conns: &mut Connections) {
        let received = std::mem::take(&mut peer.received);
        let mut rest = &received[..];
        if !peer.greeted {
            let Some(after) = rest.strip_prefix(PREFACE) else {
                assert!(PREFACE.starts_with(rest), "no preface: {rest:?}");
                peer.received = received;
                return;
            };
            (peer.greeted, rest) = (true, after);
        }
        while let Some(head) = Head::read(rest) {
            let end = HEADER + head.length as usize;
            let Some(payload) = rest.get(HEADER..end) else { break };
            rest = &rest[end..];
            self.frame(id, peer, head, payload, conns);
        }
        peer.received = rest.to_vec();
    }

    fn frame(
        &mut self,
        id: ConnId,
        peer: &mut Peer,
        head: Head,
        payload: &[u8],
        conns: &mut Connections,
    ) {
        let Head { stream, .. } = head;
        let value = || u32::from_be_bytes(payload[payload.len() - 4..].try_into().expect("four"));
        let mut owed = Vec::new();
        let nothing = Received::default();
        match head.kind {
            kind::HEADERS => {
                peer.opens(head, payload);
                self.turn((id, peer), Event::Head, (stream, nothing), conns);
            }
            kind::DATA => {
                assert!(!peer.ended.contains(&stream), "nothing follows the end of {stream}");
                self.seen.data.push((stream, head.length));
                peer.ledger.received(stream, head.length);
                peer.open.entry(stream).or_default().body.extend_from_slice(payload);
                self.turn((id, peer), Event::Data(head.length), (stream, nothing), conns);
            }
            kind::PRIORITY => panic!("no priorities"),
            kind::RST_STREAM => {
                *self.seen.resets.entry(value()).or_default() += 1;
                peer.resets += 1;
                self.seen.resets_most = self.seen.resets_most.max(peer.resets);
                peer.ended.insert(stream);
                peer.open.remove(&stream);
                peer.ledger.reset(stream);
            }
            kind::SETTINGS if head.has(flag::ACK) => {
                self.seen.settings_acks += 1;
                peer.ledger.acknowledged();
            }
            kind::SETTINGS => {
                peer.ledger.settings(payload);
                frame::settings_ack(&mut owed);
            }
            kind::PING if head.has(flag::ACK) => self.seen.pongs += 1,
            kind::PING => frame::ping(&mut owed, payload.try_into().expect("eight bytes"), true),
            kind::GOAWAY => {
                let code = u32::from_be_bytes(payload[4..8].try_into().expect("four bytes"));
                *self.seen.goaways.entry(code).or_default() += 1;
            }
            kind::WINDOW_UPDATE => peer.ledger.update(stream, value()),
            _ => {}
        }
        // Settings come first, unless the script has others first.
        if !owed.is_empty() && peer.ledger.has_greeted {
            conns.send(id, &owed);
        }
        if matches!(head.kind, kind::HEADERS | kind::DATA) && head.has(flag::END_STREAM) {
            peer.ended.insert(stream);
            self.seen.requests += 1;
            peer.requests += 1;
            let request = peer.open.remove(&stream).unwrap_or_default();
            let event = Event::Request(peer.requests - 1);
            self.turn((id, peer), event, (stream, request), conns);
        }
    }
}

impl<F: FnMut(&mut Turn<'_>)> ServerModel for FrameServer<F> {
    fn opened(&mut self, id: ConnId, conns: &mut Connections) {
        let number = self.seen.connections;
        self.seen.connections += 1;
        self.seen.life.push((conns.now(), number, true));
        let mut peer = Peer { number, ..Peer::default() };
        self.turn((id, &mut peer), Event::Opened, (0, Received::default()), conns);
        self.peers.insert(id, peer);
    }

    fn received(&mut self, id: ConnId, data: &[u8], conns: &mut Connections) -> bool {
        if let Some(mut peer) = self.peers.remove(&id) {
            peer.received.extend_from_slice(data);
            self.read(id, &mut peer, conns);
            self.peers.insert(id, peer);
        }
        true
    }

    fn request(&mut self, _: ConnId, _: u64, _: &[u8], _: &mut Connections) {
        unreachable!("it reads the bytes itself");
    }

    fn timer(&mut self, id: ConnId, number: u64, conns: &mut Connections) {
        if let Some(mut peer) = self.peers.remove(&id) {
            let (event, stream) = (Event::Timer((number >> 32) as u32), number as u32 & STREAM_MAX);
            self.turn((id, &mut peer), event, (stream, Received::default()), conns);
            self.peers.insert(id, peer);
        }
    }

    fn ended(&mut self, id: ConnId, conns: &mut Connections) {
        if let Some(peer) = self.peers.remove(&id).filter(|peer| !peer.closed) {
            self.seen.life.push((conns.now(), peer.number, false));
        }
        conns.close(id);
    }
}
