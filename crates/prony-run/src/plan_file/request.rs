//! Requests of a plan file, and their expected replies.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_base::secret::quoted_url;
use prony_import::session_log::LoggedRequest;
use prony_plan::plan::{CallSpec, Expect};
use prony_plan::target::{self, Endpoint, Url, UrlKind};
use toml::de::{DeTable, DeValue};

use super::body::{self, bytes};
use super::reader::{Item, Problems, Section};
use super::requests::{Goal, Requests, authority};
use super::{dynamic, socket};
use crate::values;

/// The forms of a request, for error messages.
const REQUEST: &str = "a request: \"/path\", \"POST /path\" or { path = \"/path\", ... }";
const HEADERS: &str = "{ Name = \"value\", ... } or [\"Name: value\", ...]";

impl<'a> Requests<'a> {
    /// Reads a request in any form. Returns its number if it is valid.
    pub(super) fn call(&mut self, item: Item<'a>) -> Option<u32> {
        match item.value {
            DeValue::String(text) => self.short(item, text),
            DeValue::Integer(_) => self.number(item),
            DeValue::Table(table) => {
                let mut section = Section::new("a request", item.at, table);
                let call = self.spec(&mut section);
                section.finish(&mut self.problems);
                call.map(|call| self.intern(call, item.at))
            }
            _ => {
                item.wrong_type(&mut self.problems, REQUEST);
                None
            }
        }
    }

    /// Reads a request of a list, which is added even if an equal one exists.
    pub(super) fn listed_call(&mut self, item: Item<'a>) {
        let call = match item.value {
            DeValue::String(text) => self.short_spec(item, text),
            DeValue::Table(table) => {
                let mut section = Section::new("a request", item.at, table);
                let call = self.spec(&mut section);
                section.finish(&mut self.problems);
                call
            }
            _ => {
                item.wrong_type(&mut self.problems, REQUEST);
                None
            }
        };
        if let Some(call) = call {
            self.sockets.clear();
            self.place(self.calls.len(), item.at);
            self.calls.push(call);
        }
    }

    /// The number of a request, which is added if it is new.
    pub(super) fn intern(&mut self, call: CallSpec, at: usize) -> u32 {
        let (known, index) = (self.calls.len(), self.calls.intern(call));
        if index as usize == known {
            self.place(known, at);
        }
        index
    }

    fn place(&mut self, call: usize, at: usize) {
        self.places.resize(call, 0);
        self.places.push(at);
    }

    /// Reads the request of a table; leaves other keys.
    pub(super) fn spec(&mut self, section: &mut Section<'a>) -> Option<CallSpec> {
        if socket::is_step(section) {
            return self.socket_step(section);
        }
        let (content, form) = self.content(section);
        let compress = section.take("compress");
        let has_content = !content.body.is_empty() || form.is_some();
        let method = section
            .take("method")
            .and_then(|item| item.parse(&mut self.problems, "a method, as \"PUT\"", values::method))
            .unwrap_or_else(|| if has_content { "POST".into() } else { "GET".into() });
        let headers = section.take("headers").map(|item| self.headers(item)).unwrap_or_default();
        let headers = self.with_type(headers, form.as_ref(), section.at);
        let bare = section.take("bare").and_then(|item| item.boolean(&mut self.problems));
        let name = section.take("name").and_then(|item| self.name(item));
        let host = section.take("host").and_then(|item| self.host(item));
        let expect = self.expect(section);
        let extract = self.extracts(section);
        let checks = self.checks(section);
        let redirects = self.redirects(section);
        let grpc = self.grpc_call(section);
        let templates = section.take("templates").and_then(|i| i.boolean(&mut self.problems));
        let unsigned = self.unsigned(section);
        let raw = section.take("raw").and_then(|i| bytes(&mut self.problems, i, "a string"));
        let goal = self.goal(section)?;
        let mut call = self.finish(goal, method.into(), headers, Vec::new());
        content.body.put_into(&mut call);
        call.extract = extract;
        call.checks = checks.into();
        (call.redirects, call.grpc, call.unsigned) = (redirects, grpc, unsigned);
        call.bare = bare.unwrap_or(self.common.bare);
        call.authority = host.map_or(call.authority, Into::into);
        call.raw = raw.unwrap_or_default();
        call.name = name;
        call.expect = expect.map(Box::new);
        body::fill(&mut call, form, content.is_literal, templates);
        self.compress(compress, &mut call);
        self.checked(section.at, call)
    }

    /// Adds the only request of a plan without a list: a GET of its URL.
    pub(super) fn call_of_url(&mut self) {
        let goal = match self.common.url.clone() {
            Some(url) => self.of_url(url),
            None if self.endpoints.is_empty() => {
                let what = "the plan has no requests; write `url = \"http://host:port/path\"`";
                // An invalid endpoint or URL is already reported.
                if self.problems.is_empty() {
                    self.problems.add(0, what);
                }
                return;
            }
            None => self.of_endpoint(0, "/".into()),
        };
        let call = self.finish(goal, "GET".into(), Vec::new(), Vec::new());
        if let Some(call) = self.checked(0, call) {
            self.calls.push(call);
        }
    }

    /// Converts a request of a session file.
    pub(super) fn logged(&mut self, request: &LoggedRequest<'_>) -> Result<CallSpec, String> {
        let goal = if request.uri.contains("://") && !request.uri.starts_with('/') {
            let url = Url::parse(request.uri).map_err(|e| e.to_string())?;
            self.of_url(url)
        } else {
            self.of_path(request.uri.to_owned())?
        };
        let method = CallSpec::method_of(request.method);
        let mut call = self.finish(goal, method, request.headers.clone(), request.body.to_vec());
        call.name = request.name.as_ref().map(|name| self.names.intern(name));
        call.check()?;
        Ok(call)
    }

    /// Reads the expected reply; `None` if the section does not set it.
    pub(super) fn expect(&mut self, section: &mut Section<'a>) -> Option<Expect> {
        let problems = &mut self.problems;
        let statuses = section.take("expect").and_then(|item| statuses(problems, item));
        let statuses = self.expect_grpc(section).or(statuses);
        let problems = &mut self.problems;
        let body = section.take("expect-body").and_then(|item| bytes(problems, item, "a string"));
        let length = section
            .take("expect-length")
            .and_then(|item| item.parse(problems, "a number of bytes", values::count));
        if statuses.is_none() && body.is_none() && length.is_none() {
            return None;
        }
        let statuses = statuses.unwrap_or_else(|| Expect::default().statuses);
        Some(Expect { statuses, body, length })
    }

    /// Reads headers in either form, in order.
    pub(super) fn headers(&mut self, item: Item<'a>) -> Vec<(String, String)> {
        match item.value {
            DeValue::Table(table) => self.header_table(table),
            DeValue::Array(_) => {
                let lines = item.list(&mut self.problems, HEADERS).into_iter().flatten();
                lines.filter_map(|line| self.header_line(line)).collect()
            }
            _ => {
                item.wrong_type(&mut self.problems, HEADERS);
                Vec::new()
            }
        }
    }

    /// Reads an endpoint: `unix`, or `host` and `port`, and `tls` for TLS.
    pub(super) fn listed_endpoint(&mut self, item: Item<'a>) -> Option<Endpoint> {
        const EXPECTED: &str = "{ host = \"name\", port = 80 } or { unix = \"/path\" }";
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, EXPECTED);
            return None;
        };
        let mut section = Section::new("an endpoint", item.at, table);
        let problems = &mut self.problems;
        let unix = section.take("unix").and_then(|i| i.string(problems, "a path"));
        let host = section.take("host").and_then(|i| i.string(problems, "a name or address"));
        let port = section.take("port").and_then(|i| i.parse(problems, "a port", port));
        let tls = section.take("tls").and_then(|i| i.string(problems, "the server's name"));
        section.finish(problems);
        let endpoint = match (unix, host, port) {
            (Some(path), None, None) => Endpoint::Unix { path: path.to_owned() },
            (None, Some(host), Some(port)) => Endpoint::Tcp { host: host.to_owned(), port },
            _ => {
                problems.add(item.at, format!("an endpoint is either {EXPECTED}"));
                return None;
            }
        };
        Some(match tls {
            Some(name) => endpoint.secured(name),
            None => endpoint,
        })
    }

    /// The index of the endpoint, which is added if it is new.
    pub(super) fn endpoint(&mut self, endpoint: Endpoint) -> u32 {
        let known = self.endpoints.iter().position(|e| *e == endpoint);
        known.unwrap_or_else(|| {
            self.endpoints.push(endpoint);
            self.endpoints.len() - 1
        }) as u32
    }

    /// `"/path"`, `"METHOD /path"`, or the same with a URL.
    fn short(&mut self, item: Item<'a>, text: &str) -> Option<u32> {
        self.short_spec(item, text).map(|call| self.intern(call, item.at))
    }

    fn short_spec(&mut self, item: Item<'a>, text: &str) -> Option<CallSpec> {
        // Ignore spaces in template fields.
        let method_ends = text.find(' ').filter(|&at| !text[..at].contains('/'));
        let (method, goal) = method_ends.map_or(("GET", text), |at| (&text[..at], &text[at + 1..]));
        let goal = if goal.starts_with('/') || goal == "*" {
            self.of_path(goal.to_owned())
        } else if goal.contains("://") {
            Url::parse(goal).map(|url| self.of_url(url)).map_err(|e| e.to_string())
        } else {
            let goal = quoted_url(goal);
            Err(format!("'{goal}' is neither a path (/...) nor a URL (http://...)"))
        };
        match goal {
            Ok(goal) => {
                let mut call =
                    self.finish(goal, CallSpec::method_of(method), Vec::new(), Vec::new());
                call.template = dynamic::looks_like_template(&call, false);
                self.checked(item.at, call)
            }
            Err(why) => {
                self.problems.add(item.at, format!("`{}`: {why}", item.key));
                None
            }
        }
    }

    /// Reads the number of a request in the list at the top level.
    fn number(&mut self, item: Item<'a>) -> Option<u32> {
        let listed = self.calls.len() as u64;
        let number = item.parse(&mut self.problems, REQUEST, values::count)?;
        if number < listed {
            return Some(number as u32);
        }
        let what = match listed {
            0 => "there is no list `request` at the top of the file".into(),
            _ => format!("the list `request` at the top of the file ends with {}", listed - 1),
        };
        self.problems.add(item.at, format!("there is no request {number}: {what}"));
        None
    }

    pub(super) fn checked(&mut self, at: usize, call: CallSpec) -> Option<CallSpec> {
        match call.check() {
            Ok(()) => Some(call),
            Err(why) => {
                self.problems.add(at, why);
                None
            }
        }
    }

    pub(super) fn finish(
        &self,
        goal: Goal,
        method: Cow<'static, str>,
        own: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> CallSpec {
        let has = |headers: &[(String, String)], name: &str| {
            headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
        };
        let mut headers = self.common.headers.clone();
        if !own.is_empty() {
            let common = headers.iter().filter(|(name, _)| !has(&own, name)).cloned();
            headers = common.chain(own.iter().cloned()).collect();
        }
        if let Some((name, password)) = goal.user
            && !has(&headers, "authorization")
        {
            let secret = BASE64.encode(format!("{name}:{}", password.expose()));
            headers.push(("Authorization".into(), format!("Basic {secret}")));
        }
        CallSpec {
            endpoint: goal.endpoint,
            method,
            path: goal.path,
            authority: self.common.host.clone().unwrap_or(goal.authority),
            headers,
            body,
            bare: self.common.bare,
            ..CallSpec::default()
        }
    }

    /// Reads the destination: `url`, or `path` and `endpoint`.
    fn goal(&mut self, section: &mut Section<'a>) -> Option<Goal> {
        let url = section.take("url");
        let path = section.take("path");
        let endpoint = section.take("endpoint");
        if let Some(url) = url {
            if let Some(other) = path.or(endpoint) {
                let what = format!("`url` includes it; omit `{}`", other.key);
                self.problems.add(other.at, what);
            }
            let url = url.parse(&mut self.problems, "a URL", url_with_fields)?;
            return Some(self.of_url(url));
        }
        let path = match path {
            Some(item) => item.string(&mut self.problems, "a path, as \"/x\"")?.to_owned(),
            None => self.common.url.as_ref().map_or("/", |url| &url.path).to_owned(),
        };
        let goal = match endpoint {
            Some(item) => {
                let n = item.parse(&mut self.problems, "a number", values::count)?;
                let found = usize::try_from(n).ok().filter(|&n| n < self.endpoints.len());
                let Some(n) = found.filter(|_| self.listed) else {
                    let what = format!("there is no endpoint {n} in the list `endpoints`");
                    self.problems.add(item.at, what);
                    return None;
                };
                Ok(self.of_endpoint(n, path))
            }
            None => self.of_path(path),
        };
        goal.map_err(|why| self.problems.add(section.at, why)).ok()
    }

    fn of_url(&mut self, url: Url) -> Goal {
        self.is_grpc |= url.kind == UrlKind::Grpc;
        self.is_websocket |= url.kind == UrlKind::WebSocket;
        self.is_http |= url.kind == UrlKind::Http;
        self.goal_of(url)
    }

    /// The destination of a URL of any kind.
    pub(super) fn goal_of(&mut self, url: Url) -> Goal {
        let endpoint = self.endpoint(url.endpoint());
        Goal { endpoint, authority: url.authority().into(), path: url.path, user: url.user }
    }

    /// The path on the server that the file names at its top.
    fn of_path(&mut self, path: String) -> Result<Goal, String> {
        if let Some(url) = self.common.url.clone().filter(|_| !self.has_requests) {
            self.has_requests = true;
            self.of_url(url);
        }
        self.path_on_base(path)
    }

    /// The same for a request or a step of any kind.
    pub(super) fn path_on_base(&mut self, path: String) -> Result<Goal, String> {
        if self.base.is_none()
            && let Some(url) = self.common.url.clone()
        {
            self.base = Some(self.goal_of(url));
        }
        if let Some(base) = &self.base {
            let (authority, user) = (base.authority.clone(), base.user.clone());
            return Ok(Goal { endpoint: base.endpoint, path, authority, user });
        }
        if self.listed && !self.endpoints.is_empty() {
            return Ok(self.of_endpoint(0, path));
        }
        Err("the request has no server; write `url = \"http://host:port\"` at the top of the file"
            .into())
    }

    pub(super) fn of_endpoint(&self, n: usize, path: String) -> Goal {
        let authority = authority(&self.endpoints[n]).into();
        Goal { endpoint: n as u32, path, authority, user: None }
    }

    fn header_table(&mut self, table: &'a DeTable<'a>) -> Vec<(String, String)> {
        let mut lines: Vec<_> = table.iter().collect();
        lines.sort_by_key(|(name, _)| name.span().start);
        let mut headers = Vec::with_capacity(lines.len());
        for (name, value) in lines {
            let item = Item::new(name.get_ref(), value);
            let Some(value) = item.scalar() else {
                item.wrong_type(&mut self.problems, "a string");
                continue;
            };
            match target::check_header(name.get_ref(), &value) {
                Ok(()) => headers.push((name.get_ref().to_string(), value.into_owned())),
                Err(why) => self.problems.add(name.span().start, why),
            }
        }
        headers
    }

    /// Reads `"Name: value"`, or `["Name", "value"]` with significant spaces.
    fn header_line(&mut self, item: Item<'a>) -> Option<(String, String)> {
        if let DeValue::Array(pair) = item.value
            && let [Some(name), Some(value), None] = [0, 1, 2].map(|i| pair.get(i))
            && let (Some(name), Some(value)) = (name.get_ref().as_str(), value.get_ref().as_str())
        {
            return match target::check_header(name, value) {
                Ok(()) => Some((name.to_owned(), value.to_owned())),
                Err(why) => {
                    self.problems.add(item.at, why);
                    None
                }
            };
        }
        item.parse(&mut self.problems, "\"Name: value\"", values::header)
    }

    /// Reads the `Host` header, which may be empty.
    pub(super) fn host(&mut self, item: Item<'a>) -> Option<String> {
        let host = item.string(&mut self.problems, "a name")?;
        if host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let what = format!("`host`: '{host}' is not a host; write a name without blanks");
            self.problems.add(item.at, what);
            return None;
        }
        Some(host.to_owned())
    }

    pub(super) fn name(&mut self, item: Item<'a>) -> Option<u32> {
        let name = item.string(&mut self.problems, "a name")?;
        Some(self.names.intern(name))
    }
}

fn statuses(problems: &mut Problems<'_>, item: Item<'_>) -> Option<Vec<(u16, u16)>> {
    const EXPECTED: &str = "statuses, as \"2xx,404\" or [200, 404]";
    let one = |item: Item<'_>, problems: &mut Problems<'_>| {
        item.parse(problems, EXPECTED, values::statuses).map(|s| s.0)
    };
    if !matches!(item.value, DeValue::Array(_)) {
        return one(item, problems);
    }
    let parts: Vec<_> = item.list(problems, EXPECTED)?.collect();
    let ranges = parts.into_iter().map(|part| one(part, problems));
    ranges.collect::<Option<Vec<_>>>().map(|ranges| ranges.concat())
}

fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("ports are numbers from 1 to 65535".into()),
        Ok(port) => Ok(port),
    }
}

/// A URL whose path may have template fields, which may have spaces.
fn url_with_fields(text: &str) -> Result<Url, String> {
    let (mut plain, mut fields) = (String::new(), Vec::new());
    let mut rest = text;
    let field = |rest: &'_ str| -> Option<(usize, usize)> {
        let start = rest.find("{{")?;
        Some((start, start + rest[start..].find("}}")? + 2))
    };
    while let Some((start, end)) = field(rest) {
        plain.push_str(&format!("{}{{{{{}}}}}", &rest[..start], fields.len()));
        fields.push(&rest[start..end]);
        rest = &rest[end..];
    }
    plain.push_str(rest);
    let mut url = Url::parse(&plain).map_err(|e| e.to_string())?;
    for (n, field) in fields.into_iter().enumerate() {
        url.path = url.path.replacen(&format!("{{{{{n}}}}}"), field, 1);
    }
    Ok(url)
}
