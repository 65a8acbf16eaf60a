//! The steps of a plan, ready to be made.

use crate::plan::{CallSpec, Plan, SocketStep};
use crate::script::Matcher;
use crate::units::Span;
use crate::websocket::CloseCode;

/// A step on a socket.
#[derive(Debug)]
pub(super) struct StepCall {
    pub(super) what: What,
    /// Its message, or the reason of its close.
    pub(super) data: Vec<u8>,
    /// What finds the message for which it waits.
    pub(super) matcher: Option<Matcher>,
    /// How long it waits; `None`: until its timeout.
    pub(super) within: Option<Span>,
}

/// What a step does.
#[derive(Debug)]
pub(super) enum What {
    /// It opens the socket, and offers these subprotocols.
    Open(Vec<String>),
    /// It sends a message.
    Send {
        /// Whether the message is binary.
        binary: bool,
    },
    /// It waits for a message.
    Wait,
    /// It closes the socket.
    Close(CloseCode),
}

impl StepCall {
    /// The step of a call, if it is one.
    ///
    /// # Panics
    /// When the call is not valid.
    pub(super) fn new(call: &CallSpec) -> Option<Self> {
        let socket = call.socket.as_deref()?;
        let what = match socket {
            SocketStep::Open { subprotocols } => What::Open(subprotocols.clone()),
            SocketStep::Send { binary, .. } => What::Send { binary: *binary },
            SocketStep::Wait(_) => What::Wait,
            SocketStep::Close { code } => What::Close(CloseCode(*code)),
        };
        let wait = socket.wait();
        let matcher = wait.map(|wait| wait.message.compile().expect("the plan is valid"));
        let within = wait.and_then(|wait| wait.within);
        Some(Self { what, data: call.body.clone(), matcher, within })
    }
}

/// The plan with the headers of handshakes in the requests that open sockets.
pub(super) fn with_handshakes(plan: &Plan) -> Plan {
    with(plan, "GET", &[("Upgrade", "websocket"), ("Connection", "Upgrade")])
}

/// The same for HTTP/2.
pub(super) fn with_connects(plan: &Plan) -> Plan {
    with(plan, "CONNECT", &[])
}

fn with(plan: &Plan, method: &'static str, fixed: &[(&str, &str)]) -> Plan {
    let mut all = plan.clone();
    let calls = plan.calls.iter().map(|call| {
        let Some(socket) = call.socket.as_deref() else { return call.clone() };
        let (mut own, mut by) = (Vec::new(), call.method.clone());
        if let SocketStep::Open { subprotocols } = socket {
            let mut add = |name: &str, value: &str| own.push((name.to_owned(), value.to_owned()));
            fixed.iter().for_each(|(name, value)| add(name, value));
            add("Sec-WebSocket-Version", "13");
            if !subprotocols.is_empty() {
                add("Sec-WebSocket-Protocol", &subprotocols.join(", "));
            }
            by = method.into();
        }
        let headers: Vec<_> = call.headers.iter().cloned().chain(own).collect();
        CallSpec { method: by, headers: headers.into(), body: Vec::new(), ..call.clone() }
    });
    all.calls = calls.collect::<Vec<_>>().into();
    all
}
