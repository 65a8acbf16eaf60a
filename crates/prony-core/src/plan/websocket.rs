//! Connections of WebSocket.

use serde::{Deserialize, Serialize};

use super::{MessageReply, Plan};

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
    /// Whether each message of WebSocket has a reply that is awaited.
    pub fn awaits_echoes(&self) -> bool {
        self.messages.as_deref().is_some_and(|messages| match messages.reply {
            MessageReply::Usual => self.stream.is_none(),
            MessageReply::Order => true,
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
        if self.http != super::HttpVersion::Http11 {
            return Err("connections of WebSocket start with HTTP/1.1; leave --http out \
                        (`http = \"1.1\"`)"
                .into());
        }
        if self.requests_per_connection != Some(1) || self.pipeline != 1 {
            return Err("a connection of WebSocket carries one request, its handshake; leave out \
                        --pipeline and --requests-per-connection"
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
        let is_own = |name: &str| OWN_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name));
        let mut headers = self.calls.iter().flat_map(|call| call.headers.iter());
        if let Some((name, _)) = headers.find(|(name, _)| is_own(name)) {
            return Err(format!(
                "the header {name} is a part of the handshake of WebSocket, which prony writes; \
                 leave it out (subprotocols: --subprotocol)"
            ));
        }
        if self.calls.iter().any(|call| call.bare || !call.raw.is_empty()) {
            return Err("a handshake of WebSocket has no raw header bytes".into());
        }
        let is_empty = self.calls.iter().any(|call| call.body.is_empty());
        if self.messages.is_some() && is_empty {
            return Err("a schedule of messages needs a message: use --body (`body`)".into());
        }
        if self.messages.is_none() && self.calls.iter().any(|call| !call.body.is_empty()) {
            return Err("a message needs a schedule: use --messages (`messages`)".into());
        }
        match self.messages.as_deref().map(|messages| messages.reply) {
            Some(MessageReply::Field) => {
                Err("replies of WebSocket are matched by their order, or not at all".into())
            }
            Some(MessageReply::Order) if self.stream.is_some() => {
                Err("messages that are read as a stream are no replies; leave out the matching \
                     of replies, or the stream"
                    .into())
            }
            _ => Ok(()),
        }
    }
}

impl WebSocketPlan {
    fn check(&self) -> Result<(), String> {
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
