//! Descriptions of interfaces: OpenAPI 3.0 and 3.1, and Swagger 2.0, as JSON or YAML. A session for
//! each operation, with the values of its examples, or with values that its schemas allow.

mod body;
mod draw;
mod pattern;
mod values;

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::blanks::Names;
use crate::context::{Bound, Context};
use crate::json;
use crate::text::Text;
use crate::url::{self, escaped};
use crate::yaml;
use crate::{Body, Import, Options, Request, Session, Step};
use draw::Draw;

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
/// How deep schemas may refer to each other: deeper ones are left empty.
const DEPTH: u32 = 8;
/// The longest reference that is followed.
const REFERENCE: usize = 4096;
/// The most bytes of the examples and defaults in a request.
const EXAMPLES: usize = 16 << 20;
/// The most values of a request: schemas that refer to themselves could have any number.
const VALUES: u32 = 10_000;

pub(crate) fn read(text: &str, context: &Context<'_>) -> Result<Import, String> {
    let options = context.options;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut document: Value = match text.trim_start().starts_with('{') {
        true => json::check(text).and_then(|()| {
            serde_json::from_str(text).or_else(|e| {
                // YAML has braces, too.
                let why = format!(":{}:{}: this is not JSON: {e}", e.line(), e.column());
                yaml::parse(text).map_err(|_| why)
            })
        })?,
        false => yaml::parse(text)?,
    };
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
    let mut reader = Reader::new(&document, context);
    let server = reader.server(options)?;
    let Some(paths) = document["paths"].as_object() else {
        return Err(": there are no paths in it".into());
    };
    for (path, item) in paths {
        let item = reader.resolved(item);
        for method in METHODS {
            let Some(operation) = item.get(method).filter(|o| o.is_object()) else { continue };
            let place = format!("{} {path}", method.to_ascii_uppercase());
            let weight = weight(operation, options.weights);
            if weight == Some(0) {
                reader.import.notes.add("its tag has the weight 0", &place);
                continue;
            }
            match reader.operation(&server, path, method, item, operation, &place) {
                Ok(session) => {
                    let request = &session.steps[0].requests[0];
                    context.admit(request).map_err(|e| format!(": {e}"))?;
                    reader.import.sessions.push(Session { weight, ..session });
                }
                Err(why) => reader.import.notes.add(&why, &place),
            }
            if reader.odd_pattern.take() {
                reader.import.notes.add("a pattern that prony does not understand", &place);
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
    /// A pattern of the request is not understood.
    odd_pattern: Cell<bool>,
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
            odd_pattern: Cell::new(false),
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
            let Some(pointer) = value["$ref"].as_str().and_then(|r| r.strip_prefix('#')) else {
                break;
            };
            if pointer.len() > REFERENCE {
                return &Value::Null;
            }
            value = self.document.pointer(pointer).unwrap_or(&Value::Null);
        }
        value
    }

    /// The URL in front of all paths.
    fn server(&self, options: &Options<'_>) -> Result<String, String> {
        let document = self.document;
        let base = if document["swagger"].is_string() {
            let scheme = document["schemes"][0].as_str().unwrap_or("http");
            let host = document["host"].as_str().map(|host| format!("{scheme}://{host}"));
            let path = document["basePath"].as_str().unwrap_or_default();
            format!("{}{path}", host.unwrap_or_default())
        } else {
            let server = &document["servers"][0];
            let mut url = server["url"].as_str().unwrap_or_default().to_owned();
            for (name, variable) in server["variables"].as_object().into_iter().flatten() {
                let default = variable["default"].as_str().unwrap_or_default();
                url = url.replace(&format!("{{{name}}}"), default);
            }
            url
        };
        let base = base.trim_end_matches('/');
        match (options.to, base.split_once("://")) {
            // The path of the server stays.
            (Some(to), Some((_, rest))) => {
                let path = rest.find('/').map_or("", |at| &rest[at..]);
                Ok(format!("{}{path}", to.trim_end_matches('/')))
            }
            (Some(to), None) => Ok(format!("{}{base}", to.trim_end_matches('/'))),
            (None, Some(_)) => Ok(base.to_owned()),
            (None, None) => Err(": it names no server; name one with --to URL".into()),
        }
    }

    fn operation(
        &mut self,
        server: &str,
        path: &str,
        method: &str,
        item: &'a Value,
        operation: &'a Value,
        place: &str,
    ) -> Result<Session, String> {
        self.values.set(0);
        self.examples.set(EXAMPLES);
        let mut fields: HashMap<&str, String> = HashMap::new();
        let (mut query, mut form, mut cookies) = (Vec::new(), Vec::new(), Vec::new());
        let mut headers: Vec<(String, Text)> = Vec::new();
        let mut body = Body::None;
        for (name, at, parameter) in self.parameters(item, operation) {
            let value = self.parameter(parameter);
            let is_needed = parameter["required"] == true || has_example(parameter);
            match at {
                "path" => {
                    fields.insert(name, escaped(plain(&value).as_bytes()));
                }
                "query" if is_needed => query.push(pair(name, &value)),
                "header" if is_needed => headers.push((name.to_owned(), plain(&value).into())),
                "cookie" if is_needed => cookies.push(format!("{name}={}", plain(&value))),
                "formData" if is_needed => form.push((name, parameter, value)),
                "body" => {
                    let schema = &parameter["schema"];
                    body = Body::Text(self.value(schema, 0).to_string().into());
                    headers.push(("Content-Type".into(), "application/json".into()));
                }
                _ => {}
            }
        }
        let path = filled(path, &fields)?;
        let content = match form.is_empty() {
            true => self.content(self.resolved(&operation["requestBody"]))?,
            false => Some(self.old_form(operation, form)?),
        };
        if let Some((kind, content)) = content {
            headers.push(("Content-Type".into(), kind.into()));
            body = content;
        }
        if !cookies.is_empty() {
            headers.push(("Cookie".into(), cookies.join("; ").into()));
        }
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

    /// The parameters of an operation: name, place and description.
    fn parameters(
        &self,
        item: &'a Value,
        operation: &'a Value,
    ) -> Vec<(&'a str, &'a str, &'a Value)> {
        let all = [item, operation].into_iter().filter_map(|at| at["parameters"].as_array());
        let mut known: Vec<(&'a str, &'a str, &'a Value)> = Vec::new();
        let mut places: HashMap<(&'a str, &'a str), usize> = HashMap::new();
        for parameter in all.flatten().map(|parameter| self.resolved(parameter)) {
            let name = parameter["name"].as_str().unwrap_or_default();
            let at = parameter["in"].as_str().unwrap_or_default();
            // Those of the operation replace those of the path.
            if let Some(old) = places.insert((name, at), known.len()) {
                known[old].1 = REPLACED;
            }
            known.push((name, at, parameter));
        }
        known
    }

    /// The value of a parameter.
    fn parameter(&self, parameter: &'a Value) -> Value {
        let example = parameter["examples"].as_object().and_then(|all| all.values().next());
        let example = example.map(|example| &self.resolved(example)["value"]);
        match [Some(&parameter["example"]), example].into_iter().flatten().find(|v| !v.is_null()) {
            Some(value) => self.example(value),
            // One of a media type.
            None if parameter["content"].is_object() => {
                let media = parameter["content"].as_object().and_then(|all| all.values().next());
                let text = self.value(media.map_or(&Value::Null, |media| &media["schema"]), 0);
                Value::String(text.to_string())
            }
            // In Swagger 2.0, a parameter is its own schema.
            None if parameter["schema"].is_null() => self.value(parameter, 0),
            None => self.value(&parameter["schema"], 0),
        }
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
        let Some(needed) = own[0].as_object() else { return };
        for scheme in needed.keys() {
            let new = &document["components"]["securitySchemes"][scheme];
            let old = &document["securityDefinitions"][scheme];
            let kind = self.resolved(if new.is_null() { old } else { new });
            let known = ["apiKey", "basic", "http", "oauth2", "openIdConnect"];
            if !kind["type"].as_str().is_some_and(|kind| known.contains(&kind)) {
                let what = format!("sent without its credentials ({scheme})");
                self.import.notes.add(&what, place);
                continue;
            }
            let mut value = Text::default();
            value.push_field(&self.names.blank(scheme));
            let name = kind["name"].as_str().unwrap_or("api_key");
            match (kind["type"].as_str(), kind["in"].as_str(), kind["scheme"].as_str()) {
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
                (Some("http" | "oauth2" | "openIdConnect"), ..) => {
                    headers.push(("Authorization".into(), value.after("Bearer ")));
                }
                // In a place that no request has.
                _ => {}
            }
        }
    }
}

/// The place of a parameter that another one replaces: none.
const REPLACED: &str = "";

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

fn has_example(parameter: &Value) -> bool {
    ["example", "examples"].into_iter().any(|key| !parameter[key].is_null())
}

/// The first status of success that is described; 0 if any will do.
fn success(operation: &Value) -> u16 {
    let statuses = operation["responses"].as_object().into_iter().flatten();
    let mut all = statuses.filter_map(|(status, _)| status.parse::<u16>().ok());
    let first = all.find(|status| (200..300).contains(status)).unwrap_or_default();
    if first == 200 { 0 } else { first }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// `name=value`; a list has the name for each value.
fn pair(name: &str, value: &Value) -> String {
    let one = |value: &Value| {
        format!("{}={}", escaped(name.as_bytes()), escaped(plain(value).as_bytes()))
    };
    match value {
        Value::Array(all) => all.iter().map(one).collect::<Vec<_>>().join("&"),
        value => one(value),
    }
}
