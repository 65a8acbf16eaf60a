//! The table `[websocket]` of a plan file.

use prony_core::plan::{Plan, WebSocketPlan};
use prony_core::units::Span;

use super::grpc::explain_messages;
use super::reader::Section;
use super::requests::Requests;
use super::written::{array, line, quoted};
use crate::values;
use crate::websocket::{BroadcastDraft, WebSocketDraft};

const NAMES: &str = "the name of a subprotocol, or a list of them";

/// Whether the rate of messages is that of all connections together.
const OVER: &[(&str, bool)] = &[("each", false), ("all", true)];

impl<'a> Requests<'a> {
    /// Reads the table `[websocket]`; `None`: the plan has no connections of WebSocket.
    pub(super) fn websocket(&mut self, top: &mut Section<'a>) -> Option<WebSocketDraft> {
        if self.has_sockets {
            self.check_beside_sockets(top);
            return None;
        }
        if self.is_websocket && self.is_http {
            let what = "URLs are all of WebSocket, or none; use ws:// for all";
            self.problems.add(0, what);
        }
        let table = top.table("websocket", "[websocket]", &mut self.problems);
        let Some(mut section) = table else {
            return self.is_websocket.then(WebSocketDraft::default);
        };
        let binary = section.take("binary").and_then(|i| i.boolean(&mut self.problems));
        let subprotocols = section.take("subprotocols");
        let subprotocols = subprotocols.and_then(|i| i.texts(&mut self.problems, NAMES));
        let messages = self.messages(&mut section);
        let over = section.take("messages-over");
        let over = over.and_then(|i| i.word(&mut self.problems, OVER)).unwrap_or(false);
        let compress = section.take("compress").and_then(|i| i.boolean(&mut self.problems));
        let compress = compress.unwrap_or(false);
        let unchecked = section.take("no-utf8-check");
        let unchecked = unchecked.and_then(|i| i.boolean(&mut self.problems));
        let ping = section.take("ping-every");
        let ping_every =
            ping.and_then(|i| i.parse(&mut self.problems, "a time", values::positive_span));
        let broadcast = self.broadcast(&mut section);
        section.finish(&mut self.problems);
        let subprotocols = subprotocols.unwrap_or_default();
        let subprotocols = subprotocols.into_iter().map(Into::into).collect();
        let binary = binary.unwrap_or(false);
        Some(WebSocketDraft {
            binary,
            subprotocols,
            messages,
            over_all: over,
            compress,
            no_utf8_check: unchecked.unwrap_or(false),
            ping_every,
            broadcast,
        })
    }

    fn broadcast(&mut self, section: &mut Section<'a>) -> BroadcastDraft {
        let problems = &mut self.problems;
        let number = section.take("publishers");
        let number = number.and_then(|i| i.parse(problems, "a number", values::connections));
        let mut time = |name, values: fn(&str) -> Result<Span, String>| {
            section.take(name).and_then(|i| i.parse(problems, "a time", values))
        };
        let after = time("publish-after", values::span);
        let wait = time("subscribers-wait", values::positive_span);
        BroadcastDraft { publishers: number, after, wait }
    }
}

/// Writes the table `[websocket]`.
pub(super) fn explain(plan: &Plan, spec: &WebSocketPlan, out: &mut String) {
    out.push_str("\n[websocket]\n");
    if spec.binary {
        line(out, "binary", "true");
    }
    if !spec.subprotocols.is_empty() {
        let names: Vec<_> = spec.subprotocols.iter().map(|name| quoted(name)).collect();
        line(out, "subprotocols", array(&names));
    }
    explain_messages(plan, out);
    if plan.messages.as_deref().is_some_and(|messages| messages.over > 1) {
        line(out, "messages-over", quoted("all"));
    }
    if spec.compress {
        line(out, "compress", "true");
    }
    if spec.no_utf8_check {
        line(out, "no-utf8-check", "true");
    }
    if let Some(every) = spec.ping_every {
        line(out, "ping-every", quoted(&every.to_string()));
    }
    if let Some(broadcast) = spec.broadcast.as_deref() {
        line(out, "publishers", broadcast.publishers);
        line(out, "publish-after", quoted(&broadcast.after.to_string()));
        line(out, "subscribers-wait", quoted(&broadcast.wait.to_string()));
    }
}
