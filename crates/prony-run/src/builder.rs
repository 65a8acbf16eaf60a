//! The only way to a plan: a front end fills a [`Draft`] from its options or keys, and this module
//! adds the defaults. Front ends check their own input, and have their own error messages.

use std::mem;
use std::sync::Arc;

use prony_base::units::Span;
use prony_io::ConnectTo;
use prony_plan::plan::{
    AwsSigning, CallSpec, Check, Checks, Data, Exchange, Expect, Follow, Group, Http2Spec,
    HttpVersion, Load, Pick, Placement, Plan, ProxySpec, RedirectServer, Redirects, Sessions,
    Shard, Stop, StreamPlan, Think, TlsSpec,
};
use prony_plan::schedule::{Arrivals, RatePlan};
use prony_plan::target::Endpoint;
use prony_plan::threshold::Threshold;

use crate::environment::Environment;
use crate::error::Error;

/// The default number of connections of a closed loop, as in hey and oha.
const CONNECTIONS: u32 = 50;
/// The default duration of a run that nothing else ends.
pub const DURATION: Span = Span::from_secs(10);
/// The longest time by default until the thresholds of such a run are decided.
pub const DECIDE_WITHIN: Span = Span::from_secs(60);

/// The default number of concurrent streams per connection of HTTP/2 in an open loop, where it does
/// not set the load.
const STREAMS_OPEN: u32 = 100;

/// A plan, with notes for its report.
#[derive(Debug)]
pub struct Planned {
    /// The run.
    pub plan: Plan,
    /// Notes about the setup for the report, in full sentences.
    pub notes: Vec<String>,
    /// The reason for the default connection limit of an open loop, as the end of a sentence;
    /// `None` if the user set the limit.
    pub cap: Option<String>,
    /// Whether nothing ends the run but the default duration.
    pub is_endless: bool,
}

impl Planned {
    /// Lets a run that nothing else ends go on until its thresholds are decided, for `within` at
    /// most; by default for [`DECIDE_WITHIN`]. One that `is_shared` by hosts has the default
    /// duration, as none of them knows all.
    ///
    /// # Errors
    /// `within` is given for a run that is shared, has an end or no thresholds.
    pub fn decide(&mut self, within: Option<Span>, is_shared: bool) -> Result<(), Error> {
        let plan = &mut self.plan;
        plan.decides = self.is_endless && !is_shared && !plan.thresholds.is_empty();
        if plan.decides {
            plan.stop.duration = Some(within.unwrap_or(DECIDE_WITHIN));
            return Ok(());
        }
        let why = match plan.thresholds.is_empty() {
            true => "there is no threshold to decide; add --threshold",
            false if is_shared => "no host of several knows when all is decided; use -d",
            false => "something else ends the load; remove it, or this option",
        };
        within.map_or(Ok(()), |_| Err(Error::Argument(format!("--decide-within: {why}"))))
    }
}

/// The given parts of a plan. All others get their defaults.
#[derive(Debug, Default)]
pub struct Draft {
    /// The servers and requests.
    pub targets: Targets,
    /// The address to connect to instead of the endpoints.
    pub instead: Option<Instead>,
    /// The proxy that all connections go through.
    pub proxy: Option<Box<ProxySpec>>,
    /// How requests are signed for AWS.
    pub aws_sigv4: Option<Box<AwsSigning>>,
    /// The server name for TLS, instead of the hosts.
    pub server_name: Option<String>,
    /// The TLS options.
    pub tls: Option<Box<TlsSpec>>,
    /// How to choose the next request.
    pub pick: Option<Pick>,
    /// The load.
    pub load: LoadDraft,
    /// The stop rules.
    pub stop: Stop,
    /// The duration of a run that nothing else ends; by default [`DURATION`].
    pub duration: Option<Span>,
    /// The duration of the warm-up.
    pub warmup: Option<Span>,
    /// Requests in flight per connection.
    pub pipeline: Option<u32>,
    /// Which connection a request takes.
    pub placement: Option<Placement>,
    /// Options of HTTP/2.
    pub http2: Option<Box<Http2Spec>>,
    /// How bodies are read as streams of messages.
    pub stream: Option<Box<StreamPlan>>,
    /// Requests per connection.
    pub requests_per_connection: Option<u32>,
    /// The thresholds of the run's figures.
    pub thresholds: Vec<Threshold>,
    /// The timeout of requests.
    pub timeout: Option<Span>,
    /// Whether the timeout counts from the send instead of the intended start.
    pub timeout_from_send: bool,
    /// Whether a lost connection is replaced at once.
    pub replace_lost: bool,
    /// The timeout of connects.
    pub connect_timeout: Option<Span>,
    /// Which redirects are followed; by default none.
    pub redirects: Option<Redirects>,
    /// What counts as success.
    pub expect: Option<Expect>,
    /// The HTTP version.
    pub http: Option<HttpVersion>,
    /// The exchanges of a protocol other than HTTP.
    pub exchange: Option<Box<Exchange>>,
    /// The seed of the random numbers.
    pub seed: Option<u64>,
    /// The share of the plan.
    pub shard: Option<Shard>,
}

/// The given parts of a load.
#[derive(Debug, Default)]
pub struct LoadDraft {
    /// The number of connections; the maximum for an open loop.
    pub connections: Option<u32>,
    /// The think time, in a closed loop.
    pub think: Option<Think>,
    /// The time over which the users of a closed loop start.
    pub ramp_up: Option<Span>,
    /// The rate of an open loop.
    pub rate: Option<RatePlan>,
    /// The arrival process of an open loop.
    pub arrivals: Option<Arrivals>,
}

/// The address to connect to instead of the endpoints.
#[derive(Clone, Debug)]
pub enum Instead {
    /// A Unix domain socket.
    Unix(String),
    /// Another host, and another port if it is given.
    Tcp(ConnectTo),
}

impl Draft {
    /// The plan. [`Plan::check`] decides whether it can be run.
    pub fn plan(self, around: &Environment) -> Planned {
        let mut targets = self.targets;
        if let Some(instead) = &self.instead {
            targets.redirect(instead);
        }
        if let Some(name) = &self.server_name {
            targets.rename(name);
        }
        let http = self.http.unwrap_or(HttpVersion::Http11);
        targets.expect_of_sockets(http);
        // Over HTTP/2, sockets are streams next to requests.
        if !http.is_http2() {
            targets.separate_sockets();
        }
        let follow = targets.follow(self.redirects.unwrap_or(Redirects::Off));
        let ramp_up = self.load.ramp_up.filter(|&ramp| ramp > Span::ZERO);
        let (load, cap) = self.load.load(around);
        let given = Stop { requests: targets.most(self.stop.requests), ..self.stop };
        let stop = stop_rules(given, &load, self.duration.unwrap_or(DURATION));
        let is_endless = self.duration.is_none() && stop != given;
        let plan = Plan::new(targets.endpoints, targets.calls, load, stop);
        let is_open = matches!(plan.load, Load::Open { .. });
        let in_flight = if http.is_http2() && is_open { STREAMS_OPEN } else { plan.pipeline };
        let plan = Plan {
            pick: self.pick.unwrap_or(plan.pick),
            sessions: targets.sessions,
            data: targets.data,
            checks: targets.checks,
            groups: targets.groups,
            names: targets.names,
            exchange: self.exchange,
            ramp_up,
            warmup: self.warmup.unwrap_or(plan.warmup),
            pipeline: self.pipeline.unwrap_or(in_flight),
            placement: self.placement.unwrap_or(plan.placement),
            http2: self.http2,
            stream: self.stream,
            requests_per_connection: self.requests_per_connection,
            timeout: self.timeout.unwrap_or(plan.timeout),
            timeout_from_send: self.timeout_from_send,
            replace_lost: self.replace_lost,
            connect_timeout: self.connect_timeout.unwrap_or(plan.connect_timeout),
            follow: follow.map(Box::new),
            expect: self.expect.unwrap_or(plan.expect),
            http,
            thresholds: self.thresholds,
            tls: self.tls,
            proxy: self.proxy,
            aws_sigv4: self.aws_sigv4,
            seed: self.seed.unwrap_or(around.seed),
            shard: self.shard.unwrap_or(plan.shard),
            ..plan
        };
        Planned { plan, notes: Vec::new(), cap, is_endless }
    }
}

impl LoadDraft {
    /// The load, and the reason for the default connection limit of an open loop.
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

/// Whether the arrival process sets the rate itself.
pub fn is_rate(arrivals: &Arrivals) -> bool {
    !arrivals.has_rate()
}

/// The stop rules; the duration `otherwise` if neither they nor the load end the run.
fn stop_rules(given: Stop, load: &Load, otherwise: Span) -> Stop {
    let ends = match load {
        Load::Closed { .. } => false,
        Load::Open { arrivals: Arrivals::Trace(_) | Arrivals::Log, .. } => true,
        Load::Open { arrivals: Arrivals::Uniform(..), .. } => false,
        Load::Open { rate, .. } => rate.length().is_some(),
    };
    if ends || given != Stop::default() {
        return given;
    }
    Stop { duration: Some(otherwise), ..given }
}

/// The servers and requests of a plan.
#[derive(Debug, Default)]
pub struct Targets {
    /// The servers.
    pub endpoints: Vec<Endpoint>,
    /// The requests.
    pub calls: Vec<CallSpec>,
    /// The names of requests.
    pub names: Vec<String>,
    /// The sessions.
    pub sessions: Option<Sessions>,
    /// Tables and variables.
    pub data: Data,
    /// The checks of replies.
    pub checks: Checks,
    /// The groups of steps of sessions.
    pub groups: Vec<Group>,
    /// The servers to which redirects may lead, besides those of the requests.
    pub redirect_to: Vec<RedirectServer>,
}

impl Targets {
    /// The index of the endpoint, which is added if it is new.
    pub fn endpoint(&mut self, endpoint: Endpoint) -> u32 {
        let index = self.endpoints.iter().position(|e| *e == endpoint).unwrap_or_else(|| {
            self.endpoints.push(endpoint);
            self.endpoints.len() - 1
        });
        index as u32
    }

    /// Adds checks of the replies to all requests.
    pub fn check_all(&mut self, checks: &[Check]) {
        let own = mem::replace(&mut self.checks, Checks::of_all(checks.to_vec()));
        for call in self.calls.iter_mut().filter(|call| !call.checks.is_empty()) {
            let old = call.checks.iter().map(|&index| own.list[index as usize].clone());
            let new: Vec<u32> = old.map(|check| self.checks.intern(check)).collect();
            call.checks = new.into_iter().filter(|&i| i >= self.checks.of_all).collect();
        }
    }

    /// Redirects all connections. Endpoints that become equal share their connections.
    fn redirect(&mut self, to: &Instead) {
        let endpoints = mem::take(&mut self.endpoints);
        let indices = endpoints.iter().map(|old| self.endpoint(redirected(old, to)));
        let indices: Vec<u32> = indices.collect();
        for call in &mut self.calls {
            call.endpoint = indices[call.endpoint as usize];
        }
        for server in &mut self.redirect_to {
            // One that does not exist is refused later.
            let index = indices.get(server.endpoint as usize);
            server.endpoint = index.copied().unwrap_or(server.endpoint);
        }
    }

    /// Gives the steps on WebSockets that name no statuses the usual ones of this version.
    fn expect_of_sockets(&mut self, http: HttpVersion) {
        for call in &mut self.calls {
            if let (Some(step), Some(expect)) = (&call.socket, &mut call.expect)
                && expect.statuses.is_empty()
            {
                expect.statuses = step.usual_expect(http).statuses;
            }
        }
    }

    /// Gives the steps on WebSockets copies of the endpoints to which requests go, too, and each
    /// name of a socket a copy of its own, so that a session finds the socket of a step, and never
    /// another one or a connection of requests.
    fn separate_sockets(&mut self) {
        let of_requests = self.calls.iter().filter(|call| call.socket.is_none());
        let of_requests = of_requests.map(|call| call.endpoint);
        let servers = self.redirect_to.iter().map(|server| server.endpoint);
        let shared: Vec<u32> = of_requests.chain(servers).collect();
        // The endpoint and the name of each socket, and the endpoint that it gets.
        let mut sockets: Vec<(u32, Option<Arc<str>>, u32)> = Vec::new();
        for call in self.calls.iter_mut().filter(|call| call.socket.is_some()) {
            let (own, name) = (call.endpoint, &call.socket_name);
            let known = sockets.iter().find(|(of, other, _)| *of == own && other == name);
            call.endpoint = match known {
                Some((.., place)) => *place,
                None => {
                    let is_taken =
                        shared.contains(&own) || sockets.iter().any(|(of, ..)| *of == own);
                    let place = if is_taken { self.endpoints.len() as u32 } else { own };
                    if is_taken {
                        self.endpoints.push(self.endpoints[own as usize].clone());
                    }
                    sockets.push((own, name.clone(), place));
                    place
                }
            };
        }
    }

    /// The most requests: `given`, and no more than there are rows that are used once. (With
    /// sessions, these limit the sessions.)
    fn most(&self, given: Option<u64>) -> Option<u64> {
        let has_rows = self.sessions.is_none() && self.calls.iter().any(|call| call.template);
        let rows = Some(self.data.sessions_max()).filter(|&rows| has_rows && rows < u64::MAX);
        given.into_iter().chain(rows).min()
    }

    /// What is followed, if any request follows redirects. Their times are those of a group.
    fn follow(&mut self, redirects: Redirects) -> Option<Follow> {
        let follows = |redirects| matches!(redirects, Some(Redirects::Most(_)));
        let own = self.calls.iter().any(|call| follows(call.redirects));
        if !own && !follows(Some(redirects)) {
            return None;
        }
        let group = self.groups.len() as u32;
        self.groups.push(Group { name: Follow::GROUP.to_owned(), parts: Vec::new() });
        Some(Follow { redirects, servers: mem::take(&mut self.redirect_to), group })
    }

    /// Sets the server name of all TLS endpoints.
    fn rename(&mut self, to: &str) {
        for endpoint in &mut self.endpoints {
            if let Endpoint::Tls { name, .. } = endpoint {
                to.clone_into(name);
            }
        }
    }
}

/// The new endpoint of a redirected connection. TLS and its server name are kept.
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
        Environment {
            connections_max: 9,
            connections_why: "a reason".into(),
            seed: 7,
            simulated: false,
        }
    }

    fn targets(urls: &[&str]) -> Targets {
        let mut targets = Targets::default();
        for url in urls {
            let url: prony_plan::target::Url = url.parse().unwrap();
            let endpoint = targets.endpoint(url.endpoint());
            let (method, path) = ("GET".into(), url.path);
            targets.calls.push(CallSpec { endpoint, method, path, ..CallSpec::default() });
        }
        targets
    }

    #[test]
    fn fills_in_defaults() {
        let draft = Draft { targets: targets(&["http://h/"]), ..Draft::default() };
        let Planned { plan, cap, .. } = draft.plan(&around());
        assert_eq!(plan.load, Load::Closed { connections: CONNECTIONS, think: Think::None });
        assert_eq!(plan.stop, Stop { duration: Some(DURATION), ..Stop::default() });
        assert_eq!((plan.seed, cap), (7, None));
        assert_eq!(plan.check(), Ok(()));
    }

    #[test]
    fn explains_only_default_connection_limits() {
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
    fn adds_a_duration_only_if_nothing_else_ends_the_run() {
        let ends = |rate: &str, stop| {
            let rate = RatePlan::parse(rate).unwrap();
            let load = Load::Open { rate, arrivals: Arrivals::Fixed, connections: 1 };
            stop_rules(stop, &load, DURATION)
        };
        let requests = Stop { requests: Some(5), ..Stop::default() };
        let otherwise = Stop { duration: Some(DURATION), ..Stop::default() };
        assert_eq!(ends("5", Stop::default()), otherwise);
        assert_eq!(ends("5", requests), requests);
        assert_eq!(ends("5@3s", Stop::default()), Stop::default());
    }

    #[test]
    fn redirected_endpoints_keep_ports_and_names_and_merge() {
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
