//! Connections of WebSocket: from what a front end was given to the plan.

use prony_core::plan::{Expect, MessageArrivals, MessagePlan, MessageReply, Plan, WebSocketPlan};

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
}

/// Turns the requests of a plan into connections of WebSocket: the body of each is its message.
/// Without a schedule, it is sent once, when the connection is open.
///
/// # Errors
/// A sentence about what WebSocket cannot do.
pub fn prepare(plan: &mut Plan, draft: WebSocketDraft) -> Result<(), String> {
    let WebSocketDraft { binary, subprotocols, messages } = draft;
    plan.websocket = Some(Box::new(WebSocketPlan { binary, subprotocols }));
    plan.requests_per_connection.get_or_insert(1);
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
    plan.messages = messages.plan()?.or_else(|| {
        let (arrivals, reply) = (MessageArrivals::Fixed, MessageReply::Usual);
        let once = MessagePlan { rate: 1.0, arrivals, count: Some(1), time: None, reply };
        has_message.then(|| Box::new(once))
    });
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
