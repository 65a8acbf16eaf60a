//! Opening connections: try the addresses of an endpoint in order until one accepts.

use std::os::fd::OwnedFd;

use prony_base::fault::Fault;
use prony_base::units::ConnId;

use super::event_loop::Backend;
use super::network::tries_next;
use crate::net::errno;

/// The parts of a connection that dialing reads and changes.
pub(crate) struct Dialed<'a> {
    /// Its socket, if it exists.
    pub(crate) fd: &'a mut Option<OwnedFd>,
    /// The endpoint to connect to.
    pub(crate) endpoint: u32,
    /// How many addresses of the endpoint have failed.
    pub(crate) tried: &'a mut u16,
}

/// A driver that starts connects without waiting for their outcome.
pub(crate) trait Dial: Backend {
    /// The connection with this ID.
    fn dialed(&mut self, id: ConnId) -> Option<Dialed<'_>>;

    /// Start to connect to the `tried`-th address of the endpoint. Returns the errno if that fails
    /// at once.
    fn try_address(&mut self, id: ConnId, endpoint: u32, tried: u16) -> Result<(), i32>;

    /// No address is left: report the fault to the machine once it has no more actions.
    fn refused(&mut self, id: ConnId, fault: Fault);

    /// Try the current address of the connection. If it fails at once, try the next.
    fn dial(&mut self, id: ConnId) {
        while let Some(c) = self.dialed(id) {
            let (endpoint, tried) = (c.endpoint, *c.tried);
            let Err(e) = self.try_address(id, endpoint, tried) else { return };
            if let Err(fault) = self.next_address(id, e) {
                return self.refused(id, fault);
            }
        }
    }

    /// Give up the current address. Returns the fault of the connection if there is no other
    /// address to try.
    fn next_address(&mut self, id: ConnId, e: i32) -> Result<(), Fault> {
        let Some(c) = self.dialed(id) else { return Err(errno::connect_fault(e)) };
        *c.fd = None;
        let (endpoint, tried) = (c.endpoint, *c.tried);
        *c.tried += 1;
        let network = &self.common().network;
        let fault = network.connect_fault(endpoint, tried, e);
        let has_next = tries_next(fault) && network.remote(endpoint, tried + 1).is_some();
        if has_next { Ok(()) } else { Err(fault) }
    }
}
