//! The `.http` or `.rest` files of editors: one session, a request after each `###`.
//!
//! Variables of the file are replaced by their values. Those that editors compute become fields
//! (`{{$uuid}}`, `{{$randomInt 1 10}}`), and values of named replies
//! (`{{login.response.body.$.id}}`) become extracts.

use std::collections::{HashMap, HashSet};
use std::iter::Peekable;

use crate::blanks::Names;
use crate::context::{Context, DEPTH};
use crate::scripts::{self, Script};
use crate::text::Text;
use crate::url;
use crate::values::Values;
use crate::{Body, Extract, Import, Piece, Request, Session, Step, http_parts};

/// A request with its line, or why it is left out.
type Found = (usize, Result<Request, String>);

#[derive(Default)]
struct State {
    /// The variables of the file.
    variables: Values,
    /// The names of variables in the plan.
    names: Names,
    /// Variables that scripts have set so far, and their names in the plan.
    set: HashMap<String, String>,
    /// What requests extract from the replies to named ones: of which, as what, and where it is.
    extracts: Vec<(String, String, Extract)>,
    /// Their names in the plan.
    of_replies: HashSet<String>,
}

pub(crate) fn read(text: &str, context: &Context<'_>) -> Result<Import, String> {
    let mut state = State::default();
    let is_variable = |line: &&str| line.starts_with('@') && line.contains('=');
    for line in text.lines().filter(is_variable) {
        if let Some((name, value)) = line[1..].split_once('=') {
            state.variables.set(name.trim(), value.trim());
        }
    }
    let mut import = Import::default();
    let mut session = Session::default();
    for (first, block) in blocks(text) {
        let lines = block.lines().enumerate().map(|(n, line)| (first + n, line));
        if let Some((at, found)) = state.request(lines, context, &mut import)? {
            let wrong = |e| format!(":{at}: {e}");
            context.check().map_err(wrong)?;
            match found {
                Ok(request) => {
                    context.admit(&request).map_err(wrong)?;
                    session.steps.push(Step::from(request));
                }
                Err(why) => import.notes.add(&why, &format!("line {at}")),
            }
        }
    }
    let mut named: HashMap<String, &mut Request> = HashMap::new();
    for request in session.steps.iter_mut().flat_map(|step| &mut step.requests) {
        named.entry(request.name.clone()).or_insert(request);
    }
    for (of, name, from) in state.extracts {
        match named.get_mut(&of) {
            Some(request) => request.extract.push((name, from)),
            None => {
                let what = format!("no request has the name {of}, whose reply another needs");
                import.notes.add(&what, &format!("variable {name}"));
                import.variables.push((name, of));
            }
        }
    }
    // Nobody needs the others, and a reply without the value would be a failure.
    let requests = session.steps.iter().flat_map(|step| &step.requests);
    let used: HashSet<String> = requests.flat_map(Request::fields).map(str::to_owned).collect();
    for request in session.steps.iter_mut().flat_map(|step| &mut step.requests) {
        request.extract.retain(|(name, _)| used.contains(name));
    }
    import.variables.extend(state.names.into_blanks());
    import.sessions.push(session);
    Ok(import)
}

impl State {
    /// The request of a block, with its line, or why it is left out.
    fn request<'b>(
        &mut self,
        lines: impl Iterator<Item = (usize, &'b str)>,
        context: &Context<'_>,
        import: &mut Import,
    ) -> Result<Option<Found>, String> {
        let mut lines = lines.peekable();
        let name = preamble(&mut lines, import);
        let Some((at, first)) = lines.next() else { return Ok(None) };
        let mut target = http_parts::without_version(first.trim(), at, import).to_owned();
        // Further parameters are on lines of their own.
        while let Some((_, more)) = lines.peek()
            && more.starts_with([' ', '\t'])
            && more.trim_start().starts_with(['?', '&', '/'])
        {
            target.push_str(http_parts::without_version(more.trim(), at, import));
            lines.next();
        }
        let (method, address) = http_parts::split_target(&target);
        let mut headers = self.headers(&mut lines, context, import, at);
        let written = self.body(&mut lines, &headers, context, import, at);
        context.check().map_err(|e| format!(":{at}: {e}"))?;
        let (body, script) = match written {
            Ok(found) => found,
            Err(why) => return Ok(Some((at, Err(why)))),
        };
        let body = match http_parts::graph_ql(method, &mut headers, body) {
            Ok(body) => body,
            Err(why) => return Ok(Some((at, Err(why)))),
        };
        let method = if method == "GRAPHQL" { "POST" } else { method };
        let address = http_parts::with_host(address, &mut headers);
        let address = self.at(&address, context, import, at);
        let address = self.text(&address, context, import, at);
        let address = match (address.literals().starts_with('/'), context.options.to) {
            (true, Some(to)) => address.after(to.trim_end_matches('/')),
            _ => address,
        };
        url::add_credentials(&address.template(), &mut headers);
        let is_path = |field: &str| self.of_replies.contains(field);
        let request = split(&address, is_path).map(|(origin, path)| Request {
            place: format!("line {at}"),
            origin,
            path,
            method: method.to_ascii_uppercase(),
            headers,
            body,
            name,
            expect: script.status.unwrap_or_default(),
            extract: self.extracted(script),
            ..Request::default()
        });
        Ok(Some((at, request)))
    }

    /// The headers, up to an empty line.
    fn headers<'a>(
        &mut self,
        lines: &mut impl Iterator<Item = (usize, &'a str)>,
        context: &Context<'_>,
        import: &mut Import,
        at: usize,
    ) -> Vec<(String, Text)> {
        let mut headers = Vec::new();
        for (line_at, line) in lines.take_while(|(_, line)| !line.trim().is_empty()) {
            let place = format!("line {line_at}");
            match line.split_once(':') {
                _ if line.trim_start().starts_with(['#', '/']) => {}
                // Its framing is that of the body.
                Some((name, _)) if name.trim().eq_ignore_ascii_case("content-length") => {}
                Some((name, value)) => {
                    let value = self.text(value.trim(), context, import, at);
                    let value = http_parts::authorized(name.trim(), value, &place, import);
                    headers.push((name.trim().to_owned(), value));
                }
                None => import.notes.add("a header without a colon", &place),
            }
        }
        headers
    }

    /// The body, and what a script does with the reply; or why the request is left out.
    fn body<'a>(
        &mut self,
        lines: &mut impl Iterator<Item = (usize, &'a str)>,
        headers: &[(String, Text)],
        context: &Context<'_>,
        import: &mut Import,
        at: usize,
    ) -> Result<(Body, Script), String> {
        let (mut pieces, mut script) = (Vec::new(), String::new());
        let mut text = http_parts::Lines::new(headers);
        let mut is_script = false;
        // Where scripts and files for the reply are.
        let mut places = Vec::new();
        for (line_at, line) in lines {
            let start = line.trim_start();
            let is_output = ["> ", "<> ", ">> ", ">>! "].iter().any(|sign| start.starts_with(sign));
            if is_output || is_script {
                if !is_script {
                    places.push(format!("line {line_at}"));
                }
                script.push_str(line);
                script.push('\n');
                is_script = (is_script || start.starts_with("> {%")) && !start.contains("%}");
                continue;
            }
            let (file, is_filled) = match (start.strip_prefix("< "), start.strip_prefix("<@ ")) {
                (Some(file), _) => (file, false),
                (_, Some(file)) => (file, true),
                _ if start.starts_with("<@") => return Err("a file in another encoding".into()),
                _ => {
                    text.add(line);
                    continue;
                }
            };
            pieces.push(Piece::Text(self.text(&text.take(false), context, import, at)));
            let content = context.read(file, &format!("line {line_at}"))?;
            pieces.push(match String::from_utf8(content) {
                Ok(content) if is_filled => Piece::Text(self.text(&content, context, import, at)),
                Ok(content) => Piece::Text(content.into()),
                Err(e) => Piece::Bytes(e.into_bytes()),
            });
            text.end_file();
        }
        pieces.push(Piece::Text(self.text(&text.take(true), context, import, at)));
        let script = scripts::read(&script);
        let what = match script == Script::default() {
            true => "a script or file for the reply",
            false => "a script for the reply, of which the plan has the status or values",
        };
        places.iter().for_each(|place| import.notes.add(what, place));
        Ok((Body::of(pieces), script))
    }

    /// The values of its reply that a request extracts. Later requests use them.
    fn extracted(&mut self, script: Script) -> Vec<(String, Extract)> {
        let named = script.sets.into_iter().map(|(field, from)| {
            let name = self.names.extracted(&field);
            self.set.insert(field, name.clone());
            (name, from)
        });
        named.collect()
    }

    /// A URL at this server, if the file does not say at which.
    fn at(&self, address: &str, context: &Context<'_>, import: &mut Import, at: usize) -> String {
        let is_of_reply = |name: &str| name.contains(".response.");
        let is_known = |name: &str| self.variables.is_complete(name, &is_of_reply);
        match context.options.to.and_then(|to| url::at_server(address, to, is_known)) {
            Some(moved) => {
                import.notes.add(url::MOVED, &format!("line {at}"));
                moved
            }
            None => address.to_owned(),
        }
    }

    /// The text with the fields of editors replaced.
    fn text(&mut self, text: &str, context: &Context<'_>, import: &mut Import, at: usize) -> Text {
        let mut all = Text::default();
        let mut fill = Fill { context, import, at, within: Vec::new() };
        self.fill(text, &mut all, &mut fill);
        all
    }

    fn fill(&mut self, text: &str, all: &mut Text, fill: &mut Fill<'_>) {
        let mut rest = text;
        while let Some((before, field)) = rest.split_once("{{") {
            let Some((field, after)) = field.split_once("}}") else { break };
            all.push(before);
            if !fill.context.spend_field("") {
                return;
            }
            self.field(field.trim(), all, fill);
            rest = after;
        }
        all.push(rest);
    }

    fn field(&mut self, field: &str, all: &mut Text, fill: &mut Fill<'_>) {
        let field = http_parts::spaced(field);
        let mut words = field.split_whitespace();
        let first = words.next().unwrap_or_default();
        let numbers: Vec<i64> = words.clone().filter_map(|word| word.parse().ok()).collect();
        match (first, numbers.as_slice()) {
            ("$guid" | "$uuid" | "$random.uuid", _) => all.push_field("random.uuid"),
            ("$randomInt" | "$random.integer", [low, high]) if low < high => {
                all.push_field(&format!("random.int {low} {}", high - 1));
            }
            ("$randomInt" | "$random.integer", []) => all.push_field("random.int 0 999"),
            ("$random.hexadecimal", [1..=10_000]) => {
                all.push_field(&format!("random.hex {}", numbers[0]));
            }
            ("$random.alphanumeric", [1..=10_000]) => {
                all.push_field(&format!("random.text {}", numbers[0]));
            }
            ("$timestamp", []) if words.next().is_none() => all.push_field("now unix"),
            ("$isoTimestamp", _) => all.push_field("now"),
            ("$processEnv" | "$dotenv" | "$env", _) => {
                all.push_field(&format!("env {}", words.next().unwrap_or_default()));
            }
            _ if first.starts_with('$') => {
                let place = format!("line {}", fill.at);
                fill.import.notes.add(&format!("{first} has no counterpart"), &place);
                self.blank(&first[1..], all);
            }
            _ => self.variable(first, all, fill),
        }
    }

    /// Adds a variable, or its value.
    fn variable(&mut self, name: &str, all: &mut Text, fill: &mut Fill<'_>) {
        if let Some((of, from)) = of_reply(name) {
            let as_name = self.names.extracted(name);
            if self.of_replies.insert(as_name.clone()) {
                self.extracts.push((of.to_owned(), as_name.clone(), from));
            }
            all.push_field(&as_name);
        } else if let Some(name) = self.set.get(name) {
            all.push_field(name);
        } else if fill.within.iter().any(|outer| outer == name) {
            // It is in its own value, so it has none.
            self.blank(name, all);
        } else if let Some(value) = self.variables.get(name).map(str::to_owned) {
            if fill.within.len() == DEPTH {
                fill.context.fail("its variables are more than 64 deep in each other");
            } else if fill.context.spend_field(&value) {
                // In it are values of replies, and other variables.
                fill.within.push(name.to_owned());
                self.fill(&value, all, fill);
                fill.within.pop();
            }
        } else {
            self.blank(name, all);
        }
    }

    /// A variable that the user fills in.
    fn blank(&mut self, name: &str, all: &mut Text) {
        all.push_field(&self.names.blank(name));
    }
}

/// Reads what stands before a request: comments, variables, scripts and tags, of which the name is
/// returned.
fn preamble<'b>(
    lines: &mut Peekable<impl Iterator<Item = (usize, &'b str)>>,
    import: &mut Import,
) -> String {
    let mut name = String::new();
    let mut is_script = false;
    while let Some((at, line)) = lines.peek().copied() {
        let comment = line.trim_start();
        let is_comment = comment.starts_with('#') || comment.starts_with("//");
        if is_script || comment.starts_with("< {%") {
            if !is_script {
                import.notes.add("a script of an editor", &format!("line {at}"));
            }
            is_script = !comment.contains("%}");
        } else if comment.starts_with("< ") {
            import.notes.add("a script of an editor", &format!("line {at}"));
        } else if is_comment {
            let text = comment.trim_start_matches(['#', '/']).trim();
            if let Some(given) = text.strip_prefix("@name") {
                name = given.trim_start_matches([' ', '=']).trim().to_owned();
            } else if let Some(tag) = text.strip_prefix('@') {
                http_parts::note_tag(tag, at, import);
            }
        } else if !(comment.is_empty() || comment.starts_with('@')) {
            break;
        }
        lines.next();
    }
    name
}

/// A text that is being filled in.
struct Fill<'a> {
    context: &'a Context<'a>,
    import: &'a mut Import,
    /// The line of its request.
    at: usize,
    /// The variables whose values it is in.
    within: Vec<String>,
}

/// The requests, each with the number of its first line. That one begins with `###`, and the rest
/// of it is a name.
fn blocks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = Some((1, text));
    std::iter::from_fn(move || {
        let (first, text) = rest.take()?;
        let (mut end, mut lines) = (0, 0);
        for line in text.split_inclusive('\n') {
            if lines > 0 && line.starts_with("###") {
                rest = Some((first + lines, &text[end..]));
                break;
            }
            end += line.len();
            lines += 1;
        }
        Some((first, &text[..end]))
    })
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
