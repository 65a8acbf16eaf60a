//! Bodies of operations: the first media type that can be sent.

use serde_json::Value;

use super::{Reader, pair, plain};
use crate::Body;
use crate::multipart::{self, Part};

const FORM: &str = "application/x-www-form-urlencoded";

impl<'a> Reader<'a> {
    /// Type and body, if there is one.
    ///
    /// # Errors
    /// It is of a type of which no value is known.
    pub(super) fn content(&self, body: &'a Value) -> Result<Option<(String, Body)>, String> {
        let Some(content) = body["content"].as_object().filter(|c| !c.is_empty()) else {
            return Ok(None);
        };
        let json = content.iter().find(|(kind, _)| is_json(kind));
        let first = content.iter().next().expect("there is one");
        let mut all = json.into_iter().chain(content);
        let sent = all.find_map(|(kind, media)| self.of_media(kind, media).transpose());
        match sent {
            Some(sent) => sent.map(Some),
            None => Err(format!("its body has the type {}", first.0)),
        }
    }

    /// Type and body of one media type; none if no value of it is known.
    fn of_media(&self, kind: &str, media: &'a Value) -> Result<Option<(String, Body)>, String> {
        let example = media["examples"].as_object().and_then(|all| all.values().next());
        let schema = &media["schema"];
        let value = match (&media["example"], example) {
            (Value::Null, Some(example)) => self.example(&self.resolved(example)["value"]),
            (Value::Null, None) if schema.is_null() && !is_json(kind) => return Ok(None),
            (Value::Null, None) => self.value(schema, 0),
            (example, _) => self.example(example),
        };
        // Any type of JSON may be described, but only JSON can be sent.
        let kind = if kind == "*/*" { "application/json" } else { kind };
        if is_json(kind) {
            return Ok(Some((kind.to_owned(), Body::Text(value.to_string().into()))));
        }
        let text = |text: &str| Ok(Some((kind.to_owned(), Body::Text(text.into()))));
        match (kind, &value) {
            (FORM, Value::Object(fields)) => {
                let pairs: Vec<String> = fields.iter().map(|(n, v)| pair(n, v)).collect();
                text(&pairs.join("&"))
            }
            (_, Value::Object(fields)) if kind.starts_with("multipart/") => {
                let parts = fields.iter().flat_map(|(name, value)| {
                    let inner = self.resolved(&self.resolved(schema)["properties"][name]);
                    self.parts(name, inner, &media["encoding"][name], value)
                });
                Ok(Some((multipart::kind(), multipart::body(parts.collect())?)))
            }
            (_, Value::String(value)) => text(value),
            (_, Value::Number(_) | Value::Bool(_)) if kind.starts_with("text/") => {
                text(&plain(&value))
            }
            _ => Ok(None),
        }
    }

    /// The parts of a form for a field; a list has one for each of its values.
    fn parts(&self, name: &str, schema: &'a Value, encoding: &Value, value: &Value) -> Vec<Part> {
        let one = |schema: &Value, value: &Value| {
            // 3.1 has `contentMediaType` for it, or nothing.
            let is_file = ["binary", "base64"].iter().any(|format| schema["format"] == *format)
                || schema["type"] == "file"
                || schema["contentMediaType"].is_string();
            let kind = encoding["contentType"].as_str().and_then(|all| all.split(',').next());
            let kind = kind.filter(|kind| !kind.contains('*')).map(|kind| kind.trim().to_owned());
            let kind = kind.or_else(|| match value {
                Value::Object(_) => Some("application/json".into()),
                _ if is_file => Some("application/octet-stream".into()),
                _ => None,
            });
            let text = if value.is_object() { value.to_string() } else { plain(value) };
            Part {
                name: name.to_owned(),
                file: is_file.then(|| "file".to_owned()),
                kind,
                content: text.into_bytes().into(),
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
        operation: &Value,
        fields: Vec<(&str, &'a Value, Value)>,
    ) -> Result<(String, Body), String> {
        let consumes =
            operation["consumes"].as_array().or_else(|| self.document["consumes"].as_array());
        let is_multipart = consumes
            .is_some_and(|all| all.iter().any(|k| k == "multipart/form-data"))
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
        let pairs: Vec<String> = fields.iter().map(|(name, _, value)| pair(name, value)).collect();
        Ok((FORM.to_owned(), Body::Text(pairs.join("&").into())))
    }
}

fn is_json(kind: &str) -> bool {
    kind.contains("json")
}
