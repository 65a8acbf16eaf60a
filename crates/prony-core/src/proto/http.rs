//! The version of HTTP that each connection negotiates: 2, or 1.1 if the peer does not offer 2.

use crate::fault::Fault;
use crate::plan::{HttpVersion, Plan};
use crate::proto::h1::H1;
use crate::proto::h2::H2;
use crate::proto::{Call, Cancelled, Carrier, Out, OverStreams, Sink, StreamCounts};
use crate::units::{Nanos, RequestId, Span};

/// The carrier of plans with HTTP/2: `A` for connections that use HTTP/1.1, `B` for those that use
/// HTTP/2.
#[derive(Debug)]
pub struct Negotiated<A, B> {
    h1: A,
    h2: B,
    /// Whether a connection may use HTTP/1.1.
    falls_back: bool,
}

/// The carrier of requests.
pub type Http = Negotiated<H1, H2>;

/// A connection, with the states of both carriers.
#[derive(Debug, Default)]
pub enum Conn<A, B> {
    /// Not known yet.
    #[default]
    New,
    /// It uses HTTP/1.1.
    H1(Box<A>),
    /// It uses HTTP/2.
    H2(Box<B>),
}

impl Http {
    /// The carrier for a plan's calls.
    pub fn new(plan: &Plan) -> Self {
        Self::of(plan, H1::new, H2::new)
    }
}

impl<A: Carrier, B: OverStreams> Negotiated<A, B> {
    /// The carrier for a plan's calls, of these two.
    pub(super) fn of(
        plan: &Plan,
        h1: impl FnOnce(&Plan) -> A,
        h2: impl FnOnce(&Plan) -> B,
    ) -> Self {
        let mut one = plan.clone();
        one.http = HttpVersion::Http11;
        let falls_back = plan.http == HttpVersion::Http2;
        Self { h1: h1(&one), h2: h2(plan), falls_back }
    }
}

impl<A: Carrier, B: OverStreams> Carrier for Negotiated<A, B> {
    type Conn = Conn<A::Conn, B::Conn>;

    const MULTIPLEXES: bool = true;

    const READS_FILES: bool = A::READS_FILES || B::READS_FILES;

    #[inline]
    fn ends_alone(&self) -> bool {
        self.h1.ends_alone() || self.h2.ends_alone()
    }

    fn connected(
        &mut self,
        conn: &mut Self::Conn,
        alpn: Option<Option<&[u8]>>,
    ) -> Result<(), Fault> {
        *conn = match alpn {
            None | Some(Some(b"h2")) => Conn::H2(Box::default()),
            Some(_) if self.falls_back => Conn::H1(Box::default()),
            Some(_) => return Err(Fault::NotHttp2),
        };
        self.h2.negotiated(matches!(conn, Conn::H2(_)));
        Ok(())
    }

    #[inline]
    fn capacity(&self, conn: &Self::Conn, in_flight: u32, limit: u32) -> u32 {
        match conn {
            Conn::New => limit.min(self.h2.first_streams()).saturating_sub(in_flight),
            // What waits for several streams does not ask for pipelining.
            Conn::H1(conn) => self.h1.capacity(conn, in_flight, limit.min(1)),
            Conn::H2(conn) => self.h2.capacity(conn, in_flight, limit),
        }
    }

    fn is_limited_by_peer(&self, conn: &Self::Conn, limit: u32) -> bool {
        match conn {
            Conn::New => false,
            // The other version has no streams.
            Conn::H1(_) => limit > 1,
            Conn::H2(conn) => self.h2.is_limited_by_peer(conn, limit),
        }
    }

    #[inline]
    fn set_lateness(&mut self, late: Span) {
        self.h2.set_lateness(late);
    }

    #[inline]
    fn submit(
        &mut self,
        conn: &mut Self::Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    ) {
        match conn {
            Conn::New => unreachable!("requests are submitted to open connections"),
            Conn::H1(conn) => self.h1.submit(conn, id, call, last, out),
            Conn::H2(conn) => self.h2.submit(conn, id, call, last, out),
        }
    }

    #[inline]
    fn owes(&self, conn: &Self::Conn) -> bool {
        match conn {
            Conn::New => false,
            Conn::H1(conn) => self.h1.owes(conn),
            Conn::H2(conn) => self.h2.owes(conn),
        }
    }

    fn is_in_body(&self, conn: &Self::Conn) -> bool {
        match conn {
            Conn::New => false,
            Conn::H1(conn) => self.h1.is_in_body(conn),
            Conn::H2(conn) => self.h2.is_in_body(conn),
        }
    }

    #[inline]
    fn transmit(&mut self, conn: &mut Self::Conn, now: Nanos, out: &mut Out) {
        match conn {
            Conn::New => {}
            Conn::H1(conn) => self.h1.transmit(conn, now, out),
            Conn::H2(conn) => self.h2.transmit(conn, now, out),
        }
    }

    #[inline]
    fn receive(
        &mut self,
        conn: &mut Self::Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        match conn {
            Conn::New => Err(Fault::Surplus),
            Conn::H1(conn) => {
                let result = self.h1.receive(conn, data, now, sink);
                result.inspect_err(|_| sink.blame_oldest())
            }
            Conn::H2(conn) => self.h2.receive(conn, data, now, sink),
        }
    }

    fn end(
        &mut self,
        conn: &mut Self::Conn,
        left: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        match conn {
            Conn::New => Ok(()),
            Conn::H1(conn) => self.h1.end(conn, left, sink),
            Conn::H2(conn) => self.h2.end(conn, left, sink),
        }
    }

    fn cancel(&mut self, conn: &mut Self::Conn, id: RequestId) -> Cancelled {
        match conn {
            Conn::New => Cancelled::Connection,
            Conn::H1(conn) => self.h1.cancel(conn, id),
            Conn::H2(conn) => self.h2.cancel(conn, id),
        }
    }

    fn waits_for_window(&self, conn: &Self::Conn, id: RequestId) -> Option<Nanos> {
        match conn {
            Conn::H2(conn) => self.h2.waits_for_window(conn, id),
            _ => None,
        }
    }

    fn stop(&mut self, conn: &mut Self::Conn, id: RequestId, sink: &mut impl Sink) {
        match conn {
            Conn::New => {}
            Conn::H1(conn) => self.h1.stop(conn, id, sink),
            Conn::H2(conn) => self.h2.stop(conn, id, sink),
        }
    }

    fn send_messages(&mut self, conn: &mut Self::Conn, id: RequestId, n: u64, ends: bool) {
        match conn {
            Conn::New => {}
            Conn::H1(conn) => self.h1.send_messages(conn, id, n, ends),
            Conn::H2(conn) => self.h2.send_messages(conn, id, n, ends),
        }
    }

    fn messages_due(&mut self, conn: &mut Self::Conn, id: RequestId, times: &[Nanos]) {
        match conn {
            Conn::New => {}
            Conn::H1(conn) => self.h1.messages_due(conn, id, times),
            Conn::H2(conn) => self.h2.messages_due(conn, id, times),
        }
    }

    #[inline]
    fn deadline(&self, conn: &Self::Conn) -> Option<Nanos> {
        match conn {
            Conn::New => None,
            Conn::H1(conn) => self.h1.deadline(conn),
            Conn::H2(conn) => self.h2.deadline(conn),
        }
    }

    fn on_deadline(&mut self, conn: &mut Self::Conn, now: Nanos) -> Result<(), Fault> {
        match conn {
            Conn::New => Ok(()),
            Conn::H1(conn) => self.h1.on_deadline(conn, now),
            Conn::H2(conn) => self.h2.on_deadline(conn, now),
        }
    }

    fn report_ends(&mut self, conn: &mut Self::Conn, now: Nanos, sink: &mut impl Sink) -> bool {
        match conn {
            Conn::New => false,
            Conn::H1(conn) => self.h1.report_ends(conn, now, sink),
            Conn::H2(conn) => self.h2.report_ends(conn, now, sink),
        }
    }

    fn opens(&self) -> bool {
        self.h2.opens()
    }

    fn is_ready(&self, conn: &Self::Conn) -> bool {
        match conn {
            Conn::New => false,
            Conn::H1(_) => true,
            Conn::H2(conn) => self.h2.is_ready(conn),
        }
    }

    fn close(&mut self, conn: &mut Self::Conn, out: &mut Vec<u8>) {
        match conn {
            Conn::New => {}
            Conn::H1(conn) => self.h1.close(conn, out),
            Conn::H2(conn) => self.h2.close(conn, out),
        }
    }

    fn boundary(&self, conn: &Self::Conn, bytes: &[u8], at: usize) -> usize {
        match conn {
            Conn::New => bytes.len(),
            Conn::H1(conn) => self.h1.boundary(conn, bytes, at),
            Conn::H2(conn) => self.h2.boundary(conn, bytes, at),
        }
    }

    fn counts(&self) -> Option<&StreamCounts> {
        self.h2.counts()
    }
}
