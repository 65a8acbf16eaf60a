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
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use prony_core::fault::Fault;
use prony_core::machine::{CloseHow, Machine};
use prony_core::summary::{Sctp, Transport};
use prony_core::units::{ConnId, Nanos};

use crate::driver::{Config, DriverStats, Network};
use crate::epoll::poller::Poller;
use crate::errno;
use crate::pace::Pace;
use crate::sock::options::SocketOptions;
use crate::sock::{self, sctp::Style};
use association::{Assoc, MESSAGE_MAX, State};
use hub::{Hub, Key};
pub use listen::{Listener, bind, serve};
pub use settings::{NAME, SIZE_MAX, Settings, UDP_PORT, Via, ready};

/// Room for the longest packet.
const PACKET: usize = 64 * 1024;

/// The driver.
#[derive(Debug)]
pub struct Userspace {
    poller: Poller,
    pace: Pace,
    network: Network,
    settings: Settings,
    sockets: SocketOptions,
    /// The moment that the run's clock calls zero.
    epoch: Instant,
    hubs: Vec<Option<Hub>>,
    conns: Vec<Conn>,
    /// When associations want to be called.
    timers: BTreeSet<(Instant, Key)>,
    packet: Box<[u8]>,
    message: Box<[u8]>,
    /// What must be told to the machine once it has no more actions.
    pending: Vec<(ConnId, Pending)>,
    /// The machine has put something off until the sockets were looked at.
    yields: bool,
    sum: Sctp,
    stats: DriverStats,
}

/// A connection, as the machine sees it.
#[derive(Clone, Copy, Debug)]
struct Conn {
    generation: u32,
    endpoint: u32,
    is_free: bool,
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

const FREE: Conn = Conn { generation: 0, endpoint: 0, is_free: true, key: None };

impl Userspace {
    /// A driver for the calling thread, which opens associations as `settings` say.
    pub(crate) fn new(mut config: Config, settings: Settings) -> io::Result<Self> {
        let mut poller = Poller::new(false)?;
        let pace = Pace::new(config.precision, &mut poller);
        Ok(Self {
            poller,
            pace,
            sockets: config.sockets,
            network: Network::new(&mut config),
            settings,
            epoch: Instant::now(),
            hubs: Vec::new(),
            conns: Vec::new(),
            timers: BTreeSet::new(),
            packet: vec![0; PACKET].into_boxed_slice(),
            message: vec![0; MESSAGE_MAX].into_boxed_slice(),
            pending: Vec::new(),
            yields: false,
            sum: Sctp::default(),
            stats: DriverStats::default(),
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
        self.poller
            .add(hub.link.as_raw_fd(), slot as u64, interest)
            .map_err(io::Error::from_raw_os_error)?;
        match free {
            Some(slot) => self.hubs[slot] = Some(hub),
            None => self.hubs.push(Some(hub)),
        }
        Ok(slot as u32)
    }

    /// Begin to open an association. What is decided at once is told to the machine later.
    fn connect(&mut self, id: ConnId, endpoint: u32) {
        self.put(id, Conn { generation: id.generation, endpoint, is_free: false, key: None });
        if let Err(e) = self.begin_connect(id, endpoint) {
            let fault = errno::connect_fault(e.raw_os_error().unwrap_or(libc::EINVAL));
            self.pending.push((id, Pending::Refused(fault)));
        }
    }

    fn begin_connect(&mut self, id: ConnId, endpoint: u32) -> io::Result<()> {
        let unavailable = || io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
        let remote = self.network.remote(endpoint, 0).ok_or_else(unavailable)?;
        let (to, style) = (remote.as_inet().ok_or_else(unavailable)?, remote.sctp());
        let source = self.network.source_for(endpoint, 0);
        // A one-to-many socket is one socket for all associations.
        let shared = |hub: &Option<Hub>| hub.as_ref().is_some_and(|h| h.is_shared_by(endpoint));
        let hub = match self.hubs.iter().position(shared) {
            Some(hub) if style == Some(Style::OneToMany) => hub as u32,
            _ => {
                let hub = Hub::connecting(&self.settings, endpoint, source, to.ip())?;
                sock::options::apply(hub.link.as_raw_fd(), &self.sockets);
                self.add_hub(hub)?
            }
        };
        let now = self.pace.read_clock();
        let Some(socket) = &mut self.hubs[hub as usize] else { return Ok(()) };
        socket.is_shared = style == Some(Style::OneToMany);
        let opened = socket.connect(&self.settings, to, self.sockets.port, id, now);
        if opened.is_err() && socket.is_empty() {
            self.hubs[hub as usize] = None;
        }
        let handle = opened?;
        let key = Key { hub, handle };
        self.conns[id.slot as usize].key = Some(key);
        self.flush(key, now);
        Ok(())
    }

    fn put(&mut self, id: ConnId, conn: Conn) {
        let slot = id.slot as usize;
        if slot >= self.conns.len() {
            self.conns.resize(slot + 1, FREE);
        }
        debug_assert!(self.conns[slot].is_free, "{id:?} is still in use");
        self.conns[slot] = conn;
    }

    /// The connection of that name, unless it was let go of.
    fn live(&mut self, id: ConnId) -> Option<&mut Conn> {
        let named = |c: &&mut Conn| !c.is_free && c.generation == id.generation;
        self.conns.get_mut(id.slot as usize).filter(named)
    }

    fn assoc(&mut self, key: Key) -> Option<&mut Assoc> {
        self.hubs.get_mut(key.hub as usize)?.as_mut()?.assoc(key.handle)
    }

    /// Let go of a connection.
    fn close(&mut self, id: ConnId, how: CloseHow) {
        let Some(conn) = self.live(id) else { return };
        let conn = std::mem::replace(conn, FREE);
        let Some(key) = conn.key else { return };
        let now = self.pace.now();
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
            && let Some(conn) = self.live(id)
        {
            conn.key = None;
        }
        if a.was_open {
            self.sum = self.sum.and(self.settings.facts(a.retransmits));
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

    fn transport(&self) -> Transport {
        Transport { sctp: (self.sum.associations > 0).then_some(self.sum), ..Transport::default() }
    }

    /// Give the stack what the connection has to send, as much as it takes.
    fn send<M: Machine + ?Sized>(&mut self, m: &mut M, id: ConnId, now: Nanos) {
        let Some(key) = self.live(id).and_then(|c| c.key) else { return };
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
