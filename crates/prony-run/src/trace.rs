//! Traces: a few requests of a plan, one after the other, each printed with its reply. No load, and
//! no statistics.

mod exchange;
mod request;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use prony_base::units::{ConnId, RequestId, Span};
use prony_core::engine::{EndedRequest, Tap, Taps};
use prony_plan::plan::{Load, Plan, Stop, Think};
use prony_plan::script::{Capture, Checker, Figures, Locals, Script};

use crate::error::Error;
use exchange::{Exchange, Result as Ended};
use request::Lines;

/// The most requests, or sessions, of a trace: each is printed.
pub const MOST: u64 = 1_000;

/// Shorter values, in bytes, are no secrets.
const VALUE_MIN: usize = 3;

/// The plan of a trace: its first `n` sessions, or its first `n` requests if it has no sessions,
/// one after the other on one connection. Its warm-up, its thresholds and its rate are gone; a
/// stream lasts as long as in the plan.
///
/// # Errors
/// The rest is no plan, as that of a broadcast to one connection.
pub fn plan_of(plan: &Plan, n: u64) -> Result<Plan, Error> {
    let mut plan = plan.clone();
    let is_stream = plan.websocket.is_some() || plan.stream.is_some() || plan.messages.is_some();
    plan.load = Load::Closed { connections: 1, think: Think::None };
    plan.stop = Stop {
        requests: plan.sessions.is_none().then_some(n),
        sessions: plan.sessions.as_ref().map(|_| n),
        duration: plan.stop.duration.filter(|_| is_stream),
    };
    (plan.warmup, plan.ramp_up, plan.pipeline) = (Span::ZERO, None, 1);
    plan.thresholds.clear();
    plan.check().map_err(|why| Error::Plan(format!("as a trace, {why}")))?;
    Ok(plan)
}

/// The exchanges of a trace, printed in the order of their ends.
#[derive(Clone, Debug)]
pub struct Trace {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    plan: Plan,
    shows_secrets: bool,
    script: Option<Script>,
    checker: Option<Checker>,
    printed: Mutex<Printed>,
}

#[derive(Debug, Default)]
struct Printed {
    /// What is to be printed next.
    text: String,
    /// Exchanges so far, and those of them that failed.
    count: u64,
    failed: u64,
    /// The values that were extracted, which later requests and replies may repeat.
    values: BTreeSet<String>,
}

impl Trace {
    /// A trace of this plan; possible secrets are hidden unless `shows_secrets`.
    pub fn new(plan: &Plan, shows_secrets: bool) -> Self {
        let script = Script::new(plan).ok().flatten();
        let checker = Checker::new(plan);
        let (plan, printed) = (plan.clone(), Mutex::default());
        Self { shared: Arc::new(Shared { plan, shows_secrets, script, checker, printed }) }
    }

    /// What observes the load.
    pub fn taps(&self) -> Taps {
        let shared = Arc::clone(&self.shared);
        Taps::new(move || Tracer::new(Arc::clone(&shared)))
    }

    /// The text since the last call: a block for each exchange that has ended.
    pub fn take(&self) -> String {
        mem::take(&mut self.shared.printed().text)
    }

    /// The last line: how many exchanges there were.
    pub fn end(&self) -> String {
        let Printed { count, failed, .. } = *self.shared.printed();
        let all = prony_report::units::counted(count, "exchange", "exchanges");
        format!("{all}, {failed} failed\n")
    }
}

impl Shared {
    fn printed(&self) -> std::sync::MutexGuard<'_, Printed> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, exchange: &Exchange, ended: &Ended) {
        let mut printed = self.printed();
        printed.count += 1;
        printed.failed += u64::from(ended.fault.is_some() || ended.is_unfinished);
        let values = ended.values.iter().flatten().filter(|value| value.len() >= VALUE_MIN);
        printed.values.extend(values.cloned());
        let hidden = if self.shows_secrets { None } else { Some(&printed.values) };
        let block = exchange.block(printed.count, ended, &self.plan, hidden);
        printed.text += &block;
    }
}

/// Observes the exchanges of a worker.
struct Tracer {
    shared: Arc<Shared>,
    lines: Lines,
    open: BTreeMap<RequestId, Exchange>,
    /// Collects what extracts and checks need, of one exchange at a time: the plan has one user.
    captures: BTreeMap<RequestId, Capture>,
    locals: Locals,
}

impl Tracer {
    fn new(shared: Arc<Shared>) -> Self {
        let (open, captures) = (BTreeMap::new(), BTreeMap::new());
        Self { shared, lines: Lines::default(), open, captures, locals: Locals::default() }
    }

    /// The values that the call extracts from the reply, and the checks that it fails.
    fn read(&mut self, id: RequestId, ended: &mut Ended, request: &EndedRequest) {
        let Shared { plan, script, checker, .. } = &*self.shared;
        // A redirect has no values.
        let Some(reply) = request.reply.filter(|reply| !(300..400).contains(&reply.status)) else {
            return;
        };
        let mut capture = self.captures.remove(&id).unwrap_or_default();
        let call = request.call;
        if let Some(checker) = checker {
            let time = request.stamps.response().0;
            let figures = Figures { status: reply.status, length: reply.body_bytes, time };
            checker.judge(call, Some(&mut capture), figures, |check, passed| {
                if passed != Some(true) {
                    ended.checks.push(plan.checks.list[check as usize].title().to_owned());
                }
            });
        }
        if let Some(script) = script
            && !plan.calls[call as usize].extract.is_empty()
        {
            // A value that is missing is unset.
            let _ = capture.extract(script, call, &mut self.locals);
            let values = script.extracted(call, &self.locals);
            let text = |value: Option<&[u8]>| value.map(|v| String::from_utf8_lossy(v).into());
            ended.values.extend(values.map(text));
        }
    }
}

impl Tap for Tracer {
    fn submitted(&mut self, conn: ConnId, id: RequestId, call: u32, bytes: &[u8]) {
        let line = self.lines.read(conn, bytes);
        self.captures.remove(&id);
        let again = self.open.remove(&id).map_or(0, |before| before.again + 1);
        self.open.insert(id, Exchange::new(call, line, again));
    }

    fn wants_headers(&self) -> bool {
        true
    }

    fn header(&mut self, _: ConnId, id: RequestId, name: &[u8], value: &[u8]) {
        let Some(Exchange { call, .. }) = self.open.get(&id) else { return };
        let capture = self.captures.entry(id).or_default();
        if let Some(script) = &self.shared.script {
            capture.header(script, *call, name, value);
        }
        if let Some(checker) = &self.shared.checker {
            checker.header(capture, *call, name, value);
        }
    }

    fn wants_body(&self) -> bool {
        true
    }

    fn body(&mut self, _: ConnId, id: RequestId, piece: &[u8]) {
        if let Some(exchange) = self.open.get_mut(&id) {
            exchange.body(piece);
            let Shared { script, checker, .. } = &*self.shared;
            if script.as_ref().is_some_and(|script| script.wants_body(exchange.call))
                || checker.as_ref().is_some_and(|checker| checker.wants_body(exchange.call))
            {
                self.captures.entry(id).or_default().body(piece);
            }
        }
    }

    fn wants_ends(&self) -> bool {
        true
    }

    fn request_ended(&mut self, request: &EndedRequest) {
        let call = request.call;
        let unsent = || Exchange::new(call, None, 0);
        let exchange = self.open.remove(&request.id).unwrap_or_else(unsent);
        let mut ended = Ended::of(request);
        self.read(request.id, &mut ended, request);
        self.captures.remove(&request.id);
        self.shared.print(&exchange, &ended);
    }

    fn closed(&mut self, conn: ConnId) {
        self.lines.closed(conn);
    }
}

impl Drop for Tracer {
    /// What has not ended with the load is shown as well.
    fn drop(&mut self) {
        for exchange in mem::take(&mut self.open).into_values() {
            self.shared.print(&exchange, &Ended::unfinished());
        }
    }
}
