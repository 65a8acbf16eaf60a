//! What is decided while the load runs: the variable parts of a plan's sessions, or all of their
//! steps.

use super::Exchange;
use super::directed::Directed;
use super::logged::Paths;
use super::script::Scripted;
use crate::director::{Director, Step};
use crate::fault::Fault;
use crate::plan::Plan;
use crate::proto::Reply;
use crate::script::Filled;
use crate::units::{Nanos, RequestId};

/// What fills in requests and reads replies. Exists only if the plan has anything dynamic.
#[derive(Debug)]
pub(in crate::engine) enum Dynamic {
    /// The templates, extracts and cookies of the plan.
    Scripted(Box<Scripted>),
    /// A director decides everything.
    Directed(Box<Directed>),
    /// The paths are those of a log.
    Logged(Box<Paths>),
}

impl Dynamic {
    /// Returns `None` if the plan has nothing dynamic.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub(in crate::engine) fn new(plan: &Plan) -> Option<Self> {
        if plan.is_logged() {
            return Some(Self::Logged(Box::default()));
        }
        Scripted::new(plan).map(|scripted| Self::Scripted(Box::new(scripted)))
    }

    /// A director decides the steps of all sessions.
    pub(in crate::engine) fn directed(director: Box<dyn Director>) -> Self {
        Self::Directed(Box::new(Directed::new(director)))
    }

    /// A session of this kind starts in this slot.
    pub(in crate::engine) fn begin(&mut self, slot: u32, kind: u32, number: u64) {
        match self {
            Self::Scripted(scripted) => scripted.begin(slot, number),
            Self::Directed(directed) => directed.begin(slot, kind, number),
            Self::Logged(_) => {}
        }
    }

    /// The next step of a session, if a director decides it.
    pub(in crate::engine) fn step(&mut self, slot: u32) -> Option<Step> {
        match self {
            Self::Scripted(_) | Self::Logged(_) => None,
            Self::Directed(directed) => Some(directed.step(slot)),
        }
    }

    /// Whether steps of sessions are decided while they run.
    #[inline]
    pub(in crate::engine) fn decides(&self) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.decides(),
            Self::Directed(_) => true,
            Self::Logged(_) => false,
        }
    }

    /// The decisions of the plan's sessions, if they have any.
    pub(in crate::engine) fn decisions(&mut self) -> Option<&mut Scripted> {
        match self {
            Self::Scripted(scripted) if scripted.decides() => Some(scripted),
            Self::Scripted(_) | Self::Directed(_) | Self::Logged(_) => None,
        }
    }

    /// Whether a director decides the steps of sessions.
    pub(in crate::engine) fn is_directed(&self) -> bool {
        matches!(self, Self::Directed(_))
    }

    /// The paths of the requests of a log, if they come from one.
    pub(in crate::engine) fn paths(&mut self) -> Option<&mut Paths> {
        match self {
            Self::Logged(paths) => Some(paths),
            Self::Scripted(_) | Self::Directed(_) => None,
        }
    }

    /// The session in this slot has ended.
    pub(in crate::engine) fn leave(&mut self, slot: u32) {
        if let Self::Directed(directed) = self {
            directed.leave(slot);
        }
    }

    /// Whether a call must be filled in before it is sent.
    #[inline]
    pub(in crate::engine) fn fills(&self, call: u32) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.fills(call),
            Self::Directed(_) | Self::Logged(_) => true,
        }
    }

    /// Fill in the variable parts of a request.
    pub(in crate::engine) fn fill(
        &mut self,
        id: RequestId,
        exchange: &Exchange,
        now: Nanos,
    ) -> Result<&Filled, Fault> {
        match self {
            Self::Scripted(scripted) => scripted.fill(exchange, now),
            Self::Directed(directed) => Ok(directed.fill(exchange)),
            Self::Logged(paths) => Ok(paths.fill(id)),
        }
    }

    /// Whether a call needs the headers of its replies.
    #[inline]
    pub(in crate::engine) fn wants_headers(&self, call: u32) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.wants_headers(call),
            Self::Directed(_) => true,
            Self::Logged(_) => false,
        }
    }

    /// Whether a call needs the bodies of its replies.
    #[inline]
    pub(in crate::engine) fn wants_body(&self, call: u32) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.wants_body(call),
            Self::Directed(_) => true,
            Self::Logged(_) => false,
        }
    }

    /// A header of the exchange's reply has arrived.
    pub(in crate::engine) fn header(&mut self, exchange: &mut Exchange, name: &[u8], value: &[u8]) {
        match self {
            Self::Scripted(scripted) => scripted.header(exchange, name, value),
            Self::Directed(directed) => directed.header(exchange, name, value),
            Self::Logged(_) => {}
        }
    }

    /// A piece of the body of the exchange's reply has arrived.
    pub(in crate::engine) fn body(&mut self, exchange: &mut Exchange, piece: &[u8]) {
        match self {
            Self::Scripted(scripted) => scripted.body(exchange, piece),
            Self::Directed(directed) => directed.body(exchange, piece),
            Self::Logged(_) => {}
        }
    }

    /// The reply is complete, and its checks gave `fault`. Returns the final fault, if any.
    pub(in crate::engine) fn replied(
        &mut self,
        exchange: &mut Exchange,
        reply: &Reply,
        fault: Option<Fault>,
        now: Nanos,
    ) -> Option<Fault> {
        match self {
            Self::Scripted(scripted) => scripted.replied(exchange, reply, fault, now),
            Self::Directed(directed) => {
                directed.replied(exchange, reply, fault);
                fault
            }
            Self::Logged(_) => fault,
        }
    }

    /// The request of this session has failed without a complete reply.
    pub(in crate::engine) fn failed(&mut self, slot: u32, fault: Fault) {
        match self {
            Self::Scripted(scripted) => scripted.failed(slot, fault),
            Self::Directed(directed) => directed.failed(slot, fault),
            Self::Logged(_) => {}
        }
    }
}
