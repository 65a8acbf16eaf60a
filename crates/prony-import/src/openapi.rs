//! Descriptions of interfaces: OpenAPI 3.0 and 3.1, and Swagger 2.0, as JSON or YAML. A session for
//! each operation, with the values of its examples, or with values that its schemas allow.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use crate::text::{Text, variable_name};
use crate::url::{self, escaped};
use crate::yaml;
use crate::{Body, Import, Options, Request, Session, Step};

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
/// How deep schemas may refer to each other: deeper ones are left empty.
const DEPTH: u32 = 8;
/// The most values of a request: schemas that refer to themselves could have any number.
const VALUES: u32 = 10_000;

pub(crate) fn read(text: &str, options: &Options<'_>) -> Result<Import, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut document: Value = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).or_else(|e| {
            // YAML has braces, too.
            let why = format!(":{}:{}: this is not JSON: {e}", e.line(), e.column());
            yaml::parse(text).map_err(|_| why)
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
    if !version.is_some_and(|v| v.starts_with("3.0") || v.starts_with("3.1") || v == "2.0") {
        return Err(": neither OpenAPI 3.0 or 3.1 nor Swagger 2.0".into());
    }
    let mut reader = Reader {
        document: &document,
        import: Import::default(),
        blanks: Vec::new(),
        values: Cell::new(0),
    };
    let server = reader.server(options)?;
    let Some(paths) = document["paths"].as_object() else {
        return Err(": there are no paths in it".into());
    };
    for (path, item) in paths {
        let item = reader.resolved(item);
        for method in METHODS {
            let Some(operation) = item.get(method).filter(|o| o.is_object()) else { continue };
            let place = format!("{} {path}", method.to_ascii_uppercase());
            match reader.operation(&server, path, method, item, operation, &place) {
                Ok(session) => reader.import.sessions.push(session),
                Err(why) => reader.import.notes.add(&why, &place),
            }
        }
    }
    let blanks = reader.blanks.into_iter().map(|name| (variable_name(&name), name));
    reader.import.variables.extend(blanks);
    Ok(reader.import)
}

struct Reader<'a> {
    document: &'a Value,
    import: Import,
    /// Credentials that are to be filled in.
    blanks: Vec<String>,
    /// How many values the request has so far.
    values: Cell<u32>,
}

impl<'a> Reader<'a> {
    /// Follows references within the document.
    fn resolved(&self, value: &'a Value) -> &'a Value {
        let mut value = value;
        for _ in 0..DEPTH {
            let Some(pointer) = value["$ref"].as_str().and_then(|r| r.strip_prefix('#')) else {
                break;
            };
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
        let mut path = path.to_owned();
        let (mut query, mut form) = (Vec::new(), Vec::new());
        let mut headers: Vec<(String, Text)> = Vec::new();
        let mut body = Body::None;
        let all = [item, operation].into_iter().filter_map(|at| at["parameters"].as_array());
        let mut known: Vec<(&str, &str, &'a Value)> = Vec::new();
        for parameter in all.flatten().map(|parameter| self.resolved(parameter)) {
            let name = parameter["name"].as_str().unwrap_or_default();
            let at = parameter["in"].as_str().unwrap_or_default();
            // Those of the operation replace those of the path.
            known.retain(|(n, a, _)| (*n, *a) != (name, at));
            known.push((name, at, parameter));
        }
        for (name, at, parameter) in known {
            let value = self.parameter(parameter);
            let is_needed = parameter["required"] == true || has_example(parameter);
            match at {
                "path" => {
                    let field = format!("{{{name}}}");
                    path = path.replace(&field, &escaped(plain(&value).as_bytes()));
                }
                "query" if is_needed => query.push(pair(name, &value)),
                "header" if is_needed => headers.push((name.to_owned(), plain(&value).into())),
                "formData" if is_needed => form.push(pair(name, &value)),
                "body" => {
                    let schema = &parameter["schema"];
                    body = Body::Text(self.value(schema, 0).to_string().into());
                    headers.push(("Content-Type".into(), "application/json".into()));
                }
                _ => {}
            }
        }
        if path.contains('{') {
            return Err("a field of the path is not among the parameters".into());
        }
        let content = match form.is_empty() {
            true => self.content(self.resolved(&operation["requestBody"]))?,
            false => Some(("application/x-www-form-urlencoded".to_owned(), form.join("&"))),
        };
        if let Some((kind, text)) = content {
            headers.push(("Content-Type".into(), kind.into()));
            body = Body::Text(text.into());
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
        Ok(Session { name, steps: vec![Step::from(request)] })
    }

    /// The value of a parameter.
    fn parameter(&self, parameter: &'a Value) -> Value {
        let example = parameter["examples"].as_object().and_then(|all| all.values().next());
        let example = example.map(|example| &self.resolved(example)["value"]);
        match [Some(&parameter["example"]), example].into_iter().flatten().find(|v| !v.is_null()) {
            Some(value) => value.clone(),
            // In Swagger 2.0, a parameter is its own schema.
            None if parameter["schema"].is_null() => self.value(parameter, 0),
            None => self.value(&parameter["schema"], 0),
        }
    }

    /// Type and text of a body, if there is one.
    fn content(&self, body: &'a Value) -> Result<Option<(String, String)>, String> {
        let Some(content) = body["content"].as_object().filter(|c| !c.is_empty()) else {
            return Ok(None);
        };
        let json = content.iter().find(|(kind, _)| kind.contains("json"));
        let (kind, media) = json.or_else(|| content.iter().next()).expect("there is one");
        let example = media["examples"].as_object().and_then(|all| all.values().next());
        let value = match (&media["example"], example) {
            (Value::Null, Some(example)) => self.resolved(example)["value"].clone(),
            (Value::Null, None) => self.value(&media["schema"], 0),
            (example, _) => example.clone(),
        };
        if kind.contains("json") {
            return Ok(Some((kind.clone(), value.to_string())));
        }
        match (kind.as_str(), &value) {
            ("application/x-www-form-urlencoded", Value::Object(fields)) => {
                let pairs: Vec<String> = fields.iter().map(|(n, v)| pair(n, v)).collect();
                Ok(Some((kind.clone(), pairs.join("&"))))
            }
            (_, Value::String(text)) if kind.starts_with("text/") => {
                Ok(Some((kind.clone(), text.clone())))
            }
            _ => Err(format!("its body has the type {kind}")),
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
            let mut value = Text::default();
            value.push_field(&variable_name(scheme));
            let name = kind["name"].as_str().unwrap_or("api_key");
            match (kind["type"].as_str(), kind["in"].as_str(), kind["scheme"].as_str()) {
                (Some("apiKey"), Some("header"), _) => headers.push((name.to_owned(), value)),
                (Some("apiKey"), Some("query"), _) => {
                    let join = if path.literals().contains('?') { '&' } else { '?' };
                    path.push(&format!("{join}{name}="));
                    path.append(value);
                }
                (Some("basic"), ..) | (Some("http"), _, Some("basic")) => {
                    headers.push(("Authorization".into(), value.after("Basic ")));
                }
                (Some("http" | "oauth2" | "openIdConnect"), ..) => {
                    headers.push(("Authorization".into(), value.after("Bearer ")));
                }
                _ => {
                    let what = format!("sent without its credentials ({scheme})");
                    self.import.notes.add(&what, place);
                    continue;
                }
            }
            if !self.blanks.contains(scheme) {
                self.blanks.push(scheme.clone());
            }
        }
    }

    /// A value that a schema allows.
    fn value(&self, schema: &'a Value, depth: u32) -> Value {
        let schema = self.resolved(schema);
        let given = ["const", "example", "default"].into_iter().map(|key| &schema[key]);
        let listed = [&schema["examples"][0], &schema["enum"][0]];
        if let Some(value) = given.chain(listed).find(|value| !value.is_null()) {
            return value.clone();
        }
        self.values.set(self.values.get() + 1);
        if depth > DEPTH || self.values.get() > VALUES {
            return Value::Null;
        }
        if let Some(all) = schema["allOf"].as_array() {
            let mut fields = Map::new();
            for part in all {
                if let Value::Object(more) = self.value(part, depth + 1) {
                    fields.extend(more);
                }
            }
            fields.extend(self.fields(schema, depth));
            return Value::Object(fields);
        }
        if let Some(first) = ["oneOf", "anyOf"].into_iter().find_map(|key| schema[key].get(0)) {
            return self.value(first, depth + 1);
        }
        let kind = schema["type"].as_str().or_else(|| {
            // 3.1 has lists of types.
            schema["type"].as_array()?.iter().filter_map(Value::as_str).find(|t| *t != "null")
        });
        match kind {
            Some("integer" | "number") => number(schema, kind == Some("integer")),
            Some("null") => Value::Null,
            Some("boolean") => Value::Bool(true),
            Some("string") => Value::String(string(schema)),
            Some("array") => {
                let count = schema["minItems"]
                    .as_u64()
                    .unwrap_or(1)
                    .clamp(1, if depth < 3 { 100 } else { 1 });
                let item = self.value(&schema["items"], depth + 1);
                Value::Array(vec![item; usize::try_from(count).unwrap_or(1)])
            }
            _ => Value::Object(self.fields(schema, depth)),
        }
    }

    fn fields(&self, schema: &'a Value, depth: u32) -> Map<String, Value> {
        let mut fields = Map::new();
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            let is_needed = schema["required"]
                .as_array()
                .is_none_or(|all| all.iter().any(|needed| needed == name));
            if is_needed && self.resolved(inner)["readOnly"] != true {
                fields.insert(name.clone(), self.value(inner, depth + 1));
            }
        }
        fields
    }
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

/// The least number that is allowed, from 1 on.
fn number(schema: &Value, is_integer: bool) -> Value {
    let least = schema["minimum"].as_f64();
    let above = schema["exclusiveMinimum"].as_f64().or_else(|| {
        // In 3.0 it is a flag.
        least.filter(|_| schema["exclusiveMinimum"] == true)
    });
    let most = schema["maximum"].as_f64().or_else(|| schema["exclusiveMaximum"].as_f64());
    let start = above.map(|n| n + 1.0).or(least).unwrap_or(1.0);
    let step = schema["multipleOf"].as_f64().filter(|step| *step > 0.0).unwrap_or(1.0);
    let mut value = (start / step).ceil() * step;
    if let Some(most) = most
        && value > most
    {
        value = (most / step).floor() * step;
        if above.is_some_and(|above| value <= above) || least.is_some_and(|least| value < least) {
            value = (start.min(most) + most) / 2.0;
        }
    }
    match is_integer {
        true => json!(value as i64),
        false => json!(value),
    }
}

/// A string of the format or length that is asked for.
fn string(schema: &Value) -> String {
    let text = match schema["format"].as_str() {
        Some("date") => "2026-01-15",
        Some("date-time") => "2026-01-15T10:30:00Z",
        Some("time") => "10:30:00Z",
        Some("uuid") => "3fa85f64-5717-4562-b3fc-2c963f66afa6",
        Some("email") => "user@example.com",
        Some("uri" | "url") => "https://example.com/",
        Some("hostname") => "example.com",
        Some("ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("byte") => "dGV4dA==",
        _ => "text",
    };
    let mut text = text.to_owned();
    let length = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
    while text.len() < length("minLength").unwrap_or(0).min(10_000) {
        text.push('x');
    }
    text.truncate(length("maxLength").unwrap_or(text.len()));
    text
}
