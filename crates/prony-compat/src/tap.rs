//! The bytes of requests and replies on standard error, for those who debug.

use std::io::{self, Write as _};

use prony_core::engine::Tap;
use prony_core::fault::Fault;
use prony_core::units::{ConnId, RequestId};

/// Copies what goes by, connections mixed. Every byte once: of a reply that comes in pieces, a
/// piece when it has been understood.
#[derive(Debug, Default)]
pub(super) struct Copier {
    arrived: Vec<u8>,
}

/// That nobody reads it is no reason to stop.
fn copy(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
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
        // What is not used comes again.
        copy(&self.arrived[..used.unwrap_or(self.arrived.len())]);
    }
}
