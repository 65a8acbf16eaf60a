//! Requests whose times and paths are not known when the load starts: the boundary between the
//! engine and what reads them from a log while the load runs.
//!
//! The engine asks its feed for the next request, in its own thread, between events. A feed does
//! not wait: if the next request is not there yet, it says up to which time none will come. A
//! request that comes after its time is intended for its time nevertheless, so what its feed takes
//! is send lag of the meter, as every other delay of the meter is.

use std::fmt;
use std::sync::Arc;

use crate::units::Span;

/// A body, which several requests may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The value of its `Content-Type`, if it has one.
    pub content_type: Option<String>,
    /// The body itself.
    pub bytes: Vec<u8>,
}

/// What a request of a log has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Path and query, from `/` on.
    pub path: Vec<u8>,
    /// Its body; `None`: an empty one.
    pub body: Option<Arc<Body>>,
}

/// A request of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// When it is due, since the start of the measurement.
    pub at: Span,
    /// Index into the plan's calls.
    pub call: u32,
    /// Its path, and its body.
    pub own: Own,
    /// How long it took when it was logged, if the log says so.
    pub took: Option<Span>,
    /// Whose it is: it does not start before the last request of the same client has ended, or has
    /// been sent ([`Feed::waits_for_replies`]). 0: nobody's, and it waits for nothing.
    pub client: u64,
}

/// What a feed has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// The next request is in the entry.
    Entry,
    /// The next one is not there yet. It is not due before this time.
    Later(Span),
    /// There are no more.
    Ended,
}

/// The requests of one share of a load, in the order of their times.
pub trait Feed: Send {
    /// Put the next request into `entry`; the memory of `entry` may be used for others. `now`: the
    /// time since the start of the measurement.
    fn next(&mut self, entry: &mut Entry, now: Span) -> Fed;

    /// How many requests that are there are due before `limit`. A feed need not look far.
    fn due_before(&self, limit: Span) -> u64;

    /// Whether a request waits until the last one of its client has ended, and not only until that
    /// has been sent.
    fn waits_for_replies(&self) -> bool {
        true
    }

    /// A request starts this long after it was due, as it waited for the last one of its client.
    fn held(&mut self, wait: Span) {
        let _ = wait;
    }
}

/// Creates the feeds of a load.
#[derive(Clone)]
pub struct Feeds(Arc<dyn Fn(u32) -> Vec<Box<dyn Feed>> + Send + Sync>);

impl Feeds {
    /// From a function that creates the feeds of this many shares.
    pub fn new(make: impl Fn(u32) -> Vec<Box<dyn Feed>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// One for each of this many shares, in their order.
    pub fn make(&self, shares: u32) -> Vec<Box<dyn Feed>> {
        (self.0)(shares)
    }
}

impl fmt::Debug for Feeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feeds")
    }
}
