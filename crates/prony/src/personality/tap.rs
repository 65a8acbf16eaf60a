//! The bytes of requests and replies on standard error, for those who debug.

use std::io::{self, Write as _};

use prony_core::fault::Fault;
use prony_core::proto::{Protocol, ReplySink};
use prony_core::script::Filled;

use super::pass_on::pass_on;

/// A protocol that also copies what it writes and reads, connections mixed. Every byte once: of a
/// reply that comes in pieces, a piece when it has been understood.
#[derive(Clone, Debug)]
pub(super) struct Tap<P> {
    inner: P,
}

impl<P> Tap<P> {
    /// Around another protocol.
    pub(super) fn new(inner: P) -> Self {
        Self { inner }
    }
}

/// That nobody reads it is no reason to stop.
fn copy(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

#[deny(clippy::missing_trait_methods)]
impl<P: Protocol> Protocol for Tap<P> {
    type Conn = P::Conn;

    pass_on!(inner: room deadline);
    pass_on!(inner: greets greet greeted greets_again one_by_one is_lossy gave_up);

    fn encode(&mut self, conn: &mut Self::Conn, call: u32, last: bool, out: &mut Vec<u8>) {
        let start = out.len();
        self.inner.encode(conn, call, last, out);
        copy(&out[start..]);
    }

    fn encode_filled(
        &mut self,
        conn: &mut Self::Conn,
        call: u32,
        filled: &Filled,
        last: bool,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        self.inner.encode_filled(conn, call, filled, last, out);
        copy(&out[start..]);
    }

    fn decode(
        &mut self,
        conn: &mut Self::Conn,
        data: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<usize, Fault> {
        let result = self.inner.decode(conn, data, sink);
        // What is not used comes again.
        copy(&data[..result.unwrap_or(data.len())]);
        result
    }

    fn end(
        &mut self,
        conn: &mut Self::Conn,
        left: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<(), Fault> {
        copy(left);
        self.inner.end(conn, left, sink)
    }
}
