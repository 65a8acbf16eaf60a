//! The `.http` or `.rest` files of editors: one session, a request after each `###`.
//!
//! Variables of the file are replaced by their values. Those that editors compute become fields
//! (`{{$uuid}}`, `{{$randomInt 1 10}}`), and values of named replies
//! (`{{login.response.body.$.id}}`) become extracts.

use std::collections::BTreeMap;

use crate::text::{Text, variable_name};
use crate::url;
use crate::{Body, Extract, Import, Options, Request, Session, Step};

/// A request with its line, or why it is left out.
type Found = (usize, Result<Request, String>);

#[derive(Default)]
struct State {
    /// The variables of the file, in the order of their lines.
    variables: Vec<(String, String)>,
    /// Variables without a value here.
    unknown: BTreeMap<String, ()>,
    /// What requests extract from the replies to named ones: of which, as what, and where it is.
    extracts: Vec<(String, String, Extract)>,
}

pub(crate) fn read(text: &str, options: &Options<'_>) -> Result<Import, String> {
    let mut state = State::default();
    let is_variable = |line: &&str| line.starts_with('@') && line.contains('=');
    for line in text.lines().filter(is_variable) {
        if let Some((name, value)) = line[1..].split_once('=') {
            state.variables.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    let mut import = Import::default();
    let mut session = Session::default();
    let mut block: Vec<(usize, &str)> = Vec::new();
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
    for (at, line) in lines.chain([(0, "###")]) {
        if !line.starts_with("###") {
            block.push((at, line));
            continue;
        }
        if let Some((at, found)) = state.request(&block, options, &mut import)? {
            match found {
                Ok(request) => session.steps.push(Step::from(request)),
                Err(why) => import.notes.add(&why, &format!("line {at}")),
            }
        }
        // The rest of the line is the name of the next request.
        block.clear();
        block.push((at, line));
    }
    for (of, name, from) in state.extracts {
        let all = session.steps.iter_mut().flat_map(|step| &mut step.requests);
        match all.into_iter().find(|request| request.name == of) {
            Some(request) if !request.extract.iter().any(|(n, _)| *n == name) => {
                request.extract.push((name, from));
            }
            Some(_) => {}
            None => {
                return Err(format!(": no request has the name {of}, whose reply another needs"));
            }
        }
    }
    import.variables.extend(state.unknown.into_keys().map(|name| (variable_name(&name), name)));
    import.sessions.push(session);
    Ok(import)
}

impl State {
    /// The request of a block, with its line, or why it is left out.
    fn request(
        &mut self,
        block: &[(usize, &str)],
        options: &Options<'_>,
        import: &mut Import,
    ) -> Result<Option<Found>, String> {
        let mut name = String::new();
        let mut lines = block.iter().copied().peekable();
        while let Some((at, line)) = lines.peek().copied() {
            let comment = line.trim_start();
            let text = comment.trim_start_matches(['#', '/']).trim();
            if let Some(given) = text.strip_prefix("@name") {
                name = given.trim_start_matches([' ', '=']).trim().to_owned();
            } else if comment.starts_with("< {%") {
                import.notes.add("a script of an editor", &format!("line {at}"));
            } else if !(comment.is_empty()
                || comment.starts_with(['#', '@'])
                || comment.starts_with("//"))
            {
                break;
            }
            lines.next();
        }
        let Some((at, first)) = lines.next() else { return Ok(None) };
        let mut target = without_version(first.trim()).to_owned();
        // Further parameters are on lines of their own.
        while let Some((_, more)) = lines.peek()
            && more.starts_with([' ', '\t'])
            && more.trim_start().starts_with(['?', '&', '/'])
        {
            target.push_str(without_version(more.trim()));
            lines.next();
        }
        let (method, address) = split_target(&target);
        let mut headers = Vec::new();
        for (_, line) in lines.by_ref() {
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                let name = name.trim();
                let is_ours = ["host", "content-length"].contains(&&*name.to_ascii_lowercase());
                if !name.starts_with(['#', '/']) && !is_ours {
                    headers.push((name.to_owned(), self.text(value.trim(), import, at)));
                }
            }
        }
        let body = self.body(&mut lines, options, import, at)?;
        let address = self.text(address, import, at);
        let address = match (address.literals().starts_with('/'), options.to) {
            (true, Some(to)) => address.after(to.trim_end_matches('/')),
            _ => address,
        };
        let is_path = |field: &str| self.extracts.iter().any(|(_, name, _)| name == field);
        let request = split(&address, is_path).map(|(origin, path)| Request {
            place: format!("line {at}"),
            origin,
            path,
            method: method.to_owned(),
            headers,
            body,
            name,
            ..Request::default()
        });
        Ok(Some((at, request)))
    }

    fn body<'a>(
        &mut self,
        lines: &mut impl Iterator<Item = (usize, &'a str)>,
        options: &Options<'_>,
        import: &mut Import,
        at: usize,
    ) -> Result<Body, String> {
        let mut text = String::new();
        let mut is_script = false;
        for (line_at, line) in lines {
            let start = line.trim_start();
            if start.starts_with("> ") || start.starts_with("<> ") || is_script {
                if !is_script {
                    import.notes.add("a script or file for the reply", &format!("line {line_at}"));
                }
                is_script = (is_script || start.starts_with("> {%")) && !start.contains("%}");
            } else if let Some(file) =
                start.strip_prefix("< ").or_else(|| start.strip_prefix("<@ "))
            {
                let bytes = options.read(file).map_err(|e| format!(":{line_at}: {e}"))?;
                match String::from_utf8(bytes) {
                    Ok(content) => text.push_str(&content),
                    Err(e) => return Ok(e.into_bytes().into()),
                }
            } else {
                text.push_str(line);
                text.push('\n');
            }
        }
        let text = text.trim_end_matches(['\n', '\r']);
        Ok(match text.is_empty() {
            true => Body::None,
            false => Body::Text(self.text(text, import, at)),
        })
    }

    /// The text with the fields of editors replaced.
    fn text(&mut self, text: &str, import: &mut Import, at: usize) -> Text {
        let mut all = Text::default();
        let mut rest = text;
        while let Some((before, field)) = rest.split_once("{{") {
            let Some((field, after)) = field.split_once("}}") else { break };
            all.push(before);
            self.field(field.trim(), &mut all, import, at);
            rest = after;
        }
        all.push(rest);
        all
    }

    fn field(&mut self, field: &str, all: &mut Text, import: &mut Import, at: usize) {
        let mut words = field.split_whitespace();
        let first = words.next().unwrap_or_default();
        let numbers: Vec<i64> = words.clone().filter_map(|word| word.parse().ok()).collect();
        match (first, numbers.as_slice()) {
            ("$guid" | "$uuid" | "$random.uuid", _) => all.push_field("random.uuid"),
            ("$randomInt" | "$random.integer", [low, high]) if low < high => {
                all.push_field(&format!("random.int {low} {}", high - 1));
            }
            ("$randomInt", []) => all.push_field("random.int 0 999"),
            ("$processEnv" | "$dotenv" | "$env", _) => {
                all.push_field(&format!("env {}", words.next().unwrap_or_default()));
            }
            _ if first.starts_with('$') => {
                import.notes.add(&format!("{first} has no counterpart"), &format!("line {at}"));
                self.unknown.insert(first[1..].to_owned(), ());
                all.push_field(&variable_name(&first[1..]));
            }
            _ => self.variable(first, all),
        }
    }

    fn variable(&mut self, name: &str, all: &mut Text) {
        if let Some((of, from)) = of_reply(name) {
            let as_name = variable_name(name);
            self.extracts.push((of.to_owned(), as_name.clone(), from));
            all.push_field(&as_name);
            return;
        }
        let known = self.variables.iter().rev().find(|(known, _)| known == name);
        match known.map(|(_, value)| self.resolved(value)) {
            // The value of another variable, which this file does not set.
            Some(value) if value.contains("{{") => {
                let inner = value.trim_start_matches("{{").trim_end_matches("}}").trim();
                self.blank(inner, all);
            }
            Some(value) => all.push(&value),
            None => self.blank(name, all),
        }
    }

    /// A variable that the user fills in.
    fn blank(&mut self, name: &str, all: &mut Text) {
        self.unknown.insert(name.to_owned(), ());
        all.push_field(&variable_name(name));
    }

    /// The value of a variable of the file, with other variables of the file in it.
    fn resolved(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in self.variables.iter().rev() {
            text = text.replace(&format!("{{{{{name}}}}}"), value);
        }
        text
    }
}

/// `name.response.body.$.a.b[0]` and `name.response.headers.Name`.
fn of_reply(field: &str) -> Option<(&str, Extract)> {
    let (name, rest) = field.split_once(".response.")?;
    if let Some(header) = rest.strip_prefix("headers.") {
        return Some((name, Extract::Header(header.to_owned(), None)));
    }
    let path = rest.strip_prefix("body.")?.trim_start_matches(['$', '.']);
    let pointer: String =
        path.split(['.', '[', ']']).filter(|p| !p.is_empty()).map(|p| format!("/{p}")).collect();
    Some((name, Extract::Json(pointer)))
}

/// The line without `HTTP/1.1` at its end.
fn without_version(line: &str) -> &str {
    match line.rsplit_once(" HTTP/") {
        Some((before, version)) if version.len() <= 3 => before.trim_end(),
        _ => line,
    }
}

/// Method and URL of a first line; the URL may stand alone.
fn split_target(line: &str) -> (&str, &str) {
    match line.split_once(char::is_whitespace) {
        Some((method, url)) if method.bytes().all(|b| b.is_ascii_uppercase()) => {
            (method, url.trim_start())
        }
        _ => ("GET", line),
    }
}

/// The server, which must not have fields, and the path, which may. A field of which `is_path`
/// holds is the start of a path.
pub(crate) fn split(
    address: &Text,
    is_path: impl Fn(&str) -> bool,
) -> Result<(String, Text), String> {
    if let Some(literal) = address.literal() {
        return url::split(literal).map(|(origin, path)| (origin, path.into()));
    }
    let mut origin = None;
    let mut path = address.clone();
    path.map_literals(|text| match &origin {
        Some(_) => text.into(),
        None => match url::split(text) {
            Ok((server, rest)) if text.matches('/').count() > 2 => {
                origin = Some(Ok(server));
                rest.into()
            }
            Ok((server, _)) if address.field_after_literal().is_some_and(&is_path) => {
                origin = Some(Ok(server));
                Text::default()
            }
            Ok(_) => {
                origin = Some(Err("a part of its host is a variable without a value".to_owned()));
                text.into()
            }
            Err(why) => {
                origin = Some(Err(why));
                text.into()
            }
        },
    });
    url::encode_literals(&mut path);
    match origin {
        Some(Ok(origin)) if !address.starts_with_field() => Ok((origin, path)),
        Some(Err(why)) if !address.starts_with_field() => Err(why),
        _ => Err("its host is a variable without a value".into()),
    }
}
