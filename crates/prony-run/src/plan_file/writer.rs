//! What the requests of a plan have in common, which a plan file has once.

use prony_plan::plan::{CallSpec, Plan};
use prony_plan::target::{Endpoint, Url, UrlKind};

use super::requests::authority;

/// The common parts of all requests, which are written once.
pub(super) struct Writer<'p> {
    pub(super) plan: &'p Plan,
    /// The server of all requests; without it, endpoints are listed.
    pub(super) url: Option<Url>,
    pub(super) host: Option<&'p str>,
    /// The number of headers that all requests share.
    pub(super) headers: usize,
    pub(super) bare: bool,
}

impl<'p> Writer<'p> {
    pub(super) fn new(plan: &'p Plan) -> Self {
        let mut writer = Self { plan, url: url(plan), host: None, headers: 0, bare: false };
        let Some(first) = plan.calls.first() else { return writer };
        let all = |is: &dyn Fn(&CallSpec) -> bool| plan.calls.iter().all(is);
        if all(&|c| c.authority == first.authority) && writer.authority(first) != *first.authority {
            writer.host = Some(&first.authority);
        }
        writer.bare = all(&|c| c.bare);
        if plan.calls.len() > 1 || plan.sessions.is_some() {
            writer.headers = common_headers(&plan.calls);
        }
        writer
    }

    /// The `Host` header of a request without its own.
    pub(super) fn authority(&self, call: &CallSpec) -> String {
        match (self.host, &self.url) {
            (Some(host), _) => host.to_owned(),
            (None, Some(url)) => url.authority(),
            (None, None) => authority(&self.plan.endpoints[call.endpoint as usize]),
        }
    }
}

/// The base URL of all requests, if there is one.
fn url(plan: &Plan) -> Option<Url> {
    let [endpoint] = &plan.endpoints[..] else { return None };
    let Endpoint::Tcp { host, port } = endpoint.transport() else { return None };
    let tls = endpoint.tls_name().is_some();
    let kind = match plan.websocket {
        Some(_) => UrlKind::WebSocket,
        None => UrlKind::Http,
    };
    let url = Url { tls, host: host.clone(), port: *port, path: "/".into(), user: None, kind };
    let back = Url::parse(&url.to_string()).ok()?;
    (back.endpoint() == *endpoint).then_some(back)
}

/// The number of leading headers that all calls share and none repeats.
fn common_headers(calls: &[CallSpec]) -> usize {
    let mut calls = calls.iter().filter(|call| has_headers(call));
    let Some(first) = calls.next() else { return 0 };
    let others: Vec<_> = calls.collect();
    let same = |call: &CallSpec| {
        let pairs = call.headers.iter().zip(&first.headers);
        pairs.take_while(|(a, b)| a == b).count()
    };
    let count = others.iter().copied().map(same).min().unwrap_or(first.headers.len());
    let common = &first.headers[..count.min(first.headers.len())];
    let again = |call: &CallSpec| {
        let own = &call.headers[common.len()..];
        own.iter().any(|(name, _)| common.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)))
    };
    if again(first) || others.into_iter().any(again) { 0 } else { common.len() }
}

/// Whether a request has headers: steps on an open WebSocket have none.
pub(super) fn has_headers(call: &CallSpec) -> bool {
    call.socket.as_ref().is_none_or(|step| step.opens())
}
