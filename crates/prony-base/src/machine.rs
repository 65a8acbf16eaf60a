//! The boundary between the pure part and the drivers, which move the bytes (epoll, io_uring, the
//! virtual world).
//!
//! The contract, in full:
//! 1. After every `on_*` call (and once before the first) the driver calls [`Machine::poll_action`]
//!    and executes each action until it returns `None`, before it makes the next `on_*` call.
//!    The driver calls `take_output` when it executes [`Action::Transmit`], and again whenever a
//!    connection that did not accept everything becomes writable. After such a later call it polls
//!    the actions too (a server closes a connection once its last byte is accepted).
//! 2. The machine assigns the id of a connection. The id lives from `Action::Connect` (client) or
//!    `on_accepted` (server) until the machine emits `Action::Close` for it. After that the driver
//!    never uses the id again. `on_closed` does not end an id: it reports that the peer has ended
//!    (`None`: an orderly end of its stream, while ours is still open; `Some`: the connection is
//!    dead), and the machine emits `Action::Close` when it has finished with the connection.
//! 3. `now` never goes backwards. For received bytes it is read after the read; for bytes to send,
//!    before the write. Batching may make a measured latency longer than the true one, never
//!    shorter.
//! 4. The driver calls `deadline` after it has polled the actions. At or after that time it calls
//!    `on_tick`.
//! 5. After [`Action::Finished`] the driver closes the remaining connections and returns.
//! 6. A driver with timestamps of the kernel reports them by `on_stamp`, on the clock of `now`:
//!    [`KernelStamp::Received`] right before every `on_recv` of that connection (and
//!    [`KernelStamp::CardReceived`] between the two), [`KernelStamp::Sent`] and
//!    [`KernelStamp::CardSent`] at any time after the write, each at most once. `on_stamp` causes
//!    no actions, so the driver does not poll them after it.
//! 7. After [`Action::Yield`] the driver continues to poll actions as in rule 1. Then it handles
//!    the sockets that are ready, without waiting for more, and calls `on_turn`.
//! 8. A driver may call `prepare_output` right before it reads the clock for a `take_output` of the
//!    same connection. That `take_output` then follows before any other call.
//! 9. After [`Action::Pause`] the driver reads no more from the connection until
//!    [`Action::Resume`]. Bytes that it has read already may still follow, and so may the end of
//!    the stream behind them. A connection that dies meanwhile is reported as ever.

use crate::fault::Fault;
use crate::units::{ConnId, Nanos, Poll, Span};

/// What a machine asks its driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection to endpoint `endpoint` of the plan; answer with `on_connected` or
    /// `on_closed(Some)`.
    Connect {
        /// The id of the new connection.
        id: ConnId,
        /// Index into the plan's endpoints.
        endpoint: u32,
    },
    /// The connection has bytes to send: call `take_output`.
    Transmit {
        /// Which connection.
        id: ConnId,
    },
    /// Close the connection; the id ends here.
    Close {
        /// Which connection.
        id: ConnId,
        /// Whether to close it in an orderly way or to reset it.
        how: CloseHow,
    },
    /// Read no more from the connection: the machine has enough of its input. An accepted
    /// connection only.
    Pause {
        /// Which connection.
        id: ConnId,
    },
    /// Read from the connection again.
    Resume {
        /// Which connection.
        id: ConnId,
    },
    /// Check the sockets, then call `on_turn`: there is more to do, but incoming events must not
    /// wait for all of it.
    Yield,
    /// The run is over.
    Finished,
}

/// The next step of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This action, now.
    Act(Action),
    /// Nothing until the next `on_*` call. `on_tick` is due at this time.
    Wait(Option<Nanos>),
}

/// How to close a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseHow {
    /// An orderly close: bytes given to the kernel are still delivered.
    Orderly,
    /// A reset: nothing more is delivered, and no local port is left in TIME_WAIT.
    Reset,
}

/// How a user stopped a run early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Start nothing new, wait for what is in flight.
    Drain,
    /// End at once; what is in flight counts as unfinished.
    Now,
}

/// A timestamp of a connection's bytes, from the kernel or the network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelStamp {
    /// When the kernel received the last of the bytes of the next `on_recv`; `None` if it has no
    /// timestamp.
    Received(Option<Nanos>),
    /// When the last byte of a write passed a point.
    Sent {
        /// Which point.
        passed: Passed,
        /// Which write: in a stream, how many bytes of the connection precede its last one, modulo
        /// 2^32; with messages, how many of them precede it.
        number: u32,
        /// When.
        at: Nanos,
    },
    /// When the network card received the bytes of the next `on_recv`, in nanoseconds of the card's
    /// own clock. Nothing is known of that clock except that it runs at the same speed.
    CardReceived(u64),
    /// When the network card sent the last byte of a write, on the same clock.
    CardSent {
        /// Which write, as above.
        number: u32,
        /// When.
        at: u64,
    },
}

/// A point on the way of a write to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It was passed to the packet scheduler.
    Scheduler,
    /// It was passed to the network device.
    Device,
    /// The peer's TCP has acknowledged it.
    Acknowledged,
}

/// A state machine that a driver runs. It is called a few times per readiness event, so dynamic
/// dispatch does not matter here.
pub trait Machine {
    /// The requested connection is open. Not called for servers.
    fn on_connected(&mut self, id: ConnId, now: Nanos);

    /// A peer has connected to listener `listener`. The machine returns an id for the connection,
    /// or refuses it (`None`: the driver closes the socket). A client refuses all.
    fn on_accepted(&mut self, listener: u32, now: Nanos) -> Option<ConnId> {
        let _ = (listener, now);
        None
    }

    /// Bytes have arrived, in the driver's memory. `now` was read after the read.
    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos);

    /// A timestamp of the connection's bytes has arrived.
    fn on_stamp(&mut self, id: ConnId, stamp: KernelStamp) {
        let _ = (id, stamp);
    }

    /// The time zero of the run is this instant, in nanoseconds since 1970. Called at most once,
    /// before anything else; without it the machine is in virtual time.
    fn on_epoch(&mut self, unix_ns: u64) {
        let _ = unix_ns;
    }

    /// The driver has returned. Called at most once, after everything else, on the same thread: for
    /// work that would delay others during the run.
    fn on_end(&mut self) {}

    /// Whether the machine wants `on_poll` and `on_sched_delay`.
    fn wants_polls(&self) -> bool {
        false
    }

    /// The driver has checked its sockets; the resulting events follow.
    fn on_poll(&mut self, poll: Poll) {
        let _ = poll;
    }

    /// Since the last call, the driver's thread was ready to run and did not for this long, the end
    /// of the last look included.
    fn on_sched_delay(&mut self, delay: Span) {
        let _ = delay;
    }

    /// The peer has ended its stream (`None`) or the connection is dead (`Some`).
    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos);

    /// The deadline has passed.
    fn on_tick(&mut self, now: Nanos);

    /// The sockets have been checked since the machine asked for that by [`Action::Yield`].
    fn on_turn(&mut self, now: Nanos) {
        let _ = now;
    }

    /// The user asked to stop. `Drain` may be followed by `Now`.
    fn on_stop(&mut self, how: StopRequest, now: Nanos);

    /// The next action, or `None` until the next `on_*` call.
    fn poll_action(&mut self) -> Option<Action>;

    /// Give the connection's output to `send`, in one or more pieces. `send` returns how many bytes
    /// it accepted. If it accepted fewer than it was given, the driver calls again when the
    /// connection is writable. `now` was read before the first write of this call. It is the `sent`
    /// timestamp of the requests whose first byte `send` accepts. Returns whether everything has
    /// been accepted. A machine with much output also returns `false` after at least 64 KiB, all of
    /// which were accepted (and a server after much work): the driver handles the sockets that are
    /// ready, and calls again.
    fn take_output(&mut self, id: ConnId, now: Nanos, send: &mut dyn FnMut(&[u8]) -> usize)
    -> bool;

    /// The connection's output is about to be taken. Work that does not need the time of the send
    /// can be done here, outside the measured interval.
    fn prepare_output(&mut self, id: ConnId) {
        let _ = id;
    }

    /// When to call `on_tick`; `None`: not before another event.
    fn deadline(&self) -> Option<Nanos>;

    /// [`poll_action`](Self::poll_action), or [`deadline`](Self::deadline) if there is no action:
    /// one call for a driver that only has a `dyn Machine`.
    fn next(&mut self) -> Next {
        self.poll_action().map_or_else(|| Next::Wait(self.deadline()), Next::Act)
    }
}
