//! The driver for userspace SCTP: the crate `sctp-proto` manages the associations, and their
//! packets go over UDP (RFC 6951) or directly over IP.
//!
//! Timestamps are taken at the same points as in the other drivers: the clock is read immediately
//! after the call that returned the packet with the last byte of a message, and immediately before
//! a message is passed to the SCTP stack. The time spent in the stack lies between the two, as the
//! kernel's does in the other drivers.
//!
//! Hostile peers: packets are checked before the crate gets them (module `hub`), the number of
//! associations per listener and the bytes of each are limited, and stale associations are removed.

mod association;
mod hub;
mod listen;
mod packet_socket;
mod settings;
#[cfg(test)]
mod tests;
mod turn;
mod wire;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::{Duration, Instant};

use prony_base::fault::Fault;
use prony_base::machine::{CloseHow, Machine};
use prony_base::units::{ConnId, Nanos};

use crate::drivers::config::Config;
use crate::drivers::event_loop::Common;
use crate::drivers::poller::Poller;
use crate::drivers::slots::SlotTable;
use crate::net::errno;
use crate::net::socket::options::SocketOptions;
use crate::net::socket::{self, sctp::Style};
use crate::time::pace::Pace;
use association::{Assoc, State};
use hub::{Hub, Key};
pub use listen::{Listener, bind};
use settings::MESSAGE_MAX;
pub use settings::{NAME, SIZE_MAX, Settings, UDP_PORT, Via, ready};

/// The size of the longest packet.
const PACKET: usize = 64 * 1024;

/// The driver.
#[derive(Debug)]
pub struct Userspace {
    poller: Poller,
    common: Common,
    settings: Settings,
    sockets: SocketOptions,
    /// The moment at which the run's clock shows zero.
    epoch: Instant,
    hubs: Vec<Option<Hub>>,
    conns: SlotTable<Conn>,
    /// The timers of the associations.
    timers: BTreeSet<(Instant, Key)>,
    packet: Box<[u8]>,
    message: Box<[u8]>,
    /// Events to report, and output to continue, once the machine has no more actions.
    pending: Vec<(ConnId, Pending)>,
}

/// A connection of the machine.
#[derive(Clone, Copy, Debug)]
struct Conn {
    endpoint: u32,
    /// Its association, while it exists.
    key: Option<Key>,
}

#[derive(Clone, Copy, Debug)]
enum Pending {
    /// Opening it failed.
    Refused(Fault),
    /// Sending on it failed.
    Broken(Fault),
    /// The machine has more output.
    WriteOn,
}

impl Userspace {
    /// A driver for the calling thread that opens associations with these settings.
    pub(crate) fn new(mut config: Config, settings: Settings) -> io::Result<Self> {
        let mut poller = Poller::new(false)?;
        let pace = Pace::new(config.precision, &mut poller);
        // The stack has no kernel timestamps.
        config.timestamps = false;
        Ok(Self {
            poller,
            sockets: config.sockets,
            common: Common::new(pace, &mut config),
            settings,
            epoch: Instant::now(),
            hubs: Vec::new(),
            conns: SlotTable::new(),
            timers: BTreeSet::new(),
            packet: vec![0; PACKET].into_boxed_slice(),
            message: vec![0; MESSAGE_MAX].into_boxed_slice(),
            pending: Vec::new(),
        })
    }

    /// Also accept associations from this listener.
    pub(crate) fn listen(&mut self, listener: Listener, index: u32) -> io::Result<()> {
        let hub = Hub::listening(listener, index);
        self.add_hub(hub).map(drop)
    }

    /// The driver's name in reports.
    pub fn name(&self) -> &'static str {
        match self.settings.via {
            Via::Udp => "userspace, udp",
            Via::Raw => "userspace, raw",
        }
    }

    fn add_hub(&mut self, hub: Hub) -> io::Result<u32> {
        let free = self.hubs.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.hubs.len());
        let interest = libc::EPOLLIN as u32;
        self.poller
            .add(&hub.socket, slot as u64, interest)
            .map_err(io::Error::from_raw_os_error)?;
        match free {
            Some(slot) => self.hubs[slot] = Some(hub),
            None => self.hubs.push(Some(hub)),
        }
        Ok(slot as u32)
    }

    /// Start to open an association. An immediate failure is reported to the machine later.
    fn open(&mut self, id: ConnId, endpoint: u32) {
        self.conns.insert(id, Conn { endpoint, key: None });
        if let Err(e) = self.start_connect(id, endpoint) {
            let fault = errno::connect_fault(e.raw_os_error().unwrap_or(libc::EINVAL));
            self.pending.push((id, Pending::Refused(fault)));
        }
    }

    fn start_connect(&mut self, id: ConnId, endpoint: u32) -> io::Result<()> {
        let unavailable = || io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
        let remote = self.common.network.remote(endpoint, 0).ok_or_else(unavailable)?;
        let (to, style) = (remote.as_inet().ok_or_else(unavailable)?, remote.sctp());
        let source = self.common.network.source_for(endpoint, 0);
        // A one-to-many socket carries all associations.
        let shared = |hub: &Option<Hub>| hub.as_ref().is_some_and(|h| h.is_shared_by(endpoint));
        let hub = match self.hubs.iter().position(shared) {
            Some(hub) if style == Some(Style::OneToMany) => hub as u32,
            _ => {
                let hub = Hub::connecting(&self.settings, endpoint, source, to.ip())?;
                socket::options::apply(hub.socket.as_fd().as_raw_fd(), &self.sockets);
                self.add_hub(hub)?
            }
        };
        let now = self.common.pace.read_clock();
        let Some(socket) = &mut self.hubs[hub as usize] else { return Ok(()) };
        socket.is_shared = style == Some(Style::OneToMany);
        let opened = socket.connect(&self.settings, to, self.sockets.port, id, now);
        if opened.is_err() && socket.is_empty() {
            self.hubs[hub as usize] = None;
        }
        let handle = opened?;
        let key = Key { hub, handle };
        if let Some(conn) = self.conns.get_mut(id) {
            conn.key = Some(key);
        }
        self.flush(key, now);
        Ok(())
    }

    fn assoc(&mut self, key: Key) -> Option<&mut Assoc> {
        self.hubs.get_mut(key.hub as usize)?.as_mut()?.assoc(key.handle)
    }

    /// Close a connection.
    fn close_conn(&mut self, id: ConnId, how: CloseHow) {
        let Some(key) = self.conns.remove(id).and_then(|c| c.key) else { return };
        let now = self.common.pace.now();
        let Some(a) = self.assoc(key) else { return };
        (a.id, a.since) = (None, now);
        if how == CloseHow::Orderly && matches!(a.state, State::Open | State::PeerClosed) {
            a.state = State::Closing;
            self.shut_down(key);
            self.flush(key, now);
        } else {
            self.abort(key);
        }
    }

    /// Shut an association down gracefully, once all its output has arrived.
    fn shut_down(&mut self, key: Key) {
        let Some(a) = self.assoc(key) else { return };
        let is_due = a.state == State::Closing && !a.proto.is_closing() && !a.proto.is_closed();
        if is_due && a.buffered() == 0 {
            // It fails only if the association has ended.
            drop(a.proto.shutdown());
        }
    }

    /// Abort an association.
    fn abort(&mut self, key: Key) {
        if let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) {
            hub.send_abort(key.handle);
        }
        self.remove(key);
    }

    /// Remove an association, and its socket if nothing else uses it.
    fn remove(&mut self, key: Key) {
        let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) else { return };
        let Some(a) = hub.remove(key.handle) else { return };
        if let Some(at) = a.timer {
            self.timers.remove(&(at, key));
        }
        if hub.is_empty() && !hub.is_listening() {
            // Closing the socket also removes it from the interest list.
            self.hubs[key.hub as usize] = None;
        }
        if let Some(id) = a.id
            && let Some(conn) = self.conns.get_mut(id)
        {
            conn.key = None;
        }
        if a.was_open {
            self.common.sampler.add(self.settings.facts(a.retransmits));
        }
    }

    /// Send the packets of an association, and update its timer.
    fn flush(&mut self, key: Key, now: Nanos) {
        let instant = self.instant(now);
        let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) else { return };
        let Some((is_last, error)) = hub.flush(key.handle, instant) else { return };
        let Some(a) = hub.assoc(key.handle) else { return };
        let (id, timer) = (a.id, a.proto.poll_timeout());
        if timer != a.timer {
            let before = std::mem::replace(&mut a.timer, timer);
            before.map(|at| self.timers.remove(&(at, key)));
            timer.map(|at| self.timers.insert((at, key)));
        }
        if is_last {
            self.remove(key);
        } else if let (Some(e), Some(id)) = (error, id) {
            self.pending.push((id, Pending::Broken(errno::connect_fault(e))));
        }
    }

    /// Converts a time to the crate's clock.
    fn instant(&self, now: Nanos) -> Instant {
        self.epoch + Duration::from_nanos(now.0)
    }

    /// Pass the connection's output to the stack, as much as it accepts.
    fn submit_output(&mut self, m: &mut dyn Machine, id: ConnId, now: Nanos) {
        let Some(key) = self.conns.get_mut(id).and_then(|c| c.key) else { return };
        let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) else { return };
        let Some(a) = hub.assoc(key.handle) else { return };
        if a.blocked || a.state != State::Open {
            return;
        }
        let mut stuck = None;
        let all = m.take_output(id, now, &mut |piece| {
            if stuck.is_some() || piece.is_empty() {
                return 0;
            }
            match a.submit(piece) {
                association::Submitted::Accepted => piece.len(),
                other => {
                    stuck = Some(other);
                    0
                }
            }
        });
        a.blocked = stuck == Some(association::Submitted::Full);
        if stuck == Some(association::Submitted::Dead) {
            self.pending.push((id, Pending::Broken(Fault::Reset)));
        } else if !all && stuck.is_none() {
            self.pending.push((id, Pending::WriteOn));
        }
        self.flush(key, now);
    }
}
