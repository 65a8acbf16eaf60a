//! The plan of a run, already valid: the common form to which every front end compiles.

mod body_file;
mod calls;
mod checks;
mod clients;
mod control;
mod data;
mod deal;
mod due;
mod excerpt;
mod exchange;
mod follow;
mod framing;
mod groups;
mod grpc;
mod http2;
mod messages;
mod parse;
mod proxy;
mod ramp;
mod session;
mod shard;
mod shared;
mod sigv4;
mod socket;
mod steps;
mod stream;
mod tls;
mod tokens;
mod websocket;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rate::{Arrivals, RatePlan};
use crate::target::Endpoint;
use crate::threshold::Threshold;
use crate::vars::Extract;
use prony_base::rng;
use prony_base::units::{Nanos, Span};

pub use body_file::{BodyFile, ReadAt, Source};
pub use calls::Calls;
pub use checks::{Check, Checks, Condition, Order, Subject, TextTest};
pub use clients::{Clients, Pace};
pub use control::{Alternative, AtLimit, Control, Gate, Retry, RetryOn, Switch, Until};
pub use data::Data;
pub use deal::Deal;
pub use excerpt::PlanSize;
pub use exchange::{Exchange, Framing, Message};
pub use follow::{Follow, RedirectServer, Redirects};
pub(crate) use framing::check_version;
pub use groups::{Group, GroupPart};
pub use grpc::{GrpcCall, MessagePart, ScalarKind, Wire};
pub use http2::Http2Spec;
pub use messages::{MessagePlan, MessageReply};
pub use parse::status_text;
pub use prony_base::secret::Secret;
pub use proxy::ProxySpec;
pub use session::{Burst, Cookies, Lost, OnFailure, SessionKind, Sessions};
pub use shard::Shard;
pub use shared::Shared;
pub use sigv4::AwsSigning;
pub use socket::{SocketStep, Wait};
pub use steps::{Step, steps};
pub use stream::{StreamFormat, StreamPlan};
pub use tls::{Resume, TlsSpec, TlsVersion, openssl_name};
pub use tls::{group_id, suite_id, suite_ids, suite_name};
pub use tokens::{TokenDialect, TokenLimit, TokenPlan, TokenTime};
pub use websocket::{BroadcastPlan, WebSocketPlan};

/// A whole run. Pure data: it can be saved, sent to another machine, and split by [`Plan::shard`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where connections go. Never empty.
    pub endpoints: Vec<Endpoint>,
    /// The requests. Never empty. Shared by the shares of the plan, because there may be very many.
    #[serde(rename = "requests")]
    pub calls: Shared<CallSpec>,
    /// How the next call is picked. Unused if there are sessions.
    pub pick: Pick,
    /// The sessions; `None`: requests are independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
    /// The groups of steps of sessions, in the order of their first use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Tables and variables for templates, besides the values that sessions extract.
    #[serde(default, skip_serializing_if = "Data::is_empty")]
    pub data: Data,
    /// The names of calls, by which a report groups them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Messages of the echo protocol, which are exchanged instead of HTTP's requests and replies.
    /// Of the calls, only names and order are used then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Box<Exchange>>,
    /// When requests (or sessions) start.
    pub load: Load,
    /// How the clients of a closed loop divide its requests; `None`: all users share them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Box<Clients>>,
    /// The time over which the users of a closed loop start one after the other; `None`: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_up: Option<Span>,
    /// When the run ends.
    pub stop: Stop,
    /// The length of the load before the measurement, which is recorded separately. The stop rules
    /// count from its end.
    pub warmup: Span,
    /// Requests in flight per connection; 1 = no pipelining.
    pub pipeline: u32,
    /// Which connection a request of an open loop takes if several have room.
    #[serde(default, skip_serializing_if = "Placement::is_usual")]
    pub placement: Placement,
    /// Requests per connection before it is closed; `None` = as many as the server allows;
    /// `Some(1)` = a new connection per request.
    pub requests_per_connection: Option<u32>,
    /// From the intended start to the last byte of the reply.
    pub timeout: Span,
    /// Whether the timeout runs from the send instead of from the intended start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timeout_from_send: bool,
    /// Whether a lost request (see [`Fault::is_lost`]) does not count towards [`Stop::requests`],
    /// so that another one replaces it; only in a closed loop without sessions.
    ///
    /// [`Fault::is_lost`]: prony_base::fault::Fault::is_lost
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace_lost: bool,
    /// From the start of the connect to the open connection.
    pub connect_timeout: Span,
    /// What counts as success.
    pub expect: Expect,
    /// The redirects that are followed; `None`: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<Box<Follow>>,
    /// The checks of replies, which are counted apart from failures.
    #[serde(default, skip_serializing_if = "Checks::is_empty")]
    pub checks: Checks,
    /// The limits that the user sets for figures of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
    /// Whether the load ends as soon as its thresholds are decided, which may be before its
    /// duration is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decides: bool,
    /// The protocol version.
    pub http: HttpVersion,
    /// Options of HTTP/2; `None`: the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<Box<Http2Spec>>,
    /// When the messages of streams are sent; `None`: all at the start of their stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Box<MessagePlan>>,
    /// How bodies are read as streams of messages; `None`: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Box<StreamPlan>>,
    /// How requests open connections of WebSocket; `None`: they are requests of HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websocket: Option<Box<WebSocketPlan>>,
    /// TLS options of the connections to [`Endpoint::Tls`]; `None`: the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Box<TlsSpec>>,
    /// The proxy that all connections go through; `None`: they go to the servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Box<ProxySpec>>,
    /// How requests are signed for AWS; `None`: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_sigv4: Option<Box<AwsSigning>>,
    /// The seed of every random draw.
    pub seed: u64,
    /// The share of the whole plan that this plan is.
    pub shard: Shard,
    /// The connection limit of the open loop before the limits of a machine lowered it; `None`: it
    /// is as planned. Arrivals are dealt by it, as all machines have to agree.
    #[serde(skip)]
    pub connections_planned: Option<u32>,
}

/// One request that may be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSpec {
    /// Index into [`Plan::endpoints`].
    pub endpoint: u32,
    /// The method, verbatim.
    pub method: Cow<'static, str>,
    /// The request target as sent (path and query, verbatim).
    pub path: String,
    /// The Host header's value, usually shared by many calls.
    pub authority: Arc<str>,
    /// Additional headers, in order, verbatim. A `Host`, `Content-Length`, `Content-Type` or
    /// `Connection` here replaces that of prony; with `Transfer-Encoding: chunked` the body is sent
    /// as one chunk. Usually shared by many calls.
    pub headers: Shared<(String, String)>,
    /// The body; empty = none (a method that defines a body then sends `Content-Length: 0`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<u8>,
    /// The file that has the body instead, which is sent as it is; `None`: `body` is it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Box<BodyFile>>,
    /// Whether only `headers` are sent: no `Host`, `User-Agent`, `Accept`, `Connection` or
    /// `Content-Length` is added.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bare: bool,
    /// Bytes between the last header and the empty line, verbatim; only if the call is `bare`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raw: Vec<u8>,
    /// Index into [`Plan::names`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<u32>,
    /// What counts as success for this call; `None`: what the plan expects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Box<Expect>>,
    /// Whether path, header values and body are templates (`{{name}}`), to be filled in for each
    /// request. Only calls of sessions may be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub template: bool,
    /// Whether the body of a template is compressed with gzip for each request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gzip: bool,
    /// Whether it is not signed, although the plan signs requests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsigned: bool,
    /// The values to extract from a successful reply, for later requests of the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extract: Vec<Extract>,
    /// The checks of its replies besides those of all requests: indices into [`Plan::checks`].
    #[serde(default, skip_serializing_if = "<[u32]>::is_empty")]
    pub checks: Shared<u32>,
    /// Whether its redirects are followed; `None`: as the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirects: Option<Redirects>,
    /// The call as one of gRPC; `None`: it is a request of HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Box<GrpcCall>>,
    /// The call as a step on a WebSocket; `None`: it is no such step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<Box<SocketStep>>,
    /// The name of the step's WebSocket, for sessions that hold several at once. Each has an
    /// endpoint of its own, which may be a copy of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_name: Option<Arc<str>>,
}

impl CallSpec {
    /// The method with this name. Common names are not allocated.
    pub fn method_of(name: &str) -> Cow<'static, str> {
        const USUAL: [&str; 7] = ["GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"];
        let usual = USUAL.into_iter().find(|usual| *usual == name);
        usual.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed)
    }

    /// How many messages the call has, if it is one of gRPC.
    pub fn message_count(&self) -> u64 {
        match self.grpc.as_deref() {
            Some(grpc) if !grpc.messages.is_empty() => grpc.messages.len() as u64,
            _ => {
                let (mut rest, mut count) = (&self.body[..], 0);
                while !rest.is_empty() {
                    rest = &rest[prony_base::grpc::length(rest)..];
                    count += 1;
                }
                count
            }
        }
    }

    /// Whether any message of gRPC has variable parts.
    pub fn has_variable_messages(&self) -> bool {
        self.grpc.as_ref().is_some_and(|call| !call.messages.is_empty())
    }

    /// The text that the body of its reply must contain after decoding: the request asks for
    /// encoded bodies.
    pub fn encoded_text<'a>(&'a self, plan: &'a Plan) -> Option<&'a [u8]> {
        let asks = |(name, _): &(String, String)| name.eq_ignore_ascii_case("Accept-Encoding");
        let expect = self.expect.as_deref().unwrap_or(&plan.expect);
        let text = expect.body.as_deref().filter(|_| !self.is_head())?;
        self.headers.iter().any(asks).then_some(text)
    }

    /// Whether the method is HEAD, so that the reply has no body.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether the method is idempotent (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(&*self.method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE")
    }
}

/// How the k-th request of the whole run picks its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// Call k modulo their number.
    InTurn,
    /// At random with equal probabilities; depends only on the seed and k.
    Random,
}

/// When requests start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// A number of connections, each with [`Plan::pipeline`] requests in flight. The next request
    /// starts when a reply has arrived and the think time has passed.
    Closed {
        /// Connections, over all shares.
        connections: u32,
        /// The think time.
        think: Think,
    },
    /// Arrivals by a rate and an arrival process, independent of the replies.
    Open {
        /// The rate over time. Ignored (and empty) if the arrivals have no rate.
        rate: RatePlan,
        /// The arrival process.
        arrivals: Arrivals,
        /// The connection limit, over all shares.
        connections: u32,
    },
}

impl Load {
    /// The maximum time for which a user of a closed loop waits after a failed connect.
    pub const AWAY_MAX: Span = Span::from_millis(128);
}

/// The time between a reply and the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Think {
    /// None.
    None,
    /// Constant.
    Fixed(Span),
    /// Exponential with this mean.
    Exponential(Span),
    /// Uniform between the two bounds.
    Uniform(Span, Span),
    /// Log-normal: its median, and the standard deviation of its logarithm in thousandths.
    LogNormal(Span, u32),
}

impl Think {
    /// A draw from 64 random bits.
    #[inline]
    pub fn draw(self, bits: u64) -> Span {
        match self {
            Self::None => Span::ZERO,
            Self::Fixed(time) => time,
            Self::Exponential(mean) => rng::exponential(bits, mean),
            Self::Uniform(low, high) => rng::uniform(bits, low, high),
            Self::LogNormal(median, sigma) => {
                rng::log_normal(bits, median, f64::from(sigma) / 1000.0)
            }
        }
    }
}

/// The stop rules; whichever comes first. At least one is set, unless the rate plan or trace ends
/// by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Measured requests to start, over all shares.
    pub requests: Option<u64>,
    /// Measured sessions to start, over all shares; only if the plan has sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u64>,
    /// Length of the measurement.
    pub duration: Option<Span>,
}

/// What counts as success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// Inclusive ranges of statuses.
    pub statuses: Vec<(u16, u16)>,
    /// Bytes that the body must contain.
    pub body: Option<Vec<u8>>,
    /// The body's exact length in bytes.
    pub length: Option<u64>,
}

impl Default for Expect {
    fn default() -> Self {
        Self { statuses: vec![(200, 399)], body: None, length: None }
    }
}

impl Expect {
    /// Whether the status counts as success.
    pub fn accepts(&self, status: u16) -> bool {
        self.statuses.iter().any(|&(lo, hi)| (lo..=hi).contains(&status))
    }
}

/// The HTTP version of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.0: keep-alive only if both sides say so.
    #[serde(rename = "1.0")]
    Http10,
    /// HTTP/1.1.
    #[serde(rename = "1.1")]
    Http11,
    /// HTTP/2 if the server offers it in the TLS handshake, otherwise HTTP/1.1.
    #[serde(rename = "2")]
    Http2,
    /// HTTP/2 alone; without TLS by prior knowledge.
    #[serde(rename = "2-only")]
    Http2Only,
}

impl HttpVersion {
    /// Whether connections may use HTTP/2.
    pub fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Http2Only)
    }
}

/// Which connection a request of an open loop takes if several have room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// An idle one; otherwise a new one, below the connection limit; otherwise those with room in
    /// turn.
    #[default]
    Spread,
    /// A busy one with room; if there is none, as above.
    Fill,
}

impl Placement {
    /// Whether this is the default, which is not saved.
    fn is_usual(&self) -> bool {
        *self == Self::Spread
    }
}

impl Plan {
    /// The planned length of the measurement, if it has one.
    pub fn length(&self) -> Option<Span> {
        let planned = match &self.load {
            Load::Open { arrivals: Arrivals::Trace(times), .. } => times.last().copied(),
            Load::Open { arrivals: Arrivals::Uniform(..) | Arrivals::Log, .. }
            | Load::Closed { .. } => None,
            Load::Open { rate, .. } => rate.length(),
        };
        self.stop.duration.into_iter().chain(planned).min()
    }

    /// Whether the requests are those of a log, which is read while the load runs.
    pub fn is_logged(&self) -> bool {
        matches!(self.load, Load::Open { arrivals: Arrivals::Log, .. })
    }

    /// Whether the load changes during the measurement, so that a mean of the rate says little.
    pub fn has_changing_rate(&self) -> bool {
        match &self.load {
            Load::Open { rate, arrivals, .. } if arrivals.has_rate() => rate.changes(),
            Load::Open { .. } => false,
            Load::Closed { .. } => self.has_changing_users(),
        }
    }

    /// The target rate of an open loop at that time, per second.
    pub fn target_rate(&self, now: Nanos) -> Option<f64> {
        let Load::Open { rate, arrivals, .. } = &self.load else { return None };
        match arrivals {
            Arrivals::Fixed | Arrivals::Poisson | Arrivals::Gamma(_) => {
                Some(rate.rate_at(now.since(Nanos::ZERO + self.warmup)))
            }
            Arrivals::Uniform(lo, hi) => Some(2.0 / (lo.as_secs_f64() + hi.as_secs_f64())),
            Arrivals::Trace(_) | Arrivals::Log => None,
        }
    }

    /// A plan that sends these independent requests in turn, with default values otherwise:
    /// HTTP/1.1 without pipelining on keep-alive connections, a timeout of 30 s for requests and 5
    /// s for connects, no warm-up, seed 1, not split.
    pub fn new(endpoints: Vec<Endpoint>, calls: Vec<CallSpec>, load: Load, stop: Stop) -> Self {
        Self {
            endpoints,
            calls: calls.into(),
            pick: Pick::InTurn,
            sessions: None,
            groups: Vec::new(),
            data: Data::default(),
            names: Vec::new(),
            exchange: None,
            load,
            clients: None,
            ramp_up: None,
            stop,
            warmup: Span::ZERO,
            pipeline: 1,
            placement: Placement::Spread,
            requests_per_connection: None,
            timeout: Span::from_secs(30),
            timeout_from_send: false,
            replace_lost: false,
            connect_timeout: Span::from_secs(5),
            follow: None,
            checks: Checks::default(),
            thresholds: Vec::new(),
            decides: false,
            expect: Expect::default(),
            http: HttpVersion::Http11,
            http2: None,
            messages: None,
            stream: None,
            websocket: None,
            tls: None,
            proxy: None,
            aws_sigv4: None,
            seed: 1,
            shard: Shard::WHOLE,
            connections_planned: None,
        }
    }

    /// The connection limit of this share.
    pub fn connections_max(&self) -> u64 {
        match (&self.load, &self.sessions) {
            (Load::Open { connections, .. }, _) | (Load::Closed { connections, .. }, None) => {
                self.shard.share_of(u64::from(*connections))
            }
            (Load::Closed { connections, .. }, Some(sessions)) => {
                let each = sessions.kinds.iter().map(|kind| self.connections_of(kind, sessions));
                self.shard.share_of(u64::from(*connections)) * each.max().unwrap_or(1)
            }
        }
    }

    /// The maximum number of concurrent connections of a session of this kind.
    fn connections_of(&self, kind: &SessionKind, sessions: &Sessions) -> u64 {
        let mut most = vec![0; self.endpoints.len()];
        for burst in &kind.bursts {
            let mut calls = vec![0_u64; self.endpoints.len()];
            for &call in &burst.calls[usize::from(burst.lead && burst.calls.len() > 1)..] {
                calls[self.calls[call as usize].endpoint as usize] += 1;
            }
            for &call in &burst.calls[..usize::from(burst.lead)] {
                let n = &mut calls[self.calls[call as usize].endpoint as usize];
                *n = (*n).max(1);
            }
            if self.follow.is_some() {
                // Each of them may lead to any server.
                let all = calls.iter().sum::<u64>();
                calls.fill(all);
            }
            for (most, calls) in most.iter_mut().zip(calls) {
                let wanted = calls.div_ceil(u64::from(self.pipeline));
                *most = wanted.min(u64::from(sessions.connections)).max(*most);
            }
        }
        most.iter().sum()
    }
}

#[cfg(test)]
pub(crate) mod tests;
