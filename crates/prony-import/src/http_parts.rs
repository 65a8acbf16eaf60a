//! Parts of `.http` files that are the same whatever their variables are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::text::Text;
use crate::{Body, Import};

/// The line without `HTTP/1.1` at its end.
pub(crate) fn without_version<'l>(line: &'l str, at: usize, import: &mut Import) -> &'l str {
    match line.rsplit_once(" HTTP/") {
        Some((before, version)) if version.len() <= 3 => {
            if version.trim() != "1.1" {
                let what = format!("HTTP/{version}: the version of HTTP is set in the plan");
                import.notes.add(&what, &format!("line {at}"));
            }
            before.trim_end()
        }
        _ => line,
    }
}

/// Methods that may be in lower case.
const METHODS: [&str; 9] =
    ["get", "post", "put", "patch", "delete", "head", "options", "trace", "graphql"];

/// Method and URL of a first line; the URL may stand alone.
pub(crate) fn split_target(line: &str) -> (&str, &str) {
    match line.split_once(char::is_whitespace) {
        Some((method, url))
            if method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-')
                || METHODS.contains(&&*method.to_ascii_lowercase()) =>
        {
            (method, url.trim_start())
        }
        _ => ("GET", line),
    }
}

/// The words of a field: editors write some with parentheses, as in `$random.integer(1, 5)`.
pub(crate) fn spaced(field: &str) -> String {
    match field.starts_with("$random.") {
        true => field.replace(['(', ')', ','], " "),
        false => field.to_owned(),
    }
}

/// Notes what a tag of a request means, if a plan has it elsewhere.
pub(crate) fn note_tag(tag: &str, at: usize, import: &mut Import) {
    let name = tag.split([' ', '=']).next().unwrap_or_default();
    let why = match name {
        // They change nothing that is sent.
        "no-log" | "no-redirect" | "note" | "prompt" | "no-auto-encoding" => return,
        "timeout" | "connection-timeout" => "time limits are options of the load (--timeout)",
        "no-cookie-jar" => "the cookies of users are those of the plan (cookies = ...)",
        _ => "this tag has no counterpart",
    };
    import.notes.add(&format!("@{name}: {why}"), &format!("line {at}"));
}

/// The address of a request line that has only a path, at the server of its header `Host`, which is
/// then no header. Others stay.
pub(crate) fn with_host(address: &str, headers: &mut Vec<(String, Text)>) -> String {
    let host = headers.iter().position(|(name, _)| name.eq_ignore_ascii_case("host"));
    match host {
        Some(at) if address.starts_with('/') => {
            let host = headers.remove(at).1.template();
            let is_secured = [":443", ":8443"].iter().any(|port| host.ends_with(port));
            format!("{}://{host}{address}", if is_secured { "https" } else { "http" })
        }
        _ => address.to_owned(),
    }
}

/// The value of a header. Editors encode user and password of `Basic user password`.
pub(crate) fn authorized(name: &str, value: Text, place: &str, import: &mut Import) -> Text {
    let is_basic = |text: &str| text.len() > 6 && text[..6].eq_ignore_ascii_case("basic ");
    if !name.eq_ignore_ascii_case("authorization") || !is_basic(&value.literals()) {
        return value;
    }
    let Some(rest) = value.literal().map(|text| text[6..].trim()) else {
        if value.literals()[6..].trim().contains([' ', ':']) || value.fields().count() > 1 {
            import.notes.add("Basic with variables: encode user and password", place);
        }
        return value;
    };
    match rest.split_once(':').or_else(|| rest.split_once(char::is_whitespace)) {
        Some((user, password)) => {
            let code = STANDARD.encode(format!("{user}:{}", password.trim_start()));
            format!("Basic {code}").into()
        }
        None => value,
    }
}

/// The lines of a body.
pub(crate) struct Lines {
    text: String,
    /// What ends a line: CR LF between the parts of a form.
    end: &'static str,
    /// A form may be on several lines, each of which starts with `&`.
    is_form: bool,
    has_line: bool,
}

impl Lines {
    /// Those of a request with these headers.
    pub(crate) fn new(headers: &[(String, Text)]) -> Self {
        let is = |start: &str| {
            headers.iter().any(|(name, value)| {
                name.eq_ignore_ascii_case("content-type")
                    && value.literals().to_ascii_lowercase().starts_with(start)
            })
        };
        let end = if is("multipart/") { "\r\n" } else { "\n" };
        let is_form = is("application/x-www-form-urlencoded");
        Self { text: String::new(), end, is_form, has_line: false }
    }

    pub(crate) fn add(&mut self, line: &str) {
        let joins = self.is_form && line.trim_start().starts_with('&');
        if self.has_line && !joins {
            self.text.push_str(self.end);
        }
        self.text.push_str(if self.is_form { line.trim() } else { line });
        self.has_line = true;
    }

    /// After a file; between the parts of a form, the next line is not a part of it.
    pub(crate) fn end_file(&mut self) {
        self.has_line = self.end == "\r\n";
    }

    /// Takes the text so far: up to a file, or the last one, without empty lines at its end.
    pub(crate) fn take(&mut self, is_last: bool) -> String {
        if !is_last && self.has_line {
            self.text.push_str(self.end);
        }
        self.has_line = false;
        let text = std::mem::take(&mut self.text);
        match is_last {
            true => text.trim_end_matches(['\n', '\r']).to_owned(),
            false => text,
        }
    }
}

/// The body of a query in GraphQL, which editors send as JSON: the query, an empty line, and its
/// variables.
pub(crate) fn graph_ql(
    method: &str,
    headers: &mut Vec<(String, Text)>,
    body: Body,
) -> Result<Body, String> {
    let is_type = |(name, value): &(String, Text)| {
        name.eq_ignore_ascii_case("x-request-type")
            && value.literals().eq_ignore_ascii_case("graphql")
    };
    if !headers.iter().any(is_type) && method != "GRAPHQL" {
        return match method {
            "WEBSOCKET" | "GRPC" | "RSOCKET" => Err(format!("{method} is no request of HTTP")),
            _ => Ok(body),
        };
    }
    headers.retain(|header| !is_type(header));
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("Content-Type".to_owned(), "application/json".into()));
    }
    let text = match body {
        Body::None => Text::default(),
        Body::Text(text) => text,
        Body::Bytes(_) | Body::Mixed(_) => return Err("a query in GraphQL with bytes".into()),
    };
    let json = |text: &str| {
        let quoted = serde_json::Value::from(text).to_string();
        Text::from(&quoted[1..quoted.len() - 1])
    };
    let (mut query, mut variables) = (Text::default(), Text::default());
    let mut is_query = true;
    for (is_field, part) in text.parts() {
        match (is_field, part.split_once("\n\n").filter(|_| is_query)) {
            (true, _) if is_query => query.push_field(part),
            (true, _) => variables.push_field(part),
            (false, Some((before, after))) => {
                query.append(json(before));
                variables.push(after.trim_start());
                is_query = false;
            }
            (false, None) if is_query => query.append(json(part)),
            (false, None) => variables.push(part),
        }
    }
    let mut all = query.after("{\"query\":\"");
    all.push("\",\"variables\":");
    all.append(if variables.is_empty() { "{}".into() } else { variables });
    all.push("}");
    Ok(Body::Text(all))
}
