//! What is decided while the load runs: the variable parts of a plan's sessions, or all of their
//! steps.

use super::Exchange;
use super::checked::Checked;
use super::directed::Directed;
use super::following::{After, Following};
use super::logged::Paths;
use super::resumed::Resumed;
use super::script::Scripted;
use super::signed::Signed;
use super::single::Single;
use crate::director::{Director, Step};
use crate::fault::Fault;
use crate::plan::Plan;
use crate::proto::Reply;
use crate::record::{CheckTally, GroupEnd, RedirectTally, SessionEnd};
use crate::script::{Capture, Filled, Origin, Script};
use crate::units::{Nanos, RequestId};

/// What fills in requests and reads replies. Exists only if the plan has anything dynamic.
#[derive(Debug)]
pub(in crate::engine) enum Dynamic {
    /// The templates, extracts and cookies of the plan.
    Scripted(Box<Scripted>),
    /// The templates of a plan without sessions.
    Single(Box<Single>),
    /// A director decides everything.
    Directed(Box<Directed>),
    /// The paths are those of a log.
    Logged(Box<Paths>),
    /// Streams are opened again.
    Resumed(Box<Resumed>),
    /// Replies are checked, whatever else is decided.
    Checked(Box<Checked>),
    /// Redirects are followed, whatever else is decided.
    Following(Box<Following>),
    /// Requests are signed, whatever else is decided.
    Signed(Box<Signed>),
}

impl Dynamic {
    /// Returns `None` if the plan has nothing dynamic.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub(in crate::engine) fn new(plan: &Plan) -> Option<Self> {
        let inner = match plan.is_logged() {
            true => Some(Self::Logged(Box::default())),
            false if plan.sessions.is_none() => {
                let script = Script::new(plan).expect("the plan is valid");
                script.map(|script| Self::Single(Box::new(Single::new(plan, script))))
            }
            false => Scripted::new(plan).map(|scripted| Self::Scripted(Box::new(scripted))),
        };
        Self::around(plan, inner)
    }

    /// A director decides the steps of all sessions of the plan.
    pub(in crate::engine) fn directed(plan: &Plan, director: Box<dyn Director>) -> Option<Self> {
        Self::around(plan, Some(Self::Directed(Box::new(Directed::new(director)))))
    }

    /// The same as `inner`, with the checks of replies, the redirects that are followed, the
    /// signatures, and the streams that are opened again.
    fn around(plan: &Plan, inner: Option<Self>) -> Option<Self> {
        let usual = Following::around(plan, Checked::around(plan, inner));
        let usual = Signed::around(plan, usual);
        match reconnects(plan) {
            true => Some(Self::Resumed(Box::new(Resumed::new(usual)))),
            false => usual,
        }
    }

    /// The results of the checks of replies, if the plan has any: those of the warm-up, and of the
    /// measurement.
    pub(in crate::engine) fn take_checks(&mut self) -> Option<(Vec<CheckTally>, Vec<CheckTally>)> {
        match self {
            Self::Checked(checked) => Some(checked.take()),
            Self::Resumed(resumed) => resumed.usual.as_mut()?.take_checks(),
            Self::Following(following) => following.inner.as_mut()?.take_checks(),
            Self::Signed(signed) => signed.inner.as_mut()?.take_checks(),
            Self::Scripted(_) | Self::Single(_) | Self::Directed(_) | Self::Logged(_) => None,
        }
    }

    /// What redirects came to, if the plan follows them: those of the warm-up, and of the
    /// measurement.
    pub(in crate::engine) fn take_redirects(&mut self) -> Option<(RedirectTally, RedirectTally)> {
        self.following().map(Following::take)
    }

    fn following(&mut self) -> Option<&mut Following> {
        match self {
            Self::Following(following) => Some(following),
            Self::Signed(signed) => signed.inner.as_mut()?.following(),
            _ => None,
        }
    }

    /// What follows from the last reply for a chain of redirects, if anything does.
    #[inline]
    pub(in crate::engine) fn after_reply(&mut self) -> Option<After> {
        self.following().and_then(Following::take_next)
    }

    /// The next request of a chain of redirects is this exchange.
    pub(in crate::engine) fn moves(&mut self, from: RequestId, to: RequestId) {
        if let Some(following) = self.following() {
            following.moves(from, to);
        }
    }

    /// The endpoint to which a redirect has led the exchange, if one has.
    pub(in crate::engine) fn endpoint(&self, id: RequestId) -> Option<u32> {
        match self {
            Self::Following(following) => following.endpoint(id),
            Self::Signed(signed) => signed.inner.as_ref()?.endpoint(id),
            _ => None,
        }
    }

    /// The exchange has ended in this way without a reply. Returns the chain of redirects that ends
    /// with it.
    pub(in crate::engine) fn ended(&mut self, id: RequestId, how: SessionEnd) -> Option<GroupEnd> {
        self.following().and_then(|following| following.ended(id, how))
    }

    /// Keep the cookies of the exchange's reply, which comes from this place.
    pub(super) fn keep_cookies(&mut self, exchange: &mut Exchange, from: Origin<'_>, now: Nanos) {
        if let Some(Self::Scripted(scripted)) = self.usual_mut() {
            scripted.keep_cookies(exchange, from, now);
        }
    }

    /// Give the request of this session the cookies that it sends to this place.
    pub(super) fn write_cookies(
        &mut self,
        session: u32,
        to: Origin<'_>,
        now: Nanos,
        filled: &mut Filled,
    ) {
        if let Some(Self::Scripted(scripted)) = self.usual_mut() {
            scripted.write_cookies(session, to, now, filled);
        }
    }

    /// A capture is not needed any more.
    pub(super) fn put_back(&mut self, mut capture: Box<Capture>) {
        capture.clear();
        match self {
            Self::Checked(checked) => checked.put_back(capture),
            Self::Scripted(scripted) => scripted.put_back(capture),
            _ => {}
        }
    }

    /// The exchange is sent again, after the event with this ID.
    pub(in crate::engine) fn resume(&mut self, id: RequestId, last: &[u8]) {
        if let Self::Resumed(resumed) = self {
            resumed.resume(id, last);
        }
    }

    /// What decides, inside of what reads along.
    fn usual(&self) -> Option<&Self> {
        match self {
            Self::Resumed(resumed) => resumed.usual.as_ref()?.usual(),
            Self::Checked(checked) => checked.inner.as_ref()?.usual(),
            Self::Following(following) => following.inner.as_ref()?.usual(),
            Self::Signed(signed) => signed.inner.as_ref()?.usual(),
            usual => Some(usual),
        }
    }

    fn usual_mut(&mut self) -> Option<&mut Self> {
        match self {
            Self::Resumed(resumed) => resumed.usual.as_mut()?.usual_mut(),
            Self::Checked(checked) => checked.inner.as_mut()?.usual_mut(),
            Self::Following(following) => following.inner.as_mut()?.usual_mut(),
            Self::Signed(signed) => signed.inner.as_mut()?.usual_mut(),
            usual => Some(usual),
        }
    }

    /// What reads replies: the checks, or what decides.
    fn reader(&mut self) -> Option<&mut Self> {
        match self {
            Self::Resumed(resumed) => resumed.usual.as_mut()?.reader(),
            Self::Signed(signed) => signed.inner.as_mut(),
            reader => Some(reader),
        }
    }

    /// A session of this kind starts in this slot.
    pub(in crate::engine) fn begin(&mut self, slot: u32, kind: u32, number: u64, now: Nanos) {
        match self.usual_mut() {
            Some(Self::Scripted(scripted)) => scripted.begin(slot, number, now),
            Some(Self::Directed(directed)) => directed.begin(slot, kind, number),
            _ => {}
        }
    }

    /// The run starts at this time, in nanoseconds since 1970.
    pub(in crate::engine) fn set_epoch(&mut self, epoch: u64) {
        match self.usual_mut() {
            Some(Self::Scripted(scripted)) => scripted.set_epoch(epoch),
            Some(Self::Single(single)) => single.epoch = epoch,
            _ => {}
        }
        if let Some(signed) = self.signed() {
            signed.epoch = epoch;
        }
    }

    fn signed(&mut self) -> Option<&mut Signed> {
        match self {
            Self::Resumed(resumed) => resumed.usual.as_mut()?.signed(),
            Self::Signed(signed) => Some(signed),
            _ => None,
        }
    }

    /// The next step of a session, if a director decides it.
    pub(in crate::engine) fn step(&mut self, slot: u32) -> Option<Step> {
        match self.usual_mut() {
            Some(Self::Directed(directed)) => Some(directed.step(slot)),
            _ => None,
        }
    }

    /// Whether steps of sessions are decided while they run.
    #[inline]
    pub(in crate::engine) fn decides(&self) -> bool {
        match self.usual() {
            Some(Self::Scripted(scripted)) => scripted.decides(),
            Some(Self::Directed(_)) => true,
            _ => false,
        }
    }

    /// The decisions of the plan's sessions, if they have any.
    pub(in crate::engine) fn decisions(&mut self) -> Option<&mut Scripted> {
        match self.usual_mut() {
            Some(Self::Scripted(scripted)) if scripted.decides() => Some(scripted),
            _ => None,
        }
    }

    /// Whether a director decides the steps of sessions.
    pub(in crate::engine) fn is_directed(&self) -> bool {
        matches!(self.usual(), Some(Self::Directed(_)))
    }

    /// The paths of the requests of a log, if they come from one.
    pub(in crate::engine) fn paths(&mut self) -> Option<&mut Paths> {
        match self.usual_mut() {
            Some(Self::Logged(paths)) => Some(paths),
            _ => None,
        }
    }

    /// The session in this slot has ended.
    pub(in crate::engine) fn leave(&mut self, slot: u32) {
        if let Some(Self::Directed(directed)) = self.usual_mut() {
            directed.leave(slot);
        }
    }

    /// Whether a call must be filled in before it is sent.
    #[inline]
    pub(in crate::engine) fn fills(&self, call: u32) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.fills(call),
            Self::Single(single) => single.fills(call),
            Self::Directed(_) | Self::Logged(_) | Self::Resumed(_) => true,
            Self::Checked(checked) => checked.inner.as_ref().is_some_and(|inner| inner.fills(call)),
            Self::Following(following) => {
                following.follows(call)
                    || following.inner.as_ref().is_some_and(|inner| inner.fills(call))
            }
            Self::Signed(signed) => {
                signed.signs(call) || signed.inner.as_ref().is_some_and(|inner| inner.fills(call))
            }
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
            Self::Single(single) => single.fill(id, exchange, now),
            Self::Directed(directed) => Ok(directed.fill(exchange)),
            Self::Logged(paths) => Ok(paths.fill(id)),
            Self::Resumed(resumed) => resumed.fill(id, exchange, now),
            Self::Checked(checked) => match &mut checked.inner {
                Some(inner) => inner.fill(id, exchange, now),
                None => unreachable!("without it, no call is filled in"),
            },
            Self::Following(following) => following.fill(id, exchange, now),
            Self::Signed(signed) => signed.fill(id, exchange, now),
        }
    }

    /// Whether a call needs the headers of its replies.
    #[inline]
    pub(in crate::engine) fn wants_headers(&self, call: u32) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.wants_headers(call),
            Self::Directed(_) => true,
            Self::Single(_) | Self::Logged(_) => false,
            Self::Resumed(resumed) => {
                resumed.usual.as_ref().is_some_and(|usual| usual.wants_headers(call))
            }
            Self::Checked(checked) => checked.wants_headers(call),
            Self::Following(following) => following.wants_headers(call),
            Self::Signed(signed) => {
                signed.inner.as_ref().is_some_and(|inner| inner.wants_headers(call))
            }
        }
    }

    /// Whether a call needs the bodies of its replies.
    #[inline]
    pub(in crate::engine) fn wants_body(&self, call: u32) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.wants_body(call),
            Self::Directed(_) => true,
            Self::Single(_) | Self::Logged(_) => false,
            Self::Resumed(resumed) => {
                resumed.usual.as_ref().is_some_and(|usual| usual.wants_body(call))
            }
            Self::Checked(checked) => checked.wants_body(call),
            Self::Following(following) => {
                following.inner.as_ref().is_some_and(|inner| inner.wants_body(call))
            }
            Self::Signed(signed) => {
                signed.inner.as_ref().is_some_and(|inner| inner.wants_body(call))
            }
        }
    }

    /// A header of the exchange's reply has arrived.
    pub(in crate::engine) fn header(
        &mut self,
        id: RequestId,
        exchange: &mut Exchange,
        name: &[u8],
        value: &[u8],
    ) {
        match self.reader() {
            Some(Self::Following(following)) => following.header(id, exchange, name, value),
            Some(Self::Scripted(scripted)) => scripted.header(exchange, name, value),
            Some(Self::Directed(directed)) => directed.header(exchange, name, value),
            Some(Self::Checked(checked)) => checked.header(id, exchange, name, value),
            _ => {}
        }
    }

    /// A piece of the body of the exchange's reply has arrived.
    pub(in crate::engine) fn body(&mut self, exchange: &mut Exchange, piece: &[u8]) {
        match self.reader() {
            Some(Self::Following(following)) => {
                if let Some(inner) = &mut following.inner {
                    inner.body(exchange, piece);
                }
            }
            Some(Self::Scripted(scripted)) => scripted.body(exchange, piece),
            Some(Self::Directed(directed)) => directed.body(exchange, piece),
            Some(Self::Checked(checked)) => checked.body(exchange, piece),
            _ => {}
        }
    }

    /// The reply is complete, and its checks gave `fault`. Returns the final fault, if any.
    pub(in crate::engine) fn replied(
        &mut self,
        id: RequestId,
        exchange: &mut Exchange,
        reply: &Reply,
        fault: Option<Fault>,
        now: Nanos,
    ) -> Option<Fault> {
        match self.reader() {
            Some(Self::Following(following)) => following.replied(id, exchange, reply, fault, now),
            Some(Self::Checked(checked)) => checked.replied(id, exchange, reply, fault, now),
            Some(Self::Scripted(scripted)) => scripted.replied(exchange, reply, fault, now),
            Some(Self::Directed(directed)) => {
                directed.replied(exchange, reply, fault);
                fault
            }
            _ => fault,
        }
    }

    /// The request of this session has failed without a complete reply.
    pub(in crate::engine) fn failed(&mut self, slot: u32, fault: Fault) {
        match self.usual_mut() {
            Some(Self::Scripted(scripted)) => scripted.failed(slot, fault),
            Some(Self::Directed(directed)) => directed.failed(slot, fault),
            _ => {}
        }
    }
}

/// Whether streams of the plan are opened again.
fn reconnects(plan: &Plan) -> bool {
    plan.stream.as_deref().is_some_and(|stream| stream.reconnect)
}
