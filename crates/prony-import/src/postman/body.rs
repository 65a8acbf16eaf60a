//! The body of a request, in each mode of Postman.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::ledger::Node;
use crate::multipart::{self, Content, Part};
use crate::text::{MARK, Text};
use crate::url::escaped;
use crate::{Body, Request};

use super::{Around, Reader};

pub(super) const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
/// With these, Postman sends no body unless a setting wants it.
const WITHOUT_BODY: [&str; 5] = ["GET", "COPY", "HEAD", "PURGE", "UNLOCK"];

impl Reader<'_> {
    /// Sets the body, and returns its type if Postman says which it is.
    pub(super) fn body(
        &mut self,
        body: Node<'_>,
        sent: &mut Request,
        around: &Around<'_, '_>,
    ) -> Option<String> {
        let place = sent.place.clone();
        let keeps = around.setting("disableBodyPruning") == Some(true);
        if body.at("disabled").flag() == Some(true) {
            body.whole();
            return None;
        }
        let mode = body.at("mode").text()?;
        if WITHOUT_BODY.contains(&&*sent.method) && !keeps {
            if has_content(body.whole(), mode) {
                let what = format!("sent without its body, as Postman does with {}", sent.method);
                self.import.notes.add(&what, &place);
            }
            return None;
        }
        let content = body.at(mode);
        let (body, kind) = match mode {
            "raw" => {
                let raw = body.at("options").at("raw");
                let language = raw.at("language").text().unwrap_or("text");
                let kind = match language {
                    "json" => JSON,
                    "xml" => "application/xml",
                    "html" => "text/html",
                    "javascript" => "application/javascript",
                    _ => "text/plain",
                };
                let text = match content.text() {
                    Some(text) => text.to_owned(),
                    None if content.is_null() => String::new(),
                    None => content.whole().to_string(),
                };
                (Body::from(self.text(&text, around)), Some(kind))
            }
            "urlencoded" => (self.pairs_of_form(content, &place, around), Some(FORM)),
            "graphql" => (self.graphql(content, around), Some(JSON)),
            "formdata" => match self.form(content, &place, around) {
                Ok(Body::None) => (Body::None, None),
                Ok(form) => {
                    sent.body = form;
                    return Some(multipart::kind());
                }
                Err(why) => {
                    self.import.notes.add(&format!("sent without its body: {why}"), &place);
                    (Body::None, None)
                }
            },
            "file" => self.content(content, &place),
            _ => {
                content.whole();
                let what = format!("sent without its body (mode {mode})");
                self.import.notes.add(&what, &place);
                (Body::None, None)
            }
        };
        sent.body = body;
        kind.filter(|_| sent.body != Body::None).map(str::to_owned)
    }

    /// A form in the form of a query. As in Postman, fields of one name are sent together.
    fn pairs_of_form(&mut self, form: Node<'_>, place: &str, around: &Around<'_, '_>) -> Body {
        let mut pairs: Vec<(Text, Vec<Text>)> = Vec::new();
        let mut add =
            |name: Text, value: Text| match pairs.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => pairs.push((name, vec![value])),
            };
        for pair in form.text().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            add(self.text(name, around), self.text(value, around));
        }
        for (name, value, item) in self.pairs(form, "field of a form", place) {
            item.at("type").whole();
            add(self.text(&name, around), self.value(value, around));
        }
        // As JavaScript orders the members of objects: whole numbers first.
        let number = |name: &Text| {
            let number: u32 = name.literal()?.parse().ok()?;
            (Some(number.to_string().as_str()) == name.literal()).then_some(number)
        };
        pairs.sort_by_key(|(name, _)| number(name).map_or((1, 0), |number| (0, number)));
        let encoded = |mut text: Text| {
            text.map_literals(|text| escaped(text.as_bytes()).into());
            text.filter_fields("url");
            text
        };
        let mut all = Text::default();
        let one = pairs
            .into_iter()
            .flat_map(|(name, values)| values.into_iter().map(move |value| (name.clone(), value)));
        for (nth, (name, value)) in one.enumerate() {
            all.push(if nth > 0 { "&" } else { "" });
            all.append(encoded(name));
            all.push("=");
            all.append(encoded(value));
        }
        all.into()
    }

    /// The JSON of GraphQL. Variables that are a text are a part of it as they are.
    fn graphql(&mut self, content: Node<'_>, around: &Around<'_, '_>) -> Body {
        let mut all = Text::default();
        let mut member = |name: &str, value: Text| {
            all.push(if all.is_empty() { "{" } else { "," });
            all.push(&format!("\"{name}\":"));
            all.append(value);
        };
        for name in ["query", "operationName"] {
            if let Some(text) = content.at(name).text() {
                member(name, json_string(self.text(text, around)));
            }
        }
        let variables = content.at("variables");
        match variables.text() {
            Some("") => {}
            Some(text) => member("variables", self.text(text, around)),
            None if variables.is_null() => {}
            None => {
                let mut text = Text::default();
                self.json(variables.whole(), &mut text, around);
                member("variables", text);
            }
        }
        all.push(if all.is_empty() { "{}" } else { "}" });
        all.into()
    }

    /// A value as JSON, with the variables in its texts replaced.
    fn json(&mut self, value: &Value, all: &mut Text, around: &Around<'_, '_>) {
        match value {
            Value::String(text) => all.append(json_string(self.text(text, around))),
            Value::Array(items) => {
                for (nth, item) in items.iter().enumerate() {
                    all.push(if nth == 0 { "[" } else { "," });
                    self.json(item, all, around);
                }
                all.push(if items.is_empty() { "[]" } else { "]" });
            }
            Value::Object(members) => {
                for (nth, (name, item)) in members.iter().enumerate() {
                    all.push(if nth == 0 { "{" } else { "," });
                    all.append(json_string(self.text(name, around)));
                    all.push(":");
                    self.json(item, all, around);
                }
                all.push(if members.is_empty() { "{}" } else { "}" });
            }
            other => all.push(&other.to_string()),
        }
    }

    /// A multi-part form, with the files that are there.
    fn form(
        &mut self,
        fields: Node<'_>,
        place: &str,
        around: &Around<'_, '_>,
    ) -> Result<Body, String> {
        let mut parts = Vec::new();
        for (name, value, item) in self.pairs(fields, "field of a form", place) {
            let mut part = Part::default();
            let name = self.text(&name, around);
            match name.literal() {
                Some(name) => part.name = name.to_owned(),
                None => {
                    item.whole();
                    let what = "left out: a field of a form whose name is a variable";
                    self.import.notes.add(what, place);
                    continue;
                }
            }
            let kind = item.at("contentType").text().filter(|kind| !kind.is_empty());
            part.kind = kind.map(str::to_owned);
            let named = item.at("fileName").text().map(str::to_owned);
            if item.at("type").text() != Some("file") {
                part.content = Content::Text(match value.scalar() {
                    Some(text) => self.text(&text, around),
                    None if value.is_null() => Text::default(),
                    None => self.text(&value.whole().to_string(), around),
                });
                part.file = named;
                parts.push(part);
                continue;
            }
            let src = item.at("src");
            let files = if src.is_list() { src.items().collect() } else { vec![src] };
            for file in files {
                if let Some((name, bytes)) = self.file(file, place) {
                    let name = named.clone().unwrap_or(name);
                    let kind = part.kind.clone().unwrap_or_else(|| kind_of_file(&name).to_owned());
                    let content = bytes.into();
                    parts.push(Part {
                        file: Some(name),
                        kind: Some(kind),
                        content,
                        ..part.clone()
                    });
                }
            }
        }
        if parts.is_empty() { Ok(Body::None) } else { multipart::body(parts) }
    }

    /// The body of a file, or of its content in base64; and its type, by the name.
    fn content(&mut self, content: Node<'_>, place: &str) -> (Body, Option<&'static str>) {
        if !content.at("src").is_null() {
            let file = self.file(content.at("src"), place);
            return file.map_or((Body::None, None), |(name, bytes)| {
                (Body::from(bytes), Some(kind_of_file(&name)))
            });
        }
        let text = content.at("content").text().unwrap_or_default();
        let bytes = STANDARD.decode(text.trim()).unwrap_or_else(|_| {
            self.import.notes.add("a body that is not base64: sent as it is", place);
            text.as_bytes().to_vec()
        });
        (bytes.into(), None)
    }

    /// The name of a file without its folders, and its content; none with a note if it is not here.
    fn file(&mut self, name: Node<'_>, place: &str) -> Option<(String, Vec<u8>)> {
        let path = name.text().unwrap_or_default();
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
}

impl From<Text> for Body {
    fn from(text: Text) -> Self {
        if text.is_empty() { Self::None } else { Self::Text(text) }
    }
}

/// Whether there is something in a body of this mode.
fn has_content(body: &Value, mode: &str) -> bool {
    match &body[mode] {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(pairs) => pairs.iter().any(|pair| pair["disabled"] != true),
        Value::Object(all) => all.values().any(|value| !value.is_null() && *value != ""),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// The text in the quotes and escapes of JSON, those of its variables too.
fn json_string(mut text: Text) -> Text {
    text.filter_fields("json");
    text.map_whole(|whole| {
        debug_assert!(!Value::from(MARK.to_string()).to_string().contains('\\'));
        Value::from(whole).to_string().into()
    });
    if text.is_empty() { "\"\"".into() } else { text }
}

/// The type that Postman says a file has, by the end of its name: a few usual ones.
fn kind_of_file(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    match end.as_str() {
        "json" => JSON,
        "txt" | "log" => "text/plain",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "mp4" => "video/mp4",
        "mp3" => "audio/mpeg",
        _ => "application/octet-stream",
    }
}
