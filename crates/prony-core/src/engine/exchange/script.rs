//! The variables and cookies of sessions. They fill in requests, and replies update them.

use super::Exchange;
use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Cookies, Plan};
use prony_plan::script::VIRTUAL_EPOCH;
use prony_plan::script::{
    Capture, Filled, Jar, Locals, Origin, Repetition, Scratch, Script, Unsent,
};
use prony_proto::proto::Reply;

/// The variables and cookies of all running sessions. Exists only if the plan has anything dynamic.
#[derive(Debug)]
pub(in crate::engine) struct Scripted {
    script: Script,
    /// The state of each session, by its slot.
    known: Vec<Known>,
    /// The cookie jar, if all sessions share one.
    shared: Option<Jar>,
    /// Whether the connection of a call is encrypted.
    secure: Vec<bool>,
    /// Scratch.
    filled: Filled,
    /// Unused captures, kept for reuse.
    #[expect(clippy::vec_box, reason = "they move between here and exchanges as they are")]
    spare: Vec<Box<Capture>>,
    /// Scratch of conditions.
    scratch: Scratch,
    /// When the run starts, in nanoseconds since 1970.
    epoch: u64,
}

#[derive(Debug)]
struct Known {
    locals: Locals,
    jar: Jar,
    step: StepState,
}

/// The step that a session makes, if the plan has decisions.
#[derive(Clone, Copy, Debug, Default)]
struct StepState {
    /// Why its last request failed.
    fault: Option<Fault>,
    /// How often its request was made again.
    tries: u32,
    /// When its first try was intended.
    first: Nanos,
    /// The session had failed before.
    had_failed: bool,
}

/// What a session does after the request of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Tried {
    /// It goes on: the request is not made again.
    Once,
    /// It makes the request again after this wait. Before the first try, the session had failed
    /// or not.
    Again(Span, bool),
    /// The request was made again, and has succeeded. Its first try was intended at this time.
    Recovered(Nanos),
    /// The request was made again as often as it may be, and has failed.
    Exhausted,
}

impl Scripted {
    /// Returns `None` if the plan has nothing dynamic.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let script = Script::new(plan).expect("the plan is valid")?;
        let shared = (script.cookies() == Cookies::Shared).then(|| Jar::new(Cookies::Shared));
        let secure = |endpoint: u32| plan.endpoints[endpoint as usize].tls_name().is_some();
        Some(Self {
            secure: plan.calls.iter().map(|call| secure(call.endpoint)).collect(),
            script,
            known: Vec::new(),
            shared,
            filled: Filled::default(),
            spare: Vec::new(),
            scratch: Scratch::default(),
            epoch: VIRTUAL_EPOCH,
        })
    }

    /// The run starts at this time, in nanoseconds since 1970.
    pub(super) fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// A session starts in this slot.
    pub(super) fn begin(&mut self, place: u32, number: u64, now: Nanos) {
        let cookies = self.script.cookies();
        while self.known.len() <= place as usize {
            let (locals, jar) = (Locals::default(), Jar::new(cookies));
            self.known.push(Known { locals, jar, step: StepState::default() });
        }
        let known = &mut self.known[place as usize];
        known.step = StepState::default();
        known.jar.clear();
        known.locals.now = self.epoch.saturating_add(now.0);
        self.script.begin(number, &mut known.locals);
    }

    /// Whether sessions decide which steps they make.
    #[inline]
    pub(super) fn decides(&self) -> bool {
        self.script.flow().is_some()
    }

    /// The first burst from this one on that the session makes, or `end`; and how many steps it
    /// skips. `request` is the number of its next request,
    /// which is decided at `now`.
    pub(in crate::engine) fn arrive(
        &mut self,
        slot: u32,
        burst: u32,
        end: u32,
        (request, now): (u32, Nanos),
    ) -> (u32, u64) {
        let Some(flow) = self.script.flow() else { return (burst, 0) };
        let locals = &mut self.known[slot as usize].locals;
        locals.now = self.epoch.saturating_add(now.0);
        let mut deciding = self.script.deciding(request.into(), locals, &mut self.scratch);
        flow.arrive(burst, end, &mut deciding)
    }

    /// What the session does after repetition `round` of at most `most`, and the burst after it.
    pub(in crate::engine) fn repeats(
        &mut self,
        slot: u32,
        burst: u32,
        (round, most): (u32, u32),
        (request, now): (u32, Nanos),
    ) -> (Repetition, u32) {
        let Some(flow) = self.script.flow() else { return (Repetition::Over, burst + 1) };
        let locals = &mut self.known[slot as usize].locals;
        locals.now = self.epoch.saturating_add(now.0);
        let mut deciding = self.script.deciding(request.into(), locals, &mut self.scratch);
        (flow.repeats(burst, round, most, &mut deciding), flow.next(burst))
    }

    /// The session starts a try of a step, intended for `intended`.
    pub(in crate::engine) fn begin_try(&mut self, slot: u32, intended: Nanos, has_failed: bool) {
        let step = &mut self.known[slot as usize].step;
        step.fault = None;
        if step.tries == 0 {
            (step.first, step.had_failed) = (intended, has_failed);
        }
    }

    /// All requests of a step have ended. `bits` are 64 random bits for the wait before a retry.
    pub(in crate::engine) fn tried(&mut self, slot: u32, burst: u32, bits: u64) -> Tried {
        let step = &mut self.known[slot as usize].step;
        let tries = step.tries;
        let flow = self.script.flow();
        let again = |fault: Fault| {
            let retry = flow?.retry(burst, fault).filter(|retry| tries < retry.times)?;
            Some(retry.wait(tries, bits))
        };
        match step.fault.take() {
            Some(fault) => {
                if let Some(wait) = again(fault) {
                    step.tries += 1;
                    return Tried::Again(wait, step.had_failed);
                }
                step.tries = 0;
                if tries > 0 { Tried::Exhausted } else { Tried::Once }
            }
            None => {
                step.tries = 0;
                if tries > 0 { Tried::Recovered(step.first) } else { Tried::Once }
            }
        }
    }

    /// A request of the session has failed without a complete reply.
    pub(super) fn failed(&mut self, slot: u32, fault: Fault) {
        let Some(flow) = self.script.flow() else { return };
        let Some(known) = self.known.get_mut(slot as usize) else { return };
        known.step.fault = Some(fault);
        if let Some(status) = flow.status() {
            known.locals.unset(status);
        }
    }

    /// Note the outcome of a reply for the decisions of the session.
    fn note(&mut self, slot: u32, status: u16, fault: Option<Fault>) {
        let Some(flow) = self.script.flow() else { return };
        let known = &mut self.known[slot as usize];
        known.step.fault = fault;
        if let Some(variable) = flow.status() {
            match status {
                100..=999 => {
                    let digits = [status / 100, status / 10 % 10, status % 10];
                    known.locals.set(variable, &digits.map(|n| b'0' + n as u8));
                }
                // Statuses of gRPC, and close codes.
                _ => known.locals.set(variable, status.to_string().as_bytes()),
            }
        }
    }

    /// Whether a call must be filled in before it is sent.
    #[inline]
    pub(super) fn fills(&self, call: u32) -> bool {
        self.script.fills(call)
    }

    /// Fill in the variable parts of a request.
    pub(super) fn fill(&mut self, exchange: &Exchange, now: Nanos) -> Result<&Filled, Fault> {
        let Known { locals, jar, .. } = &mut self.known[exchange.user as usize];
        locals.now = self.epoch.saturating_add(now.0);
        let secure = self.secure[exchange.call as usize];
        let jar = self.shared.as_mut().unwrap_or(jar);
        let jar = self.script.has_cookies().then_some((jar, secure));
        let nth = u64::from(exchange.nth);
        match self.script.fill(exchange.call, nth, locals, jar, now, &mut self.filled) {
            Ok(()) => Ok(&self.filled),
            Err(Unsent::NoValue) => Err(Fault::NoValue),
            Err(Unsent::Unfit) => Err(Fault::UnfitValue),
        }
    }

    /// Whether a call needs the headers of its replies.
    #[inline]
    pub(super) fn wants_headers(&self, call: u32) -> bool {
        self.script.wants_headers(call)
    }

    /// Whether a call needs the bodies of its replies.
    #[inline]
    pub(super) fn wants_body(&self, call: u32) -> bool {
        self.script.wants_body(call)
    }

    /// A header of the exchange's reply has arrived.
    pub(super) fn header(&mut self, exchange: &mut Exchange, name: &[u8], value: &[u8]) {
        let capture = exchange.capture.get_or_insert_with(|| self.spare.pop().unwrap_or_default());
        capture.header(&self.script, exchange.call, name, value);
    }

    /// A piece of the body of the exchange's reply has arrived.
    pub(super) fn body(&mut self, exchange: &mut Exchange, piece: &[u8]) {
        if self.wants_body(exchange.call) {
            let capture = &mut exchange.capture;
            capture.get_or_insert_with(|| self.spare.pop().unwrap_or_default()).body(piece);
        }
    }

    /// The reply is complete, and its checks gave `fault`: the session extracts its values from it.
    /// Returns the final fault, if any.
    pub(super) fn replied(
        &mut self,
        exchange: &mut Exchange,
        reply: &Reply,
        fault: Option<Fault>,
        now: Nanos,
    ) -> Option<Fault> {
        let call = exchange.call;
        let fault = match self.wants_headers(call) || self.wants_body(call) {
            true => self.extract(exchange, fault, now),
            false => fault,
        };
        if self.decides() {
            self.note(exchange.user, reply.status, fault);
        }
        fault
    }

    /// Put the cookies of a reply into the jar of its session. The reply comes from this place.
    pub(super) fn keep_cookies(&mut self, exchange: &mut Exchange, from: Origin<'_>, now: Nanos) {
        let capture = exchange.capture.as_deref_mut().filter(|capture| capture.has_cookies());
        if let Some(capture) = capture {
            let jar = &mut self.known[exchange.user as usize].jar;
            capture.take_cookies(self.shared.as_mut().unwrap_or(jar), from, now);
        }
    }

    /// Give a request the cookies that its session sends to this place.
    pub(super) fn write_cookies(
        &mut self,
        session: u32,
        to: Origin<'_>,
        now: Nanos,
        filled: &mut Filled,
    ) {
        if self.script.has_cookies() {
            let jar = &mut self.known[session as usize].jar;
            filled.take_cookies(self.shared.as_mut().unwrap_or(jar), to, now);
        }
    }

    /// An empty capture is not needed any more.
    pub(super) fn put_back(&mut self, capture: Box<Capture>) {
        self.spare.push(capture);
    }

    /// Take cookies and values out of a reply. Returns the final fault, if any.
    fn extract(
        &mut self,
        exchange: &mut Exchange,
        fault: Option<Fault>,
        now: Nanos,
    ) -> Option<Fault> {
        let call = exchange.call;
        let mut capture =
            exchange.capture.take().unwrap_or_else(|| self.spare.pop().unwrap_or_default());
        let Known { locals, jar, .. } = &mut self.known[exchange.user as usize];
        if capture.has_cookies() {
            let (secure, nth) = (self.secure[call as usize], u64::from(exchange.nth));
            let origin = self.script.origin(call, nth, locals, secure, &mut self.filled);
            let jar = self.shared.as_mut().unwrap_or(jar);
            capture.take_cookies(jar, origin, now);
        }
        let fault = fault.or_else(|| capture.extract(&self.script, call, locals).err());
        capture.clear();
        self.spare.push(capture);
        fault
    }
}
