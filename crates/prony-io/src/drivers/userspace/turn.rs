//! The driver's loop: packets, timers and actions, and the end of all associations.

use std::ops::Range;
use std::time::{Duration, Instant};

use prony_core::fault::Fault;
use prony_core::machine::{CloseHow, Machine, StopRequest};
use prony_core::units::{ConnId, Nanos, Span};
use sctp_proto::{Event, PayloadProtocolIdentifier, StreamEvent};

use super::association::{STREAM, State};
use super::hub::{Fate, Key};
use super::{Conn, Pending, Userspace};
use crate::drivers::event_loop::{Backend, Common, Flow};
use crate::net::errno;
use crate::time::clock::Clock;
use crate::time::pace::Poll as _;
use crate::time::stop::StopFlag;

/// Packets read from one socket before the others get their turn.
const PACKETS_IN_A_ROW: u32 = 64;
/// How long a peer may take to agree to the end of an association.
const END_LIMIT: Span = Span::from_secs(5);
/// The same where the user wants the end at once.
const END_LIMIT_NOW: Span = Span::from_millis(100);
/// How long a peer may take to open one.
const OPEN_LIMIT: Span = Span::from_secs(5);
/// How long nothing may be heard of who has connected.
const SILENCE_LIMIT: Span = Span::from_secs(300);
/// The longest wait while the last associations end.
const SLICE: Span = Span::from_millis(10);

impl Backend for Userspace {
    #[inline]
    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn begin(&mut self, clock: Clock) {
        self.epoch = Instant::now() - Duration::from_nanos(clock.now().0);
    }

    /// Let go of what leads nowhere.
    fn keep_house(&mut self, m: &mut dyn Machine) -> Flow {
        let now = self.common.pace.now();
        for hub in 0..self.hubs.len() {
            let Some(Some(socket)) = self.hubs.get(hub) else { continue };
            let listening = socket.is_listening();
            for handle in socket.handles() {
                let key = Key { hub: hub as u32, handle };
                let Some(a) = self.assoc(key) else { continue };
                let limit = match a.state {
                    State::Ending => END_LIMIT,
                    State::Opening if listening => OPEN_LIMIT,
                    State::Open if listening => SILENCE_LIMIT,
                    _ => continue,
                };
                if a.since + limit < now {
                    self.abort_and_tell(m, key, now, Fault::Reset)?;
                }
            }
        }
        Flow::Continue(())
    }

    fn gather(&mut self, m: &mut dyn Machine) -> Flow {
        let own = self.timers.first().map(|&(at, _)| self.nanos(at));
        let n = if self.pending.is_empty() && !self.common.yields {
            let due = self.common.due();
            self.common.pace.wait(&mut self.poller, due, own)
        } else {
            self.poller.poll(Span::ZERO)
        };
        for i in 0..n {
            let (hub, _) = self.poller.event(i);
            self.arrived(m, hub as u32)?;
            self.tick(m)?;
        }
        self.call_timers(m)?;
        self.catch_up(m)
    }

    fn connect(&mut self, id: ConnId, endpoint: u32) {
        self.open(id, endpoint);
    }

    fn send(&mut self, m: &mut dyn Machine, id: ConnId, fresh: Option<(ConnId, Nanos)>) {
        let now = self.common.time_of_send(id, fresh);
        self.give(m, id, now);
    }

    fn close(&mut self, id: ConnId, how: CloseHow) {
        self.let_go_of(id, how);
    }

    /// All associations are ended on both sides.
    fn end(&mut self, m: &mut dyn Machine, stop: &StopFlag) -> Nanos {
        let end = self.common.pace.read_clock();
        self.let_go(m, stop);
        end
    }
}

impl Userspace {
    /// Take what has arrived at a socket.
    fn arrived(&mut self, m: &mut dyn Machine, hub: u32) -> Flow {
        for _ in 0..PACKETS_IN_A_ROW {
            let Some(Some(socket)) = self.hubs.get(hub as usize) else { break };
            match socket.link.receive(&mut self.packet) {
                Ok((at, from)) => {
                    let now = self.common.pace.read_clock();
                    self.take(m, hub, at, from, now)?;
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    None | Some(libc::EAGAIN) => break,
                    Some(e) => return self.unreachable(m, hub, e),
                },
            }
        }
        Flow::Continue(())
    }

    fn take(
        &mut self,
        m: &mut dyn Machine,
        hub: u32,
        at: Range<usize>,
        from: std::net::SocketAddr,
        now: Nanos,
    ) -> Flow {
        let instant = self.instant(now);
        let Some(Some(socket)) = self.hubs.get_mut(hub as usize) else { return Flow::Continue(()) };
        match socket.receive(&self.packet[at], from, instant, now) {
            Fate::Nothing => Flow::Continue(()),
            Fate::Heard(handle) => self.settle(m, Key { hub, handle }, now, false),
            Fate::Aborted(handle) => self.settle(m, Key { hub, handle }, now, true),
            Fate::Violated(handle) => {
                self.abort_and_tell(m, Key { hub, handle }, now, Fault::Reset)
            }
        }
    }

    /// Tell the machine what has become of an association, and send what it has to send.
    fn settle(&mut self, m: &mut dyn Machine, key: Key, now: Nanos, aborted: bool) -> Flow {
        let mut is_over = aborted;
        while let Some(event) = self.assoc(key).and_then(|a| a.proto.poll()) {
            match event {
                Event::Connected => self.opened(m, key, now)?,
                Event::Stream(StreamEvent::Readable { id }) => self.read(m, key, id, now)?,
                Event::AssociationLost { .. } | Event::HandshakeFailed { .. } => is_over = true,
                _ => {}
            }
        }
        let Some(a) = self.assoc(key) else { return Flow::Continue(()) };
        if is_over {
            let is_agreed = matches!(a.state, State::Ended | State::Ending);
            if !aborted && !is_agreed {
                // The crate ends in silence an association whose peer has broken the rules.
                return self.abort_and_tell(m, key, now, Fault::Reset);
            }
            return self.lost(m, key, now, Fault::Reset);
        }
        let (id, state) = (a.id, a.state);
        if let Some(id) = id.filter(|_| state == State::Open) {
            if a.blocked && a.has_room() {
                a.blocked = false;
                self.give(m, id, now);
                self.act(m, None)?;
            }
            self.ended(m, key, now)?;
        }
        self.wind_up(key);
        self.flush(key, now);
        Flow::Continue(())
    }

    /// Tell the machine where the peer has ended the association in good order.
    fn ended(&mut self, m: &mut dyn Machine, key: Key, now: Nanos) -> Flow {
        let Some(a) = self.assoc(key) else { return Flow::Continue(()) };
        let Some(id) = a.id.filter(|_| a.state == State::Open && a.proto.is_closing()) else {
            return Flow::Continue(());
        };
        a.state = State::Ended;
        m.on_closed(id, None, now);
        self.act(m, Some((id, now)))
    }

    /// An association is open.
    fn opened(&mut self, m: &mut dyn Machine, key: Key, now: Nanos) -> Flow {
        let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) else {
            return Flow::Continue(());
        };
        let listener = hub.listener();
        let Some(a) = hub.assoc(key.handle).filter(|a| a.state == State::Opening) else {
            return Flow::Continue(());
        };
        (a.state, a.was_open) = (State::Open, true);
        // It is there already where data came with the last packet of the opening.
        drop(a.proto.open_stream(STREAM, PayloadProtocolIdentifier::Binary));
        match (a.id, listener) {
            (Some(id), _) => {
                let endpoint = self.conns.get_mut(id).map(|c| c.endpoint);
                if let Some(endpoint) = endpoint {
                    self.common.network.answered(endpoint, 0);
                }
                m.on_connected(id, now);
                self.act(m, Some((id, now)))
            }
            (None, Some(listener)) => {
                let Some(id) = m.on_accepted(listener, now) else {
                    self.abort(key);
                    return self.act(m, None);
                };
                a.id = Some(id);
                self.conns.insert(id, Conn { endpoint: 0, key: Some(key) });
                self.act(m, Some((id, now)))
            }
            (None, None) => Flow::Continue(()),
        }
    }

    /// Hand the machine the messages that are there.
    fn read(&mut self, m: &mut dyn Machine, key: Key, stream: u16, now: Nanos) -> Flow {
        while let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) {
            let Some(a) = hub.assoc(key.handle) else { break };
            let message = a.proto.stream(stream).and_then(|mut s| s.read());
            let Ok(Some(message)) = message else { break };
            let Ok(n) = message.read(&mut self.message) else { continue };
            // What comes behind the end is nobody's.
            if let Some(id) = a.id.filter(|_| a.state == State::Open && n > 0) {
                m.on_recv(id, &mut self.message[..n], now);
                self.act(m, Some((id, now)))?;
            }
        }
        Flow::Continue(())
    }

    /// An association is over, and the peer knows.
    fn lost(&mut self, m: &mut dyn Machine, key: Key, now: Nanos, fault: Fault) -> Flow {
        let Some(a) = self.assoc(key) else { return Flow::Continue(()) };
        let (id, state) = (a.id, a.state);
        self.remove(key);
        match (id, state) {
            (Some(id), State::Opening) => {
                m.on_closed(id, Some(refusal(fault)), now);
                self.act(m, None)
            }
            (Some(id), State::Open) => {
                m.on_closed(id, Some(fault), now);
                self.act(m, None)
            }
            _ => Flow::Continue(()),
        }
    }

    fn abort_and_tell(&mut self, m: &mut dyn Machine, key: Key, now: Nanos, fault: Fault) -> Flow {
        if let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) {
            hub.say_abort(key.handle);
        }
        self.lost(m, key, now, fault)
    }

    /// The network says that nobody is there.
    fn unreachable(&mut self, m: &mut dyn Machine, hub: u32, e: i32) -> Flow {
        let now = self.common.pace.read_clock();
        let Some(Some(socket)) = self.hubs.get(hub as usize) else { return Flow::Continue(()) };
        if socket.is_listening() {
            return Flow::Continue(());
        }
        for handle in socket.handles() {
            let key = Key { hub, handle };
            let opening = self.assoc(key).is_some_and(|a| a.state == State::Opening);
            let fault = if opening { errno::connect_fault(e) } else { errno::stream_fault(e) };
            self.lost(m, key, now, fault)?;
        }
        Flow::Continue(())
    }

    /// Let associations know that their time has come.
    fn call_timers(&mut self, m: &mut dyn Machine) -> Flow {
        let now = self.common.pace.now();
        let instant = self.instant(now);
        while let Some(&(at, key)) = self.timers.first()
            && at <= instant
        {
            self.timers.pop_first();
            let Some(a) = self.assoc(key) else { continue };
            a.timer = None;
            a.proto.handle_timeout(instant);
            self.settle(m, key, now, false)?;
        }
        Flow::Continue(())
    }

    /// What was put off while the machine had actions.
    fn catch_up(&mut self, m: &mut dyn Machine) -> Flow {
        for (id, what) in std::mem::take(&mut self.pending) {
            let Some(key) = self.conns.get_mut(id).map(|c| c.key) else { continue };
            let now = self.common.pace.read_clock();
            match (what, key) {
                (Pending::Refused(fault), _) => {
                    m.on_closed(id, Some(fault), now);
                    self.act(m, None)?;
                }
                (Pending::Broken(fault), Some(key)) => {
                    let opening = self.assoc(key).is_some_and(|a| a.state == State::Opening);
                    let fault = if opening { fault } else { Fault::Reset };
                    self.abort_and_tell(m, key, now, fault)?;
                }
                (Pending::WriteOn, _) => {
                    self.give(m, id, now);
                    self.act(m, None)?;
                }
                (Pending::Broken(_), None) => {}
            }
            self.tick(m)?;
        }
        Flow::Continue(())
    }

    /// The run is over: end all associations, and wait until their peers agree.
    fn let_go(&mut self, m: &mut dyn Machine, stop: &StopFlag) {
        self.hubs.iter_mut().flatten().for_each(super::Hub::shut);
        let begin = self.common.pace.read_clock();
        let keys = |hubs: &[Option<super::Hub>]| {
            let all = hubs.iter().enumerate().filter_map(|(i, h)| Some((i as u32, h.as_ref()?)));
            let keys = all.flat_map(|(hub, h)| {
                h.handles().into_iter().map(move |handle| Key { hub, handle })
            });
            keys.collect::<Vec<_>>()
        };
        for key in keys(&self.hubs) {
            let Some(a) = self.assoc(key) else { continue };
            a.id = None;
            if matches!(a.state, State::Open | State::Ended) {
                (a.state, a.since) = (State::Ending, begin);
                self.wind_up(key);
                self.flush(key, begin);
            } else if a.state == State::Opening {
                self.abort(key);
            }
        }
        drop(self.conns.take_all());
        self.pending.clear();
        while self.hubs.iter().flatten().any(|h| !h.is_empty()) {
            let now = self.common.pace.read_clock();
            let at_once = stop.stop_request() == Some(StopRequest::Now);
            let limit = if at_once { END_LIMIT_NOW } else { END_LIMIT };
            if now >= begin + limit {
                keys(&self.hubs).into_iter().for_each(|key| self.abort(key));
                break;
            }
            let next = self.timers.first().map_or(Span::MAX, |&(at, _)| self.nanos(at).since(now));
            for i in 0..self.poller.poll(next.min(SLICE)) {
                let (hub, _) = self.poller.event(i);
                let _ = self.arrived(m, hub as u32);
            }
            self.common.pace.read_clock();
            let _ = self.call_timers(m);
        }
    }

    /// That moment of the crate's clock on ours.
    fn nanos(&self, at: Instant) -> Nanos {
        let since = at.saturating_duration_since(self.epoch);
        Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Why an association could not be opened.
fn refusal(fault: Fault) -> Fault {
    // The peer has answered, and wants none.
    if fault == Fault::Reset { Fault::ConnectRefused } else { fault }
}
