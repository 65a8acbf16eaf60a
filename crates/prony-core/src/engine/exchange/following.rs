//! Redirects that are followed: where each leads, and what the next request is.

use std::sync::Arc;

use super::dynamic::Dynamic;
use super::{Exchange, NONE, New};
use crate::fault::Fault;
use crate::plan::{CallSpec, Plan, Shared};
use crate::proto::Reply;
use crate::record::{GroupEnd, GroupKey, RedirectTally, SessionEnd};
use crate::script::{Filled, Moved, Origin as CookieOrigin};
use crate::target::{Endpoint, Origin, RedirectTo, resolve_redirect};
use crate::units::{Nanos, RequestId, Span};

/// The redirects of a plan, and what else is decided while the load runs.
#[derive(Debug)]
pub(in crate::engine) struct Following {
    pub(super) inner: Option<Dynamic>,
    calls: Shared<CallSpec>,
    /// How many redirects of each call are followed; `None`: none is.
    most: Vec<Option<u32>>,
    /// Whether the connections to each endpoint are encrypted.
    secure: Vec<bool>,
    servers: Vec<Server>,
    /// The group of redirected requests.
    group: u32,
    /// When the measurement starts.
    start: Nanos,
    /// By the slot of the exchange.
    chains: Vec<Chain>,
    /// How many chains have had a redirect.
    started: u32,
    /// What follows from the last reply.
    next: Option<After>,
    warm: RedirectTally,
    main: RedirectTally,
    /// Scratch.
    path: Vec<u8>,
}

/// A server that the user has named.
#[derive(Clone, Debug)]
struct Server {
    tls: bool,
    host: Box<[u8]>,
    port: u16,
    endpoint: u32,
    /// What requests to it say in their Host header.
    authority: Arc<str>,
}

/// A request, and the redirects that led to it. Belongs to the exchange with this generation.
#[derive(Debug)]
struct Chain {
    generation: Option<u32>,
    /// The intended start of the first request.
    began: Nanos,
    /// Which one it is of those with redirects, since their counter last started again.
    number: u32,
    /// The redirects so far.
    hops: u32,
    /// Where it goes, after a redirect.
    endpoint: u32,
    /// The parts that differ from the plan's request.
    sent: Filled,
    has_location: bool,
    location: Vec<u8>,
}

/// What a reply means for a chain of redirects.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum After {
    /// Another request of this chain follows.
    Hop(GroupKey),
    /// The chain has ended.
    Ended(GroupEnd),
}

/// What is done with a reply.
enum Decision {
    /// It is the last of its request.
    Final,
    /// It is the last one, although it leads to another request, which is not made.
    Stays,
    /// It is one redirect too many.
    TooMany,
    /// The next request goes to this endpoint.
    Follow { endpoint: u32, moved: Moved },
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            generation: None,
            began: Nanos::ZERO,
            number: 0,
            hops: 0,
            endpoint: NONE,
            sent: Filled::default(),
            has_location: false,
            location: Vec::new(),
        }
    }
}

impl Following {
    /// Let redirects be followed. `inner` itself if the plan follows none.
    pub(super) fn around(plan: &Plan, inner: Option<Dynamic>) -> Option<Dynamic> {
        let Some(follow) = plan.follow.as_deref() else { return inner };
        Some(Dynamic::Following(Box::new(Self {
            inner,
            calls: plan.calls.clone(),
            most: plan.calls.iter().map(|call| plan.redirects_of(call)).collect(),
            secure: plan.endpoints.iter().map(|e| e.tls_name().is_some()).collect(),
            servers: servers(plan),
            group: follow.group,
            start: Nanos::ZERO + plan.warmup,
            chains: Vec::new(),
            started: 0,
            next: None,
            warm: RedirectTally::default(),
            main: RedirectTally::default(),
            path: Vec::new(),
        })))
    }

    pub(super) fn follows(&self, call: u32) -> bool {
        self.most[call as usize].is_some()
    }

    pub(super) fn wants_headers(&self, call: u32) -> bool {
        self.follows(call) || self.inner.as_ref().is_some_and(|inner| inner.wants_headers(call))
    }

    pub(super) fn fill(
        &mut self,
        id: RequestId,
        exchange: &Exchange,
        now: Nanos,
    ) -> Result<&Filled, Fault> {
        let slot = id.slot as usize;
        if self.chains.len() <= slot {
            self.chains.resize_with(slot + 1, Chain::default);
        }
        let chain = &mut self.chains[slot];
        if chain.generation != Some(id.generation) {
            chain.generation = Some(id.generation);
            (chain.began, chain.hops) = (exchange.intended, 0);
        }
        chain.has_location = false;
        if chain.hops == 0 {
            chain.sent.clear();
            if let Some(inner) = self.inner.as_mut().filter(|inner| inner.fills(exchange.call)) {
                chain.sent.copy(inner.fill(id, exchange, now)?);
            }
        } else if let Some(inner) = &mut self.inner {
            let call = &self.calls[exchange.call as usize];
            let authority = authority_of(&chain.sent, call);
            let path = chain.sent.path().unwrap_or_default();
            self.path.clear();
            self.path.extend_from_slice(path);
            let secure = self.secure[chain.endpoint as usize];
            let origin = CookieOrigin { authority: &authority, path: &self.path, secure };
            inner.write_cookies(exchange.user, origin, now, &mut chain.sent);
        }
        Ok(&chain.sent)
    }

    pub(super) fn header(
        &mut self,
        id: RequestId,
        exchange: &mut Exchange,
        name: &[u8],
        value: &[u8],
    ) {
        if self.follows(exchange.call)
            && name.eq_ignore_ascii_case(b"Location")
            && let Some(chain) = chain_of(&mut self.chains, id).filter(|chain| !chain.has_location)
        {
            chain.has_location = true;
            chain.location.clear();
            chain.location.extend_from_slice(value);
        }
        if let Some(inner) = self.inner.as_mut().filter(|inner| inner.wants_headers(exchange.call))
        {
            inner.header(id, exchange, name, value);
        }
    }

    /// The reply is complete, and what it must be gave `fault`. Returns the final fault, if any.
    pub(super) fn replied(
        &mut self,
        id: RequestId,
        exchange: &mut Exchange,
        reply: &Reply,
        fault: Option<Fault>,
        now: Nanos,
    ) -> Option<Fault> {
        let decision = match reply.fault {
            None => self.decide(id, exchange, reply.status),
            Some(_) => Decision::Final,
        };
        let mut fault = fault;
        self.keep_cookies(id, exchange, now);
        match decision {
            Decision::Follow { endpoint, moved } => {
                let chain = &mut self.chains[id.slot as usize];
                let body = &self.calls[exchange.call as usize].body;
                chain.sent.redirect(&self.path, body, moved);
                chain.endpoint = endpoint;
                if chain.hops == 0 {
                    self.started = self.started.wrapping_add(1);
                    chain.number = self.started;
                }
                chain.hops += 1;
                self.next = Some(After::Hop(GroupKey::Chain(chain.number)));
                if let (Some(inner), Some(capture)) = (&mut self.inner, exchange.capture.take()) {
                    inner.put_back(capture);
                }
                self.tally(exchange).followed += 1;
                return None;
            }
            Decision::TooMany => {
                self.tally(exchange).over_limit += 1;
                fault = Some(Fault::TooManyRedirects);
            }
            Decision::Final | Decision::Stays => {}
        }
        if let Some(inner) = &mut self.inner {
            fault = inner.replied(id, exchange, reply, fault, now);
        }
        let arrived = fault.is_none() && matches!(decision, Decision::Final);
        self.next =
            self.end_of(id, if arrived { SessionEnd::Completed } else { SessionEnd::Failed });
        fault
    }

    /// What follows from the last reply for a chain of redirects, if anything does.
    pub(super) fn take_next(&mut self) -> Option<After> {
        self.next.take()
    }

    /// The next request of a chain is this exchange.
    pub(super) fn moves(&mut self, from: RequestId, to: RequestId) {
        let most = from.slot.max(to.slot) as usize;
        if self.chains.len() <= most {
            self.chains.resize_with(most + 1, Chain::default);
        }
        self.chains.swap(from.slot as usize, to.slot as usize);
        // What is in the other place belongs to an exchange that has ended.
        self.chains[from.slot as usize].generation = None;
        self.chains[to.slot as usize].generation = Some(to.generation);
    }

    /// The endpoint of an exchange after a redirect; `None`: that of its call.
    pub(super) fn endpoint(&self, id: RequestId) -> Option<u32> {
        let chain = self.chains.get(id.slot as usize)?;
        (chain.generation == Some(id.generation) && chain.hops > 0).then_some(chain.endpoint)
    }

    /// An exchange has ended in this way without a reply. Returns the chain that ends with it.
    pub(super) fn ended(&mut self, id: RequestId, how: SessionEnd) -> Option<GroupEnd> {
        match self.end_of(id, how) {
            Some(After::Ended(end)) => Some(end),
            _ => None,
        }
    }

    /// What redirects came to: those of the warm-up, and of the measurement.
    pub(super) fn take(&mut self) -> (RedirectTally, RedirectTally) {
        (std::mem::take(&mut self.warm), std::mem::take(&mut self.main))
    }

    fn end_of(&mut self, id: RequestId, how: SessionEnd) -> Option<After> {
        let group = self.group;
        let chain = chain_of(&mut self.chains, id).filter(|chain| chain.hops > 0)?;
        chain.generation = None;
        let key = GroupKey::Chain(chain.number);
        Some(After::Ended(GroupEnd { key, group, how, began: chain.began, paused: Span::ZERO }))
    }

    fn tally(&mut self, exchange: &Exchange) -> &mut RedirectTally {
        if exchange.intended >= self.start { &mut self.main } else { &mut self.warm }
    }

    /// What the reply with this status means. The path of the next request is in `path`.
    fn decide(&mut self, id: RequestId, exchange: &Exchange, status: u16) -> Decision {
        let Some(most) = self.most[exchange.call as usize] else { return Decision::Final };
        if !matches!(status, 301 | 302 | 303 | 307 | 308) {
            return Decision::Final;
        }
        let Some(chain) = chain_of(&mut self.chains, id).filter(|chain| chain.has_location) else {
            return Decision::Final;
        };
        let call = &self.calls[exchange.call as usize];
        let base = chain.sent.path().unwrap_or(call.path.as_bytes());
        let endpoint = if chain.hops == 0 { call.endpoint } else { chain.endpoint };
        let tls = self.secure[endpoint as usize];
        let Some(to) = resolve_redirect(&chain.location, base, &mut self.path) else {
            self.tally(exchange).unusable += 1;
            return Decision::Stays;
        };
        let before = chain.sent.moved();
        let (endpoint, authority) = match to {
            RedirectTo::Same => (endpoint, before.and_then(|moved| moved.authority.clone())),
            RedirectTo::Origin(origin) => {
                let origin = origin.complete(tls);
                let named = self.servers.iter().filter(|server| server.is(&origin));
                let Some(server) =
                    named.clone().find(|s| s.endpoint == call.endpoint).or_else(|| {
                        let mut others = named;
                        others.next()
                    })
                else {
                    let name = origin.to_string();
                    self.tally(exchange).led_to(name);
                    return Decision::Stays;
                };
                let is_own = server.endpoint == call.endpoint;
                (server.endpoint, (!is_own).then(|| Arc::clone(&server.authority)))
            }
        };
        if chain.hops >= most {
            return Decision::TooMany;
        }
        let is_get = before.is_some_and(|moved| moved.is_get) || becomes_get(status, &call.method);
        let moved = Moved { authority, secure: self.secure[endpoint as usize], is_get };
        Decision::Follow { endpoint, moved }
    }

    /// Keep the cookies of a reply for the server that has sent it.
    fn keep_cookies(&mut self, id: RequestId, exchange: &mut Exchange, now: Nanos) {
        let Some(inner) = &mut self.inner else { return };
        let Some(chain) = chain_of(&mut self.chains, id) else { return };
        let call = &self.calls[exchange.call as usize];
        let authority = authority_of(&chain.sent, call);
        let endpoint = if chain.hops == 0 { call.endpoint } else { chain.endpoint };
        let origin = CookieOrigin {
            authority: &authority,
            path: chain.sent.path().unwrap_or(call.path.as_bytes()),
            secure: self.secure[endpoint as usize],
        };
        inner.keep_cookies(exchange, origin, now);
    }
}

impl Exchange {
    /// The request after a redirect, at `now`.
    pub(in crate::engine) fn redirected(&self, now: Nanos) -> New {
        New { intended: now, call: self.call, user: self.user, nth: self.nth }
    }
}

impl Server {
    fn is(&self, origin: &Origin<'_>) -> bool {
        (origin.tls, origin.port) == (Some(self.tls), Some(self.port))
            && origin.host.eq_ignore_ascii_case(&self.host)
    }
}

/// The chain of an exchange that has one.
fn chain_of(chains: &mut [Chain], id: RequestId) -> Option<&mut Chain> {
    let chain = chains.get_mut(id.slot as usize)?;
    (chain.generation == Some(id.generation)).then_some(chain)
}

fn authority_of(sent: &Filled, call: &CallSpec) -> Arc<str> {
    let moved = sent.moved().and_then(|moved| moved.authority.as_ref());
    Arc::clone(moved.unwrap_or(&call.authority))
}

/// Whether the request after a redirect is a GET without a body (RFC 9110, 15.4), as clients do it.
fn becomes_get(status: u16, method: &str) -> bool {
    match status {
        301 | 302 => method == "POST",
        303 => method != "GET" && method != "HEAD",
        _ => false,
    }
}

/// The servers that the user has named: those of the requests, and those of the redirects.
fn servers(plan: &Plan) -> Vec<Server> {
    let mut all: Vec<Server> = Vec::new();
    let mut add = |endpoint: u32, authority: &Arc<str>| {
        let tls = plan.endpoints[endpoint as usize].tls_name().is_some();
        let Some(origin) = Origin::of(authority.as_bytes(), Some(tls)) else { return };
        let origin = origin.complete(tls);
        if !all.iter().any(|server| server.endpoint == endpoint && server.is(&origin)) {
            let (host, port) = (origin.host.into(), origin.port.unwrap_or_default());
            let authority = Arc::clone(authority);
            all.push(Server { tls, host, port, endpoint, authority });
        }
    };
    let mut last = None;
    for call in &plan.calls {
        // Most calls go where the one before goes.
        if last.is_none_or(|last: &CallSpec| {
            (last.endpoint, &last.authority) != (call.endpoint, &call.authority)
        }) {
            add(call.endpoint, &call.authority);
        }
        let host = call.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        if let Some((_, host)) = host.filter(|_| !call.template) {
            add(call.endpoint, &host.as_str().into());
        }
        last = Some(call);
    }
    for server in plan.follow.iter().flat_map(|follow| &follow.servers) {
        add(server.endpoint, &server.authority.as_str().into());
    }
    for (endpoint, spec) in (0..).zip(&plan.endpoints) {
        if let Endpoint::Tcp { host, port } = spec.transport() {
            let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            add(endpoint, &format!("{host}:{port}").into());
        }
    }
    all
}

#[cfg(test)]
mod tests;
