//! Connections of WebSocket.

use serde::{Deserialize, Serialize};

use super::{CallSpec, Load, MessageReply, Plan};
use prony_base::units::{Nanos, Span};

/// How the requests of a plan open connections of WebSocket. Each one is a connection, from its
/// handshake to its close; the body of its call is the message that it sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSocketPlan {
    /// Whether messages are binary; otherwise they are text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// The subprotocols that are offered, the preferred one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subprotocols: Vec<String>,
    /// Whether messages are compressed (permessage-deflate).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compress: bool,
    /// Whether texts of the server need not be UTF-8.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_utf8_check: bool,
    /// The time between pings on each connection; `None`: prony sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_every: Option<Span>,
    /// Some connections publish messages, and all others receive them; `None`: each connection is
    /// by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast: Option<Box<BroadcastPlan>>,
}

/// A broadcast: the first connections send the messages of the plan's schedule, and the server is
/// expected to pass each one to all other connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroadcastPlan {
    /// How many connections publish.
    pub publishers: u32,
    /// From the intended start of a publisher to the start of its schedule.
    pub after: Span,
    /// How long subscribers stay after the last message is due. In the second half of this time,
    /// they await no further messages, only deliveries.
    pub wait: Span,
    /// What distinguishes the processes of one run, so that none measures the publishers of
    /// another, which has another clock.
    #[serde(skip)]
    pub process: u64,
}

impl BroadcastPlan {
    /// Where a publisher's message has its stamp; without it, the stamp comes first.
    pub const PLACE: &'static [u8] = b"{{stamp}}";

    /// The seed of the stamps in a run with this seed.
    pub fn stamp_seed(&self, seed: u64) -> u64 {
        seed ^ self.process.rotate_left(32)
    }
}

/// The header fields of a handshake, which the user cannot set.
const OWN_FIELDS: [&str; 7] = [
    "connection",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "upgrade",
];

impl Plan {
    /// The broadcast of the plan, if it is one.
    pub fn broadcast(&self) -> Option<&BroadcastPlan> {
        self.websocket.as_deref()?.broadcast.as_deref()
    }

    /// Whether each message of WebSocket has a stamp, by which its reply is known.
    pub fn matches_by_token(&self) -> bool {
        self.messages.as_deref().is_some_and(|messages| messages.reply == MessageReply::Token)
    }

    /// This plan as that of one process, whose share of the whole it has.
    #[must_use]
    pub fn of_process(mut self) -> Self {
        let process = u64::from(self.shard.of) << 32 | u64::from(self.shard.index);
        if let Some(broadcast) = self.websocket.as_mut().and_then(|spec| spec.broadcast.as_mut()) {
            broadcast.process = process;
        }
        self
    }

    /// Until when a subscriber awaits messages that publishers send, if it starts at `intended`.
    pub fn awaits_until(&self, broadcast: &BroadcastPlan, intended: Nanos) -> Nanos {
        let length = self.messages.as_deref().map_or(Span::ZERO, |messages| messages.length(1));
        // The last message may be sent late. The other half is for its delivery.
        intended + broadcast.after + length + broadcast.wait / 2
    }

    /// Whether each message of WebSocket has a reply that is awaited.
    pub fn awaits_echoes(&self) -> bool {
        self.broadcast().is_none()
            && self.messages.as_deref().is_some_and(|messages| match messages.reply {
                MessageReply::Usual => self.stream.is_none(),
                MessageReply::Order | MessageReply::Token => true,
                MessageReply::None | MessageReply::Field => false,
            })
    }

    /// Check what concerns WebSocket.
    ///
    /// # Errors
    /// One sentence about the first defect.
    pub(crate) fn check_websocket(&self) -> Result<(), String> {
        let Some(websocket) = self.websocket.as_deref() else { return Ok(()) };
        websocket.check()?;
        if self.exchange.is_some() || self.calls.iter().any(|call| call.grpc.is_some()) {
            return Err("round trips and gRPC are not carried by WebSocket".into());
        }
        if self.http == super::HttpVersion::Http10 {
            return Err("connections of WebSocket start with HTTP/1.1 or HTTP/2; leave --http \
                        out (`http = \"1.1\"`)"
                .into());
        }
        let has_one = self.requests_per_connection == Some(1) && self.pipeline == 1;
        if !self.http.is_http2() && !has_one {
            return Err("a connection of WebSocket over HTTP/1.1 carries one request, its \
                        handshake; leave out --pipeline and --requests-per-connection"
                .into());
        }
        if self.sessions.as_ref().is_some_and(|sessions| sessions.directed) {
            return Err("users whom a program plays have no WebSocket yet".into());
        }
        if let Some(call) = self.calls.iter().find(|call| call.method != "GET") {
            return Err(format!(
                "a handshake of WebSocket has the method GET, not {}",
                call.method
            ));
        }
        check_headers(self.calls.iter())?;
        if self.calls.iter().any(|call| call.bare || !call.raw.is_empty()) {
            return Err("a handshake of WebSocket has no raw header bytes".into());
        }
        self.check_broadcast()?;
        let is_empty = self.calls.iter().any(|call| call.body.is_empty());
        if self.messages.is_some() && is_empty {
            return Err("a schedule of messages needs a message: use --body (`body`)".into());
        }
        if self.messages.is_none() && self.calls.iter().any(|call| !call.body.is_empty()) {
            return Err("a message needs a schedule: use --messages (`messages`)".into());
        }
        match self.messages.as_deref().map(|messages| messages.reply) {
            Some(MessageReply::Field) => {
                Err("replies of WebSocket are matched by their order (order), by a token \
                     (token), or not at all (none)"
                    .into())
            }
            Some(MessageReply::Order | MessageReply::Token) if self.stream.is_some() => {
                Err("messages that are read as a stream are no replies; leave out the matching \
                     of replies, or the stream"
                    .into())
            }
            _ => Ok(()),
        }
    }
}

/// Check the headers of handshakes.
///
/// # Errors
/// One sentence about the first one that prony writes.
pub(super) fn check_headers<'a>(
    mut calls: impl Iterator<Item = &'a CallSpec>,
) -> Result<(), String> {
    let is_own = |name: &str| OWN_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name));
    let own = calls.find_map(|call| call.headers.iter().find(|(name, _)| is_own(name)));
    own.map_or(Ok(()), |(name, _)| {
        Err(format!(
            "the header {name} is a part of the handshake of WebSocket, which prony writes; \
             leave it out (subprotocols: --subprotocol)"
        ))
    })
}

impl Plan {
    fn check_broadcast(&self) -> Result<(), String> {
        let Some(broadcast) = self.broadcast() else { return Ok(()) };
        let Some(messages) = self.messages.as_deref() else {
            return Err("publishers need a schedule: use --messages (`messages`)".into());
        };
        let is_matched = matches!(messages.reply, MessageReply::Order | MessageReply::Token);
        if is_matched || self.stream.is_some() {
            return Err("subscribers of a broadcast receive what others send: leave out the \
                        matching of replies, and --stream"
                .into());
        }
        if messages.count.is_none() && messages.end().is_none() {
            return Err("publishers need an end: use --messages-count or --messages-time".into());
        }
        let Load::Closed { connections, .. } = self.load else {
            return Err("a broadcast has a number of connections: use -c instead of a rate".into());
        };
        if self.sessions.is_some() || self.warmup > Span::ZERO {
            return Err("a broadcast has neither sessions nor a warm-up; publishers may start \
                        later (--publish-after)"
                .into());
        }
        let connections = u64::from(connections) * u64::from(self.pipeline);
        if self.stop.requests != Some(connections) || self.stop.duration.is_some() {
            return Err(format!(
                "a broadcast opens each of its {connections} connections once: use -n \
                 {connections} (`requests`), and no duration"
            ));
        }
        if !(1..connections).contains(&u64::from(broadcast.publishers)) {
            return Err(format!(
                "{} of {connections} connections cannot publish: at least one must, and one must \
                 receive",
                broadcast.publishers
            ));
        }
        let stay = self.awaits_until(broadcast, Nanos::ZERO) + broadcast.wait / 2;
        let stay = stay.since(Nanos::ZERO);
        if stay >= self.timeout {
            return Err(format!(
                "subscribers stay for {stay}, and their timeout is {}; use a longer timeout \
                 (`timeout`), or fewer messages",
                self.timeout
            ));
        }
        Ok(())
    }
}

impl WebSocketPlan {
    pub(super) fn check(&self) -> Result<(), String> {
        let is_token = |c: char| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?={}".contains(c);
        let mut names = self.subprotocols.iter().enumerate();
        let bad = names.find(|(i, name)| {
            name.is_empty() || !name.chars().all(is_token) || self.subprotocols[..*i].contains(name)
        });
        match bad {
            Some((_, name)) => Err(format!(
                "'{}' is no name of a subprotocol, or is given twice: use letters, digits and \
                 signs like '.' and '-'",
                name.escape_debug()
            )),
            None => Ok(()),
        }
    }
}
