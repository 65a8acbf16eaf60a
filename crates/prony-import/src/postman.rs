//! Collections of Postman (2.0 and 2.1): a session of each folder at the top, in order.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::http_file::split;
use crate::text::{Text, variable_name};
use crate::url::escaped;
use crate::{Body, Import, Options, Request, Session, Step};

#[derive(Deserialize)]
struct Collection {
    info: Info,
    #[serde(default)]
    item: Vec<Item>,
    #[serde(default)]
    variable: Vec<Pair>,
    #[serde(default)]
    auth: Option<Value>,
}

#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    name: String,
    #[serde(default)]
    item: Option<Vec<Self>>,
    #[serde(default)]
    request: Option<Value>,
    #[serde(default)]
    event: Vec<Event>,
    #[serde(default)]
    auth: Option<Value>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    listen: String,
    #[serde(default)]
    script: Value,
}

#[derive(Deserialize)]
struct Pair {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    disabled: bool,
}

struct Reader<'a> {
    variables: Vec<Pair>,
    import: Import,
    options: &'a Options<'a>,
    /// Variables without a value here.
    unknown: Vec<String>,
}

pub(crate) fn read(text: &str, options: &Options<'_>) -> Result<Import, String> {
    let collection: Collection = serde_json::from_str(text).map_err(|e| {
        format!(":{}:{}: this is not a collection of Postman: {e}", e.line(), e.column())
    })?;
    let Collection { info, item, variable, auth } = collection;
    let mut reader =
        Reader { variables: variable, import: Import::default(), options, unknown: Vec::new() };
    let mut own = Session { name: info.name, steps: Vec::new() };
    for item in item {
        let name = item.name.clone();
        let is_folder = item.item.is_some();
        let mut steps = Vec::new();
        reader.item(item, "", auth.as_ref(), &mut steps);
        match is_folder {
            true => reader.import.sessions.push(Session { name, steps }),
            false => own.steps.extend(steps),
        }
    }
    reader.import.sessions.insert(0, own);
    let unknown = reader.unknown.into_iter().map(|name| (variable_name(&name), name));
    reader.import.variables.extend(unknown);
    Ok(reader.import)
}

impl Reader<'_> {
    fn item(&mut self, item: Item, path: &str, auth: Option<&Value>, steps: &mut Vec<Step>) {
        let place = format!("{path}/{}", item.name);
        let auth = item.auth.as_ref().or(auth);
        for inner in item.item.into_iter().flatten() {
            self.item(inner, &place, auth, steps);
        }
        let Some(request) = item.request else { return };
        match self.request(&request, &place, auth) {
            Ok(mut request) => {
                request.name = item.name;
                for event in item.event {
                    let lines = script(&event.script);
                    request.expect = status(&lines).unwrap_or(request.expect);
                    let what = format!("a script ({})", event.listen);
                    self.import.notes.add(&what, &place);
                }
                steps.push(Step::from(request));
            }
            Err(why) => self.import.notes.add(&why, &place),
        }
    }

    fn request(
        &mut self,
        request: &Value,
        place: &str,
        auth: Option<&Value>,
    ) -> Result<Request, String> {
        let address = request.as_str().or_else(|| request["url"].as_str());
        let address = address.or_else(|| request["url"]["raw"].as_str());
        let address = address.ok_or("a request without a URL")?;
        let mut address = self.text(address);
        if !address.template().contains("://") {
            let is_path = address.literals().starts_with('/') && !address.starts_with_field();
            address = match (is_path, self.options.to) {
                (true, Some(to)) => address.after(to.trim_end_matches('/')),
                _ if address.starts_with_field() => address,
                _ => address.after("http://"),
            };
        }
        let (origin, path) = split(&address, |_| false)?;
        let mut headers = Vec::new();
        for pair in pairs(&request["header"]) {
            headers.push((pair.key, self.value(&pair.value)));
        }
        let auth = Some(&request["auth"]).filter(|auth| auth.is_object()).or(auth);
        if let Some(header) = auth.and_then(|auth| self.auth(auth, place)) {
            headers.push(header);
        }
        let (body, kind) = self.body(&request["body"], place);
        let has_kind = headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("content-type"));
        if let (false, Some(kind)) = (has_kind, kind) {
            headers.push(("Content-Type".into(), kind.into()));
        }
        Ok(Request {
            place: place.to_owned(),
            origin,
            method: request["method"].as_str().unwrap_or("GET").to_owned(),
            path,
            headers,
            body,
            ..Request::default()
        })
    }

    fn auth(&mut self, auth: &Value, place: &str) -> Option<(String, Text)> {
        let kind = auth["type"].as_str()?;
        let field = |name: &str| match &auth[kind] {
            Value::Array(all) => {
                all.iter().find(|p| p["key"] == name).map_or(Value::Null, |p| p["value"].clone())
            }
            object => object[name].clone(),
        };
        match kind {
            "noauth" => None,
            "bearer" => {
                let token = self.value(&field("token"));
                Some(("Authorization".into(), token.after("Bearer ")))
            }
            "basic" => {
                let (user, password) =
                    (self.value(&field("username")), self.value(&field("password")));
                let pair = (user.literal()?.to_owned(), password.literal()?.to_owned());
                let text = STANDARD.encode(format!("{}:{}", pair.0, pair.1));
                Some(("Authorization".into(), format!("Basic {text}").into()))
            }
            "apikey" if field("in") != "query" => {
                let name = field("key").as_str()?.to_owned();
                Some((name, self.value(&field("value"))))
            }
            _ => {
                let what = format!("sent without its authorization ({kind})");
                self.import.notes.add(&what, place);
                None
            }
        }
    }

    fn body(&mut self, body: &Value, place: &str) -> (Body, Option<&'static str>) {
        match body["mode"].as_str() {
            Some("raw") => {
                let kind = match body["options"]["raw"]["language"].as_str() {
                    Some("json") => Some("application/json"),
                    Some("xml") => Some("application/xml"),
                    _ => None,
                };
                let text = self.text(body["raw"].as_str().unwrap_or_default());
                (if text.is_empty() { Body::None } else { Body::Text(text) }, kind)
            }
            Some("urlencoded") => {
                let mut all = Text::default();
                for (nth, pair) in pairs(&body["urlencoded"]).into_iter().enumerate() {
                    all.push(if nth > 0 { "&" } else { "" });
                    all.push(&format!("{}=", escaped(pair.key.as_bytes())));
                    let mut value = self.value(&pair.value);
                    value.map_literals(|text| escaped(text.as_bytes()).into());
                    all.append(value);
                }
                (Body::Text(all), Some("application/x-www-form-urlencoded"))
            }
            Some("graphql") => {
                let variables = body["graphql"]["variables"].as_str().unwrap_or("{}");
                let variables: Value = serde_json::from_str(variables).unwrap_or(Value::Null);
                let query = &body["graphql"]["query"];
                let text = serde_json::json!({"query": query, "variables": variables}).to_string();
                (Body::Text(self.text(&text)), Some("application/json"))
            }
            Some(mode) => {
                let what = format!("sent without its body (mode {mode})");
                self.import.notes.add(&what, place);
                (Body::None, None)
            }
            None => (Body::None, None),
        }
    }

    fn value(&mut self, value: &Value) -> Text {
        match value {
            Value::String(text) => self.text(text),
            Value::Null => Text::default(),
            other => other.to_string().into(),
        }
    }

    /// The text with the collection's variables replaced.
    fn text(&mut self, text: &str) -> Text {
        self.filled(text, 0)
    }

    fn filled(&mut self, text: &str, depth: u32) -> Text {
        let mut all = Text::default();
        let mut rest = text;
        while let Some((before, field)) = rest.split_once("{{") {
            let Some((field, after)) = field.split_once("}}") else { break };
            all.push(before);
            let field = field.trim();
            let known = self.variables.iter().find(|pair| pair.key == field);
            let known = known.and_then(|pair| pair.value.as_str().map(str::to_owned));
            match (field, known) {
                (_, Some(value)) if depth < 8 => all.append(self.filled(&value, depth + 1)),
                ("$guid" | "$randomUUID", _) => all.push_field("random.uuid"),
                ("$randomInt", _) => all.push_field("random.int 0 1000"),
                _ => {
                    if !self.unknown.iter().any(|name| name == field) {
                        self.unknown.push(field.to_owned());
                    }
                    all.push_field(&variable_name(field));
                }
            }
            rest = after;
        }
        all.push(rest);
        all
    }
}

/// The pairs of a list that are not switched off.
fn pairs(value: &Value) -> Vec<Pair> {
    let all: Vec<Pair> = serde_json::from_value(value.clone()).unwrap_or_default();
    all.into_iter().filter(|pair| !pair.disabled && !pair.key.is_empty()).collect()
}

fn script(script: &Value) -> String {
    match &script["exec"] {
        Value::Array(lines) => {
            lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        Value::String(text) => text.clone(),
        _ => String::new(),
    }
}

/// The status that a test wants: `to.have.status(201)`.
fn status(script: &str) -> Option<u16> {
    let (_, rest) = script.split_once("to.have.status(")?;
    rest.split(')').next()?.trim().parse().ok()
}
