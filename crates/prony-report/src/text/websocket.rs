//! What a load with connections of WebSocket sends.

use prony_plan::plan::{HttpVersion, MessagePlan, Plan, PlanSize, WebSocketPlan};
use prony_plan::schedule::Arrivals;
use prony_tally::record::Tally;

use crate::units;

/// The connections and their messages, part by part.
pub(super) fn parts(plan: &Plan, spec: &WebSocketPlan, size: &PlanSize) -> Vec<String> {
    let over = match plan.http {
        HttpVersion::Http10 | HttpVersion::Http11 => "WebSocket",
        HttpVersion::Http2 => "WebSocket over HTTP/2",
        HttpVersion::Http2Only => "WebSocket over HTTP/2 only",
    };
    let mut parts = vec![over.to_owned()];
    if plan.http.is_http2() {
        let streams = units::counted(plan.pipeline.into(), "stream", "streams");
        parts.push(format!("up to {streams} per connection"));
    }
    let up_to = if size.requests > 1 { "up to " } else { "" };
    let headers = size.headers_max;
    if headers > 0 {
        parts.push(format!("{up_to}{} added", units::counted(headers, "header", "headers")));
    }
    if !spec.subprotocols.is_empty() {
        parts.push(format!("offering {}", spec.subprotocols.join(", ")));
    }
    let Some(messages) = plan.messages.as_deref() else {
        parts.push("no messages".to_owned());
        parts.extend(pings(spec));
        return parts;
    };
    let kind = if spec.binary { "binary messages" } else { "text messages" };
    let longest = units::bytes(size.body_bytes_max as f64);
    let compressed = if spec.compress { ", compressed" } else { "" };
    parts.push(format!("{kind} of {up_to}{longest}{compressed}"));
    if spec.no_utf8_check {
        parts.push("texts of any bytes accepted".to_owned());
    }
    if messages.count != Some(1) {
        let each = if spec.broadcast.is_some() { "publisher" } else { "connection" };
        let times = times(messages);
        parts.push(match messages.over {
            1 => format!("{times} on each {each}"),
            _ => format!("{times} on all {each}s together"),
        });
    }
    if let Some(count) = messages.count {
        let each = if spec.broadcast.is_some() { "publisher" } else { "connection" };
        parts.push(format!("{} per {each}", units::count(count)));
    }
    if let Some(time) = messages.time {
        parts.push(format!("for {}", units::exact(time)));
    }
    parts.extend(pings(spec));
    if let Some(broadcast) = spec.broadcast.as_deref() {
        parts.push(units::counted(broadcast.publishers.into(), "publisher", "publishers"));
    }
    parts
}

/// The rate of messages, or the times between them.
fn times(messages: &MessagePlan) -> String {
    let rate = match messages.rate.as_constant() {
        Some(rate) => units::rate(rate),
        None => format!("{} per second", messages.rate),
    };
    match &messages.arrivals {
        Arrivals::Fixed => rate,
        Arrivals::Poisson => format!("{rate} (Poisson)"),
        Arrivals::Gamma(shape) => format!("{rate} (gamma, shape {shape})"),
        arrivals => format!("{arrivals} between messages"),
    }
}

fn pings(spec: &WebSocketPlan) -> Option<String> {
    spec.ping_every.map(|every| format!("a ping each {}", units::exact(every)))
}

/// How many pings were sent and answered; empty without any.
pub(super) fn answers(t: &Tally) -> Vec<String> {
    let Some(pings) = t.pings.as_deref() else { return Vec::new() };
    let mut parts = vec![format!("{} sent", units::count(pings.sent))];
    if pings.answered < pings.sent {
        let n = units::count(pings.sent - pings.answered);
        parts.push(format!("{n} without a pong"));
    }
    parts
}

/// What became of the messages of a broadcast; empty without one.
pub(super) fn broadcast(t: &Tally) -> Vec<String> {
    let Some(all) = t.broadcast.as_deref() else { return Vec::new() };
    let mut parts = vec![
        format!("{} published", units::count(all.published)),
        units::counted(all.subscribers, "subscriber", "subscribers"),
    ];
    if let Some(reach) = all.reach() {
        let (delivered, expected) = (units::count(all.delivered), units::count(all.expected));
        parts.push(format!("reach {} ({delivered} of {expected})", units::percent(reach)));
    }
    for (n, what) in [
        (all.published.saturating_sub(all.complete), "did not reach all"),
        (all.reordered, "out of order"),
        (all.duplicates, "duplicate"),
        (all.unstamped, "without a stamp of this run"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", units::count(n)));
        }
    }
    parts
}
