//! The line about messages in streams.

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
