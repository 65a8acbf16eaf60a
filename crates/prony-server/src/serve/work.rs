//! How much work one call of the driver causes, and what counts as how much. What is left is done
//! by the next calls, after the sockets were checked: no client keeps the server from others, or
//! from a signal to stop.

use prony_base::units::{Nanos, Span};

/// How many services, events or pushed messages one call handles.
pub(super) const STEPS: usize = 1_024;

/// How much output of a connection one call gives to the driver, in bytes.
pub(super) const OUTPUT: usize = 256 << 10;

/// How many events of a stream may be due and not written. The next one has no timer before some of
/// them are: a client that does not read causes no work.
pub(super) const EVENTS_AHEAD: u64 = 1_024;

/// How many bytes of pushed messages may wait on a connection before the next one has no timer.
pub(super) const PUSHED_AHEAD: usize = 1 << 20;

/// The same while the server has little memory left.
pub(super) const PUSHED_TIGHT: usize = 64 << 10;

/// What the work for a message or a request counts beside its bytes.
pub(super) const MESSAGE_WORK: usize = 256;

/// What an answer that waits counts beside its bytes: the entry in the queue, and in that of the
/// station.
pub(super) const ENTRY: usize = 256;

/// How late an event or a pushed message may be for the next one to be due as if it were not. If
/// the server is later, it cannot keep up: all that follows is later too, so that its delay stays
/// bounded for all others.
const LATENESS: Span = Span::from_millis(100);

/// The time from which the next event counts, if one that was due at `at` is handled now.
pub(super) fn not_too_late(at: Nanos, now: Nanos) -> Nanos {
    at.max(Nanos(now.0.saturating_sub(LATENESS.0)))
}
