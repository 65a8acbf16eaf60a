//! Opening connections: one address of the endpoint after the other, until one answers.

use std::os::fd::OwnedFd;

use prony_core::fault::Fault;
use prony_core::units::ConnId;

use super::event_loop::Backend;
use super::network::tries_next;
use crate::net::errno;

/// What of a connection dialling concerns.
pub(crate) struct Dialled<'a> {
    /// Its socket, where there is one.
    pub(crate) fd: &'a mut Option<OwnedFd>,
    /// Where it goes.
    pub(crate) endpoint: u32,
    /// How many of the endpoint's addresses were given up.
    pub(crate) tried: &'a mut u16,
}

/// A driver that opens connections at once, and hears later what became of them.
pub(crate) trait Dial: Backend {
    /// The connection of that name.
    fn dialled(&mut self, id: ConnId) -> Option<Dialled<'_>>;

    /// Begin to connect to the `tried`-th address of the endpoint, or the errno.
    fn try_address(&mut self, id: ConnId, endpoint: u32, tried: u16) -> Result<(), i32>;

    /// No address is left: the machine is to be told once it has no more actions.
    fn refused(&mut self, id: ConnId, fault: Fault);

    /// Try the connection's current address, and the following ones where it is refused at once.
    fn dial(&mut self, id: ConnId) {
        while let Some(c) = self.dialled(id) {
            let (endpoint, tried) = (c.endpoint, *c.tried);
            let Err(e) = self.try_address(id, endpoint, tried) else { return };
            if let Err(fault) = self.next_address(id, e) {
                return self.refused(id, fault);
            }
        }
    }

    /// Give up the current address; why the connection fails where there is no other to try.
    fn next_address(&mut self, id: ConnId, e: i32) -> Result<(), Fault> {
        let Some(c) = self.dialled(id) else { return Err(errno::connect_fault(e)) };
        *c.fd = None;
        let (endpoint, tried) = (c.endpoint, *c.tried);
        *c.tried += 1;
        let network = &self.common().network;
        let fault = network.connect_fault(endpoint, tried, e);
        let has_next = tries_next(fault) && network.remote(endpoint, tried + 1).is_some();
        if has_next { Ok(()) } else { Err(fault) }
    }
}
