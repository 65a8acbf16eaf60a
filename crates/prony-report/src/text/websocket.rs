//! What a load with connections of WebSocket sends.

use prony_core::plan::{MessageArrivals, Plan, PlanSize, WebSocketPlan};

use crate::units;

/// The connections and their messages, part by part.
pub(super) fn parts(plan: &Plan, spec: &WebSocketPlan, size: &PlanSize) -> Vec<String> {
    let mut parts = vec!["WebSocket".to_owned()];
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
        return parts;
    };
    let kind = if spec.binary { "binary messages" } else { "text messages" };
    let longest = units::bytes(size.body_bytes_max as f64);
    parts.push(format!("{kind} of {up_to}{longest}"));
    if messages.count != Some(1) {
        let random = match messages.arrivals {
            MessageArrivals::Fixed => "",
            MessageArrivals::Poisson => " (Poisson)",
        };
        let rate = units::rate(messages.rate);
        parts.push(format!("{rate}{random} on each connection"));
    }
    if let Some(count) = messages.count {
        parts.push(format!("{} per connection", units::count(count)));
    }
    if let Some(time) = messages.time {
        parts.push(format!("for {}", units::exact(time)));
    }
    parts
}
