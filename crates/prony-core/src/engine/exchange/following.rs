//! Redirects that are followed: where each leads, and what the next request is.

use std::sync::Arc;

use super::{Exchange, NONE, New};
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::plan::{CallSpec, Plan, Shared};
use prony_plan::script::{Filled, Moved, Origin as CookieOrigin};
use prony_plan::target::{Endpoint, Origin, RedirectTo, resolve_redirect};
use prony_proto::proto::Reply;
use prony_tally::record::{GroupEnd, GroupKey, RedirectTally, SessionEnd};

/// The redirects of a plan.
#[derive(Debug)]
pub(in crate::engine) struct Following {
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
pub(super) enum Decision {
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
    /// Returns `None` if the plan follows no redirects.
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let follow = plan.follow.as_deref()?;
        Some(Self {
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
        })
    }

    pub(super) fn follows(&self, call: u32) -> bool {
        self.most[call as usize].is_some()
    }

    /// Whether a redirect has led to this request, which is filled in now.
    pub(super) fn is_after_redirect(&mut self, id: RequestId, exchange: &Exchange) -> bool {
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
        chain.hops > 0
    }

    /// The first request of a chain, with these parts.
    pub(super) fn start(&mut self, id: RequestId, parts: Option<&Filled>) -> &Filled {
        let sent = &mut self.chains[id.slot as usize].sent;
        match parts {
            Some(parts) => sent.copy(parts),
            None => sent.clear(),
        }
        sent
    }

    /// The parts of a request that is sent.
    pub(super) fn sent(&self, id: RequestId) -> &Filled {
        &self.chains[id.slot as usize].sent
    }

    /// Add to a request after a redirect what is meant for its server.
    pub(super) fn add_for_server(
        &mut self,
        id: RequestId,
        call: u32,
        add: impl FnOnce(CookieOrigin<'_>, &mut Filled),
    ) {
        let chain = &mut self.chains[id.slot as usize];
        let authority = authority_of(&chain.sent, &self.calls[call as usize]);
        self.path.clear();
        self.path.extend_from_slice(chain.sent.path().unwrap_or_default());
        let secure = self.secure[chain.endpoint as usize];
        let to = CookieOrigin { authority: &authority, path: &self.path, secure };
        add(to, &mut chain.sent);
    }

    /// Pass on from which server the reply comes.
    pub(super) fn keep_of_server(
        &mut self,
        id: RequestId,
        call: u32,
        keep: impl FnOnce(CookieOrigin<'_>),
    ) {
        let Some(chain) = chain_of(&mut self.chains, id) else { return };
        let call = &self.calls[call as usize];
        let authority = authority_of(&chain.sent, call);
        let endpoint = if chain.hops == 0 { call.endpoint } else { chain.endpoint };
        keep(CookieOrigin {
            authority: &authority,
            path: chain.sent.path().unwrap_or(call.path.as_bytes()),
            secure: self.secure[endpoint as usize],
        });
    }

    pub(super) fn header(&mut self, id: RequestId, call: u32, name: &[u8], value: &[u8]) {
        if self.follows(call)
            && name.eq_ignore_ascii_case(b"Location")
            && let Some(chain) = chain_of(&mut self.chains, id).filter(|chain| !chain.has_location)
        {
            chain.has_location = true;
            chain.location.clear();
            chain.location.extend_from_slice(value);
        }
    }

    /// The next request goes to this endpoint.
    pub(super) fn follow(
        &mut self,
        id: RequestId,
        exchange: &Exchange,
        endpoint: u32,
        moved: Moved,
    ) {
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
        self.tally(exchange).followed += 1;
    }

    /// The reply is one redirect too many.
    pub(super) fn is_over_limit(&mut self, exchange: &Exchange) {
        self.tally(exchange).over_limit += 1;
    }

    /// The reply was the last of its request, which has ended in this way.
    pub(super) fn end(&mut self, id: RequestId, how: SessionEnd) {
        self.next = self.end_of(id, how);
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

    /// What a complete reply means. The path of the next request is in `path`.
    pub(super) fn decide(&mut self, id: RequestId, exchange: &Exchange, reply: &Reply) -> Decision {
        let status = reply.status;
        let Some(most) = self.most[exchange.call as usize] else { return Decision::Final };
        if reply.fault.is_some() || !matches!(status, 301 | 302 | 303 | 307 | 308) {
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
