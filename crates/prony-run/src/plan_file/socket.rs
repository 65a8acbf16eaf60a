//! Steps on a WebSocket: `open`, `send`, `wait-for`, `close`.

use std::sync::Arc;

use prony_plan::plan::{CallSpec, SocketStep, Wait};
use prony_plan::script::{Awaited, Content, Template};
use prony_plan::target::{Url, UrlKind};
use toml::de::DeValue;

use super::body::fill;
use super::dynamic;
use super::reader::{Item, Section};
use super::requests::{Goal, Requests, authority};
use super::writer::Writer;
use super::written::{array, body, expectations, headers, quoted};
use super::{checks, written};
use crate::values;

/// The keys that make a step of a request.
const KEYS: [&str; 4] = ["open", "send", "wait-for", "close"];

const AWAITED: &str = "a text, { text = ... }, { json = \"/pointer\" } or { regex = ... }, the last \
                       two with equals = ...";

/// Whether the table is a step on a WebSocket.
pub(super) fn is_step(section: &Section<'_>) -> bool {
    KEYS.iter().any(|key| section.has(key))
}

/// Whether the awaited message is described with fields that are not filled in.
fn has_fixed_fields(call: &CallSpec) -> bool {
    let wait = call.socket.as_ref().and_then(|step| step.wait());
    wait.is_some_and(|wait| match &wait.message.content {
        Content::Json(text) | Content::Regex(text) => Template::has_fields(text.as_bytes()),
        Content::Text(_) => false,
    })
}

impl<'a> Requests<'a> {
    /// Reads a step; leaves the keys of all steps.
    pub(super) fn socket_step(&mut self, section: &mut Section<'a>) -> Option<CallSpec> {
        self.has_sockets = true;
        let [open, send, wait, close] = KEYS.map(|key| section.take(key));
        let mut keys = [open, send.or(wait), close].into_iter().flatten();
        if let Some(second) = keys.nth(1) {
            let what = format!(
                "`{}` is a step of its own; only `send` and `wait-for` go together",
                second.key
            );
            self.problems.add(second.at, what);
            return None;
        }
        let name = section.take("name").and_then(|item| self.name(item));
        let host = section.take("host").and_then(|item| self.host(item));
        let expected = self.expect(section);
        let extract = self.extracts(section);
        let checks = self.checks(section);
        let templates = section.take("templates").and_then(|i| i.boolean(&mut self.problems));
        let socket = match section.take("socket") {
            Some(item) => self.socket_name(item).map(Some),
            None if open.is_some() => Some(None),
            None => Some(self.only_socket()),
        };
        let name_of_socket = socket.clone().flatten();
        let plain = |call| (call, false);
        let (mut call, is_literal) = match (open, close) {
            (Some(open), _) => self.opened(section, open, name_of_socket).map(plain),
            (None, Some(close)) => self.closed(section, close, name_of_socket).map(plain),
            (None, None) => self.sent(section, send, wait, name_of_socket),
        }?;
        call.socket_name = socket?;
        let mut expect = expected.unwrap_or_default();
        if !section.has("expect") {
            // Those of the HTTP version, which is known later.
            expect.statuses = Vec::new();
        }
        call.expect = Some(Box::new(expect));
        (call.extract, call.checks, call.name) = (extract, checks.into(), name);
        call.authority = host.map_or(call.authority, Into::into);
        fill(&mut call, None, is_literal, templates);
        if let Some(item) = wait.filter(|_| templates != Some(false) && has_fixed_fields(&call)) {
            let what = "`wait-for`: fields such as {{session}} are filled in `text` and `equals`, \
                        not in `json` and `regex`; add templates = false if this is no field";
            self.problems.add(item.at, what);
        }
        self.checked(section.at, call)
    }

    /// Reads the name of a socket.
    fn socket_name(&mut self, item: Item<'a>) -> Option<Arc<str>> {
        let name = item.string(&mut self.problems, "the name of a WebSocket")?;
        if name.is_empty() {
            self.problems.add(item.at, "`socket`: the name of a WebSocket is empty");
            return None;
        }
        Some(name.into())
    }

    /// The name of the only socket that the session has opened so far, if it has one.
    fn only_socket(&self) -> Option<Arc<str>> {
        match &self.sockets[..] {
            [(name, _)] => name.clone(),
            _ => None,
        }
    }

    /// Reads `open`.
    fn opened(
        &mut self,
        section: &mut Section<'a>,
        open: Item<'a>,
        name: Option<Arc<str>>,
    ) -> Option<CallSpec> {
        let expected = "a path or a URL, as \"/chat\" or \"ws://host:port/chat\"";
        let text = open.string(&mut self.problems, expected)?;
        let own = section.take("headers").map(|item| self.headers(item)).unwrap_or_default();
        let subprotocols = section.take("subprotocols");
        let subprotocols = subprotocols
            .and_then(|i| i.texts(&mut self.problems, "the name of a subprotocol, or a list"));
        let goal = match self.endpoint_key(section) {
            Some(endpoint) => Ok(self.of_endpoint(endpoint? as usize, text.to_owned())),
            None if text.contains("://") && !text.starts_with('/') => self.socket_url(text),
            None => self.path_on_base(text.to_owned()),
        };
        let goal = goal.map_err(|why| self.problems.add(open.at, format!("`open`: {why}"))).ok()?;
        self.sockets.retain(|(other, _)| *other != name);
        self.sockets.push((name, goal.endpoint));
        let subprotocols = subprotocols.unwrap_or_default().into_iter().map(Into::into).collect();
        let mut call = self.finish(goal, "GET".into(), own, Vec::new());
        call.socket = Some(Box::new(SocketStep::Open { subprotocols }));
        Some(call)
    }

    fn socket_url(&mut self, text: &str) -> Result<Goal, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        match url.kind {
            UrlKind::WebSocket => Ok(self.goal_of(url)),
            _ => Err("write a path, or a URL with ws:// or wss://".into()),
        }
    }

    /// Reads `send`, `wait-for`, or both, and whether the message is literal.
    fn sent(
        &mut self,
        section: &mut Section<'a>,
        send: Option<Item<'a>>,
        wait: Option<Item<'a>>,
        name: Option<Arc<str>>,
    ) -> Option<(CallSpec, bool)> {
        let binary = section.take("binary");
        let within = section.take("within");
        let data = send.map(|item| self.body(item));
        let message = wait.map(|item| self.awaited(item));
        if let Some(item) = within.filter(|_| wait.is_none()) {
            self.problems.add(item.at, "`within` belongs to `wait-for`; add it, or omit `within`");
        }
        if let Some(item) = binary.filter(|_| send.is_none()) {
            self.problems.add(item.at, "`binary` belongs to `send`; omit it");
        }
        let problems = &mut self.problems;
        let within = within.and_then(|i| i.parse(problems, "a time", values::positive_span));
        let binary = binary.and_then(|i| i.boolean(problems)).unwrap_or(false);
        let wait = match message {
            Some(message) => Some(Wait { message: message?, within }),
            None => None,
        };
        let ((data, is_literal), step) = match data {
            Some(data) => (data?, SocketStep::Send { binary, wait }),
            None => ((Vec::new(), false), SocketStep::Wait(wait?)),
        };
        self.on_socket(section, data, step, name).map(|call| (call, is_literal))
    }

    /// Reads what a message must have that a step waits for.
    fn awaited(&mut self, item: Item<'a>) -> Option<Awaited> {
        let table = match item.value {
            DeValue::String(text) => {
                return Some(Awaited { content: Content::Text(text.to_string()), equals: None });
            }
            DeValue::Table(table) => table,
            _ => {
                item.wrong_type(&mut self.problems, AWAITED);
                return None;
            }
        };
        let mut section = Section::new("`wait-for`", item.at, table);
        let problems = &mut self.problems;
        let mut text =
            |key| section.take(key).and_then(|i| i.string(problems, "a string")).map(str::to_owned);
        let (text, json, regex, equals) =
            (text("text"), text("json"), text("regex"), text("equals"));
        section.finish(&mut self.problems);
        let content = match (text, json, regex) {
            (Some(text), None, None) => Content::Text(text),
            (None, Some(pointer), None) => Content::Json(pointer),
            (None, None, Some(regex)) => Content::Regex(regex),
            _ => {
                self.problems.add(item.at, format!("`wait-for`: write {AWAITED}"));
                return None;
            }
        };
        let awaited = Awaited { content, equals };
        match awaited.compile() {
            Ok(_) => Some(awaited),
            Err(why) => {
                self.problems.add(item.at, format!("`wait-for`: {why}"));
                None
            }
        }
    }

    /// Reads `close`.
    fn closed(
        &mut self,
        section: &mut Section<'a>,
        close: Item<'a>,
        name: Option<Arc<str>>,
    ) -> Option<CallSpec> {
        let parse = |text: &str| text.parse().map_err(|_| "write a number".to_owned());
        let code = close.parse(&mut self.problems, "a close code, as 1000", parse)?;
        let reason = section.take("reason");
        let reason = reason.and_then(|i| i.string(&mut self.problems, "a string"));
        let reason = reason.unwrap_or_default().as_bytes().to_vec();
        self.on_socket(section, reason, SocketStep::Close { code }, name)
    }

    /// A step on the socket that the last `open` of this name has opened.
    fn on_socket(
        &mut self,
        section: &mut Section<'a>,
        data: Vec<u8>,
        step: SocketStep,
        name: Option<Arc<str>>,
    ) -> Option<CallSpec> {
        let opened = self.sockets.iter().find(|(other, _)| *other == name);
        let opened = opened.map(|(_, endpoint)| *endpoint);
        let endpoint = match (self.endpoint_key(section), opened) {
            (Some(endpoint), _) => endpoint?,
            (None, Some(endpoint)) => endpoint,
            (None, None) if self.in_session => {
                let key = KEYS.iter().find(|key| section.has(key)).copied().unwrap_or_default();
                let what = match name {
                    Some(name) => {
                        format!("`{key}` needs the WebSocket '{name}'; `open` it before")
                    }
                    None if self.sockets.is_empty() => {
                        format!("`{key}` needs a WebSocket; `open` it before")
                    }
                    None => format!(
                        "`{key}`: the session has several WebSockets; name one \
                                     (`socket`)"
                    ),
                };
                self.problems.add(section.at, what);
                return None;
            }
            (None, None) => match self.path_on_base("/".into()) {
                Ok(goal) => goal.endpoint,
                Err(why) => {
                    self.problems.add(section.at, why);
                    return None;
                }
            },
        };
        let own = || authority(&self.endpoints[endpoint as usize]).into();
        Some(CallSpec {
            endpoint,
            method: "GET".into(),
            path: "/".into(),
            authority: self.common.host.clone().unwrap_or_else(own),
            body: data,
            socket: Some(Box::new(step)),
            ..CallSpec::default()
        })
    }

    /// Reads the number of a listed endpoint, if there is one: `Some(None)` if it is invalid.
    fn endpoint_key(&mut self, section: &mut Section<'a>) -> Option<Option<u32>> {
        let item = section.take("endpoint")?;
        let number = item.parse(&mut self.problems, "a number", values::count);
        Some(number.and_then(|n| {
            let exists = self.listed && n < self.endpoints.len() as u64;
            if !exists {
                let what = format!("there is no endpoint {n} in the list `endpoints`");
                self.problems.add(item.at, what);
            }
            exists.then_some(n as u32)
        }))
    }

    /// Reports what a plan with such steps cannot have.
    pub(super) fn check_beside_sockets(&mut self, top: &mut Section<'a>) {
        if let Some(item) = top.take("websocket") {
            let what = "[websocket] is about requests that are whole connections; this plan has \
                        steps on a WebSocket (`open`): omit it";
            self.problems.add(item.at, what);
        }
        if self.is_websocket {
            let what = "beside steps on a WebSocket (`open`), requests are those of HTTP; write \
                        http:// in their URLs (an `open` can have a URL with ws://)";
            self.problems.add(0, what);
        }
    }
}

impl Writer<'_> {
    /// Writes the keys of a step.
    pub(super) fn step(&self, call: &CallSpec, step: &SocketStep) -> Vec<String> {
        let mut fields = Vec::new();
        let (data, is_literal) = body(call);
        let mut add = |key: &str, value: String| fields.push(format!("{key} = {value}"));
        match step {
            SocketStep::Open { subprotocols } => {
                add("open", quoted(&call.path));
                if !subprotocols.is_empty() {
                    let names: Vec<_> = subprotocols.iter().map(|name| quoted(name)).collect();
                    add("subprotocols", array(&names));
                }
                let own = &call.headers[self.headers..];
                if !own.is_empty() {
                    add("headers", headers(own));
                }
            }
            SocketStep::Send { binary, .. } => {
                add("send", data);
                if *binary {
                    add("binary", "true".into());
                }
            }
            SocketStep::Wait(_) => {}
            SocketStep::Close { code } => {
                add("close", code.to_string());
                if !call.body.is_empty() {
                    add("reason", written::text_or_base64(&call.body));
                }
            }
        }
        if let Some(Wait { message, within }) = step.wait() {
            add("wait-for", awaited(message));
            if let Some(within) = within {
                add("within", quoted(&within.to_string()));
            }
        }
        if let Some(name) = &call.socket_name {
            add("socket", quoted(name));
        }
        if call.endpoint != 0 {
            add("endpoint", call.endpoint.to_string());
        }
        if *call.authority != self.authority(call) {
            add("host", quoted(&call.authority));
        }
        if let Some(name) = call.name {
            add("name", quoted(&self.plan.names[name as usize]));
        }
        let usual = step.usual_expect(self.plan.http);
        let expect = call.expect.as_deref().unwrap_or(&self.plan.expect);
        if *expect != usual {
            for (key, value) in expectations(expect) {
                add(key, value);
            }
        }
        if !call.extract.is_empty() {
            add("extract", dynamic::extracts(&call.extract));
        }
        if !call.checks.is_empty() {
            let list = &self.plan.checks.list;
            add("checks", checks::list(call.checks.iter().map(|&check| &list[check as usize])));
        }
        if call.template != dynamic::looks_like_template(call, is_literal) {
            add("templates", call.template.to_string());
        }
        fields
    }
}

fn awaited(awaited: &Awaited) -> String {
    let (key, text) = match &awaited.content {
        Content::Text(text) => ("text", text),
        Content::Json(pointer) => ("json", pointer),
        Content::Regex(regex) => ("regex", regex),
    };
    let equals = awaited.equals.as_ref().map(|text| format!(", equals = {}", quoted(text)));
    format!("{{ {key} = {}{} }}", quoted(text), equals.unwrap_or_default())
}
