//! The boundary between the pure part and whoever moves the bytes (epoll, io_uring, the virtual
//! world).
//!
//! The contract, in full:
//! 1. After every `on_*` call (and once before the first) the driver polls [`Machine::poll_action`]
//!    until it returns `None`, carrying out each action, before it makes the next `on_*` call.
//!    `take_output` is called from inside the carrying out of [`Action::Transmit`], and later again
//!    whenever a connection that did not take all becomes writable; after such a later call the
//!    actions are polled too (a server closes a connection once its last byte is taken).
//! 2. A connection's id is the machine's. It lives from `Action::Connect` (client) or `on_accepted`
//!    (server) until the machine emits `Action::Close` for it; after that the driver never names
//!    the id again. `on_closed` does not end an id: it tells that the peer ended (`None`: an
//!    orderly end of its stream, ours is still open; `Some`: all is over) and the machine answers
//!    with `Action::Close` when it is done with it.
//! 3. `now` never goes backwards. For received bytes it was read after the read; for bytes to send,
//!    before the write. Batching may make a latency longer than it was, never shorter.
//! 4. `deadline` is asked after the actions were polled; at or after that time the driver calls
//!    `on_tick`.
//! 5. After [`Action::Finished`] the driver closes what is left and returns.
//! 6. A driver for which the kernel notes times tells them by `on_stamp`, on the clock of `now`:
//!    [`KernelStamp::Received`] right before every `on_recv` of that connection (and
//!    [`KernelStamp::CardReceived`] between the two), [`KernelStamp::Sent`] and
//!    [`KernelStamp::CardSent`] at any time after the write, each at most once. `on_stamp` calls
//!    for no action, so none are polled after it.
//! 7. After [`Action::Yield`] the driver goes on polling actions as by rule 1. Then it takes in
//!    what is ready on its sockets, without waiting where nothing is, and calls `on_turn`.
//! 8. A driver may call `prepare_output` right before it reads the clock for a `take_output` of the
//!    same connection, which then follows before any other call.

mod slots;

use crate::fault::Fault;
use crate::units::{ConnId, Nanos};

pub(crate) use slots::Slots;

/// What a driver is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection to the plan's endpoint of that index; answer with `on_connected` or
    /// `on_closed(Some)`.
    Connect {
        /// The new connection's name.
        id: ConnId,
        /// Index into the plan's endpoints.
        endpoint: u32,
    },
    /// The connection has bytes to send: call `take_output`.
    Transmit {
        /// Which connection.
        id: ConnId,
    },
    /// Let go of the connection; the id ends here.
    Close {
        /// Which connection.
        id: ConnId,
        /// Whether to reset it instead of closing it in good order.
        how: CloseHow,
    },
    /// Look at the sockets, then call `on_turn`: there is more to do, but what comes in is not to
    /// wait for all of it.
    Yield,
    /// The run is over.
    Finished,
}

/// What a machine wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This, now.
    Act(Action),
    /// Nothing until the next `on_*` call, of which `on_tick` is due at that time.
    Wait(Option<Nanos>),
}

/// How to let go of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseHow {
    /// An orderly close: what was given to the kernel is still delivered.
    Orderly,
    /// A reset: nothing more is delivered and no local port is left in TIME_WAIT.
    Reset,
}

/// How a user asked a run to end before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Start nothing new, wait for what is in flight.
    Drain,
    /// End at once; what is in flight counts as unfinished.
    Now,
}

/// What the kernel has noted of a connection's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelStamp {
    /// When it received the last of the bytes that the `on_recv` that follows hands over; `None`:
    /// it has not noted that.
    Received(Option<Nanos>),
    /// When the last byte of a write passed a point.
    Sent {
        /// Which point.
        passed: Passed,
        /// Which write: where the kernel is given a stream, how many bytes of the connection lie
        /// before its last one, modulo 2^32; where it is given messages, how many of them lie
        /// before it.
        number: u32,
        /// When.
        at: Nanos,
    },
    /// When the network card received what the `on_recv` that follows hands over, in nanoseconds of
    /// the card's own clock, of which nothing is known but that it runs at the same speed.
    CardReceived(u64),
    /// When the network card sent the last byte of a write, on the same clock.
    CardSent {
        /// Which write, as above.
        number: u32,
        /// When.
        at: u64,
    },
}

/// A point on the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The packet scheduler was given it.
    Scheduler,
    /// The network device was given it.
    Device,
    /// The peer's TCP has acknowledged it.
    Acknowledged,
}

/// A state machine that a driver runs. Called a few times per readiness event, so dynamic dispatch
/// costs nothing here.
pub trait Machine {
    /// The connection that was asked for is open. On the server side not called.
    fn on_connected(&mut self, id: ConnId, now: Nanos);

    /// A peer has connected to the listener of that index. The machine names the connection, or
    /// refuses it (`None`: the driver closes the socket). A client refuses all.
    fn on_accepted(&mut self, listener: u32, now: Nanos) -> Option<ConnId> {
        let _ = (listener, now);
        None
    }

    /// Bytes have arrived, in the driver's memory. `now` was read after the read.
    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos);

    /// The kernel has noted something of the connection's bytes.
    fn on_stamp(&mut self, id: ConnId, stamp: KernelStamp) {
        let _ = (id, stamp);
    }

    /// The peer has ended its stream (`None`) or the connection is dead (`Some`).
    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos);

    /// The deadline has passed.
    fn on_tick(&mut self, now: Nanos);

    /// The sockets have been looked at since the machine asked for that by [`Action::Yield`].
    fn on_turn(&mut self, now: Nanos) {
        let _ = now;
    }

    /// The user asked to stop. `Drain` may be followed by `Now`.
    fn on_stop(&mut self, how: StopRequest, now: Nanos);

    /// The next thing to do, or `None` until the next `on_*` call.
    fn poll_action(&mut self) -> Option<Action>;

    /// Hand over the bytes that the connection has to send: the machine calls `send` with a piece
    /// as often as it likes; `send` returns how many bytes it took. Fewer than given: the driver
    /// will call again when the connection is writable. `now` was read before the first write of
    /// this call and is the `sent` stamp of the requests whose first byte `send` takes. Returns
    /// whether all that there was has been taken.
    fn take_output(&mut self, id: ConnId, now: Nanos, send: &mut dyn FnMut(&[u8]) -> usize)
    -> bool;

    /// The connection's output will be asked for next: what can be made ready for that without
    /// knowing the time is no part of what is measured if it is made ready now.
    fn prepare_output(&mut self, id: ConnId) {
        let _ = id;
    }

    /// When `on_tick` wants to be called; `None`: not before something else happens.
    fn deadline(&self) -> Option<Nanos>;

    /// [`poll_action`](Self::poll_action), and where that has none, [`deadline`](Self::deadline):
    /// one call for a driver that knows no more than `dyn Machine`.
    fn next(&mut self) -> Next {
        self.poll_action().map_or_else(|| Next::Wait(self.deadline()), Next::Act)
    }
}
