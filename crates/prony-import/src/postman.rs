//! Collections of Postman (2.0 and 2.1): a session of each folder at the top, in order.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::blanks::Names;
use crate::context::{Context, DEPTH};
use crate::http_file::split;
use crate::json;
use crate::multipart::{self, Content, Part};
use crate::scripts::{self, Script};
use crate::text::Text;
use crate::url::{self, escaped};
use crate::values::Values;
use crate::{Body, Import, Request, Session, Step};

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
    /// In a form: `text` or `file`.
    #[serde(default, rename = "type")]
    kind: Value,
    /// In a form: the name of a file, or several.
    #[serde(default)]
    src: Value,
    /// In a form: the type of the content.
    #[serde(default, rename = "contentType")]
    content: Value,
}

struct Reader<'a> {
    variables: Values,
    import: Import,
    context: &'a Context<'a>,
    /// The names of variables in the plan.
    names: Names,
    /// Variables that scripts of this session have set so far, and their names in the plan.
    set: HashMap<String, String>,
    /// These names.
    set_names: HashSet<String>,
    /// Those of them that later requests use.
    used: HashSet<String>,
    /// The requests whose scripts set a variable, in all sessions.
    givers: HashMap<String, Rc<Request>>,
    /// Those that this session must make first.
    firsts: Vec<Rc<Request>>,
    /// Their places.
    first_places: HashSet<String>,
}

pub(crate) fn read(text: &str, context: &Context<'_>) -> Result<Import, String> {
    json::check(text)?;
    let collection: Collection = serde_json::from_str(text).map_err(|e| {
        format!(":{}:{}: this is not a collection of Postman: {e}", e.line(), e.column())
    })?;
    let Collection { info, item, variable, auth } = collection;
    let mut variables = Values::default();
    for pair in &variable {
        variables.set_first(&pair.key, pair.value.as_str().unwrap_or_default());
    }
    let mut reader = Reader {
        variables,
        import: Import::default(),
        context,
        names: Names::default(),
        set: HashMap::new(),
        set_names: HashSet::new(),
        used: HashSet::new(),
        givers: HashMap::new(),
        firsts: Vec::new(),
        first_places: HashSet::new(),
    };
    let mut own = Session { name: info.name, ..Session::default() };
    let (folders, single): (Vec<Item>, Vec<Item>) =
        item.into_iter().partition(|item| item.item.is_some());
    for item in single {
        reader.item(item, "", auth.as_ref(), &mut own.steps)?;
    }
    reader.end(own)?;
    for item in folders {
        let mut session = Session { name: item.name.clone(), ..Session::default() };
        reader.item(item, "", auth.as_ref(), &mut session.steps)?;
        reader.end(session)?;
    }
    reader.import.variables.extend(reader.names.into_blanks());
    Ok(reader.import)
}

impl Reader<'_> {
    /// A session is complete. Its values of replies are for its own requests.
    fn end(&mut self, mut session: Session) -> Result<(), String> {
        self.first_places.clear();
        for giver in &self.firsts {
            let what = "made first in another session, too, for a value of its reply";
            self.import.notes.add(what, &giver.place);
            self.context.admit(giver).map_err(wrong)?;
        }
        let firsts = self.firsts.drain(..).map(|giver| Step::from(Request::clone(&giver)));
        drop(session.steps.splice(0..0, firsts));
        for request in session.steps.iter_mut().flat_map(|step| &mut step.requests) {
            request.extract.retain(|(name, _)| self.used.contains(name));
        }
        self.set.clear();
        self.set_names.clear();
        self.used.clear();
        self.import.sessions.push(session);
        Ok(())
    }

    fn item(
        &mut self,
        item: Item,
        path: &str,
        auth: Option<&Value>,
        steps: &mut Vec<Step>,
    ) -> Result<(), String> {
        let place = format!("{path}/{}", item.name);
        let auth = item.auth.as_ref().or(auth);
        for inner in item.item.into_iter().flatten() {
            self.item(inner, &place, auth, steps)?;
        }
        let Some(request) = item.request else {
            for event in item.event.iter().filter(|event| !script(&event.script).is_empty()) {
                self.import.notes.add(&format!("a script of a folder ({})", event.listen), &place);
            }
            return Ok(());
        };
        match self.request(&request, &place, auth) {
            Ok(mut request) => {
                request.name = item.name;
                for event in item.event {
                    self.event(&event, &mut request, &place);
                }
                self.context.admit(&request).map_err(wrong)?;
                steps.push(Step::from(request));
            }
            Err(why) => self.import.notes.add(&why, &place),
        }
        self.context.check().map_err(wrong)
    }

    /// What the plan has of a script.
    fn event(&mut self, event: &Event, request: &mut Request, place: &str) {
        let lines = script(&event.script);
        if lines.trim().is_empty() {
            return;
        }
        let found = match event.listen.as_str() {
            "test" => scripts::read(&lines),
            _ => Script::default(),
        };
        let what = match found == Script::default() {
            true => format!("a script ({})", event.listen),
            false => {
                format!("a script ({}), of which the plan has the status or values", event.listen)
            }
        };
        self.import.notes.add(&what, place);
        request.expect = found.status.unwrap_or(request.expect);
        // Other sessions can make it first if it needs nothing of this one.
        let is_alone = !request.fields().any(|field| self.set_names.contains(field));
        let names: Vec<String> = found.sets.iter().map(|(field, _)| field.clone()).collect();
        for (field, from) in found.sets {
            let name = self.names.extracted(&field);
            request.extract.push((name.clone(), from));
            self.set_name(&field, name);
        }
        if !is_alone || names.is_empty() {
            return;
        }
        let giver = Rc::new(request.clone());
        for field in names {
            self.givers.entry(field).or_insert_with(|| Rc::clone(&giver));
        }
    }

    fn request(
        &mut self,
        request: &Value,
        place: &str,
        auth: Option<&Value>,
    ) -> Result<Request, String> {
        let address = request.as_str().map(str::to_owned).or_else(|| address_of(&request["url"]));
        let address = address.ok_or("a request without a URL")?;
        let to = self.context.options.to;
        let moved = to.and_then(|to| {
            let is_set = |name: &str| self.set.contains_key(name);
            let is_known =
                |name: &str| is_set(name) || self.variables.is_complete(name, &|_| false);
            url::at_server(&address, to, is_known)
        });
        if moved.is_some() {
            self.import.notes.add(url::MOVED, place);
        }
        let mut address = self.text(&moved.unwrap_or(address));
        if !address.template().contains("://") {
            let is_path = address.literals().starts_with('/') && !address.starts_with_field();
            address = match (is_path, to) {
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
        url::add_credentials(&address.template(), &mut headers);
        let (body, kind) = self.body(&request["body"], place);
        // The text between the parts is in it.
        if kind.as_deref().is_some_and(|kind| kind.starts_with("multipart/")) {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        }
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

    fn body(&mut self, body: &Value, place: &str) -> (Body, Option<String>) {
        match body["mode"].as_str() {
            Some("raw") => {
                let kind = match body["options"]["raw"]["language"].as_str() {
                    Some("json") => Some("application/json".to_owned()),
                    Some("xml") => Some("application/xml".to_owned()),
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
                (Body::Text(all), Some("application/x-www-form-urlencoded".to_owned()))
            }
            Some("graphql") => {
                let variables = body["graphql"]["variables"].as_str().unwrap_or("{}");
                let variables: Value = serde_json::from_str(variables).unwrap_or(Value::Null);
                let query = &body["graphql"]["query"];
                let text = serde_json::json!({"query": query, "variables": variables}).to_string();
                (Body::Text(self.text(&text)), Some("application/json".to_owned()))
            }
            Some("formdata") => match self.form(&body["formdata"], place) {
                Ok(Body::None) => (Body::None, None),
                Ok(body) => (body, Some(multipart::kind())),
                Err(why) => {
                    self.import.notes.add(&format!("sent without its body: {why}"), place);
                    (Body::None, None)
                }
            },
            Some("file") if body["file"].is_object() => {
                match self.file(&body["file"]["src"], place) {
                    Some((_, bytes)) => (bytes.into(), None),
                    None => (Body::None, None),
                }
            }
            Some(mode) => {
                let what = format!("sent without its body (mode {mode})");
                self.import.notes.add(&what, place);
                (Body::None, None)
            }
            None => (Body::None, None),
        }
    }

    /// A multi-part form, with the files that are there.
    fn form(&mut self, fields: &Value, place: &str) -> Result<Body, String> {
        let mut parts = Vec::new();
        for pair in pairs(fields) {
            let mut part = Part { name: pair.key, ..Part::default() };
            part.kind = pair.content.as_str().filter(|kind| !kind.is_empty()).map(str::to_owned);
            if pair.kind != "file" {
                part.content = Content::Text(self.value(&pair.value));
                parts.push(part);
                continue;
            }
            let several = pair.src.as_array().cloned();
            for name in several.unwrap_or_else(|| vec![pair.src]) {
                if let Some((name, bytes)) = self.file(&name, place) {
                    let kind = part.kind.clone();
                    let kind = kind.or_else(|| Some("application/octet-stream".into()));
                    let content = bytes.into();
                    parts.push(Part { file: Some(name), kind, content, ..part.clone() });
                }
            }
        }
        if parts.is_empty() { Ok(Body::None) } else { multipart::body(parts) }
    }

    /// The name of a file without its folders, and its content; none with a note if it is not here.
    fn file(&mut self, name: &Value, place: &str) -> Option<(String, Vec<u8>)> {
        let path = name.as_str().unwrap_or_default();
        match self.context.read(path, place) {
            Ok(bytes) if !path.is_empty() => {
                let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
                Some((name.to_owned(), bytes))
            }
            Err(refused) if !path.is_empty() && !refused.is_missing => {
                let what = format!("sent without a file: {}", refused.why);
                self.import.notes.add(&what, place);
                None
            }
            _ => {
                self.import.notes.add("sent without a file, which is not here", place);
                None
            }
        }
    }

    fn value(&mut self, value: &Value) -> Text {
        match value {
            Value::String(text) => self.text(text),
            Value::Null => Text::default(),
            other => other.to_string().into(),
        }
    }

    /// Makes a variable known that a request of another session sets.
    fn give(&mut self, field: &str) {
        if self.set.contains_key(field) {
            return;
        }
        let Some(giver) = self.givers.get(field) else { return };
        if self.first_places.insert(giver.place.clone()) {
            self.firsts.push(Rc::clone(giver));
        }
        let name = self.names.extracted(field);
        self.set_name(field, name);
    }

    fn set_name(&mut self, field: &str, name: String) {
        self.set_names.insert(name.clone());
        self.set.insert(field.to_owned(), name);
    }

    /// The text with the collection's variables replaced.
    fn text(&mut self, text: &str) -> Text {
        let mut all = Text::default();
        self.fill(text, &mut all, &mut Vec::new());
        all
    }

    /// Adds the text. `within` are the variables whose values it is in.
    fn fill(&mut self, text: &str, all: &mut Text, within: &mut Vec<String>) {
        let mut rest = text;
        while let Some((before, field)) = rest.split_once("{{") {
            let Some((field, after)) = field.split_once("}}") else { break };
            all.push(before);
            if !self.context.spend_field("") {
                return;
            }
            self.field(field.trim(), all, within);
            rest = after;
        }
        all.push(rest);
    }

    fn field(&mut self, field: &str, all: &mut Text, within: &mut Vec<String>) {
        self.give(field);
        if let Some(name) = self.set.get(field) {
            all.push_field(name);
            self.used.insert(name.clone());
            return;
        }
        // Scripts set what has no value. What is in its own value has none, either.
        let known = self.variables.get(field).filter(|value| !value.is_empty());
        let known = known.filter(|_| !within.iter().any(|outer| outer == field));
        match (field, known.map(str::to_owned)) {
            (_, Some(_)) if within.len() == DEPTH => {
                self.context.fail("its variables are more than 64 deep in each other");
            }
            (_, Some(value)) => {
                if self.context.spend_field(&value) {
                    within.push(field.to_owned());
                    self.fill(&value, all, within);
                    within.pop();
                }
            }
            ("$guid" | "$randomUUID", _) => all.push_field("random.uuid"),
            ("$randomInt", _) => all.push_field("random.int 0 1000"),
            ("$timestamp", _) => all.push_field("now unix"),
            ("$isoTimestamp", _) => all.push_field("now"),
            _ => all.push_field(&self.names.blank(field)),
        }
    }
}

/// A bound that does not hold, after the name of the file.
fn wrong(why: String) -> String {
    format!(": {why}")
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

/// A URL, as a text or in its parts, with the values of its path (`/orders/:id`).
fn address_of(url: &Value) -> Option<String> {
    let list = |value: &Value, between: &str| match value {
        Value::Array(all) => {
            let text = |part: &Value| part.as_str().map(str::to_owned);
            Some(all.iter().filter_map(text).collect::<Vec<_>>().join(between))
        }
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let mut address = match url.as_str().or_else(|| url["raw"].as_str()) {
        Some(text) => text.to_owned(),
        None => {
            let host = list(&url["host"], ".")?;
            let scheme = url["protocol"].as_str().unwrap_or("http");
            let scheme =
                if host.starts_with("{{") { String::new() } else { format!("{scheme}://") };
            let port = url["port"].as_str().map_or(String::new(), |port| format!(":{port}"));
            let path = list(&url["path"], "/").unwrap_or_default();
            let pair =
                |pair: &Pair| format!("{}={}", pair.key, pair.value.as_str().unwrap_or_default());
            let query: Vec<String> = pairs(&url["query"]).iter().map(pair).collect();
            let mark = if query.is_empty() { "" } else { "?" };
            let path = path.trim_start_matches('/');
            format!("{scheme}{host}{port}/{path}{mark}{}", query.join("&"))
        }
    };
    for pair in pairs(&url["variable"]) {
        let end = address.find('?').unwrap_or(address.len());
        let (path, query) = address.split_at(end);
        let value = match &pair.value {
            Value::String(text) if !text.is_empty() => text.clone(),
            Value::Null | Value::String(_) => format!("{{{{{}}}}}", pair.key),
            other => other.to_string(),
        };
        let is_it = |part: &str| part.strip_prefix(':').is_some_and(|name| name == pair.key);
        let parts = path.split('/').map(|part| if is_it(part) { value.as_str() } else { part });
        address = format!("{}{query}", parts.collect::<Vec<_>>().join("/"));
    }
    Some(address)
}
