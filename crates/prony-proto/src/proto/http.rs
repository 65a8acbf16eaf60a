//! HTTP, and what needs it, over connections of either version: the one that each connection
//! negotiates, 2 or 1.1 if the peer does not offer 2, or 1.1 alone.

use crate::proto::ws::{OverH1, OverH2, over_h1, over_h2};
use crate::proto::{BodyRest, Call, Cancelled, Carrier, Out, Sink, StreamCounts, h1, h2};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::plan::{HttpVersion, Plan};

/// The carrier of plans that are not of HTTP/1.1 alone, or need more of it than requests.
#[derive(Debug)]
pub struct Http {
    /// For connections with HTTP/1.1: requests, and sockets.
    h1: OverH1,
    /// The same for those with HTTP/2.
    h2: OverH2,
    has_sockets: bool,
    /// Whether bodies are sent from their files.
    reads_files: bool,
    /// Whether a connection may use HTTP/2, and HTTP/1.1.
    versions: (bool, bool),
    opens: bool,
    ends_alone: bool,
}

/// A connection, with the state of its carrier.
#[derive(Debug, Default)]
pub enum Conn {
    /// Not known yet.
    #[default]
    New,
    /// Requests of HTTP/1.1.
    H1(Box<h1::Conn>),
    /// Requests of HTTP/2.
    H2(Box<h2::Conn>),
    /// Requests of HTTP/1.1, or a socket.
    Socket(Box<over_h1::Conn>),
    /// Requests of HTTP/2, and sockets.
    Sockets(Box<over_h2::Conn>),
}

/// Do something with the carrier of a connection and its state, or something else if the connection
/// is new.
macro_rules! on {
    ({$($how:tt)+} $http:ident, $conn:expr, $new:expr, |$carrier:ident, $state:ident| $do:expr) => {
        match $conn {
            Conn::New => $new,
            Conn::H1($state) => {
                let $carrier = $($how)+ $http.h1.h1;
                $do
            }
            Conn::H2($state) => {
                let $carrier = $($how)+ $http.h2.h2;
                $do
            }
            Conn::Socket($state) => {
                let $carrier = $($how)+ $http.h1;
                rarely(|| $do)
            }
            Conn::Sockets($state) => {
                let $carrier = $($how)+ $http.h2;
                rarely(|| $do)
            }
        }
    };
}

/// Call a function out of line, so that requests do not pay for its size.
#[cold]
#[inline(never)]
fn rarely<R>(call: impl FnOnce() -> R) -> R {
    call()
}

impl Http {
    /// The carrier for a plan's calls.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub fn new(plan: &Plan) -> Self {
        let mut one = plan.clone();
        one.http = HttpVersion::Http11;
        let (h1, h2) = (OverH1::new(&one), OverH2::new(plan));
        let has_sockets = plan.websocket.is_some() || plan.has_sockets();
        let is_http2 = plan.http.is_http2();
        Self {
            has_sockets,
            reads_files: plan.has_body_files(),
            versions: (is_http2, !is_http2 || plan.http == HttpVersion::Http2),
            opens: is_http2 && if has_sockets { h2.opens() } else { h2.h2.opens() },
            ends_alone: plan.has_sockets() || plan.has_body_files(),
            h1,
            h2,
        }
    }

    /// The capacity of a connection that has not negotiated HTTP/2 for requests.
    fn capacity_of_others(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        match conn {
            Conn::H2(conn) => self.h2.h2.capacity(conn, in_flight, limit),
            Conn::New if self.versions.0 => {
                limit.min(self.h2.h2.first_streams()).saturating_sub(in_flight)
            }
            Conn::New => self.h1.capacity_of_new(in_flight, limit),
            Conn::Sockets(conn) => self.h2.capacity(conn, in_flight, limit),
            Conn::H1(conn) => self.h1.h1.capacity(conn, in_flight, self.without_streams(limit)),
            Conn::Socket(conn) => self.h1.capacity(conn, in_flight, self.without_streams(limit)),
        }
    }

    /// How many exchanges a connection of HTTP/1.1 may have at once, of those that the plan allows
    /// for streams: what waits for several streams does not ask for pipelining.
    fn without_streams(&self, limit: u32) -> u32 {
        if self.versions.0 { limit.min(1) } else { limit }
    }
}

impl Carrier for Http {
    type Conn = Conn;

    const MULTIPLEXES: bool = true;

    #[inline]
    fn ends_alone(&self) -> bool {
        self.ends_alone
    }

    #[inline]
    fn reads_files(&self) -> bool {
        self.reads_files
    }

    fn connected(&mut self, conn: &mut Conn, alpn: Option<Option<&[u8]>>) -> Result<(), Fault> {
        let is_h2 = match (alpn, self.versions) {
            (_, (false, _)) => false,
            (None | Some(Some(b"h2")), _) => true,
            (Some(_), (_, true)) => false,
            (Some(_), (_, false)) => return Err(Fault::NotHttp2),
        };
        *conn = match is_h2 {
            false if self.has_sockets => Conn::Socket(Box::default()),
            false => Conn::H1(Box::default()),
            true if self.has_sockets => Conn::Sockets(Box::default()),
            true => Conn::H2(Box::default()),
        };
        self.h2.h2.negotiated(is_h2);
        Ok(())
    }

    // Asked several times for each request.
    #[inline(always)]
    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        match conn {
            Conn::H2(conn) => self.h2.h2.capacity(conn, in_flight, limit),
            _ => self.capacity_of_others(conn, in_flight, limit),
        }
    }

    fn is_limited_by_peer(&self, conn: &Conn, limit: u32) -> bool {
        match conn {
            Conn::New => false,
            Conn::H2(conn) => self.h2.h2.is_limited_by_peer(conn, limit),
            Conn::Sockets(conn) => self.h2.is_limited_by_peer(conn, limit),
            // The other version has no streams.
            _ => self.versions.0 && limit > 1,
        }
    }

    #[inline]
    fn set_lateness(&mut self, late: Span) {
        self.h2.h2.set_lateness(late);
    }

    #[inline]
    fn submit(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    ) {
        let new = || unreachable!("requests are submitted to open connections");
        on!({&mut} self, conn, new(), |carrier, conn| carrier.submit(conn, id, call, last, out));
    }

    #[inline]
    fn owes(&self, conn: &Conn) -> bool {
        on!({&} self, conn, false, |carrier, conn| carrier.owes(conn))
    }

    fn append_body(&self, body: &mut BodyRest, out: &mut Vec<u8>) -> Option<bool> {
        self.h1.h1.append_body(body, out)
    }

    #[inline]
    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        on!({&mut} self, conn, {}, |carrier, conn| carrier.transmit(conn, now, out));
    }

    #[inline]
    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let is_h1 = matches!(conn, Conn::H1(_));
        let new = Err(Fault::Surplus);
        let result =
            on!({&mut} self, conn, new, |carrier, conn| carrier.receive(conn, data, now, sink));
        if result.is_err() && is_h1 {
            sink.blame_oldest();
        }
        result
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        on!({&mut} self, conn, Ok(()), |carrier, conn| carrier.end(conn, left, sink))
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        on!({&mut} self, conn, Cancelled::Connection, |carrier, conn| carrier.cancel(conn, id))
    }

    fn waits_for_window(&self, conn: &Conn, id: RequestId) -> Option<Nanos> {
        on!({&} self, conn, None, |carrier, conn| carrier.waits_for_window(conn, id))
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        on!({&mut} self, conn, {}, |carrier, conn| carrier.stop(conn, id, sink));
    }

    fn send_messages(&mut self, conn: &mut Conn, id: RequestId, n: u64, ends: bool) {
        on!({&mut} self, conn, {}, |carrier, conn| carrier.send_messages(conn, id, n, ends));
    }

    fn messages_due(&mut self, conn: &mut Conn, id: RequestId, times: &[Nanos]) {
        on!({&mut} self, conn, {}, |carrier, conn| carrier.messages_due(conn, id, times));
    }

    #[inline]
    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        on!({&} self, conn, None, |carrier, conn| carrier.deadline(conn))
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        on!({&mut} self, conn, Ok(()), |carrier, conn| carrier.on_deadline(conn, now))
    }

    fn report_ends(&mut self, conn: &mut Conn, now: Nanos, sink: &mut impl Sink) -> bool {
        on!({&mut} self, conn, false, |carrier, conn| carrier.report_ends(conn, now, sink))
    }

    #[inline]
    fn opens(&self) -> bool {
        self.opens
    }

    fn is_ready(&self, conn: &Conn) -> bool {
        on!({&} self, conn, false, |carrier, conn| carrier.is_ready(conn))
    }

    fn close(&mut self, conn: &mut Conn, out: &mut Vec<u8>) {
        on!({&mut} self, conn, {}, |carrier, conn| carrier.close(conn, out));
    }

    fn boundary(&self, conn: &Conn, bytes: &[u8], at: usize) -> usize {
        on!({&} self, conn, bytes.len(), |carrier, conn| carrier.boundary(conn, bytes, at))
    }

    fn counts(&self) -> Option<&StreamCounts> {
        self.h2.h2.counts().filter(|_| self.versions.0)
    }
}
