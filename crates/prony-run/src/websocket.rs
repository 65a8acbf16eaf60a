//! Connections of WebSocket: from what a front end was given to the plan.

use prony_base::units::Span;
use prony_plan::plan::{
    BroadcastPlan, Expect, Load, MessagePlan, MessageReply, Plan, WebSocketPlan,
};

use crate::grpc::MessagesDraft;

/// How the requests of a plan become connections of WebSocket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebSocketDraft {
    /// Whether messages are binary.
    pub binary: bool,
    /// The subprotocols to offer.
    pub subprotocols: Vec<String>,
    /// The schedule of the messages of each connection.
    pub messages: MessagesDraft,
    /// Whether the rate of messages is that of all connections together.
    pub over_all: bool,
    /// Whether messages are compressed.
    pub compress: bool,
    /// Whether texts of the server need not be UTF-8.
    pub no_utf8_check: bool,
    /// The time between pings.
    pub ping_every: Option<Span>,
    /// How some connections send to all others.
    pub broadcast: BroadcastDraft,
}

/// A broadcast. Only with a number of publishers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BroadcastDraft {
    /// How many connections publish.
    pub publishers: Option<u32>,
    /// From the intended start of a publisher to the start of its schedule; by default
    /// [`PUBLISH_AFTER`].
    pub after: Option<Span>,
    /// How long subscribers stay after the last message is due; by default [`SUBSCRIBERS_WAIT`].
    pub wait: Option<Span>,
}

/// When publishers start by default: when subscribers are usually there.
pub const PUBLISH_AFTER: Span = Span::from_secs(1);
/// How long subscribers stay by default.
pub const SUBSCRIBERS_WAIT: Span = Span::from_secs(2);

impl BroadcastDraft {
    fn plan(self) -> Result<Option<Box<BroadcastPlan>>, String> {
        let Self { publishers, after, wait } = self;
        if publishers.is_none() && self != Self::default() {
            return Err("a broadcast needs publishers: --publishers (`publishers`)".into());
        }
        Ok(publishers.map(|publishers| {
            let (after, wait) = (after.unwrap_or(PUBLISH_AFTER), wait.unwrap_or(SUBSCRIBERS_WAIT));
            Box::new(BroadcastPlan { publishers, after, wait, process: 0 })
        }))
    }
}

/// Turns the requests of a plan into connections of WebSocket: the body of each is its message.
/// Without a schedule, it is sent once, when the connection is open.
///
/// # Errors
/// A sentence about what WebSocket cannot do.
pub fn prepare(plan: &mut Plan, draft: WebSocketDraft) -> Result<(), String> {
    let over_all = draft.over_all;
    let WebSocketDraft { binary, subprotocols, mut messages, compress, no_utf8_check, .. } = draft;
    messages.end_with_load(plan)?;
    let (ping_every, broadcast) = (draft.ping_every, draft.broadcast.plan()?);
    plan.websocket = Some(Box::new(WebSocketPlan {
        binary,
        subprotocols,
        compress,
        no_utf8_check,
        ping_every,
        broadcast,
    }));
    if !plan.http.is_http2() {
        plan.requests_per_connection.get_or_insert(1);
    }
    let mut calls = plan.calls.to_vec();
    let has_message = calls.iter().any(|call| !call.body.is_empty());
    for call in &mut calls {
        // The method that a body has by default.
        if call.method == "POST" {
            call.method = "GET".into();
        }
        call.expect.as_deref_mut().map_or(Ok(()), expect)?;
    }
    plan.calls = calls.into();
    expect(&mut plan.expect)?;
    let by_token = messages.reply.as_deref() == Some("token");
    plan.messages = messages
        .plan()?
        .or_else(|| has_message.then(|| Box::new(MessagePlan::fixed(1.0, Some(1), None))));
    if let Some(messages) = plan.messages.as_deref_mut().filter(|_| by_token) {
        messages.reply = MessageReply::Token;
    }
    if over_all {
        share_rate(plan)?;
    }
    Ok(())
}

/// Lets the rate of messages be that of all connections that send some.
fn share_rate(plan: &mut Plan) -> Result<(), String> {
    let Load::Closed { connections, .. } = plan.load else {
        return Err("an open loop has no number of connections that could share a rate of \
                    messages: use -c without a rate, or leave out --messages-over"
            .into());
    };
    let all = connections.saturating_mul(plan.pipeline);
    let senders = plan.broadcast().map_or(all, |broadcast| broadcast.publishers);
    match plan.messages.as_deref_mut() {
        Some(messages) => messages.over = senders,
        None => return Err("there is no rate of messages to share: use --messages".into()),
    }
    Ok(())
}

/// Expects the close code 1000 instead of the statuses of HTTP that are expected by default.
fn expect(expect: &mut Expect) -> Result<(), String> {
    if matches!(expect.statuses[..], [(200, 399)] | [(200, 299), (300, 399)]) {
        expect.statuses = vec![(1000, 1000)];
    }
    match expect.is_of_grpc() {
        true => Err("connections of WebSocket have close codes, not statuses of gRPC".into()),
        false => Ok(()),
    }
}
