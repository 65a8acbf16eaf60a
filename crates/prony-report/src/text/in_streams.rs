//! The lines about messages in streams.

use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use crate::units;

/// How many messages were sent and received; empty without any.
pub(super) fn messages(t: &Tally) -> Vec<String> {
    let Some(counts) = t.stream_messages.as_deref() else { return Vec::new() };
    let mut parts = Vec::new();
    if counts.sent > 0 {
        parts.push(format!("{} sent", units::count(counts.sent)));
    }
    if counts.unsent > 0 {
        parts.push(format!("{} not sent", units::count(counts.unsent)));
    }
    parts.push(format!("{} received", units::count(counts.received)));
    let without_reply = counts.awaited.saturating_sub(counts.answered);
    for (n, what) in [(without_reply, "without a reply"), (counts.unmatched, "reply to none")] {
        if n > 0 {
            parts.push(format!("{} {what}", units::count(n)));
        }
    }
    if counts.together > 0 {
        let share = counts.together as f64 / counts.received.max(1) as f64;
        parts.push(format!("{} arrived together with the one before", units::percent(share)));
    }
    parts
}

/// How many bodies were streams, and why they have ended; empty without any.
pub(super) fn streams(t: &Tally) -> Vec<String> {
    let bodies = t.stream_messages.as_deref().and_then(|counts| counts.bodies.as_deref());
    let Some(bodies) = bodies.filter(|bodies| bodies.begun > 0) else { return Vec::new() };
    let mut parts = vec![units::count(bodies.begun)];
    for (n, what) in [
        (bodies.ended_by_server, "ended by the server"),
        (bodies.ended_by_count, "ended by us after --stream-events"),
        (bodies.ended_by_time, "ended by us after --stream-time"),
        (bodies.ended_by_text, "ended by us after --until-event"),
        (bodies.failed, "failed"),
        (bodies.empty, "without a message"),
        (bodies.incomplete, "ended within an event"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", units::count(n)));
        }
    }
    parts
}

/// How large the streams were; empty without any.
pub(super) fn sizes(t: &Tally) -> Vec<String> {
    let counts = t.stream_messages.as_deref();
    let Some(sizes) = counts.and_then(|counts| counts.sizes.as_deref()) else { return Vec::new() };
    let (Some(messages), Some(bytes)) = (sizes.messages.max(), sizes.bytes.max()) else {
        return Vec::new();
    };
    let mean = |hist: &Hist| hist.mean_ns().unwrap_or_default();
    let (mean_messages, mean_bytes) = (mean(&sizes.messages), mean(&sizes.bytes));
    let (messages, bytes) = (units::count(messages.0), units::bytes(bytes.0 as f64));
    vec![
        format!("{} messages on average, {messages} at most", units::three(mean_messages)),
        format!("{} on average, {bytes} at most", units::bytes(mean_bytes)),
    ]
}

/// How often streams were opened again, and why; empty if none was.
pub(super) fn reconnects(t: &Tally) -> Vec<String> {
    let bodies = t.stream_messages.as_deref().and_then(|counts| counts.bodies.as_deref());
    let Some(counts) = bodies.and_then(|bodies| bodies.reconnects) else { return Vec::new() };
    let mut parts = vec![units::count(counts.made)];
    for (n, what) in [
        (counts.ended, "after an end by the server"),
        (counts.broken, "after a fault of the connection"),
        (counts.made.saturating_sub(counts.resumed), "did not continue the stream"),
        (counts.repeated, "messages came again"),
        (counts.missed, "messages were missed"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", units::count(n)));
        }
    }
    parts
}
