//! The driver's event loop: packets, timers and actions, and the shutdown of all associations.

use std::ops::Range;
use std::time::{Duration, Instant};

use prony_base::fault::Fault;
use prony_base::machine::{CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};
use sctp_proto::{Event, PayloadProtocolIdentifier, StreamEvent};

use super::association::{STREAM, State};
use super::hub::{Key, PacketEffect};
use super::{Conn, Pending, Userspace};
use crate::drivers::event_loop::{Backend, Common, Flow};
use crate::net::errno;
use crate::time::clock::Clock;
use crate::time::pace::Poll as _;
use crate::time::stop::StopFlag;

/// Packets read from one socket before the others get their turn.
const PACKETS_IN_A_ROW: u32 = 64;
/// The time limit for the shutdown of an association.
const SHUTDOWN_LIMIT: Span = Span::from_secs(5);
/// The same limit if the user wants to stop at once.
const SHUTDOWN_LIMIT_NOW: Span = Span::from_millis(100);
/// The time limit for the handshake of an incoming association.
const HANDSHAKE_LIMIT: Span = Span::from_secs(5);
/// The idle timeout of incoming associations.
const IDLE_LIMIT: Span = Span::from_secs(300);
/// The longest wait while the last associations shut down.
const SHUTDOWN_WAIT: Span = Span::from_millis(10);

impl Backend for Userspace {
    #[inline]
    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn start(&mut self, clock: Clock) {
        self.epoch = Instant::now() - Duration::from_nanos(clock.now().0);
    }

    /// Abort associations after their time limits.
    fn on_pulse(&mut self, m: &mut dyn Machine) -> Flow {
        let now = self.common.pace.now();
        for hub in 0..self.hubs.len() {
            let Some(Some(socket)) = self.hubs.get(hub) else { continue };
            let listening = socket.is_listening();
            for handle in socket.handles() {
                let key = Key { hub: hub as u32, handle };
                let Some(a) = self.assoc(key) else { continue };
                let limit = match a.state {
                    State::Closing => SHUTDOWN_LIMIT,
                    State::Opening if listening => HANDSHAKE_LIMIT,
                    State::Open if listening => IDLE_LIMIT,
                    _ => continue,
                };
                if a.since + limit < now {
                    self.abort_and_report(m, key, now, Fault::Reset)?;
                }
            }
        }
        Flow::Continue(())
    }

    fn process_events(&mut self, m: &mut dyn Machine, _stop: &StopFlag) -> Flow {
        self.common.before_poll(m);
        self.common.left_events |= !self.pending.is_empty();
        let own = self.timers.first().map(|&(at, _)| self.nanos(at));
        let n = if self.pending.is_empty() && !self.common.yielded {
            let due = self.common.due();
            self.common.pace.wait(&mut self.poller, due, own)
        } else {
            self.poller.poll(Span::ZERO)
        };
        self.common.after_poll(m, n);
        for i in 0..n {
            let (hub, _) = self.poller.event(i);
            self.receive_packets(m, hub as u32)?;
            self.tick(m)?;
        }
        self.handle_timers(m)?;
        self.catch_up(m)
    }

    fn connect(&mut self, id: ConnId, endpoint: u32) {
        self.open(id, endpoint);
    }

    fn send(&mut self, m: &mut dyn Machine, id: ConnId, fresh: Option<(ConnId, Nanos)>) {
        let now = self.common.time_of_send(id, fresh);
        self.submit_output(m, id, now);
    }

    fn close(&mut self, id: ConnId, how: CloseHow) {
        self.close_conn(id, how);
    }

    /// Shuts down all associations on both sides.
    fn finish(&mut self, m: &mut dyn Machine, stop: &StopFlag) -> Nanos {
        let end = self.common.pace.read_clock();
        self.close_all(m, stop);
        end
    }
}

impl Userspace {
    /// Receive the packets that have arrived at a socket.
    fn receive_packets(&mut self, m: &mut dyn Machine, hub: u32) -> Flow {
        for _ in 0..PACKETS_IN_A_ROW {
            let Some(Some(socket)) = self.hubs.get(hub as usize) else { break };
            match socket.socket.receive(&mut self.packet) {
                Ok((at, from)) => {
                    let now = self.common.pace.read_clock();
                    self.on_packet(m, hub, at, from, now)?;
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    None | Some(libc::EAGAIN) => return Flow::Continue(()),
                    Some(e) => return self.unreachable(m, hub, e),
                },
            }
        }
        self.common.left_events = true;
        Flow::Continue(())
    }

    fn on_packet(
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
            PacketEffect::None => Flow::Continue(()),
            PacketEffect::Received(handle) => {
                self.report_events(m, Key { hub, handle }, now, false)
            }
            PacketEffect::Aborted(handle) => self.report_events(m, Key { hub, handle }, now, true),
            PacketEffect::Violation(handle) => {
                self.abort_and_report(m, Key { hub, handle }, now, Fault::Reset)
            }
        }
    }

    /// Report the events of an association to the machine, and send its packets.
    fn report_events(&mut self, m: &mut dyn Machine, key: Key, now: Nanos, aborted: bool) -> Flow {
        let mut has_ended = aborted;
        while let Some(event) = self.assoc(key).and_then(|a| a.proto.poll()) {
            match event {
                Event::Connected => self.opened(m, key, now)?,
                Event::Stream(StreamEvent::Readable { id }) => self.read(m, key, id, now)?,
                Event::AssociationLost { .. } | Event::HandshakeFailed { .. } => has_ended = true,
                _ => {}
            }
        }
        let Some(a) = self.assoc(key) else { return Flow::Continue(()) };
        if has_ended {
            let is_shut_down = matches!(a.state, State::PeerClosed | State::Closing);
            if !aborted && !is_shut_down {
                // After a protocol violation, the crate ends the association without an ABORT.
                return self.abort_and_report(m, key, now, Fault::Reset);
            }
            return self.lost(m, key, now, Fault::Reset);
        }
        let (id, state) = (a.id, a.state);
        if let Some(id) = id.filter(|_| state == State::Open) {
            if a.blocked && a.has_room() {
                a.blocked = false;
                self.submit_output(m, id, now);
                self.act(m, None)?;
            }
            self.report_shutdown(m, key, now)?;
        }
        self.shut_down(key);
        self.flush(key, now);
        Flow::Continue(())
    }

    /// Report to the machine if the peer has shut the association down.
    fn report_shutdown(&mut self, m: &mut dyn Machine, key: Key, now: Nanos) -> Flow {
        let Some(a) = self.assoc(key) else { return Flow::Continue(()) };
        let Some(id) = a.id.filter(|_| a.state == State::Open && a.proto.is_closing()) else {
            return Flow::Continue(());
        };
        a.state = State::PeerClosed;
        m.on_closed(id, None, now);
        self.act(m, Some((id, now)))
    }

    /// An association has opened.
    fn opened(&mut self, m: &mut dyn Machine, key: Key, now: Nanos) -> Flow {
        let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) else {
            return Flow::Continue(());
        };
        let listener = hub.listener();
        let Some(a) = hub.assoc(key.handle).filter(|a| a.state == State::Opening) else {
            return Flow::Continue(());
        };
        (a.state, a.was_open) = (State::Open, true);
        // The stream exists already if data came with the last packet of the handshake.
        drop(a.proto.open_stream(STREAM, PayloadProtocolIdentifier::Binary));
        match (a.id, listener) {
            (Some(id), _) => {
                let endpoint = self.conns.get_mut(id).map(|c| c.endpoint);
                if let Some(endpoint) = endpoint {
                    self.common.network.accepted(endpoint, 0);
                }
                self.common.report_open_delay(m);
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

    /// Pass received messages to the machine.
    fn read(&mut self, m: &mut dyn Machine, key: Key, stream: u16, now: Nanos) -> Flow {
        while let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) {
            let Some(a) = hub.assoc(key.handle) else { break };
            let message = a.proto.stream(stream).and_then(|mut s| s.read());
            let Ok(Some(message)) = message else { break };
            let Ok(n) = message.read(&mut self.message) else { continue };
            // Ignore data after the end.
            if let Some(id) = a.id.filter(|_| a.state == State::Open && n > 0) {
                m.on_recv(id, &mut self.message[..n], now);
                self.act(m, Some((id, now)))?;
            }
        }
        Flow::Continue(())
    }

    /// An association has report_shutdown, and the peer knows.
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

    fn abort_and_report(
        &mut self,
        m: &mut dyn Machine,
        key: Key,
        now: Nanos,
        fault: Fault,
    ) -> Flow {
        if let Some(Some(hub)) = self.hubs.get_mut(key.hub as usize) {
            hub.send_abort(key.handle);
        }
        self.lost(m, key, now, fault)
    }

    /// The network reports that the peer is unreachable.
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

    /// Handle the timers that have expired.
    fn handle_timers(&mut self, m: &mut dyn Machine) -> Flow {
        let now = self.common.pace.now();
        let instant = self.instant(now);
        while let Some(&(at, key)) = self.timers.first()
            && at <= instant
        {
            self.timers.pop_first();
            let Some(a) = self.assoc(key) else { continue };
            a.timer = None;
            a.proto.handle_timeout(instant);
            self.report_events(m, key, now, false)?;
        }
        Flow::Continue(())
    }

    /// Handle what was postponed while the machine had actions.
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
                    self.abort_and_report(m, key, now, fault)?;
                }
                (Pending::WriteOn, _) => {
                    self.submit_output(m, id, now);
                    self.act(m, None)?;
                }
                (Pending::Broken(_), None) => {}
            }
            self.tick(m)?;
        }
        Flow::Continue(())
    }

    /// The run is over: shut down all associations, and wait for their peers.
    fn close_all(&mut self, m: &mut dyn Machine, stop: &StopFlag) {
        self.hubs.iter_mut().flatten().for_each(super::Hub::stop_accepting);
        let start = self.common.pace.read_clock();
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
            if matches!(a.state, State::Open | State::PeerClosed) {
                (a.state, a.since) = (State::Closing, start);
                self.shut_down(key);
                self.flush(key, start);
            } else if a.state == State::Opening {
                self.abort(key);
            }
        }
        drop(self.conns.take_all());
        self.pending.clear();
        while self.hubs.iter().flatten().any(|h| !h.is_empty()) {
            let now = self.common.pace.read_clock();
            let at_once = stop.stop_request() == Some(StopRequest::Now);
            let limit = if at_once { SHUTDOWN_LIMIT_NOW } else { SHUTDOWN_LIMIT };
            if now >= start + limit {
                keys(&self.hubs).into_iter().for_each(|key| self.abort(key));
                break;
            }
            let next = self.timers.first().map_or(Span::MAX, |&(at, _)| self.nanos(at).since(now));
            for i in 0..self.poller.poll(next.min(SHUTDOWN_WAIT)) {
                let (hub, _) = self.poller.event(i);
                let _ = self.receive_packets(m, hub as u32);
            }
            self.common.pace.read_clock();
            let _ = self.handle_timers(m);
        }
    }

    /// Converts a time of the crate's clock to ours.
    fn nanos(&self, at: Instant) -> Nanos {
        let since = at.saturating_duration_since(self.epoch);
        Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The fault of an association that did not open.
fn refusal(fault: Fault) -> Fault {
    // The peer has rejected it.
    if fault == Fault::Reset { Fault::ConnectRefused } else { fault }
}
