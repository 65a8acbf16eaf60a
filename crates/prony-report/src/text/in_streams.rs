//! The lines about messages in streams.

use prony_core::record::Tally;

use crate::units;

/// How many messages were sent and received; empty without any.
pub(super) fn messages(t: &Tally) -> Vec<String> {
    let Some(counts) = t.stream_messages.as_deref() else { return Vec::new() };
    let mut parts = Vec::new();
    if counts.sent > 0 {
        parts.push(format!("{} sent", units::count(counts.sent)));
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
