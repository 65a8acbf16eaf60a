//! Copies the bytes of requests and replies to standard error, for debugging.

use std::io::{self, IsTerminal as _, Write as _};

use prony_base::fault::Fault;
use prony_base::units::{ConnId, RequestId};
use prony_core::engine::Tap;

/// Copies the traffic of all connections, every byte once. A part of a reply is copied when it has
/// been parsed.
#[derive(Debug, Default)]
pub(super) struct Copier {
    arrived: Vec<u8>,
}

/// Write to standard error. A closed standard error does not end the run.
fn copy(bytes: &[u8]) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(&crate::copied(bytes, out.is_terminal()));
}

impl Tap for Copier {
    fn submitted(&mut self, _: ConnId, _: RequestId, _: u32, bytes: &[u8]) {
        copy(bytes);
    }

    fn arrived(&mut self, _: ConnId, bytes: &[u8]) {
        self.arrived.clear();
        self.arrived.extend_from_slice(bytes);
    }

    fn read(&mut self, _: ConnId, used: Result<usize, Fault>) {
        // Bytes that were not parsed are passed again.
        copy(&self.arrived[..used.unwrap_or(self.arrived.len())]);
    }
}
