//! The variables and cookies of sessions. They fill in requests, and replies update them.

use super::Exchange;
use crate::fault::Fault;
use crate::plan::{Cookies, Plan};
use crate::script::{Capture, Filled, Jar, Locals, Script, Unsent};
use crate::units::Nanos;

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
}

#[derive(Debug)]
struct Known {
    locals: Locals,
    jar: Jar,
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
        })
    }

    /// A session starts in this slot.
    pub(super) fn begin(&mut self, place: u32, number: u64) {
        let cookies = self.script.cookies();
        while self.known.len() <= place as usize {
            self.known.push(Known { locals: Locals::default(), jar: Jar::new(cookies) });
        }
        let known = &mut self.known[place as usize];
        known.jar.clear();
        self.script.begin(number, &mut known.locals);
    }

    /// Whether a call must be filled in before it is sent.
    #[inline]
    pub(super) fn fills(&self, call: u32) -> bool {
        self.script.fills(call)
    }

    /// Fill in the variable parts of a request.
    pub(super) fn fill(&mut self, exchange: &Exchange, now: Nanos) -> Result<&Filled, Fault> {
        let Known { locals, jar } = &mut self.known[exchange.user as usize];
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
        fault: Option<Fault>,
        now: Nanos,
    ) -> Option<Fault> {
        let call = exchange.call;
        if !self.wants_headers(call) && !self.wants_body(call) {
            return fault;
        }
        let mut capture =
            exchange.capture.take().unwrap_or_else(|| self.spare.pop().unwrap_or_default());
        let Known { locals, jar } = &mut self.known[exchange.user as usize];
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
