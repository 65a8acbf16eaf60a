//! Ends a load whose target cannot be reached: if every connection has been refused, or has failed
//! before it was open, for a while, the rest of the load would show nothing else. A connection that
//! opens, times out, or is lost in another way is a sign that the target exists, so the load goes
//! on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::Engine;
use super::agenda::Timer;
use prony_base::fault::{Fault, FaultClass};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::Plan;
use prony_proto::proto::Carrier;

/// How long every connection has to fail. A server that restarts is back before.
pub const PATIENCE: Span = Span::from_secs(2);

/// How often an engine that has given up looks whether all others have.
const LOOK: Span = Span::from_millis(50);

/// What the engines of one run know together: whether all of them find that their target cannot be
/// reached.
#[derive(Debug, Default)]
pub struct Contact {
    engines: AtomicU32,
    /// Those that have given up.
    without: AtomicU32,
    goes_on: AtomicBool,
    /// Whether this has ended a load.
    has_ended: AtomicBool,
}

impl Contact {
    /// Whether a load has ended because every connection failed.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn is_hopeless(&self) -> bool {
        let all = self.engines.load(Ordering::Relaxed);
        !self.goes_on.load(Ordering::Relaxed) && self.without.load(Ordering::Relaxed) >= all
    }
}

/// What one engine knows. Dropped as soon as the load goes on in any case.
#[derive(Debug)]
pub(super) struct Attempts {
    contact: Arc<Contact>,
    /// Whether an open connection shows that there is a server: not for datagrams, and not before
    /// the server has accepted the client's certificate.
    opening_counts: bool,
    /// When the first connection failed.
    since: Option<Nanos>,
    has_given_up: bool,
}

impl Attempts {
    fn new(plan: &Plan, contact: Arc<Contact>) -> Self {
        contact.engines.fetch_add(1, Ordering::Relaxed);
        let is_certain = |e: &prony_plan::target::Endpoint| !e.is_lossy() && e.tls_name().is_none();
        let opening_counts = plan.endpoints.iter().all(is_certain);
        Self { contact, opening_counts, since: None, has_given_up: false }
    }
}

impl<P: Carrier> Engine<P> {
    /// End the load if no engine of this run can reach its target.
    pub fn share_contact(&mut self, contact: Arc<Contact>) {
        self.attempts = Some(Box::new(Attempts::new(&self.plan, contact)));
    }

    /// A connection has opened.
    #[inline]
    pub(super) fn contact_opened(&mut self) {
        if self.attempts.is_some() {
            self.contact_made();
        }
    }

    #[cold]
    fn contact_made(&mut self) {
        if self.attempts.as_deref().is_some_and(|attempts| attempts.opening_counts) {
            self.go_on();
        }
    }

    fn go_on(&mut self) {
        if let Some(attempts) = self.attempts.take() {
            attempts.contact.goes_on.store(true, Ordering::Relaxed);
        }
    }

    /// A connection has ended by a fault.
    #[cold]
    pub(super) fn contact_failed(&mut self, slot: u32, fault: Fault, now: Nanos) {
        let Some(attempts) = &mut self.attempts else { return };
        let [_, replies, failed, lost] = self.recorder.progress();
        if fault.class() != FaultClass::Connect || replies > 0 || failed > lost {
            return self.go_on();
        }
        let since = *attempts.since.get_or_insert(now);
        let is_late = now.since(since) >= PATIENCE;
        if !is_late || attempts.has_given_up || self.links.any_for(PATIENCE, now, slot) {
            return;
        }
        attempts.has_given_up = true;
        attempts.contact.without.fetch_add(1, Ordering::Relaxed);
        self.agenda.wake(now, Timer::Contact);
    }

    /// This engine has given up: end the load if all others have, too.
    #[cold]
    pub(super) fn look_at_contact(&mut self, now: Nanos) {
        let Some(Attempts { contact, .. }) = self.attempts.as_deref() else { return };
        if contact.is_hopeless() {
            contact.has_ended.store(true, Ordering::Relaxed);
            self.attempts = None;
            self.begin_drain(now);
        } else {
            self.agenda.wake(now + LOOK, Timer::Contact);
        }
    }

    /// The load of this engine is over: the others decide.
    pub(super) fn leave_contact(&mut self) {
        if let Some(attempts) = self.attempts.take()
            && !attempts.has_given_up
        {
            attempts.contact.engines.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
