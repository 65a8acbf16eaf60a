//! What is decided while the load runs: the variable parts of a plan's sessions, or all of their
//! steps.

use super::Exchange;
use super::checked::Checked;
use super::directed::Directed;
use super::following::{After, Decision, Following};
use super::logged::Paths;
use super::resumed::Resumed;
use super::script::Scripted;
use super::signed::Signed;
use super::single::Single;
use prony_base::director::{Director, Step};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_plan::plan::Plan;
use prony_plan::script::{Capture, Filled, Script};
use prony_proto::proto::Reply;
use prony_tally::record::{CheckTally, GroupEnd, RedirectTally, SessionEnd};

/// What fills in requests and reads replies. Exists only if the plan has anything dynamic.
///
/// A request gets its parts from the source; then a redirect can replace them, it is signed, and it
/// says which event of its stream was the last. A reply is looked at for redirects and checks, and
/// last by the source. Of all these only this file knows the others.
#[derive(Debug)]
pub(in crate::engine) struct Dynamic {
    source: Option<Source>,
    /// The checks of replies.
    checked: Option<Box<Checked>>,
    /// The redirects that are followed.
    following: Option<Box<Following>>,
    /// What signs requests.
    signed: Option<Box<Signed>>,
    /// The streams that are opened again.
    resumed: Option<Box<Resumed>>,
}

/// What decides the requests.
#[derive(Debug)]
enum Source {
    /// The templates, extracts and cookies of the plan.
    Scripted(Box<Scripted>),
    /// The templates of a plan without sessions.
    Single(Box<Single>),
    /// A director decides everything.
    Directed(Box<Directed>),
    /// The paths are those of a log.
    Logged(Box<Paths>),
}

impl Source {
    #[inline]
    fn fills(&self, call: u32) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.fills(call),
            Self::Single(single) => single.fills(call),
            Self::Directed(_) | Self::Logged(_) => true,
        }
    }

    fn fill(&mut self, id: RequestId, exchange: &Exchange, now: Nanos) -> Result<&Filled, Fault> {
        match self {
            Self::Scripted(scripted) => scripted.fill(exchange, now),
            Self::Single(single) => single.fill(id, exchange, now),
            Self::Directed(directed) => Ok(directed.fill(exchange)),
            Self::Logged(paths) => Ok(paths.fill(id)),
        }
    }

    #[inline]
    fn wants_headers(&self, call: u32) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.wants_headers(call),
            Self::Directed(_) => true,
            Self::Single(_) | Self::Logged(_) => false,
        }
    }

    #[inline]
    fn wants_body(&self, call: u32) -> bool {
        match self {
            Self::Scripted(scripted) => scripted.wants_body(call),
            Self::Directed(_) => true,
            Self::Single(_) | Self::Logged(_) => false,
        }
    }

    fn header(&mut self, exchange: &mut Exchange, name: &[u8], value: &[u8]) {
        match self {
            Self::Scripted(scripted) => scripted.header(exchange, name, value),
            Self::Directed(directed) => directed.header(exchange, name, value),
            Self::Single(_) | Self::Logged(_) => {}
        }
    }

    fn body(&mut self, exchange: &mut Exchange, piece: &[u8]) {
        match self {
            Self::Scripted(scripted) => scripted.body(exchange, piece),
            Self::Directed(directed) => directed.body(exchange, piece),
            Self::Single(_) | Self::Logged(_) => {}
        }
    }

    fn replied(
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
            Self::Single(_) | Self::Logged(_) => fault,
        }
    }

    fn scripted(&mut self) -> Option<&mut Scripted> {
        match self {
            Self::Scripted(scripted) => Some(scripted),
            _ => None,
        }
    }
}

impl Dynamic {
    /// Returns `None` if the plan has nothing dynamic.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub(in crate::engine) fn new(plan: &Plan) -> Option<Self> {
        let source = match plan.is_logged() {
            true => Some(Source::Logged(Box::default())),
            false if plan.sessions.is_none() => {
                let script = Script::new(plan).expect("the plan is valid");
                script.map(|script| Source::Single(Box::new(Single::new(plan, script))))
            }
            false => Scripted::new(plan).map(|scripted| Source::Scripted(Box::new(scripted))),
        };
        Self::of(plan, source)
    }

    /// A director decides the steps of all sessions of the plan.
    pub(in crate::engine) fn directed(plan: &Plan, director: Box<dyn Director>) -> Option<Self> {
        Self::of(plan, Some(Source::Directed(Box::new(Directed::new(director)))))
    }

    fn of(plan: &Plan, source: Option<Source>) -> Option<Self> {
        let all = Self {
            source,
            checked: Checked::new(plan).map(Box::new),
            following: Following::new(plan).map(Box::new),
            signed: Signed::new(plan).map(Box::new),
            resumed: reconnects(plan).then(Box::default),
        };
        let Self { source, checked, following, signed, resumed } = &all;
        let is_any = source.is_some()
            || checked.is_some()
            || following.is_some()
            || signed.is_some()
            || resumed.is_some();
        is_any.then_some(all)
    }

    /// The results of the checks of replies, if the plan has any: those of the warm-up, and of the
    /// measurement.
    pub(in crate::engine) fn take_checks(&mut self) -> Option<(Vec<CheckTally>, Vec<CheckTally>)> {
        self.checked.as_deref_mut().map(Checked::take)
    }

    /// What redirects came to, if the plan follows them: those of the warm-up, and of the
    /// measurement.
    pub(in crate::engine) fn take_redirects(&mut self) -> Option<(RedirectTally, RedirectTally)> {
        self.following.as_deref_mut().map(Following::take)
    }

    /// What follows from the last reply for a chain of redirects, if anything does.
    #[inline]
    pub(in crate::engine) fn after_reply(&mut self) -> Option<After> {
        self.following.as_deref_mut().and_then(Following::take_next)
    }

    /// The next request of a chain of redirects is this exchange.
    pub(in crate::engine) fn moves(&mut self, from: RequestId, to: RequestId) {
        if let Some(following) = &mut self.following {
            following.moves(from, to);
        }
    }

    /// The endpoint to which a redirect has led the exchange, if one has.
    pub(in crate::engine) fn endpoint(&self, id: RequestId) -> Option<u32> {
        self.following.as_deref().and_then(|following| following.endpoint(id))
    }

    /// The exchange has ended in this way without a reply. Returns the chain of redirects that ends
    /// with it.
    pub(in crate::engine) fn ended(&mut self, id: RequestId, how: SessionEnd) -> Option<GroupEnd> {
        self.following.as_deref_mut().and_then(|following| following.ended(id, how))
    }

    /// A capture is not needed any more.
    fn put_back(&mut self, mut capture: Box<Capture>) {
        capture.clear();
        match (&mut self.checked, &mut self.source) {
            (Some(checked), _) => checked.put_back(capture),
            (None, Some(Source::Scripted(scripted))) => scripted.put_back(capture),
            _ => {}
        }
    }

    /// The exchange is sent again, after the event with this ID.
    pub(in crate::engine) fn resume(&mut self, id: RequestId, last: &[u8]) {
        if let Some(resumed) = &mut self.resumed {
            resumed.resume(id, last);
        }
    }

    /// A session of this kind starts in this slot.
    pub(in crate::engine) fn begin(&mut self, slot: u32, kind: u32, number: u64, now: Nanos) {
        match &mut self.source {
            Some(Source::Scripted(scripted)) => scripted.begin(slot, number, now),
            Some(Source::Directed(directed)) => directed.begin(slot, kind, number),
            _ => {}
        }
    }

    /// The run starts at this time, in nanoseconds since 1970.
    pub(in crate::engine) fn set_epoch(&mut self, epoch: u64) {
        match &mut self.source {
            Some(Source::Scripted(scripted)) => scripted.set_epoch(epoch),
            Some(Source::Single(single)) => single.epoch = epoch,
            _ => {}
        }
        if let Some(signed) = &mut self.signed {
            signed.epoch = epoch;
        }
    }

    /// The next step of a session, if a director decides it.
    pub(in crate::engine) fn step(&mut self, slot: u32) -> Option<Step> {
        match &mut self.source {
            Some(Source::Directed(directed)) => Some(directed.step(slot)),
            _ => None,
        }
    }

    /// Whether steps of sessions are decided while they run.
    #[inline]
    pub(in crate::engine) fn decides(&self) -> bool {
        match &self.source {
            Some(Source::Scripted(scripted)) => scripted.decides(),
            Some(Source::Directed(_)) => true,
            _ => false,
        }
    }

    /// The decisions of the plan's sessions, if they have any.
    pub(in crate::engine) fn decisions(&mut self) -> Option<&mut Scripted> {
        self.source.as_mut()?.scripted().filter(|scripted| scripted.decides())
    }

    /// Whether a director decides the steps of sessions.
    pub(in crate::engine) fn is_directed(&self) -> bool {
        matches!(self.source, Some(Source::Directed(_)))
    }

    /// The paths of the requests of a log, if they come from one.
    pub(in crate::engine) fn paths(&mut self) -> Option<&mut Paths> {
        match &mut self.source {
            Some(Source::Logged(paths)) => Some(paths),
            _ => None,
        }
    }

    /// The session in this slot has ended.
    pub(in crate::engine) fn leave(&mut self, slot: u32) {
        if let Some(Source::Directed(directed)) = &mut self.source {
            directed.leave(slot);
        }
    }

    /// Whether a call must be filled in before it is sent.
    #[inline]
    pub(in crate::engine) fn fills(&self, call: u32) -> bool {
        self.source.as_ref().is_some_and(|source| source.fills(call))
            || self.following.as_ref().is_some_and(|following| following.follows(call))
            || self.signed.as_ref().is_some_and(|signed| signed.signs(call))
            || self.resumed.is_some()
    }

    /// Fill in the variable parts of a request that has some.
    pub(in crate::engine) fn fill(
        &mut self,
        id: RequestId,
        exchange: &Exchange,
        now: Nanos,
    ) -> Result<&Filled, Fault> {
        let Self { source, following, signed, resumed, .. } = self;
        let mut filled = with_redirect(source, following.as_deref_mut(), id, exchange, now)?;
        if let Some(signed) = signed {
            filled = Some(signed.fill(exchange.call, filled, now));
        }
        if let Some(resumed) = resumed {
            filled = Some(resumed.fill(id, filled));
        }
        Ok(filled
            .unwrap_or_else(|| unreachable!("only calls that have variable parts are filled in")))
    }

    /// Whether a call needs the headers of its replies.
    #[inline]
    pub(in crate::engine) fn wants_headers(&self, call: u32) -> bool {
        self.source.as_ref().is_some_and(|source| source.wants_headers(call))
            || self.checked.as_ref().is_some_and(|checked| checked.wants_headers(call))
            || self.following.as_ref().is_some_and(|following| following.follows(call))
    }

    /// Whether a call needs the bodies of its replies.
    #[inline]
    pub(in crate::engine) fn wants_body(&self, call: u32) -> bool {
        self.source.as_ref().is_some_and(|source| source.wants_body(call))
            || self.checked.as_ref().is_some_and(|checked| checked.wants_body(call))
    }

    /// A header of the exchange's reply has arrived.
    pub(in crate::engine) fn header(
        &mut self,
        id: RequestId,
        exchange: &mut Exchange,
        name: &[u8],
        value: &[u8],
    ) {
        let call = exchange.call;
        if let Some(following) = &mut self.following {
            following.header(id, call, name, value);
        }
        if let Some(source) = self.source.as_mut().filter(|source| source.wants_headers(call)) {
            source.header(exchange, name, value);
        }
        if let Some(checked) = &mut self.checked {
            checked.header(exchange, name, value);
        }
    }

    /// A piece of the body of the exchange's reply has arrived.
    pub(in crate::engine) fn body(&mut self, exchange: &mut Exchange, piece: &[u8]) {
        let mut is_kept = false;
        if let Some(source) = &mut self.source {
            source.body(exchange, piece);
            is_kept = source.scripted().is_some_and(|scripted| scripted.wants_body(exchange.call));
        }
        if let Some(checked) = self.checked.as_mut().filter(|_| !is_kept) {
            checked.body(exchange, piece);
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
        let Some(following) = &mut self.following else {
            return self.read(exchange, reply, fault, now);
        };
        let decision = following.decide(id, exchange, reply);
        if let Some(scripted) = self.source.as_mut().and_then(Source::scripted) {
            let call = exchange.call;
            following.keep_of_server(id, call, |from| scripted.keep_cookies(exchange, from, now));
        }
        let mut fault = fault;
        let arrives = matches!(decision, Decision::Final);
        match decision {
            Decision::Follow { endpoint, moved } => {
                following.follow(id, exchange, endpoint, moved);
                if let Some(capture) = exchange.capture.take() {
                    self.put_back(capture);
                }
                return None;
            }
            Decision::TooMany => {
                following.is_over_limit(exchange);
                fault = Some(Fault::TooManyRedirects);
            }
            Decision::Final | Decision::Stays => {}
        }
        let fault = self.read(exchange, reply, fault, now);
        if let Some(following) = &mut self.following {
            let arrived = arrives && fault.is_none();
            following.end(id, if arrived { SessionEnd::Completed } else { SessionEnd::Failed });
        }
        fault
    }

    /// The reply is read by the checks and the source. Returns the final fault, if any.
    fn read(
        &mut self,
        exchange: &mut Exchange,
        reply: &Reply,
        mut fault: Option<Fault>,
        now: Nanos,
    ) -> Option<Fault> {
        if let Some(checked) = &mut self.checked {
            fault = checked.judge(exchange, reply, fault, now);
        }
        if let Some(source) = &mut self.source {
            fault = source.replied(exchange, reply, fault, now);
        }
        if let Some(checked) = &mut self.checked {
            checked.count(exchange, reply, fault, now);
        }
        fault
    }

    /// The request of this session has failed without a complete reply.
    pub(in crate::engine) fn failed(&mut self, slot: u32, fault: Fault) {
        match &mut self.source {
            Some(Source::Scripted(scripted)) => scripted.failed(slot, fault),
            Some(Source::Directed(directed)) => directed.failed(slot, fault),
            _ => {}
        }
    }
}

/// The parts of a request from its source, or after a redirect those of the redirect. `None` if it
/// has neither.
fn with_redirect<'a>(
    source: &'a mut Option<Source>,
    mut following: Option<&'a mut Following>,
    id: RequestId,
    exchange: &Exchange,
    now: Nanos,
) -> Result<Option<&'a Filled>, Fault> {
    let call = exchange.call;
    let is_moved = following.as_mut().is_some_and(|chains| chains.is_after_redirect(id, exchange));
    match following {
        Some(following) if is_moved => {
            if let Some(scripted) = source.as_mut().and_then(Source::scripted) {
                following.add_for_server(id, call, |to, filled| {
                    scripted.write_cookies(exchange.user, to, now, filled);
                });
            }
            Ok(Some(following.sent(id)))
        }
        following => {
            let filled = match source.as_mut().filter(|source| source.fills(call)) {
                Some(source) => Some(source.fill(id, exchange, now)?),
                None => None,
            };
            Ok(match following {
                Some(following) => Some(following.start(id, filled)),
                None => filled,
            })
        }
    }
}

/// Whether streams of the plan are opened again.
fn reconnects(plan: &Plan) -> bool {
    plan.stream.as_deref().is_some_and(|stream| stream.reconnect)
}
