//! The table `[websocket]` of a plan file.

use prony_plan::plan::{Plan, WebSocketPlan};

use super::grpc::explain_messages;
use super::keyed;
use super::reader::Section;
use super::requests::Requests;
use super::written::{array, line, quoted};
use crate::websocket::WebSocketDraft;

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
        let messages = self.messages(&mut section);
        let draft = keyed::read(&mut section, &mut self.problems);
        section.finish(&mut self.problems);
        Some(WebSocketDraft { messages, ..draft })
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
