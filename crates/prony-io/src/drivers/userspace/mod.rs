//! The driver for SCTP without the kernel's: the crate `sctp-proto` keeps the associations, and
//! their packets go over UDP (RFC 6951) or over IP itself.
//!
//! Stamps are taken where the other drivers take them: the clock is read right behind the call that
//! brought the packet with a message's last byte, and right before the message is given to the
//! stack that will send it. What the stack costs lies between the two, as the kernel's does.
//!
//! Hostile peers: a packet is looked through before the crate has it (module `hub`), there is a
//! limit to the associations of a listener and to the bytes of each, and none that leads nowhere is
//! kept.

mod association;
mod hub;
mod link;
mod listen;
mod settings;
#[cfg(test)]
mod tests;
mod turn;
mod wire;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::{Duration, Instant};

use prony_core::fault::Fault;
use prony_core::machine::{CloseHow, Machine};
use prony_core::units::{ConnId, Nanos};

use crate::drivers::config::Config;
use crate::drivers::event_loop::Common;
use crate::drivers::poller::Poller;
use crate::drivers::slots::SlotTable;
use crate::net::errno;
use crate::net::socket::options::SocketOptions;
use crate::net::socket::{self, sctp::Style};
use crate::time::pace::Pace;
use association::{Assoc, MESSAGE_MAX, State};
use hub::{Hub, Key};
pub use listen::{Listener, bind};
pub use settings::{NAME, SIZE_MAX, Settings, UDP_PORT, Via, ready};

/// Room for the longest packet.
const PACKET: usize = 64 * 1024;

/// The driver.
#[derive(Debug)]
pub struct Userspace {
    poller: Poller,
    common: Common,
    settings: Settings,
    sockets: SocketOptions,
    /// The moment that the run's clock calls zero.
    epoch: Instant,
    hubs: Vec<Option<Hub>>,
    conns: SlotTable<Conn>,
    /// When associations want to be called.
    timers: BTreeSet<(Instant, Key)>,
    packet: Box<[u8]>,
    message: Box<[u8]>,
    /// What must be told to the machine once it has no more actions.
    pending: Vec<(ConnId, Pending)>,
}

/// A connection, as the machine sees it.
#[derive(Clone, Copy, Debug)]
struct Conn {
    endpoint: u32,
    /// Its association, while there is one.
    key: Option<Key>,
}

#[derive(Clone, Copy, Debug)]
enum Pending {
    /// It cannot be opened.
    Refused(Fault),
    /// It cannot be sent on.
    Broken(Fault),
    /// The machine has more to send than it gave.
    WriteOn,
}

impl Userspace {
    /// A driver for the calling thread, which opens associations as `settings` say.
    pub(crate) fn new(mut config: Config, settings: Settings) -> io::Result<Self> {
        let mut poller = Poller::new(false)?;
        let pace = Pace::new(config.precision, &mut poller);
        // The stack has no stamps of the kernel's.
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

    /// Listen, too.
    pub(crate) fn listen(&mut self, listener: Listener, index: u32) -> io::Result<()> {
        let hub = Hub::listening(listener, index);
        self.add_hub(hub).map(drop)
    }

    /// Its name in reports.
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
        self.poller.add(&hub.link, slot as u64, interest).map_err(io::Error::from_raw_os_error)?;
        match free {
            Some(slot) => self.hubs[slot] = Some(hub),
            None => self.hubs.push(Some(hub)),
        }
        Ok(slot as u32)
    }

    /// Begin to open an association. What is decided at once is told to the machine later.
    fn open(&mut self, id: ConnId, endpoint: u32) {
        self.conns.insert(id, Conn { endpoint, key: None });
        if let Err(e) = self.begin_connect(id, endpoint) {
            let fault = errno::connect_fault(e.raw_os_error().unwrap_or(libc::EINVAL));
            self.pending.push((id, Pending::Refused(fault)));
        }
    }

    fn begin_connect(&mut self, id: ConnId, endpoint: u32) -> io::Result<()> {
        let unavailable = || io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
        let remote = self.common.network.remote(endpoint, 0).ok_or_else(unavailable)?;
        let (to, style) = (remote.as_inet().ok_or_else(unavailable)?, remote.sctp());
        let source = self.common.network.source_for(endpoint, 0);
        // A one-to-many socket is one socket for all associations.
        let shared = |hub: &Option<Hub>| hub.as_ref().is_some_and(|h| h.is_shared_by(endpoint));
        let hub = match self.hubs.iter().position(shared) {
            Some(hub) if style == Some(Style::OneToMany) => hub as u32,
            _ => {
                let hub = Hub::connecting(&self.settings, endpoint, source, to.ip())?;
                socket::options::apply(hub.link.as_fd().as_raw_fd(), &self.sockets);
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

    /// Let go of a connection.
    fn let_go_of(&mut self, id: ConnId, how: CloseHow) {
        let Some(key) = self.conns.remove(id).and_then(|c| c.key) else { return };
        let now = self.common.pace.now();
        let Some(a) = self.assoc(key) else { return };
        (a.id, a.since) = (None, now);
        if how == CloseHow::Orderly && matches!(a.state, State::Open | State::Ended) {
            a.state = State::Ending;
            self.wind_up(key);
            self.flush(key, now);
        } else {
            self.abort(key);
        }
    }

    /// End an association in good order, once all that was given to it has arrived.
    fn wind_up(&mut self, key: Key) {
        let Some(a) = self.assoc(key) else { return };
        let is_due = a.state == State::Ending && !a.proto.is_closing() && !a.proto.is_closed();
        if is_due && a.waiting() == 0 {
            // It fails only where the association is over.
            drop(a.proto.shutdown());
        }
    }

    /// End an association at once, and tell the peer.
    fn abort(&mut self, key: Key) {
        if let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) {
            hub.say_abort(key.handle);
        }
        self.remove(key);
    }

    /// Forget an association, and what was only for it.
    fn remove(&mut self, key: Key) {
        let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) else { return };
        let Some(a) = hub.remove(key.handle) else { return };
        if let Some(at) = a.timer {
            self.timers.remove(&(at, key));
        }
        if hub.is_empty() && !hub.is_listening() {
            // Its socket goes with it, and out of the interest list with that.
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

    /// Send what an association has to send, and note when it wants to be called.
    fn flush(&mut self, key: Key, now: Nanos) {
        let instant = self.instant(now);
        let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) else { return };
        let Some((is_last, trouble)) = hub.flush(key.handle, instant) else { return };
        let Some(a) = hub.assoc(key.handle) else { return };
        let (id, timer) = (a.id, a.proto.poll_timeout());
        if timer != a.timer {
            let before = std::mem::replace(&mut a.timer, timer);
            before.map(|at| self.timers.remove(&(at, key)));
            timer.map(|at| self.timers.insert((at, key)));
        }
        if is_last {
            self.remove(key);
        } else if let (Some(e), Some(id)) = (trouble, id) {
            self.pending.push((id, Pending::Broken(errno::connect_fault(e))));
        }
    }

    /// That moment on the clock of the crate.
    fn instant(&self, now: Nanos) -> Instant {
        self.epoch + Duration::from_nanos(now.0)
    }

    /// Give the stack what the connection has to send, as much as it takes.
    fn give(&mut self, m: &mut dyn Machine, id: ConnId, now: Nanos) {
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
            match a.give(piece) {
                association::Given::Taken => piece.len(),
                other => {
                    stuck = Some(other);
                    0
                }
            }
        });
        a.blocked = stuck == Some(association::Given::Full);
        if stuck == Some(association::Given::Dead) {
            self.pending.push((id, Pending::Broken(Fault::Reset)));
        } else if !all && stuck.is_none() {
            self.pending.push((id, Pending::WriteOn));
        }
        self.flush(key, now);
    }
}
