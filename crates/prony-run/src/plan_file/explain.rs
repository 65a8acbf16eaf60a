//! Writes a plan as a plan file; reading it gives the same plan.

use std::fmt::Write as _;

use prony_base::plain;
use prony_plan::plan::{
    Burst, CallSpec, Calls, Cookies, HttpVersion, Lost, OnFailure, Pick, Plan, SessionKind,
    Sessions, Shard, Think, steps,
};
use prony_plan::target::{Endpoint, Url};

use super::checks;
use super::control;
use super::dynamic;
use super::follow;
use super::grpc;
use super::load;
use super::tls;
use super::words::{COOKIES, HTTP, LOST, ON_FAILURE, PICK, word};
use super::writer::{Writer, has_headers};
use super::written::{array, body, expectations, headers, integer, line, quoted, text_or_base64};
use super::{http2, proxy, sigv4, stream, websocket};

/// Writes the plan as a plan file, with `notes` (full sentences) as comments at the top. Execution
/// options such as threads and driver are not part of a plan.
pub fn explain(plan: &Plan, notes: &[String]) -> String {
    let merged = plan.has_sockets().then(|| plan.with_merged_endpoints());
    let plan = merged.as_ref().unwrap_or(plan);
    let writer = Writer::new(plan);
    let mut out = head(notes);
    writer.target(&mut out);
    load::write(plan, &mut out);
    writer.choice(&mut out);
    writer.limits(&mut out);
    thresholds(plan, &mut out);
    if plan.shard != Shard::WHOLE {
        let Shard { index, of } = plan.shard;
        line(&mut out, "shard", format!("{{ index = {index}, of = {of} }}"));
    }
    writer.requests(Some(plan.pipeline), &mut out);
    out
}

/// Writes what the phases of a plan share, as [`explain`] does: all but their loads. `streams` are
/// those of a connection with HTTP/2, if they share them.
pub(super) fn explain_shared(plan: &Plan, streams: Option<u32>, notes: &[String]) -> String {
    let merged = plan.has_sockets().then(|| plan.with_merged_endpoints());
    let writer = Writer::new(merged.as_ref().unwrap_or(plan));
    let mut out = head(notes);
    writer.target(&mut out);
    writer.choice(&mut out);
    writer.limits(&mut out);
    writer.requests(streams, &mut out);
    out
}

/// The comments at the top.
fn head(notes: &[String]) -> String {
    let mut out = String::from("# Run it with: prony run FILE\n");
    for note in notes {
        let _ = writeln!(out, "# {}", plain::line(&note.replace('\n', " ")));
    }
    out
}

/// Writes the thresholds, if there are any.
pub(super) fn thresholds(plan: &Plan, out: &mut String) {
    if !plan.thresholds.is_empty() {
        let each: Vec<String> = plan.thresholds.iter().map(|t| quoted(&t.to_string())).collect();
        line(out, "thresholds", format!("[{}]", each.join(", ")));
    }
}

impl Writer<'_> {
    /// The URL of a plan that is only a GET of it.
    fn url_alone(&self) -> Option<Url> {
        let [call] = &self.plan.calls[..] else { return None };
        if self.plan.sessions.is_some() || self.short(call)? != quoted(&call.path) {
            return None;
        }
        let url = Url { path: call.path.clone(), ..self.url.clone()? };
        // Some paths cannot be part of a URL: `*`, or one with a `#`.
        (Url::parse(&url.to_string()) == Ok(url.clone())).then_some(url)
    }

    fn target(&self, out: &mut String) {
        match &self.url {
            Some(url) => {
                let base = Url { path: String::new(), ..url.clone() };
                let url = self.url_alone().unwrap_or(base);
                line(out, "url", quoted(&url.to_string()));
            }
            None => {
                let endpoints: Vec<_> = self.plan.endpoints.iter().map(endpoint).collect();
                line(out, "endpoints", array(&endpoints));
            }
        }
        if let Some(host) = self.host {
            line(out, "host", quoted(host));
        }
        if self.headers > 0 {
            let mut calls = self.plan.calls.iter().filter(|call| has_headers(call));
            let first = calls.next().map_or(&[][..], |call| &call.headers[..self.headers]);
            line(out, "headers", headers(first));
        }
        if self.bare {
            line(out, "bare", "true");
        }
        if !names_follow_calls(self.plan) {
            let names: Vec<_> = self.plan.names.iter().map(|name| quoted(name)).collect();
            line(out, "names", array(&names));
        }
    }

    /// Writes the choice of the next request, and the seed.
    fn choice(&self, out: &mut String) {
        let pick = match &self.plan.sessions {
            Some(sessions) => sessions.pick,
            None => self.plan.pick,
        };
        let weighted = |s: &Sessions| s.kinds.iter().any(|kind| kind.weight != 1);
        let weighted = self.plan.sessions.as_ref().is_some_and(weighted);
        if (pick == Pick::Random) != weighted {
            line(out, "pick", quoted(word(PICK, &pick)));
        }
        line(out, "seed", integer(self.plan.seed));
    }

    fn limits(&self, out: &mut String) {
        let plan = self.plan;
        if plan.pipeline != 1 && !plan.http.is_http2() {
            line(out, "pipeline", plan.pipeline);
        }
        if let Some(n) = plan.requests_per_connection {
            line(out, "requests-per-connection", n);
        }
        line(out, "timeout", quoted(&plan.timeout.to_string()));
        if plan.timeout_from_send {
            line(out, "timeout-from", quoted("send"));
        }
        if plan.replace_lost {
            line(out, "replace-lost", true);
        }
        line(out, "connect-timeout", quoted(&plan.connect_timeout.to_string()));
        follow::explain(plan, out);
        if plan.http != HttpVersion::Http11 {
            line(out, "http", quoted(word(HTTP, &plan.http)));
        }
        for (key, value) in expectations(&plan.expect) {
            line(out, key, value);
        }
        if let Some(checks) = checks::of_all(plan) {
            line(out, "checks", checks);
        }
    }

    /// Writes the requests or sessions, and the tables.
    fn requests(&self, streams: Option<u32>, out: &mut String) {
        let plan = self.plan;
        match &plan.sessions {
            Some(sessions) => self.sessions(sessions, out),
            None if self.url_alone().is_some() => {}
            None => self.list(out),
        }
        dynamic::data(&plan.data, out);
        if let Some(spec) = &plan.tls {
            tls::explain(spec, out);
        }
        if let Some(spec) = &plan.proxy {
            proxy::explain(spec, out);
        }
        if let Some(signing) = &plan.aws_sigv4 {
            sigv4::explain(signing, out);
        }
        if plan.http.is_http2() {
            http2::explain(plan, streams, out);
            grpc::explain(plan, out);
        }
        if let Some(spec) = plan.websocket.as_deref() {
            websocket::explain(plan, spec, out);
        }
        if let Some(stream) = plan.stream.as_deref() {
            stream::explain(stream, out);
        }
    }

    /// Writes the list of requests.
    fn list(&self, out: &mut String) {
        out.push_str("\nrequest = [\n");
        for call in &self.plan.calls {
            let _ = writeln!(out, "  {},", self.call(call));
        }
        out.push_str("]\n");
    }

    fn sessions(&self, sessions: &Sessions, out: &mut String) {
        if sessions.connections != 1 {
            line(out, "session-connections", sessions.connections);
        }
        if sessions.cookies != Cookies::Off {
            line(out, "cookies", quoted(word(COOKIES, &sessions.cookies)));
        }
        if sessions.lost != Lost::Idempotent {
            line(out, "lost", quoted(word(LOST, &sessions.lost)));
        }
        if sessions.on_failure != OnFailure::End {
            line(out, "on-failure", quoted(word(ON_FAILURE, &sessions.on_failure)));
        }
        if sessions.retries != 0 {
            line(out, "retries", sessions.retries);
        }
        let calls: Vec<_> = self.plan.calls.iter().map(|call| self.call(call)).collect();
        let by_number = !calls_follow_sessions(self.plan, sessions) || repeats(sessions, &calls);
        if by_number {
            self.list(out);
        }
        for (number, kind) in (0..).zip(&sessions.kinds) {
            self.session(number, kind, &calls, by_number, out);
        }
    }

    fn session(
        &self,
        number: u32,
        kind: &SessionKind,
        calls: &[String],
        by_number: bool,
        out: &mut String,
    ) {
        out.push_str("\n[[session]]\n");
        if !kind.name.is_empty() {
            line(out, "name", quoted(&kind.name));
        }
        if kind.weight != 1 {
            line(out, "weight", kind.weight);
        }
        out.push_str("request = [\n");
        // A checked plan has only switches that fit.
        let steps = steps(&kind.bursts).unwrap_or_default();
        let burst = |index: usize| step(&kind.bursts[index], calls, by_number);
        out.push_str(&checks::grouped(self.plan, number, &steps, &burst));
        out.push_str("]\n");
    }

    /// A request as a short text if possible, otherwise as a table.
    fn call(&self, call: &CallSpec) -> String {
        self.short(call).unwrap_or_else(|| format!("{{ {} }}", self.fields(call).join(", ")))
    }

    /// `"/path"` or `"METHOD /path"`; `None` if the request has other fields.
    fn short(&self, call: &CallSpec) -> Option<String> {
        let fields = self.fields(call);
        let is_short = fields.iter().all(|f| f.starts_with("path ") || f.starts_with("method "));
        let is_path = call.path.starts_with('/') || call.path == "*";
        if !is_short || !is_path || call.path.contains(' ') {
            return None;
        }
        Some(match &*call.method {
            "GET" => quoted(&call.path),
            method => quoted(&format!("{method} {}", call.path)),
        })
    }

    fn fields(&self, call: &CallSpec) -> Vec<String> {
        if let Some(step) = call.socket.as_deref() {
            return self.step(call, step);
        }
        let mut fields = vec![format!("path = {}", quoted(&call.path))];
        let mut add = |key: &str, value: String| fields.push(format!("{key} = {value}"));
        if call.method != if call.has_body() { "POST" } else { "GET" } {
            add("method", quoted(&call.method));
        }
        if call.endpoint != 0 {
            add("endpoint", call.endpoint.to_string());
        }
        if *call.authority != self.authority(call) {
            add("host", quoted(&call.authority));
        }
        let own = &call.headers[self.headers..];
        if !own.is_empty() {
            add("headers", headers(own));
        }
        if call.bare && !self.bare {
            add("bare", "true".into());
        }
        let (body, is_literal) = body(call);
        if !call.body.is_empty() {
            add("body", body);
        }
        if let Some(file) = &call.file {
            add("body", format!("{{ file = {} }}", quoted(&file.name)));
        }
        if call.gzip {
            add("compress", quoted("gzip"));
        }
        if call.unsigned {
            add("aws-sigv4", "false".to_owned());
        }
        if !call.raw.is_empty() {
            add("raw", text_or_base64(&call.raw));
        }
        if let Some(grpc) = grpc::of_call(call) {
            add("grpc", grpc);
        }
        if let Some(name) = call.name {
            add("name", quoted(&self.plan.names[name as usize]));
        }
        for (key, value) in call.expect.as_deref().map(expectations).unwrap_or_default() {
            add(key, value);
        }
        for (key, value) in follow::of_call(call) {
            add(key, value);
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

/// Whether the names are in the order of their first use, in which reading the file adds them.
fn names_follow_calls(plan: &Plan) -> bool {
    let mut seen = 0;
    for name in plan.calls.iter().filter_map(|call| call.name) {
        if name > seen {
            return false;
        }
        seen += u32::from(name == seen);
    }
    seen as usize == plan.names.len()
}

/// Whether the calls are unique and in the order of their first use by sessions, in which reading
/// the file adds them.
fn calls_follow_sessions(plan: &Plan, sessions: &Sessions) -> bool {
    let mut seen = Calls::default();
    let used = sessions.kinds.iter().flat_map(|k| &k.bursts).flat_map(|b| &b.calls);
    for &call in used {
        if (call as usize) < seen.len() {
            continue;
        }
        let Some(spec) = plan.calls.get(call as usize) else { return false };
        if call as usize > seen.len() || seen.intern(spec.clone()) != call {
            return false;
        }
    }
    seen.len() == plan.calls.len()
}

/// Whether calls repeat so often that numbers make the file shorter.
fn repeats(sessions: &Sessions, calls: &[String]) -> bool {
    let used = sessions.kinds.iter().flat_map(|k| &k.bursts).flat_map(|b| &b.calls);
    let (mut inline, mut numbers) = (0, calls.iter().map(String::len).sum::<usize>());
    for &call in used {
        inline += calls[call as usize].len();
        numbers += 6;
    }
    inline > 2 * numbers + 4096
}

/// A burst as an element of a session's list.
fn step(burst: &Burst, calls: &[String], by_number: bool) -> String {
    let call = |call: &u32| {
        if by_number { call.to_string() } else { calls[*call as usize].clone() }
    };
    let mut more = String::new();
    if burst.lead {
        more += ", lead = true";
    }
    if burst.think != Think::None {
        let _ = write!(more, ", think = {}", quoted(&burst.think.to_string()));
    }
    if burst.repeat != 1 {
        let _ = write!(more, ", repeat = {}", burst.repeat);
    }
    for key in burst.control.as_deref().map(control::keys).unwrap_or_default() {
        let _ = write!(more, ", {key}");
    }
    let texts: Vec<_> = burst.calls.iter().map(call).collect();
    match &texts[..] {
        [one] if more.is_empty() => one.clone(),
        _ if more.is_empty() => array(&texts),
        // The table of a request can contain the think time after it.
        [one] if one.starts_with('{') && !burst.lead => {
            format!("{}{more} }}", one.strip_suffix(" }").unwrap_or(one))
        }
        [one] if one.starts_with(['"', '\'']) && !burst.lead && !one[1..].contains(' ') => {
            format!("{{ path = {one}{more} }}")
        }
        _ => format!("{{ burst = {}{more} }}", array(&texts)),
    }
}

fn endpoint(endpoint: &Endpoint) -> String {
    let tls = endpoint.tls_name().map(|name| format!(", tls = {}", quoted(name)));
    let transport = match endpoint.transport() {
        Endpoint::Unix { path } => format!("unix = {}", quoted(path)),
        Endpoint::Tcp { host, port } => format!("host = {}, port = {port}", quoted(host)),
        // There is no TLS inside TLS, and plan files support only HTTP.
        Endpoint::Tls { .. } | Endpoint::Inet { .. } | Endpoint::UnixSeqpacket { .. } => {
            String::new()
        }
    };
    format!("{{ {transport}{} }}", tls.unwrap_or_default())
}
