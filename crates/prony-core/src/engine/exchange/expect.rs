//! What the engine needs to know of each call, collected once from the plan.

use super::content::{BodyMatch, BodyPattern};
use super::{Exchange, NONE};
use prony_base::fault::Fault;
use prony_plan::plan::{Expect, Plan};
use prony_proto::proto::Reply;

/// The plan's calls.
#[derive(Debug)]
pub(in crate::engine) struct Calls {
    calls: Vec<Call>,
    rules: Vec<Rule>,
    /// Whether any rule checks bodies.
    looks: bool,
    /// Whether any call has a name.
    named: bool,
    /// Whether bodies are read as streams of messages.
    streams: bool,
    /// Whether more of a reply is recorded than its times and its size.
    closer: bool,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Call {
    pub(in crate::engine) endpoint: u32,
    /// Index into the plan's names, or `NONE`.
    name: u32,
    /// Index into the rules.
    rule: u32,
    pub(in crate::engine) idempotent: bool,
    /// Its replies have no body, whatever their headers say.
    bodiless: bool,
    /// Whether it needs an open socket, if it is a step on one: it does not open it.
    pub(in crate::engine) socket: Option<bool>,
}

/// What counts as success.
#[derive(Debug)]
struct Rule {
    /// The first range of successful statuses, if only the status counts: most replies need no
    /// other check.
    usual: Option<(u16, u16)>,
    expect: Expect,
    pattern: Option<BodyPattern>,
}

impl Calls {
    pub(in crate::engine) fn new(plan: &Plan) -> Self {
        let streams = plan.stream.is_some();
        let mut rules = vec![Rule::new(&plan.expect, streams)];
        let mut calls = Vec::with_capacity(plan.calls.len());
        for spec in &plan.calls {
            // Bodies that may be encoded are searched after they are decoded (`checked.rs`).
            let without = spec.encoded_text(plan).map(|_| {
                let expect = spec.expect.as_deref().unwrap_or(&plan.expect);
                Expect { body: None, ..expect.clone() }
            });
            let rule = match without.as_ref().or(spec.expect.as_deref()) {
                None => 0,
                // Calls from one template are consecutive.
                Some(expect) if rules.last().is_some_and(|r| r.expect == *expect) => {
                    rules.len() - 1
                }
                Some(expect) => {
                    rules.push(Rule::new(expect, streams));
                    rules.len() - 1
                }
            };
            calls.push(Call {
                endpoint: spec.endpoint,
                name: spec.name.unwrap_or(NONE),
                rule: rule as u32,
                idempotent: spec.is_idempotent(),
                bodiless: spec.is_head(),
                socket: spec.socket.as_deref().map(|step| !step.opens()),
            });
        }
        let looks = streams || rules.iter().any(|r| r.pattern.is_some());
        let named = calls.iter().any(|c| c.name != NONE);
        Self {
            calls,
            rules,
            looks,
            named,
            streams,
            closer: named || streams || !plan.groups.is_empty(),
        }
    }

    #[inline]
    pub(in crate::engine) fn get(&self, call: u32) -> &Call {
        &self.calls[call as usize]
    }

    /// Whether more of a reply is recorded than its times and its size.
    #[inline]
    pub(in crate::engine) fn look_closer(&self) -> bool {
        self.closer
    }

    /// An observer wants to know of the end of every request.
    pub(in crate::engine) fn look_closer_at_all(&mut self) {
        self.closer = true;
    }

    /// The name of a call, if it has one: an index into the plan's names.
    #[inline]
    pub(in crate::engine) fn name(&self, call: u32) -> Option<u32> {
        let name = if self.named { self.get(call).name } else { NONE };
        (name != NONE).then_some(name)
    }

    /// Whether the bodies of any call's replies are checked.
    #[inline]
    pub(in crate::engine) fn look_at_bodies(&self) -> bool {
        self.looks
    }

    /// Whether the bodies of this call's replies are checked.
    pub(in crate::engine) fn looks_at_body(&self, call: u32) -> bool {
        self.streams || self.pattern(call).is_some()
    }

    /// A piece of the reply's body has arrived.
    pub(in crate::engine) fn body(&self, exchange: &mut Exchange, piece: &[u8]) {
        if let Some(pattern) = self.pattern(exchange.call) {
            pattern.feed(&mut exchange.body, piece);
        }
    }

    /// Why a complete reply is not a success; `None` if it is one. Resets the search of the body
    /// for the next reply.
    #[inline(always)]
    pub(in crate::engine) fn judge(&self, exchange: &mut Exchange, reply: &Reply) -> Option<Fault> {
        let &Call { rule, bodiless, .. } = self.get(exchange.call);
        let rule = &self.rules[rule as usize];
        if rule.usual.is_some_and(|(low, high)| (low..=high).contains(&reply.status)) {
            return reply.fault;
        }
        rule.judge(bodiless, reply, &mut exchange.body)
    }

    /// Whether a reply with this status may be a success.
    pub(in crate::engine) fn is_expected(&self, call: u32, status: u16) -> bool {
        self.rules[self.calls[call as usize].rule as usize].expect.accepts(status)
    }

    fn pattern(&self, call: u32) -> Option<&BodyPattern> {
        self.rules[self.calls[call as usize].rule as usize].pattern.as_ref()
    }
}

impl Rule {
    fn new(expect: &Expect, streams: bool) -> Self {
        let only_status = !streams && expect.body.is_none() && expect.length.is_none();
        let usual = expect.statuses.first().filter(|_| only_status);
        Self {
            usual: usual.copied(),
            expect: expect.clone(),
            pattern: expect.body.as_deref().map(BodyPattern::new),
        }
    }

    /// The full check. Not inlined, as most replies do not need it.
    #[inline(never)]
    fn judge(&self, bodiless: bool, reply: &Reply, body: &mut BodyMatch) -> Option<Fault> {
        let Self { expect, pattern, .. } = self;
        // A reply to HEAD has no body to check.
        let found = pattern.as_ref().is_none_or(|p| p.finish(body)) || bodiless;
        let wrong = body.take_fault();
        let right_length = bodiless || expect.length.is_none_or(|n| n == reply.body_bytes);
        if reply.fault.is_some() {
            reply.fault
        } else if !expect.accepts(reply.status) {
            // Statuses below 100 are those of gRPC.
            Some(if reply.status < 100 { Fault::GrpcStatus } else { Fault::UnexpectedStatus })
        } else if wrong.is_some() {
            wrong
        } else if !found || !right_length {
            Some(Fault::BodyMismatch)
        } else {
            None
        }
    }
}
