//! Steps of a session on a WebSocket that stays open between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::steps::{Step, steps};
use super::{Burst, CallSpec, Expect, HttpVersion, Plan, WebSocketPlan};
use crate::vars::{Awaited, Place};
use prony_base::units::Span;
use prony_base::websocket::{CONTROL_MAX, CloseCode};

/// What a step does with the socket of its session. Its data is the body of its call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketStep {
    /// Opens it: the handshake. The step ends with the answer to it.
    Open {
        /// The subprotocols that are offered, the preferred one first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        subprotocols: Vec<String>,
    },
    /// Sends a message. The step ends when it is sent, or with the message that it waits for.
    Send {
        /// Whether the message is binary; otherwise it is text.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        binary: bool,
        /// The message that the step waits for, which comes after its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait: Option<Wait>,
    },
    /// Waits for a message, which may have come before the step.
    Wait(Wait),
    /// Closes it with this code, and the body of the call as the reason. The step ends with the
    /// peer's close frame.
    Close {
        /// The close code.
        code: u16,
    },
}

/// A wait for a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The message.
    pub message: Awaited,
    /// From the send of the step to its failure without the message; `None`: its timeout alone ends
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
}

impl SocketStep {
    /// The longest reason of a close, in bytes.
    pub const REASON_MAX: usize = CONTROL_MAX - 2;

    /// What counts as success by default: the statuses of an accepted handshake (over HTTP/2: of
    /// extended CONNECT), the code of a close, or the status of a message.
    pub fn usual_expect(&self, http: HttpVersion) -> Expect {
        let usual = match self {
            Self::Open { .. } if http.is_http2() => (200, 299),
            Self::Open { .. } => (101, 101),
            Self::Send { .. } | Self::Wait(_) => (Self::MESSAGE, Self::MESSAGE),
            Self::Close { code } => (*code, *code),
        };
        Expect { statuses: vec![usual], ..Expect::default() }
    }

    /// The status of a step that ends as it should, and has neither a handshake nor a close.
    pub const MESSAGE: u16 = 200;

    /// The wait of the step, if it has one.
    pub fn wait(&self) -> Option<&Wait> {
        match self {
            Self::Send { wait, .. } => wait.as_ref(),
            Self::Wait(wait) => Some(wait),
            Self::Open { .. } | Self::Close { .. } => None,
        }
    }

    /// The text that the value of the awaited message must equal.
    pub(super) fn awaited_text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Send { wait, .. } => wait.as_mut()?.message.equals.as_mut(),
            Self::Wait(wait) => wait.message.equals.as_mut(),
            Self::Open { .. } | Self::Close { .. } => None,
        }
    }

    /// Whether it opens the socket.
    pub fn opens(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Its name in plan files.
    fn key(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Send { .. } => "send",
            Self::Wait(_) => "wait-for",
            Self::Close { .. } => "close",
        }
    }

    fn check(&self, call: &CallSpec) -> Result<(), String> {
        if call.socket_name.as_deref() == Some("") {
            return Err("the name of a WebSocket is empty".into());
        }
        if call.method != "GET" || call.bare || !call.raw.is_empty() || call.grpc.is_some() {
            return Err(
                "it has a method or raw header bytes, which no step of a WebSocket has".into()
            );
        }
        if !self.opens() && !call.headers.is_empty() {
            return Err("only the handshake of a WebSocket has headers".into());
        }
        let in_header = |place: &Place| matches!(place, Place::Header { .. });
        if !self.opens() && call.extract.iter().any(|extract| in_header(&extract.place)) {
            return Err("a message has no headers to extract values from; use json, regex or \
                        between"
                .into());
        }
        match self {
            Self::Open { subprotocols } => {
                let names = subprotocols.clone();
                WebSocketPlan { subprotocols: names, ..WebSocketPlan::default() }.check()?;
                super::websocket::check_headers([call].into_iter())?;
                if !call.body.is_empty() {
                    return Err("the handshake of a WebSocket has no body".into());
                }
            }
            Self::Send { binary: false, .. } if std::str::from_utf8(&call.body).is_err() => {
                return Err("a text message is UTF-8; add `binary = true`".into());
            }
            Self::Send { .. } | Self::Wait(_) => {}
            Self::Close { code } if !CloseCode(*code).may_be_sent() => {
                return Err(format!(
                    "{code} is no close code that an endpoint may send: use 1000 to 1003, 1007 to \
                     1014 or 3000 to 4999"
                ));
            }
            Self::Close { .. } if call.body.len() > Self::REASON_MAX && !call.template => {
                return Err(format!(
                    "the reason of a close has at most {} bytes, not {}",
                    Self::REASON_MAX,
                    call.body.len()
                ));
            }
            Self::Close { .. } if std::str::from_utf8(&call.body).is_err() => {
                return Err("the reason of a close is UTF-8".into());
            }
            Self::Close { .. } => {}
        }
        self.wait().map_or(Ok(()), |wait| wait.message.compile().map(drop))
    }
}

impl CallSpec {
    /// The text that the awaited message is compared with, if the call waits for one.
    pub fn awaited_text(&self) -> Option<&str> {
        self.socket.as_ref()?.wait()?.message.text().map(String::as_str)
    }
}

impl Plan {
    /// Whether sessions have steps on a WebSocket that stays open between them.
    pub fn has_sockets(&self) -> bool {
        self.calls.iter().any(|call| call.socket.is_some())
    }

    /// This plan with each endpoint once: those of sockets are copies of others.
    #[must_use]
    pub fn with_merged_endpoints(&self) -> Self {
        let first = |index: u32| {
            let endpoint = &self.endpoints[index as usize];
            self.endpoints.iter().position(|other| other == endpoint).unwrap_or(0)
        };
        let mut kept: Vec<usize> = (0..self.endpoints.len() as u32).map(first).collect();
        kept.sort_unstable();
        kept.dedup();
        let mut merged = self.clone();
        merged.endpoints = kept.iter().map(|&index| self.endpoints[index].clone()).collect();
        let place = |index: u32| kept.binary_search(&first(index)).unwrap_or(0) as u32;
        let calls = self
            .calls
            .iter()
            .map(|call| CallSpec { endpoint: place(call.endpoint), ..call.clone() });
        merged.calls = calls.collect::<Vec<_>>().into();
        if let Some(follow) = &mut merged.follow {
            follow.servers.iter_mut().for_each(|server| server.endpoint = place(server.endpoint));
        }
        merged
    }

    /// Check the steps on WebSockets.
    ///
    /// # Errors
    /// One sentence about the first defect.
    pub(crate) fn check_sockets(&self) -> Result<(), String> {
        if !self.has_sockets() {
            return Ok(());
        }
        self.check_around_sockets()?;
        let mut of_sockets: Vec<Option<Option<&str>>> = vec![None; self.endpoints.len()];
        for (i, call) in self.calls.iter().enumerate() {
            let Some(socket) = &call.socket else { continue };
            let name = call.socket_name.as_deref();
            if !self.http.is_http2()
                && *of_sockets[call.endpoint as usize].get_or_insert(name) != name
            {
                return Err(format!(
                    "request {}: its endpoint is that of a WebSocket with another name",
                    i + 1
                ));
            }
            socket.check(call).map_err(|why| format!("request {}: {why}", i + 1))?;
            if let Some(within) = socket.wait().and_then(|wait| wait.within)
                && (within == Span::ZERO || within >= self.timeout)
            {
                return Err(format!(
                    "request {}: a wait of {within} must be longer than 0 and shorter than the \
                     timeout of its step, {}; use a longer timeout (`timeout`), or leave out \
                     `within`",
                    i + 1,
                    self.timeout
                ));
            }
        }
        let shared = |call: &CallSpec| {
            !self.http.is_http2()
                && call.socket.is_none()
                && of_sockets[call.endpoint as usize].is_some()
        };
        if let Some(call) = self.calls.iter().position(shared) {
            return Err(format!("request {}: its endpoint is that of a WebSocket", call + 1));
        }
        for (i, kind) in self.sessions.iter().flat_map(|s| &s.kinds).enumerate() {
            let steps = steps(&kind.bursts)?;
            let walk = Walk { plan: self, bursts: &kind.bursts };
            walk.steps(&steps, &Open::new()).map_err(|why| format!("session {}: {why}", i + 1))?;
        }
        Ok(())
    }

    /// What a plan with such steps cannot have.
    fn check_around_sockets(&self) -> Result<(), String> {
        if self.websocket.is_some() {
            return Err("a plan has steps of a WebSocket (`open`) or requests that are whole \
                        connections (ws:// URLs, [websocket]), not both"
                .into());
        }
        let has_grpc = self.calls.iter().any(|call| call.grpc.is_some());
        if has_grpc || self.exchange.is_some() || self.stream.is_some() || self.messages.is_some() {
            return Err("steps of a WebSocket (`open`) cannot be combined with gRPC, streams or \
                        round trips"
                .into());
        }
        if !matches!(self.http, HttpVersion::Http11 | HttpVersion::Http2Only) {
            return Err("steps of a WebSocket (`open`) need to know the version of HTTP, which \
                        decides whether a WebSocket has a connection of its own; write `http = \
                        \"2-only\"` (--http 2-only, --h2c) for HTTP/2, or leave out `http` for \
                        HTTP/1.1"
                .into());
        }
        let pipelines = self.pipeline != 1 && !self.http.is_http2();
        if pipelines || self.requests_per_connection.is_some() {
            return Err("a WebSocket carries one step after the other, and as many as there are; \
                        leave out `pipeline` and `requests-per-connection`"
                .into());
        }
        match &self.sessions {
            None => Err("steps of a WebSocket (`open`, `send`) need sessions".into()),
            Some(sessions) if sessions.directed => {
                Err("users whom a program plays have no WebSocket yet".into())
            }
            Some(sessions) if sessions.retries > 0 => {
                Err("`retries` cannot be combined with steps of a WebSocket; use `retry`".into())
            }
            Some(_) => Ok(()),
        }
    }
}

/// The endpoints of the open sockets, by their names.
type Open<'a> = BTreeMap<Option<&'a str>, u32>;

/// Follows the steps of a session.
struct Walk<'a> {
    plan: &'a Plan,
    bursts: &'a [Burst],
}

impl<'a> Walk<'a> {
    /// The sockets that are open after these steps; before them, those of `before` are.
    fn steps(&self, steps: &[Step<'_>], before: &Open<'a>) -> Result<Open<'a>, String> {
        let mut open = before.clone();
        for step in steps {
            match step {
                Step::Burst(index) => self.burst(*index, &mut open)?,
                Step::Switch(switch, alternatives) => {
                    let each = alternatives.iter().map(|inner| self.steps(inner, &open));
                    let mut ends = each.collect::<Result<Vec<_>, _>>()?;
                    ends.extend((!switch.gate.is_open()).then(|| open.clone()));
                    let end = ends.first().cloned().unwrap_or(open);
                    if ends.iter().any(|other| *other != end) {
                        return Err("whatever a `switch` chooses, the WebSocket must be open \
                                    after it, or closed: use `open` and `close` in the same \
                                    alternative"
                            .into());
                    }
                    open = end;
                }
            }
        }
        Ok(open)
    }

    fn burst(&self, index: usize, open: &mut Open<'a>) -> Result<(), String> {
        let burst = &self.bursts[index];
        let fail = |why: String| Err(format!("burst {}: {why}", index + 1));
        let mut calls = burst.calls.iter().map(|&call| &self.plan.calls[call as usize]);
        let found = calls.find_map(|call| Some((call, call.socket.as_deref()?)));
        let Some((call, step)) = found else { return Ok(()) };
        let (key, name) = (step.key(), call.socket_name.as_deref());
        if burst.calls.len() > 1 {
            return fail(format!("`{key}` is a step by itself, and no part of a burst"));
        }
        let is_once = burst.repeat == 1
            && burst.control.as_deref().is_none_or(|control| control.gate.is_open());
        match step {
            SocketStep::Open { .. } | SocketStep::Close { .. } if !is_once => fail(format!(
                "`{key}` is made once, without a condition; put it into a `switch` with one"
            )),
            SocketStep::Open { .. } => match (open.insert(name, call.endpoint), name) {
                (None, _) => Ok(()),
                (Some(_), None) => fail(
                    "the session has an open WebSocket; `close` it before the next `open`, or \
                     give one of them a name (`socket`)"
                        .into(),
                ),
                (Some(_), Some(name)) => fail(format!(
                    "the WebSocket '{name}' of the session is open; `close` it before the next \
                     `open`"
                )),
            },
            _ if open.get(&name) != Some(&call.endpoint) => fail(match name {
                Some(name) => format!("`{key}` needs the WebSocket '{name}'; `open` it before"),
                None if open.is_empty() => format!("`{key}` needs a WebSocket; `open` it before"),
                None => format!("`{key}` needs a WebSocket; name an open one (`socket`)"),
            }),
            SocketStep::Close { .. } => {
                open.remove(&name);
                Ok(())
            }
            SocketStep::Send { .. } | SocketStep::Wait(_) => Ok(()),
        }
    }
}
