//! A plan file from what was imported.

use std::collections::HashMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use prony_base::plain::{self, Sink};
use prony_plan::plan::{Data, Think};
use prony_plan::vars::Template;

use crate::text::Text;
use crate::{Body, Extract, Import, Piece, Request, Step};

impl Import {
    /// The text of the plan file. `heading` is its first line, without `#`.
    pub fn write(&self, heading: &str) -> String {
        let target = self.target();
        let mut out = format!("# {}\nurl = {}\n", plain::line(heading), quoted(&target));
        if self.http2 {
            out.push_str("http = 2\n");
        }
        // Templates are parts of sessions.
        let is_list = self.is_list && !self.all().any(has_fields);
        if is_list {
            let _ = writeln!(out, "connections = 1\nrequests = {}", self.requests());
        } else {
            let _ = writeln!(out, "users = 1\nsessions = {}", self.sessions.len());
        }
        if !is_list && !self.is_of_httperf {
            out.push_str("on-failure = \"continue\"\n");
        }
        if !is_list
            && !self.is_of_httperf
            && self.sessions.iter().flat_map(|s| &s.steps).any(|s| s.requests.len() > 1)
        {
            // As many to a server as browsers open.
            out.push_str("session-connections = 6\n");
        }
        if self.has_jar {
            out.push_str("cookies = \"session\"\n");
        }
        if is_list {
            out.push_str("\nrequest = [\n");
            self.all().for_each(|r| _ = writeln!(out, "  {},", inline(r, &target, "")));
            out.push_str("]\n");
        }
        // Without TLS, a plan has none of its settings.
        if self.all().any(|request| request.origin.starts_with("https:")) {
            out.push_str(&self.tls());
        }
        if !self.variables.is_empty() {
            out.push_str("\n# Fill these in, or write \"{{env NAME}}\" to read the environment.\n");
            out.push_str("[variables]\n");
            for (name, of) in &self.variables {
                let _ = writeln!(out, "{name} = {} # {}", quoted(Data::BLANK), plain::line(of));
            }
        }
        if !is_list {
            for session in &self.sessions {
                out.push_str("\n[[session]]\n");
                if !session.name.is_empty() {
                    let _ = writeln!(out, "name = {}", quoted(&session.name));
                }
                if let Some(weight) = session.weight {
                    let _ = writeln!(out, "weight = {weight}");
                }
                out.push_str("request = [\n");
                session.steps.iter().for_each(|step| write_step(&mut out, step, &target));
                out.push_str("]\n");
            }
        }
        out
    }

    /// The settings of TLS, if there are some.
    fn tls(&self) -> String {
        let mut out = String::new();
        if self.insecure || self.cacert.is_some() {
            out.push_str("\n[tls]\n");
        }
        if self.insecure {
            out.push_str("insecure = true\n");
        }
        if let Some(path) = &self.cacert {
            let _ = writeln!(out, "cacert = {}", quoted(path));
        }
        out
    }

    /// The server of most requests.
    fn target(&self) -> String {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut most = "";
        for request in self.all() {
            let origin = request.origin.as_str();
            *counts.entry(origin).or_default() += 1;
            if most.is_empty() || counts[origin] > counts[most] {
                most = origin;
            }
        }
        most.to_owned()
    }
}

/// Whether a request is a template in the plan.
pub(crate) fn has_fields(request: &Request) -> bool {
    request.path.has_fields()
        || request.headers.iter().any(|(_, value)| value.has_fields())
        || request.body.texts().any(Text::has_fields)
        || !request.extract.is_empty()
}

fn write_step(out: &mut String, step: &Step, target: &str) {
    let mut more = String::new();
    if step.think != Think::None {
        let _ = write!(more, ", think = \"{}\"", step.think);
    }
    if let [request] = step.requests.as_slice() {
        let _ = writeln!(out, "  {},", inline(request, target, &more));
        return;
    }
    out.push_str("  { burst = [\n");
    for request in &step.requests {
        let _ = writeln!(out, "    {},", inline(request, target, ""));
    }
    let lead = if step.lead { ", lead = true" } else { "" };
    let _ = writeln!(out, "  ]{lead}{more} }},");
}

/// A request on a line; `more` are further keys.
fn inline(request: &Request, target: &str, more: &str) -> String {
    let is_template = has_fields(request);
    let mut literal_braces = false;
    let mut text = |text: &Text| match (is_template, text.literal()) {
        (false, Some(literal)) => {
            literal_braces |= literal.contains("{{");
            quoted(literal)
        }
        _ => quoted(&text.template()),
    };
    let path = text(&request.path);
    let at = match request.origin == target {
        true => format!("path = {path}"),
        false => format!("url = \"{}{}", escaped(&request.origin), &path[1..]),
    };
    let mut keys = vec![at];
    // What is empty is no body in a plan.
    let usual = if request.body.is_empty() { "GET" } else { "POST" };
    if request.method != usual {
        keys.push(format!("method = {}", quoted(&request.method)));
    }
    if !request.headers.is_empty() {
        let lines = request.headers.iter().map(|(name, value)| {
            let value = text(value);
            format!("\"{}: {}", escaped(name), &value[1..])
        });
        keys.push(format!("headers = [{}]", lines.collect::<Vec<_>>().join(", ")));
    }
    match &request.body {
        body if body.is_empty() => {}
        Body::None => {}
        Body::Text(body) => {
            let is_plain = !body.literals().starts_with('@');
            let body = text(body);
            keys.push(match is_plain {
                true => format!("body = {body}"),
                false => format!("body = {{ text = {body} }}"),
            });
        }
        Body::Bytes(bytes) => {
            keys.push(format!("body = {{ base64 = \"{}\" }}", STANDARD.encode(bytes)));
        }
        Body::Mixed(pieces) => {
            let code = STANDARD.encode(template(pieces));
            keys.push(format!("body = {{ base64 = \"{code}\", templates = true }}"));
        }
    }
    if !request.name.is_empty() {
        keys.push(format!("name = {}", quoted(&request.name)));
    }
    if request.expect > 0 {
        keys.push(format!("expect = {}", request.expect));
    }
    if !request.extract.is_empty() {
        keys.push(extracts(request));
    }
    if literal_braces {
        keys.push("templates = false".into());
    }
    format!("{{ {}{more} }}", keys.join(", "))
}

/// What a request takes from its reply.
fn extracts(request: &Request) -> String {
    let each = request.extract.iter().map(|(name, from)| match from {
        Extract::Header(header, None) => format!("{name} = {{ header = {} }}", quoted(header)),
        Extract::Header(header, Some(regex)) => {
            format!("{name} = {{ header = {}, regex = {} }}", quoted(header), quoted(regex))
        }
        Extract::Between(left, right) => {
            format!("{name} = {{ between = [{}, {}] }}", quoted(left), quoted(right))
        }
        Extract::Json(pointer) => format!("{name} = {{ json = {} }}", quoted(pointer)),
    });
    format!("extract = {{ {} }}", each.collect::<Vec<_>>().join(", "))
}

/// The template of texts and bytes.
fn template(pieces: &[Piece]) -> Vec<u8> {
    let mut out = Vec::new();
    // Braces may meet where two parts do.
    let mut literal = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => literal.extend_from_slice(bytes),
            Piece::Text(text) => text.parts().for_each(|(is_field, text)| {
                if is_field {
                    Template::escape(&std::mem::take(&mut literal), &mut out);
                    out.extend(format!("{{{{{text}}}}}").into_bytes());
                } else {
                    literal.extend_from_slice(text.as_bytes());
                }
            }),
        }
    }
    Template::escape(&literal, &mut out);
    out
}

/// A string of TOML, on one line.
fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    plain::plain(&out, Sink::Toml).into_owned()
}
