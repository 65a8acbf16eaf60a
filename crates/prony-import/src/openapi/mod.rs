//! Descriptions of interfaces: OpenAPI 3.0 and 3.1, and Swagger 2.0, as JSON or YAML. A session for
//! each operation, with the values of its examples, or with values that its schemas allow.

mod body;
mod draw;
mod files;
mod parameters;
mod pattern;
mod shapes;
mod style;
mod values;
mod xml;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use crate::blanks::Names;
use crate::context::{Bound, Context};
use crate::json;
use crate::ledger::Ledger;
use crate::notes::Notes;
use crate::shape;
use crate::text::Text;
use crate::yaml;
use crate::{Body, Import, Request, Session, Step, url};
use draw::Draw;
use style::plain;

const METHODS: [&str; 9] =
    ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];
/// Members of a document that are used, or change no request.
const ROOT: [&str; 21] = [
    "openapi",
    "swagger",
    "$self",
    "info",
    "jsonSchemaDialect",
    "servers",
    "paths",
    "webhooks",
    "components",
    "security",
    "tags",
    "externalDocs",
    "host",
    "basePath",
    "schemes",
    "consumes",
    "produces",
    "definitions",
    "parameters",
    "responses",
    "securityDefinitions",
];
/// Those of a path.
const ITEM: [&str; 15] = [
    "$ref",
    "summary",
    "description",
    "servers",
    "parameters",
    "additionalOperations",
    "get",
    "put",
    "post",
    "delete",
    "options",
    "head",
    "patch",
    "trace",
    "query",
];
/// Those of an operation.
const OPERATION: [&str; 14] = [
    "tags",
    "summary",
    "description",
    "externalDocs",
    "operationId",
    "parameters",
    "requestBody",
    "responses",
    "deprecated",
    "security",
    "servers",
    "consumes",
    "produces",
    "schemes",
];
/// How deep schemas may refer to each other: deeper ones are left empty.
const DEPTH: u32 = 8;
/// The longest reference that is followed.
const REFERENCE: usize = 4096;
/// The most bytes of the examples and defaults in a request.
const EXAMPLES: usize = 16 << 20;
/// The most values of a request: schemas that refer to themselves could have any number.
const VALUES: u32 = 10_000;

/// A text in JSON or YAML.
///
/// # Errors
/// `:LINE:COLUMN: sentence`.
fn parsed(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with('{') {
        return yaml::parse(text);
    }
    json::check(text)?;
    serde_json::from_str(text).or_else(|e| {
        // YAML has braces, too.
        let why = format!(":{}:{}: this is not JSON: {e}", e.line(), e.column());
        yaml::parse(text).map_err(|_| why)
    })
}

pub(crate) fn read(text: &str, context: &Context<'_>) -> Result<Import, String> {
    let options = context.options;
    let mut document = parsed(text)?;
    for key in ["openapi", "swagger"] {
        // In YAML, a version without quotes may be a number.
        if let Some(Value::Number(version)) = document.get(key) {
            document[key] = version.to_string().into();
        }
    }
    let version = document["openapi"].as_str().or_else(|| document["swagger"].as_str());
    let is_known = |v: &str| v == "2.0" || ["3.0", "3.1", "3.2"].iter().any(|k| v.starts_with(k));
    if !version.is_some_and(is_known) {
        return Err(": neither OpenAPI 3.0, 3.1 or 3.2 nor Swagger 2.0".into());
    }
    let mut notes = Notes::default();
    files::add(&mut document, context, &mut notes)?;
    let mut reader = Reader::new(&document, context);
    reader.import.notes = notes;
    reader.unknown(&document, &ROOT, "");
    let ledger = Ledger::default();
    shape::check((&document, &shapes::DOCUMENT), |value| reader.followed(value), &ledger);
    ledger.note_wrong(&document, files::shown, &mut reader.import.notes);
    if document["webhooks"].as_object().is_some_and(|all| !all.is_empty()) {
        let what = "requests that the server makes (webhooks)";
        reader.import.notes.add(what, "/webhooks");
    }
    let Some(paths) = document["paths"].as_object() else {
        reader.server(&[&document])?;
        return Err(": there are no paths in it".into());
    };
    for (path, item) in paths.iter().filter(|(path, _)| !path.starts_with("x-")) {
        let item = reader.resolved(item);
        reader.unknown(item, &ITEM, &format!("path {path}"));
        let more = item["additionalOperations"].as_object().into_iter().flatten();
        let own = METHODS.into_iter().filter_map(|method| Some((method, item.get(method)?)));
        let all: Vec<_> = own.chain(more.map(|(method, o)| (method.as_str(), o))).collect();
        for (method, operation) in all {
            let place = format!("{} {path}", method.to_ascii_uppercase());
            if !operation.is_object() {
                reader.import.notes.add("left out: an operation that is no object", &place);
                continue;
            }
            let weight = weight(operation, options.weights);
            if weight == Some(0) {
                reader.import.notes.add("its tag has the weight 0", &place);
                continue;
            }
            reader.unknown(operation, &OPERATION, &place);
            match reader.operation(path, method, item, operation, &place) {
                Ok(session) => {
                    let request = &session.steps[0].requests[0];
                    context.admit(request).map_err(|e| format!(": {e}"))?;
                    reader.import.sessions.push(Session { weight, ..session });
                }
                Err(why) => reader.import.notes.add(&why, &place),
            }
            for odd in reader.odd.take() {
                reader.import.notes.add(&odd, &place);
            }
        }
    }
    known_tags(paths, options.weights)?;
    reader.import.variables.extend(reader.names.into_blanks());
    Ok(reader.import)
}

/// The weight of an operation: that of the first of its tags that has one. Without weights there is
/// none, and with them it is 1.
fn weight(operation: &Value, weights: &[(String, u32)]) -> Option<u32> {
    if weights.is_empty() {
        return None;
    }
    let tags = operation["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let of_tag =
        |tag: &str| weights.iter().find(|(name, _)| name == tag).map(|(_, weight)| *weight);
    Some(tags.into_iter().find_map(of_tag).unwrap_or(1))
}

/// Refuses weights of tags that no operation has.
fn known_tags(paths: &Map<String, Value>, weights: &[(String, u32)]) -> Result<(), String> {
    let operations = paths.values().filter_map(Value::as_object).flat_map(Map::values);
    let tags = operations.filter_map(|operation| operation.get("tags")?.as_array()).flatten();
    let mut tags: Vec<&str> = tags.filter_map(Value::as_str).collect();
    tags.sort_unstable();
    tags.dedup();
    match weights.iter().find(|(name, _)| !tags.contains(&name.as_str())) {
        Some((name, _)) if tags.is_empty() => {
            Err(format!(": no operation has the tag '{name}'; there are no tags in it"))
        }
        Some((name, _)) => {
            Err(format!(": no operation has the tag '{name}'; there are {}", tags.join(", ")))
        }
        None => Ok(()),
    }
}

struct Reader<'a> {
    document: &'a Value,
    context: &'a Context<'a>,
    import: Import,
    /// Credentials that are to be filled in.
    names: Names,
    /// How many values the request has so far.
    values: Cell<u32>,
    /// The bytes that it may still have of examples.
    examples: Cell<usize>,
    draw: Draw,
    /// What of the request is not as the description says.
    odd: RefCell<BTreeSet<String>>,
}

impl<'a> Reader<'a> {
    fn new(document: &'a Value, context: &'a Context<'a>) -> Self {
        Self::with(document, context, Draw::new(context.options.seed))
    }

    fn with(document: &'a Value, context: &'a Context<'a>, draw: Draw) -> Self {
        Self {
            document,
            context,
            import: Import::default(),
            names: Names::default(),
            values: Cell::new(0),
            examples: Cell::new(EXAMPLES),
            draw,
            odd: RefCell::default(),
        }
    }

    /// A reader of the same document that makes other choices.
    fn with_draw(&self, draw: Draw) -> Self {
        let reader = Self::with(self.document, self.context, draw);
        reader.values.set(self.values.get());
        reader.examples.set(self.examples.get());
        reader
    }

    /// Follows references within the document.
    fn resolved(&self, value: &'a Value) -> &'a Value {
        let mut value = value;
        for _ in 0..DEPTH {
            let Some(reference) = value["$ref"].as_str() else { return value };
            let Some(found) = self.pointed(reference) else {
                let shown: String = reference.chars().take(200).collect();
                self.odd(format!("a reference that leads nowhere: {shown}"));
                return &Value::Null;
            };
            value = found;
        }
        value
    }

    /// What the reference of a value leads to; null if to nothing.
    fn followed(&self, value: &'a Value) -> &'a Value {
        value["$ref"].as_str().and_then(|to| self.pointed(to)).unwrap_or(&Value::Null)
    }

    fn pointed(&self, reference: &str) -> Option<&'a Value> {
        let pointer = reference.strip_prefix('#').filter(|pointer| pointer.len() <= REFERENCE)?;
        // In a URL, some characters are encoded.
        let pointer = String::from_utf8(url::unescaped(pointer)).ok()?;
        self.document.pointer(&pointer)
    }

    /// Names the members of an object that are not among the known ones.
    fn unknown(&mut self, value: &Value, known: &[&str], place: &str) {
        for (name, inner) in value.as_object().into_iter().flatten() {
            if !known.contains(&name.as_str()) && !name.starts_with("x-") && !inner.is_null() {
                self.import.notes.add(&format!("not used: {name}"), place);
            }
        }
    }

    /// Something in this request is not as the description says: why, as a note.
    fn odd(&self, what: impl Into<String>) {
        self.odd.borrow_mut().insert(what.into());
    }

    fn version(&self) -> &'a str {
        let version = &self.document["openapi"];
        version.as_str().unwrap_or("2.0")
    }

    /// The URL in front of a path: that of the first of these that names one.
    ///
    /// # Errors
    /// None names a server, or a variable of it has no value.
    fn server(&self, of: &[&'a Value]) -> Result<String, String> {
        let document = self.document;
        let base = if document["swagger"].is_string() {
            let schemes = [of[0], document].into_iter().find_map(|at| at["schemes"][0].as_str());
            let scheme = schemes.unwrap_or("http");
            let host = document["host"].as_str().map(|host| format!("{scheme}://{host}"));
            let path = document["basePath"].as_str().unwrap_or_default();
            format!("{}{path}", host.unwrap_or_default())
        } else {
            let all = of.iter().find_map(|at| at["servers"].as_array().filter(|s| !s.is_empty()));
            if all.is_some_and(|all| all.len() > 1) {
                self.odd("several servers, of which the first one is used");
            }
            let server = all.map_or(&Value::Null, |all| &all[0]);
            let mut url = server["url"].as_str().unwrap_or_default().to_owned();
            for (name, variable) in server["variables"].as_object().into_iter().flatten() {
                let first = plain(&variable["enum"][0]);
                let value = Some(plain(&variable["default"])).filter(|value| !value.is_empty());
                url = url.replace(&format!("{{{name}}}"), &value.unwrap_or(first));
            }
            if let Some((_, rest)) = url.split_once('{') {
                let name = rest.split('}').next().unwrap_or_default();
                return Err(format!(": the variable {name} of its server has no value"));
            }
            url
        };
        let base = base.trim_end_matches('/');
        // `//host/path` has no scheme.
        let base = if base.starts_with("//") { format!("http:{base}") } else { base.to_owned() };
        match (self.context.options.to, base.split_once("://")) {
            // The path of the server stays.
            (Some(to), Some((_, rest))) => {
                let path = rest.find('/').map_or("", |at| &rest[at..]);
                Ok(format!("{}{path}", to.trim_end_matches('/')))
            }
            (Some(to), None) => Ok(format!("{}{base}", to.trim_end_matches('/'))),
            (None, Some(_)) => Ok(base),
            (None, None) => Err(": it names no server; name one with --to URL".into()),
        }
    }

    fn operation(
        &mut self,
        path: &str,
        method: &str,
        item: &'a Value,
        operation: &'a Value,
        place: &str,
    ) -> Result<Session, String> {
        self.values.set(0);
        self.examples.set(EXAMPLES);
        let server = self.server(&[operation, item, self.document]);
        let server = server.map_err(|why| why.trim_start_matches(": ").to_owned())?;
        let mut parts = self.parts_of(item, operation, place)?;
        let path = filled(path, &parts.fields)?;
        if !parts.form.is_empty() {
            parts.body = Some(self.old_form(operation, std::mem::take(&mut parts.form))?);
        } else if parts.body.is_none() {
            parts.body = self.content(&operation["requestBody"], place)?;
        }
        let mut body = Body::None;
        if let Some((kind, content)) = parts.body {
            parts.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            parts.headers.push(("Content-Type".into(), kind.into()));
            body = content;
        }
        let mut headers = parts.headers;
        if !parts.cookies.is_empty() {
            headers.push(("Cookie".into(), parts.cookies.join("; ").into()));
        }
        let query: Vec<String> = parts.query.into_iter().filter(|pair| !pair.is_empty()).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let (origin, path) = url::split(&format!("{server}{path}{query}"))?;
        let mut path = Text::from(path);
        self.credentials(operation, &mut headers, &mut path, place);
        let name = operation["operationId"].as_str().unwrap_or(place).to_owned();
        let request = Request {
            place: place.to_owned(),
            origin,
            method: method.to_ascii_uppercase(),
            path,
            headers,
            body,
            expect: success(operation),
            ..Request::default()
        };
        Ok(Session { name, steps: vec![Step::from(request)], weight: None })
    }

    /// Adds the credentials that the operation needs, as variables.
    fn credentials(
        &mut self,
        operation: &'a Value,
        headers: &mut Vec<(String, Text)>,
        path: &mut Text,
        place: &str,
    ) {
        let document = self.document;
        let own = operation.get("security").unwrap_or_else(|| &document["security"]);
        if own.as_array().is_some_and(|all| all.len() > 1) {
            let what = "of several alternatives of credentials, the first is sent";
            self.import.notes.add(what, place);
        }
        let Some(needed) = own[0].as_object() else { return };
        for scheme in needed.keys() {
            let new = &document["components"]["securitySchemes"][scheme];
            let old = &document["securityDefinitions"][scheme];
            let kind = self.resolved(if new.is_null() { old } else { new });
            let (of, key) = (kind["type"].as_str(), kind["name"].as_str());
            let is_known = match of {
                Some("apiKey") => {
                    let places = ["header", "query", "cookie"];
                    key.is_some() && kind["in"].as_str().is_some_and(|at| places.contains(&at))
                }
                Some("basic" | "http" | "oauth2" | "openIdConnect") => true,
                _ => false,
            };
            if !is_known {
                let what = format!("sent without its credentials ({scheme})");
                self.import.notes.add(&what, place);
                continue;
            }
            let mut value = Text::default();
            value.push_field(&self.names.blank(scheme));
            let name = key.unwrap_or_default();
            match (of, kind["in"].as_str(), kind["scheme"].as_str()) {
                (Some("apiKey"), Some("header"), _) => headers.push((name.to_owned(), value)),
                (Some("apiKey"), Some("query"), _) => {
                    let join = if path.literals().contains('?') { '&' } else { '?' };
                    path.push(&format!("{join}{name}="));
                    path.append(value);
                }
                (Some("apiKey"), Some("cookie"), _) => {
                    let sent = headers.iter_mut().find(|(header, _)| header == "Cookie");
                    match sent {
                        Some((_, cookies)) => {
                            cookies.push(&format!("; {name}="));
                            cookies.append(value);
                        }
                        None => headers.push(("Cookie".into(), value.after(&format!("{name}=")))),
                    }
                }
                (Some("basic"), ..) | (Some("http"), _, Some("basic")) => {
                    headers.push(("Authorization".into(), value.after("Basic ")));
                }
                _ => headers.push(("Authorization".into(), value.after("Bearer "))),
            }
        }
    }
}

/// The path with the values of its fields.
fn filled(path: &str, fields: &HashMap<&str, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let field = after.split_once('}').and_then(|(name, rest)| Some((fields.get(name)?, rest)));
        let (value, after) = field.ok_or("a field of the path is not among the parameters")?;
        out.push_str(before);
        out.push_str(value);
        rest = after;
    }
    Ok(out + rest)
}

/// The first status of success that is described; 0 if any will do.
fn success(operation: &Value) -> u16 {
    let statuses = operation["responses"].as_object().into_iter().flatten();
    let mut all = statuses.filter_map(|(status, _)| status.parse::<u16>().ok());
    let first = all.find(|status| (200..300).contains(status)).unwrap_or_default();
    if first == 200 { 0 } else { first }
}
