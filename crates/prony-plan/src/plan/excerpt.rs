//! The excerpt of a plan that saved reports contain: its first requests and sessions, without
//! secrets, and the size of the whole plan.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CallSpec, Plan, SessionKind, Sessions};
use prony_base::secret::{HIDDEN, Secret, shown_header, shown_path, shown_url};

/// The size of the whole plan of an excerpt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSize {
    /// Its requests.
    pub requests: u64,
    /// Its kinds of sessions.
    pub sessions: u64,
    /// The rows of each of its tables.
    pub table_rows: Vec<u64>,
    /// Whether all requests have the same method.
    pub one_method: bool,
    /// The largest number of headers of a request.
    pub headers_max: u64,
    /// The longest body of a request, in bytes.
    pub body_bytes_max: u64,
    /// The length of the body of each request of the excerpt, in bytes.
    pub body_bytes: Vec<u64>,
}

impl Plan {
    /// The maximum number of requests, of kinds of sessions and of rows in an excerpt.
    pub const EXCERPT: usize = 100;
    /// The maximum number of requests in all sessions of an excerpt together.
    const EXCERPT_NAMED: usize = 1_000;

    /// The size of the plan.
    pub fn size(&self) -> PlanSize {
        let method = self.calls.first().map(|call| &call.method);
        let of = |length: fn(&CallSpec) -> u64| self.calls.iter().map(length).max().unwrap_or(0);
        let listed = self.calls.iter().take(Self::EXCERPT);
        PlanSize {
            requests: self.calls.len() as u64,
            sessions: self.sessions.as_ref().map_or(0, |s| s.kinds.len() as u64),
            table_rows: self.data.tables.iter().map(|t| t.rows() as u64).collect(),
            one_method: self.calls.iter().all(|call| Some(&call.method) == method),
            headers_max: of(|call| call.headers.len() as u64),
            body_bytes_max: of(CallSpec::body_length),
            body_bytes: listed.map(CallSpec::body_length).collect(),
        }
    }

    /// A copy of the plan with its first [`Plan::EXCERPT`] requests, kinds of sessions and rows of
    /// tables. Omitted requests are removed from sessions.
    #[must_use]
    pub fn excerpt(&self) -> Self {
        let mut plan = self.clone();
        if self.calls.len() > Self::EXCERPT {
            plan.calls = self.calls[..Self::EXCERPT].to_vec().into();
        }
        if let Some(sessions) = &self.sessions {
            plan.sessions = Some(excerpt_of(sessions));
        }
        for table in &mut plan.data.tables {
            if table.rows() > Self::EXCERPT {
                *table = Arc::new(table.first_rows(Self::EXCERPT as u32));
            }
        }
        plan
    }

    /// A copy of the plan without possible secrets: values of headers that are not known to be
    /// harmless, values of queries, bodies, raw bytes, defaults of extracted values, variables,
    /// rows of tables, conditions, and the client's key.
    #[must_use]
    pub fn hidden(&self) -> Self {
        let mut plan = self.clone();
        for call in &mut plan.calls {
            hide(call);
        }
        for table in &mut plan.data.tables {
            *table = Arc::new(table.hidden(HIDDEN));
        }
        for (_, value) in &mut plan.data.variables {
            HIDDEN.clone_into(value);
        }
        let sessions = plan.sessions.iter_mut().filter(|sessions| sessions.has_control());
        let kinds = sessions.flat_map(|sessions| &mut sessions.kinds);
        for control in kinds.flat_map(|kind| &mut kind.bursts).filter_map(|b| b.control.as_mut()) {
            control.hide(HIDDEN);
        }
        if let Some(key) = plan.tls.as_mut().and_then(|tls| tls.key.as_mut()) {
            *key = Secret::hidden();
        }
        if let Some(authorization) = plan.proxy.as_mut().and_then(|p| p.authorization.as_mut()) {
            *authorization = Secret::hidden();
        }
        if let Some(signing) = plan.aws_sigv4.as_deref_mut() {
            signing.hide();
        }
        plan
    }
}

fn hide(call: &mut CallSpec) {
    // Requests to a proxy have a complete URL.
    let is_path = call.path.starts_with('/');
    call.path = if is_path { shown_path(&call.path).into_owned() } else { shown_url(&call.path) };
    call.body = Vec::new();
    call.file = None;
    call.raw = Vec::new();
    for (name, value) in &mut call.headers {
        *value = shown_header(name, value).to_owned();
    }
    if let Some(text) = call.socket.as_mut().and_then(|socket| socket.awaited_text_mut()) {
        *text = HIDDEN.to_owned();
    }
    for extract in &mut call.extract {
        if extract.default.is_some() {
            extract.default = Some(HIDDEN.to_owned());
        }
    }
}

fn excerpt_of(sessions: &Sessions) -> Sessions {
    let mut left = Plan::EXCERPT_NAMED;
    let kinds = sessions.kinds.iter().take(Plan::EXCERPT).map(|kind| {
        let mut bursts = Vec::new();
        let is_cut = kind.bursts.iter().any(|b| b.calls.iter().any(|&c| c >= Plan::EXCERPT as u32));
        for burst in &kind.bursts {
            let kept = burst.calls.iter().copied().filter(|&call| call < Plan::EXCERPT as u32);
            let calls: Vec<u32> = kept.take(left).collect();
            left -= calls.len();
            if !calls.is_empty() {
                bursts.push(super::Burst { calls, ..burst.clone() });
            }
            if left == 0 {
                break;
            }
        }
        if is_cut || bursts.len() < kind.bursts.len() {
            // A switch counts its bursts.
            for control in bursts.iter_mut().filter_map(|burst| burst.control.as_mut()) {
                control.switches.clear();
            }
        }
        SessionKind { name: kind.name.clone(), weight: kind.weight, bursts }
    });
    Sessions { kinds: kinds.collect(), ..sessions.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Burst, Load, Stop, Think};
    use crate::target::Endpoint;

    fn plan(calls: usize) -> Plan {
        let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
        let call = |i: usize| CallSpec {
            method: "GET".into(),
            path: format!("/{i}?key=pw"),
            body: vec![b'x'; i],
            ..CallSpec::default()
        };
        let load = Load::Closed { connections: 1, think: Think::None };
        Plan::new(vec![endpoint], (0..calls).map(call).collect(), load, Stop::default())
    }

    #[test]
    fn an_excerpt_has_the_first_requests_and_the_size_of_the_whole() {
        let whole = plan(250);
        let (size, excerpt) = (whole.size(), whole.excerpt());
        assert_eq!((size.requests, size.body_bytes_max, size.one_method), (250, 249, true));
        assert_eq!(size.body_bytes, (0..100).collect::<Vec<u64>>());
        assert_eq!((excerpt.calls.len(), excerpt.calls[99].body.len()), (100, 99));
        let small = plan(100);
        assert_eq!(small.excerpt(), small);
    }

    #[test]
    fn sessions_of_an_excerpt_contain_only_requests_of_the_excerpt() {
        let mut whole = plan(1_000);
        let burst = |calls| Burst::of(calls, Think::None);
        let kind = |i: u32| SessionKind {
            name: String::new(),
            weight: 1,
            bursts: vec![burst((i * 2..i * 2 + 300).map(|c| c % 1_000).collect()), burst(vec![i])],
        };
        whole.sessions = Some(Sessions::plain((0..500).map(kind).collect()));
        let excerpt = whole.excerpt();
        let kinds = &excerpt.sessions.as_ref().unwrap().kinds;
        let named: Vec<u32> =
            kinds.iter().flat_map(|k| &k.bursts).flat_map(|b| b.calls.iter().copied()).collect();
        assert_eq!((kinds.len(), whole.size().sessions), (100, 500));
        assert!(named.len() <= Plan::EXCERPT_NAMED && named.iter().all(|&call| call < 100));
        assert_eq!(kinds[0].bursts[0].calls, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_hidden_plan_has_no_secrets() {
        let mut whole = plan(2);
        whole.calls[0].path = "http://me:pw@h/?k=pw".into();
        let call = &mut whole.calls[1];
        call.headers = vec![("X-Token".into(), "pw".into()), ("Accept".into(), "a".into())].into();
        call.raw = b"pw".to_vec();
        whole.data.variables = vec![("v".into(), "pw".into())];
        let hidden = whole.hidden();
        let text = serde_json::to_string(&hidden).unwrap();
        assert!(!text.contains("pw"), "{text}");
        assert!(hidden.calls.iter().all(|c| c.body.is_empty() && c.raw.is_empty()));
        assert_eq!(hidden.calls[0].path, "http://(hidden)@h/?k=(hidden)");
        assert_eq!(hidden.calls[1].headers[1].1, "a");
        assert_eq!(hidden.hidden(), hidden);
    }
}
