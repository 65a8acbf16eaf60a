//! Bodies of operations: the first media type that can be sent.

use serde_json::Value;

use super::Reader;
use super::style::{Style, plain};
use crate::Body;
use crate::multipart::{self, Part};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
/// Members of a body and of a media type that are used, or change no request.
const KNOWN: [&str; 5] = ["$ref", "description", "summary", "content", "required"];
const MEDIA: [&str; 5] = ["$ref", "schema", "example", "examples", "encoding"];

impl<'a> Reader<'a> {
    /// Type and body, if there is one.
    ///
    /// # Errors
    /// It is of a type of which no value is known.
    pub(super) fn content(
        &mut self,
        body: &'a Value,
        place: &str,
    ) -> Result<Option<(String, Body)>, String> {
        let body = self.resolved(body);
        self.unknown(body, &KNOWN, place);
        let Some(content) = body["content"].as_object().filter(|c| !c.is_empty()) else {
            return Ok(None);
        };
        let first = content.iter().next().expect("there is one");
        let json = content.iter().find(|(kind, _)| is_json(kind));
        let all: Vec<_> = json.into_iter().chain(content).collect();
        for (kind, media) in all {
            let media = self.resolved(media);
            if let Some(sent) = self.of_media(kind, media)? {
                self.unknown(media, &MEDIA, place);
                return Ok(Some(sent));
            }
        }
        Err(format!("its body has the type {}", first.0))
    }

    /// The type and the body of a parameter of Swagger 2.0.
    pub(super) fn old_body(
        &self,
        operation: &'a Value,
        parameter: &'a Value,
    ) -> Result<Option<(String, Body)>, String> {
        let kinds: Vec<&str> = self.consumes(operation);
        let json = kinds.iter().copied().find(|kind| is_json(kind));
        let mut all = json.into_iter().chain(kinds.iter().copied()).peekable();
        if all.peek().is_none() {
            return self.of_media(JSON, parameter);
        }
        let found = all.find_map(|kind| self.of_media(kind, parameter).transpose());
        found.transpose()?.map_or_else(
            || Err(format!("its body has the type {}", kinds[0])),
            |sent| Ok(Some(sent)),
        )
    }

    /// The types that an operation of Swagger 2.0 accepts.
    fn consumes(&self, operation: &'a Value) -> Vec<&'a str> {
        let all = operation["consumes"].as_array().or_else(|| self.document["consumes"].as_array());
        all.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Type and body of one media type; none if no value of it is known.
    fn of_media(&self, kind: &str, media: &'a Value) -> Result<Option<(String, Body)>, String> {
        let schema = &media["schema"];
        let is_bytes = is_of_bytes(kind);
        let value = match self.given(media) {
            Some(value) => value,
            // Any content is one of bytes.
            None if is_bytes && schema["properties"].is_null() => "text".into(),
            None if schema.is_null() && !is_json(kind) => return Ok(None),
            None => self.value(schema, 0),
        };
        // Any type of JSON may be described, but only JSON can be sent.
        let kind = if kind == "*/*" { JSON } else { kind };
        if is_json(kind) {
            return Ok(Some((kind.to_owned(), Body::Text(value.to_string().into()))));
        }
        let text = |text: &str| Ok(Some((kind.to_owned(), Body::Text(text.into()))));
        match &value {
            Value::Object(fields) if kind.starts_with(FORM) => {
                let pair = |(name, value): (&String, &Value)| {
                    self.pair(name, &media["encoding"][name], value)
                };
                let pairs: Vec<String> = fields.iter().map(pair).collect();
                text(&pairs.join("&"))
            }
            Value::Object(fields) if kind.starts_with("multipart/") => {
                let parts = fields.iter().flat_map(|(name, value)| {
                    let inner = self.resolved(&self.resolved(schema)["properties"][name]);
                    self.parts(name, inner, &media["encoding"][name], value)
                });
                let body = multipart::body(parts.collect())?;
                let sent = match kind {
                    "multipart/form-data" => multipart::kind(),
                    kind => format!("{kind}; {}", multipart::boundary()),
                };
                Ok(Some((sent, body)))
            }
            Value::String(value) => text(value),
            value if kind.contains("xml") => text(&self.xml(schema, value)),
            Value::Number(_) | Value::Bool(_) if kind.starts_with("text/") => text(&plain(&value)),
            _ => Ok(None),
        }
    }

    /// A field of a URL-encoded form.
    fn pair(&self, name: &str, encoding: &'a Value, value: &Value) -> String {
        let has_style =
            ["style", "explode", "allowReserved"].iter().any(|k| !encoding[*k].is_null());
        let is_json = encoding["contentType"].as_str().is_some_and(is_json);
        let style = Style::of(encoding, "query", self.version());
        match value {
            Value::Array(_) | Value::Object(_) if is_json => {
                style.query(name, &Value::String(value.to_string()))
            }
            // Without a style, an object is JSON.
            Value::Object(_) if !has_style => style.query(name, &Value::String(value.to_string())),
            value => style.query(name, value),
        }
    }

    /// The parts of a form for a field; a list has one for each of its values.
    fn parts(&self, name: &str, schema: &'a Value, encoding: &Value, value: &Value) -> Vec<Part> {
        if !encoding["headers"].is_null() {
            self.odd("headers of a part of a form, which are not sent");
        }
        let one = |schema: &Value, value: &Value| {
            // 3.1 has `contentMediaType` for it, or nothing.
            let is_file = ["binary", "base64"].iter().any(|format| schema["format"] == *format)
                || schema["type"] == "file"
                || schema["contentMediaType"].is_string();
            let kind = encoding["contentType"].as_str().and_then(|all| all.split(',').next());
            let kind = kind.filter(|kind| !kind.contains('*')).map(|kind| kind.trim().to_owned());
            let kind = kind.or_else(|| match value {
                Value::Object(_) => Some(JSON.into()),
                _ if is_file => Some("application/octet-stream".into()),
                _ => None,
            });
            Part {
                name: name.to_owned(),
                file: is_file.then(|| "file".to_owned()),
                kind,
                content: plain(value).into_bytes().into(),
                ..Part::default()
            }
        };
        match value {
            Value::Array(all) => {
                let items = self.resolved(&schema["items"]);
                all.iter().map(|value| one(items, value)).collect()
            }
            value => vec![one(schema, value)],
        }
    }

    /// A form of Swagger 2.0, whose fields are parameters.
    pub(super) fn old_form(
        &self,
        operation: &'a Value,
        fields: Vec<(&str, &'a Value, Value)>,
    ) -> Result<(String, Body), String> {
        let kinds = self.consumes(operation);
        let is_multipart = kinds.contains(&"multipart/form-data") && !kinds.contains(&FORM)
            || fields.iter().any(|(_, schema, _)| schema["type"] == "file");
        if is_multipart {
            // The content of a file is any text.
            let text = Value::from("text");
            let parts = fields.iter().flat_map(|(name, schema, value)| {
                let value = if schema["type"] == "file" { &text } else { value };
                self.parts(name, schema, &Value::Null, value)
            });
            return Ok((multipart::kind(), multipart::body(parts.collect())?));
        }
        let pair = |(name, field, value): &(&str, &'a Value, Value)| {
            Style::of(field, "query", "2.0").query(name, value)
        };
        let pairs: Vec<String> = fields.iter().map(pair).collect();
        Ok((FORM.to_owned(), Body::Text(pairs.join("&").into())))
    }
}

fn is_json(kind: &str) -> bool {
    kind.contains("json")
}

/// Whether any bytes are a content of this type.
fn is_of_bytes(kind: &str) -> bool {
    let starts = ["image/", "audio/", "video/", "font/", "application/octet-stream"];
    starts.iter().any(|start| kind.starts_with(start))
        || ["application/pdf", "application/zip", "application/gzip"].contains(&kind)
}
