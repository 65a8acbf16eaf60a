//! Redirects: which are followed, and where they may lead.

use serde::{Deserialize, Serialize};

use super::{CallSpec, Plan};

/// The redirects that a plan follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follow {
    /// What requests do that do not say it themselves.
    pub redirects: Redirects,
    /// The servers to which redirects may lead, besides those of the plan's requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<RedirectServer>,
    /// The group of the requests that were redirected: an index into [`Plan::groups`]. It has no
    /// steps.
    pub group: u32,
}

/// Whether redirects are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Redirects {
    /// They are not.
    Off,
    /// At most this number of them, one after another; the request fails at the next one.
    Most(u32),
}

/// A server to which redirects may lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedirectServer {
    /// Index into [`Plan::endpoints`].
    pub endpoint: u32,
    /// Host and port as in URLs, which is the value of the Host header.
    pub authority: String,
}

impl Follow {
    /// The name of the group of requests that were redirected.
    pub const GROUP: &str = "redirects";
    /// How many redirects are followed one after another, if the user does not say it.
    pub const MOST: u32 = 10;
}

impl Plan {
    /// How many redirects of this request are followed one after another; `None`: none is, and
    /// they are usual replies.
    pub fn redirects_of(&self, call: &CallSpec) -> Option<u32> {
        // A handshake of WebSocket is answered by a switch of protocols.
        let follow = self.follow.as_deref().filter(|_| call.socket.is_none())?;
        match call.redirects.unwrap_or(follow.redirects) {
            Redirects::Off => None,
            Redirects::Most(most) => Some(most),
        }
    }

    /// Whether the group with this index is that of redirected requests.
    pub(crate) fn is_group_of_redirects(&self, group: usize) -> bool {
        self.follow.as_deref().is_some_and(|follow| follow.group as usize == group)
    }

    /// Check whether the redirects can be followed.
    pub(crate) fn check_follow(&self) -> Result<(), String> {
        let Some(follow) = self.follow.as_deref() else {
            let follows = |call: &CallSpec| matches!(call.redirects, Some(Redirects::Most(_)));
            return match self.calls.iter().position(follows) {
                Some(i) => Err(format!("request {}: the plan follows no redirects", i + 1)),
                None => Ok(()),
            };
        };
        let group = self.groups.get(follow.group as usize);
        if group.is_none_or(|group| !group.parts.is_empty()) {
            return Err("the group of redirected requests is missing, or has steps".into());
        }
        let mut others = (0..).zip(&self.groups).filter(|(i, _)| *i != follow.group);
        if others.any(|(_, group)| group.name == Follow::GROUP) {
            return Err(format!(
                "the group '{}' is that of redirected requests; give yours another name",
                Follow::GROUP
            ));
        }
        let wrong = |server: &RedirectServer| {
            server.endpoint as usize >= self.endpoints.len() || server.authority.is_empty()
        };
        if follow.servers.iter().any(wrong) {
            return Err("a server to which redirects may lead does not exist".into());
        }
        let has_grpc = self.calls.iter().any(|call| call.grpc.is_some());
        if self.exchange.is_some() || self.websocket.is_some() || has_grpc {
            return Err("only requests of HTTP follow redirects, not gRPC, WebSocket or round \
                        trips"
                .into());
        }
        if self.stream.is_some() {
            return Err("requests whose replies are read as streams follow no redirects".into());
        }
        if self.is_logged() || self.clients.is_some() {
            return Err("requests of a log follow no redirects: those that were followed are in \
                        the log"
                .into());
        }
        if let Some(sessions) = &self.sessions {
            if sessions.directed {
                return Err("a program that plays the users follows redirects itself".into());
            }
            if sessions.retries > 0 {
                return Err("`retries` cannot be combined with redirects that are followed; use \
                            `retry`"
                    .into());
            }
        }
        for (i, call) in self.calls.iter().enumerate() {
            if self.redirects_of(call).is_none() {
                continue;
            }
            if call.bare {
                return Err(format!(
                    "request {}: a `bare` request cannot follow redirects; give it \
                     `location = false`",
                    i + 1
                ));
            }
            if call.path.contains("://") && !call.path.starts_with('/') {
                return Err(format!(
                    "request {}: a request to a proxy cannot follow redirects",
                    i + 1
                ));
            }
        }
        Ok(())
    }
}
