//! HTTP of the version that each connection negotiates: 2, or 1.1 if the peer does not offer 2.

use crate::fault::Fault;
use crate::plan::{HttpVersion, Plan};
use crate::proto::h1::{self, H1};
use crate::proto::h2::{self, H2};
use crate::proto::{Call, Cancelled, Carrier, Out, Sink, StreamCounts};
use crate::units::{Nanos, RequestId, Span};

/// The carrier of plans with HTTP/2.
#[derive(Debug)]
pub struct Http {
    h1: H1,
    h2: H2,
    /// Whether a connection may use HTTP/1.1.
    falls_back: bool,
}

/// A connection.
#[derive(Debug, Default)]
pub enum Conn {
    /// Not known yet.
    #[default]
    New,
    /// It uses HTTP/1.1.
    H1(h1::Conn),
    /// It uses HTTP/2.
    H2(Box<h2::Conn>),
}

impl Http {
    /// The carrier for a plan's calls.
    pub fn new(plan: &Plan) -> Self {
        let mut one = plan.clone();
        one.http = HttpVersion::Http11;
        let falls_back = plan.http == HttpVersion::Http2;
        Self { h1: H1::new(&one), h2: H2::new(plan), falls_back }
    }
}

impl Carrier for Http {
    type Conn = Conn;

    const MULTIPLEXES: bool = true;

    fn connected(&mut self, conn: &mut Conn, alpn: Option<Option<&[u8]>>) -> Result<(), Fault> {
        *conn = match alpn {
            None | Some(Some(b"h2")) => Conn::H2(Box::default()),
            Some(_) if self.falls_back => Conn::H1(h1::Conn::default()),
            Some(_) => return Err(Fault::NotHttp2),
        };
        self.h2.connected(matches!(conn, Conn::H2(_)));
        Ok(())
    }

    #[inline]
    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        match conn {
            Conn::New => limit.min(h2::STREAMS_BEFORE_SETTINGS).saturating_sub(in_flight),
            // What waits for several streams does not ask for pipelining.
            Conn::H1(conn) => self.h1.capacity(conn, in_flight, limit.min(1)),
            Conn::H2(conn) => self.h2.capacity(conn, in_flight, limit),
        }
    }

    fn is_limited_by_peer(&self, conn: &Conn, limit: u32) -> bool {
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
        conn: &mut Conn,
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
    fn owes(&self, conn: &Conn) -> bool {
        match conn {
            Conn::New => false,
            Conn::H1(conn) => self.h1.owes(conn),
            Conn::H2(conn) => self.h2.owes(conn),
        }
    }

    #[inline]
    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        match conn {
            Conn::New => {}
            Conn::H1(conn) => self.h1.transmit(conn, now, out),
            Conn::H2(conn) => self.h2.transmit(conn, now, out),
        }
    }

    #[inline]
    fn receive(
        &mut self,
        conn: &mut Conn,
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

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match conn {
            Conn::New => Ok(()),
            Conn::H1(conn) => self.h1.end(conn, left, sink),
            Conn::H2(conn) => self.h2.end(conn, left, sink),
        }
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        match conn {
            Conn::New => Cancelled::Connection,
            Conn::H1(conn) => self.h1.cancel(conn, id),
            Conn::H2(conn) => self.h2.cancel(conn, id),
        }
    }

    fn waits_for_window(&self, conn: &Conn, id: RequestId) -> Option<Nanos> {
        match conn {
            Conn::H2(conn) => self.h2.waits_for_window(conn, id),
            _ => None,
        }
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        match conn {
            Conn::New => {}
            Conn::H1(conn) => self.h1.stop(conn, id, sink),
            Conn::H2(conn) => self.h2.stop(conn, id, sink),
        }
    }

    fn send_messages(&mut self, conn: &mut Conn, id: RequestId, n: u64, ends: bool) {
        if let Conn::H2(conn) = conn {
            self.h2.send_messages(conn, id, n, ends);
        }
    }

    #[inline]
    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        match conn {
            Conn::H2(conn) => self.h2.deadline(conn),
            _ => None,
        }
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        match conn {
            Conn::H2(conn) => self.h2.on_deadline(conn, now),
            _ => Ok(()),
        }
    }

    fn opens(&self) -> bool {
        self.h2.opens()
    }

    fn is_ready(&self, conn: &Conn) -> bool {
        match conn {
            Conn::New => false,
            Conn::H1(_) => true,
            Conn::H2(conn) => self.h2.is_ready(conn),
        }
    }

    fn close(&mut self, conn: &mut Conn, out: &mut Vec<u8>) {
        if let Conn::H2(conn) = conn {
            self.h2.close(conn, out);
        }
    }

    fn boundary(&self, bytes: &[u8], at: usize) -> usize {
        self.h2.boundary(bytes, at)
    }

    fn counts(&self) -> Option<&StreamCounts> {
        self.h2.counts()
    }
}
