//! The table `[grpc]` of a plan file, and what requests have of gRPC.

use std::path::PathBuf;

use prony_plan::plan::{CallSpec, Expect, GrpcCall, HttpVersion, MessagePlan, MessageReply, Plan};
use prony_plan::schedule::Arrivals;
use toml::de::DeValue;

use super::keyed;
use super::reader::{Item, Section};
use super::requests::Requests;
use super::written::{line, quoted};
use crate::builder::Draft;
use crate::grpc::{GrpcDraft, MessagesDraft};
use crate::values;

const FILES: &str = "the name of a file, or a list of them";
const STATUSES: &str = "statuses of gRPC, as \"OK,NOT_FOUND\"";

impl<'a> Requests<'a> {
    /// Reads the table `[grpc]`; `None`: the plan has no calls of gRPC.
    pub(super) fn grpc(&mut self, top: &mut Section<'a>, draft: &mut Draft) -> Option<GrpcDraft> {
        let table = top.table("grpc", "[grpc]", &mut self.problems);
        let Some(mut section) = table else {
            if !self.is_grpc {
                return None;
            }
            draft.http = Some(HttpVersion::Http2Only);
            return Some(GrpcDraft::default());
        };
        draft.http = Some(HttpVersion::Http2Only);
        let mut files = |key| section.take(key).map_or_else(Vec::new, |item| self.paths(item));
        let (protos, folders, sets) = (files("proto"), files("proto-path"), files("protoset"));
        let encoded = section.take("encoded").and_then(|i| i.boolean(&mut self.problems));
        let messages = self.messages(&mut section);
        let draft = keyed::read(&mut section, &mut self.problems);
        section.finish(&mut self.problems);
        let encoded = encoded.unwrap_or(false);
        Some(GrpcDraft { files: protos, folders, sets, encoded, messages, ..draft })
    }

    /// Reads the schedule of messages.
    pub(super) fn messages(&mut self, section: &mut Section<'a>) -> MessagesDraft {
        let draft: MessagesDraft = keyed::read(section, &mut self.problems);
        if draft.lacks_rate() {
            let what = "the table has options of a schedule of messages, but no rate: `messages`";
            self.problems.add(section.at, what);
        }
        draft
    }

    fn paths(&mut self, item: Item<'a>) -> Vec<PathBuf> {
        let Some(folder) = self.folder else {
            let what = format!("`{}`: no files are read for this plan", item.key);
            self.problems.add(item.at, what);
            return Vec::new();
        };
        let names = item.texts(&mut self.problems, FILES).unwrap_or_default();
        names.into_iter().map(|name| folder.join(name)).collect()
    }

    /// Reads the key `grpc` of a request: what a schema says about its method.
    pub(super) fn grpc_call(&mut self, section: &mut Section<'a>) -> Option<Box<GrpcCall>> {
        const EXPECTED: &str =
            "{ streams = true, takes = true }, or { messages = \"...\" } as --explain writes it";
        let item = section.take("grpc")?;
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, EXPECTED);
            return None;
        };
        let mut section = Section::new("`grpc` of a request", item.at, table);
        let streams = section.take("streams").and_then(|i| i.boolean(&mut self.problems));
        let messages = section.take("messages").and_then(|item| {
            let parse = |text: &str| serde_json::from_str(text).map_err(|e| e.to_string());
            item.parse(&mut self.problems, "messages in JSON", parse)
        });
        let takes = section.take("takes").and_then(|i| i.boolean(&mut self.problems));
        let gzip = section.take("gzip").and_then(|i| i.boolean(&mut self.problems));
        let timeout = section.take("timeout");
        let timeout =
            timeout.and_then(|i| i.parse(&mut self.problems, "a time", values::positive_span));
        let token = section.take("token").and_then(|item| {
            let parse = |text: &str| {
                let (request, reply) = text.split_once(':').ok_or("write REQUEST:REPLY")?;
                let number = |text: &str| text.parse().map_err(|_| "a number of a field is wrong");
                Ok::<_, String>((number(request)?, number(reply)?))
            };
            item.parse(&mut self.problems, "numbers of fields: \"1:1\"", parse)
        });
        section.finish(&mut self.problems);
        Some(Box::new(GrpcCall {
            streams: streams.unwrap_or(false),
            takes: takes.unwrap_or(false),
            token,
            timeout,
            gzip: gzip.unwrap_or(false),
            messages: messages.unwrap_or_default(),
        }))
    }

    /// Reads the expected statuses of gRPC.
    pub(super) fn expect_grpc(&mut self, section: &mut Section<'a>) -> Option<Vec<(u16, u16)>> {
        let item = section.take("expect-grpc")?;
        let all = item.texts(&mut self.problems, STATUSES)?.join(",");
        let parsed = Expect::parse_grpc_statuses(&all).map_err(|e| e.to_string());
        item.taken(&mut self.problems, &all, parsed)
    }
}

/// Writes the table `[grpc]` of a plan with calls of gRPC.
pub(super) fn explain(plan: &Plan, out: &mut String) {
    if plan.calls.iter().any(|call| call.grpc.is_some()) {
        out.push_str("\n[grpc]\nencoded = true\n");
        explain_messages(plan, out);
    }
}

/// Writes the schedule of messages.
pub(super) fn explain_messages(plan: &Plan, out: &mut String) {
    let Some(messages) = plan.messages.as_deref() else { return };
    let MessagePlan { rate, over: _, arrivals, count, time, reply } = messages;
    if arrivals.has_rate() {
        line(out, "messages", quoted(&rate.to_string()));
    }
    if *arrivals != Arrivals::Fixed {
        line(out, "messages-arrivals", quoted(&arrivals.to_string()));
    }
    if let Some(count) = count {
        line(out, "messages-count", count);
    }
    if let Some(time) = time {
        line(out, "messages-time", quoted(&time.to_string()));
    }
    let reply = match reply {
        MessageReply::Usual => return,
        MessageReply::Order => "order",
        MessageReply::None => "none",
        MessageReply::Field => "field",
        MessageReply::Token => "token",
    };
    line(out, "messages-reply", quoted(reply));
}

/// The key `grpc` of a request.
pub(super) fn of_call(call: &CallSpec) -> Option<String> {
    let grpc = call.grpc.as_deref().filter(|call| **call != GrpcCall::default())?;
    let mut fields = Vec::new();
    if grpc.streams {
        fields.push("streams = true".to_owned());
    }
    if grpc.takes {
        fields.push("takes = true".to_owned());
    }
    if grpc.gzip {
        fields.push("gzip = true".to_owned());
    }
    if let Some((request, reply)) = grpc.token {
        fields.push(format!("token = \"{request}:{reply}\""));
    }
    if let Some(timeout) = grpc.timeout {
        fields.push(format!("timeout = {}", quoted(&timeout.to_string())));
    }
    if !grpc.messages.is_empty() {
        let json = serde_json::to_string(&grpc.messages).unwrap_or_default();
        fields.push(format!("messages = {}", quoted(&json)));
    }
    Some(format!("{{ {} }}", fields.join(", ")))
}
