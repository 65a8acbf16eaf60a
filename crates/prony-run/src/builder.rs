//! The one way to a plan: a front end says in a [`Draft`] what it was asked for; the defaults of
//! everything else stand here. Front ends read options, keys or something else, and refuse in their
//! own words what cannot be; none of them makes a plan by itself.

use std::mem;

use prony_core::plan::{
    CallSpec, Data, Exchange, Expect, HttpVersion, Load, Pick, Plan, Sessions, Shard, Stop, Think,
    TlsSpec,
};
use prony_core::schedule::{Arrivals, RatePlan};
use prony_core::target::Endpoint;
use prony_core::units::Span;
use prony_io::ConnectTo;

use crate::environment::Environment;

/// Connections of a closed loop where nothing is said (as hey and oha have it).
const CONNECTIONS: u32 = 50;
/// How long a run lasts that nothing else ends.
pub const DURATION: Span = Span::from_secs(10);

/// A plan and what the reader should know about how it came to be.
#[derive(Debug)]
pub struct Planned {
    /// The run.
    pub plan: Plan,
    /// What the report must say of how the run was set up, in whole sentences.
    pub notes: Vec<String>,
    /// Why an open loop may open so many connections and no more, as the end of a sentence; `None`
    /// where the user said how many.
    pub cap: Option<String>,
}

/// A plan as far as a front end has been asked for it. What is not given gets its default.
#[derive(Debug, Default)]
pub struct Draft {
    /// Where requests go and what they are.
    pub targets: Targets,
    /// Where connections go in place of their endpoints.
    pub instead: Option<Instead>,
    /// The name that secured servers must prove to have, in place of their hosts.
    pub server_name: Option<String>,
    /// How connections are secured.
    pub tls: Option<Box<TlsSpec>>,
    /// How the next request is picked.
    pub pick: Option<Pick>,
    /// How much, and when.
    pub load: LoadDraft,
    /// What ends the run.
    pub stop: Stop,
    /// How long a run lasts that nothing else ends; by default [`DURATION`].
    pub duration: Option<Span>,
    /// Loads for that time before it measures.
    pub warmup: Option<Span>,
    /// Requests in flight on a connection.
    pub pipeline: Option<u32>,
    /// After how many requests a connection is closed.
    pub requests_per_connection: Option<u32>,
    /// A request fails after that time,
    pub timeout: Option<Span>,
    /// which counts from the send and not from the intended start.
    pub timeout_from_send: bool,
    /// Whether a lost connection is replaced at once.
    pub replace_lost: bool,
    /// A connect fails after that time.
    pub connect_timeout: Option<Span>,
    /// What counts as success.
    pub expect: Option<Expect>,
    /// The version of HTTP.
    pub http: Option<HttpVersion>,
    /// What is exchanged where that is not HTTP.
    pub exchange: Option<Box<Exchange>>,
    /// The seed of all random draws.
    pub seed: Option<u64>,
    /// Which share of the plan this is.
    pub shard: Option<Shard>,
}

/// How much is asked for, and when.
#[derive(Debug, Default)]
pub struct LoadDraft {
    /// Connections; of an open loop the most.
    pub connections: Option<u32>,
    /// The pause after a reply, in a closed loop.
    pub think: Option<Think>,
    /// The rate. It makes the loop an open one,
    pub rate: Option<RatePlan>,
    /// and so does a distribution of arrivals.
    pub arrivals: Option<Arrivals>,
}

/// Where connections go in place of their endpoints.
#[derive(Clone, Debug)]
pub enum Instead {
    /// To a Unix domain socket.
    Unix(String),
    /// To another host, and to another port where one is given.
    Tcp(ConnectTo),
}

impl Draft {
    /// The plan. Whether it can be carried out is for [`Plan::check`] to say.
    pub fn plan(self, around: &Environment) -> Planned {
        let mut targets = self.targets;
        if let Some(instead) = &self.instead {
            targets.redirect(instead);
        }
        if let Some(name) = &self.server_name {
            targets.rename(name);
        }
        let (load, cap) = self.load.load(around);
        let stop = ended(self.stop, &load, self.duration.unwrap_or(DURATION));
        let plan = Plan::new(targets.endpoints, targets.calls, load, stop);
        let plan = Plan {
            pick: self.pick.unwrap_or(plan.pick),
            sessions: targets.sessions,
            data: targets.data,
            names: targets.names,
            exchange: self.exchange,
            warmup: self.warmup.unwrap_or(plan.warmup),
            pipeline: self.pipeline.unwrap_or(plan.pipeline),
            requests_per_connection: self.requests_per_connection,
            timeout: self.timeout.unwrap_or(plan.timeout),
            timeout_from_send: self.timeout_from_send,
            replace_lost: self.replace_lost,
            connect_timeout: self.connect_timeout.unwrap_or(plan.connect_timeout),
            expect: self.expect.unwrap_or(plan.expect),
            http: self.http.unwrap_or(plan.http),
            tls: self.tls,
            seed: self.seed.unwrap_or(around.seed),
            shard: self.shard.unwrap_or(plan.shard),
            ..plan
        };
        Planned { plan, notes: Vec::new(), cap }
    }
}

impl LoadDraft {
    /// The load; and where nobody has limited the connections of an open loop, why there are no
    /// more of them.
    fn load(self, around: &Environment) -> (Load, Option<String>) {
        if self.rate.is_none() && self.arrivals.is_none() {
            let connections = self.connections.unwrap_or(CONNECTIONS);
            return (Load::Closed { connections, think: self.think.unwrap_or(Think::None) }, None);
        }
        let cap = self.connections.is_none().then(|| around.connections_why.clone());
        let connections = self.connections.unwrap_or(around.connections_max);
        let rate = self.rate.unwrap_or_default();
        let arrivals = self.arrivals.unwrap_or(Arrivals::Fixed);
        (Load::Open { rate, arrivals, connections }, cap)
    }
}

/// Whether a distribution of arrivals says how many there are, so that a rate would say it twice.
pub fn is_rate(arrivals: &Arrivals) -> bool {
    matches!(arrivals, Arrivals::Uniform(..) | Arrivals::Trace(_))
}

/// The stop rules; that time where neither they nor the load itself end the run.
fn ended(given: Stop, load: &Load, otherwise: Span) -> Stop {
    let ends = match load {
        Load::Closed { .. } => false,
        Load::Open { arrivals: Arrivals::Trace(_), .. } => true,
        Load::Open { arrivals: Arrivals::Uniform(..), .. } => false,
        Load::Open { rate, .. } => rate.length().is_some(),
    };
    if ends || given != Stop::default() {
        return given;
    }
    Stop { duration: Some(otherwise), ..given }
}

/// Where requests go and what they are.
#[derive(Debug, Default)]
pub struct Targets {
    /// The servers.
    pub endpoints: Vec<Endpoint>,
    /// The requests.
    pub calls: Vec<CallSpec>,
    /// The names that some of them have.
    pub names: Vec<String>,
    /// The sessions, where there are any.
    pub sessions: Option<Sessions>,
    /// Tables and variables.
    pub data: Data,
}

impl Targets {
    /// The index of the endpoint, which is added where it is new.
    pub fn endpoint(&mut self, endpoint: Endpoint) -> u32 {
        let index = self.endpoints.iter().position(|e| *e == endpoint).unwrap_or_else(|| {
            self.endpoints.push(endpoint);
            self.endpoints.len() - 1
        });
        index as u32
    }

    /// Send all connections elsewhere. Endpoints that become one share their connections then.
    fn redirect(&mut self, to: &Instead) {
        let endpoints = mem::take(&mut self.endpoints);
        let indices = endpoints.iter().map(|old| self.endpoint(redirected(old, to)));
        let indices: Vec<u32> = indices.collect();
        for call in &mut self.calls {
            call.endpoint = indices[call.endpoint as usize];
        }
    }

    /// Have all secured servers prove to have that name.
    fn rename(&mut self, to: &str) {
        for endpoint in &mut self.endpoints {
            if let Endpoint::Tls { name, .. } = endpoint {
                to.clone_into(name);
            }
        }
    }
}

/// Where a connection goes. Where TLS was spoken it still is, for the same name.
fn redirected(old: &Endpoint, to: &Instead) -> Endpoint {
    let new = match (to, old.transport()) {
        (Instead::Unix(path), _) => Endpoint::Unix { path: path.clone() },
        (Instead::Tcp(to), Endpoint::Tcp { port, .. }) => {
            Endpoint::Tcp { host: to.host.clone(), port: to.port.unwrap_or(*port) }
        }
        (Instead::Tcp(to), _) => {
            Endpoint::Tcp { host: to.host.clone(), port: to.port.unwrap_or(0) }
        }
    };
    match old.tls_name() {
        Some(name) => new.secured(name),
        None => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Environment {
        Environment { connections_max: 9, connections_why: "a reason".into(), seed: 7 }
    }

    fn targets(urls: &[&str]) -> Targets {
        let mut targets = Targets::default();
        for url in urls {
            let url: prony_core::target::Url = url.parse().unwrap();
            let endpoint = targets.endpoint(url.endpoint());
            let (method, path) = ("GET".into(), url.path);
            targets.calls.push(CallSpec { endpoint, method, path, ..CallSpec::default() });
        }
        targets
    }

    #[test]
    fn fills_in_what_is_not_given() {
        let draft = Draft { targets: targets(&["http://h/"]), ..Draft::default() };
        let Planned { plan, cap, .. } = draft.plan(&around());
        assert_eq!(plan.load, Load::Closed { connections: CONNECTIONS, think: Think::None });
        assert_eq!(plan.stop, Stop { duration: Some(DURATION), ..Stop::default() });
        assert_eq!((plan.seed, cap), (7, None));
        assert_eq!(plan.check(), Ok(()));
    }

    #[test]
    fn explains_only_a_limit_that_nobody_gave() {
        let load = |connections| LoadDraft {
            connections,
            arrivals: Some(Arrivals::Poisson),
            ..LoadDraft::default()
        };
        let (open, cap) = load(None).load(&around());
        assert!(matches!(open, Load::Open { connections: 9, .. }), "{open:?}");
        assert_eq!(cap.as_deref(), Some("a reason"));
        let (open, cap) = load(Some(4)).load(&around());
        assert!(matches!(open, Load::Open { connections: 4, .. }), "{open:?}");
        assert_eq!(cap, None);
    }

    #[test]
    fn ends_by_itself_only_where_nothing_else_ends_it() {
        let ends = |rate: &str, stop| {
            let rate = RatePlan::parse(rate).unwrap();
            let load = Load::Open { rate, arrivals: Arrivals::Fixed, connections: 1 };
            ended(stop, &load, DURATION)
        };
        let requests = Stop { requests: Some(5), ..Stop::default() };
        let otherwise = Stop { duration: Some(DURATION), ..Stop::default() };
        assert_eq!(ends("5", Stop::default()), otherwise);
        assert_eq!(ends("5", requests), requests);
        assert_eq!(ends("5@3s", Stop::default()), Stop::default());
    }

    #[test]
    fn redirected_endpoints_keep_ports_and_names_and_may_become_one() {
        let all = targets(&["http://a:81/", "https://b/", "http://c:81/", "http://a:81/"]);
        let to = Instead::Tcp("x".parse().unwrap());
        let draft = Draft {
            targets: all,
            instead: Some(to),
            server_name: Some("n".into()),
            ..Draft::default()
        };
        let plan = draft.plan(&around()).plan;
        let tcp = |port| Endpoint::Tcp { host: "x".into(), port };
        assert_eq!(plan.endpoints, [tcp(81), tcp(443).secured("n")]);
        let goes = plan.calls.iter().map(|call| call.endpoint);
        assert_eq!(goes.collect::<Vec<_>>(), [0, 1, 0, 0]);
    }
}
