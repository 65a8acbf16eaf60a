//! The parameters of an operation, as parts of its request.

use std::collections::HashMap;

use serde_json::Value;

use super::Reader;
use super::style::{Style, plain};
use crate::Body;
use crate::text::Text;

/// Members of a parameter that are used, or change no request; in Swagger 2.0 it is a schema, too.
const KNOWN: [&str; 38] = [
    "$ref",
    "name",
    "in",
    "summary",
    "description",
    "required",
    "deprecated",
    "allowEmptyValue",
    "style",
    "explode",
    "allowReserved",
    "schema",
    "example",
    "examples",
    "content",
    "type",
    "format",
    "items",
    "collectionFormat",
    "default",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "enum",
    "multipleOf",
    "title",
    "nullable",
    "readOnly",
    "discriminator",
    "xml",
    "externalDocs",
];

/// The parts of a request that parameters make.
#[derive(Default)]
pub(super) struct Parts<'a> {
    /// Those of the path, as they are written there.
    pub(super) fields: HashMap<&'a str, String>,
    pub(super) query: Vec<String>,
    pub(super) headers: Vec<(String, Text)>,
    pub(super) cookies: Vec<String>,
    /// The fields of a form of Swagger 2.0: name, description and value.
    pub(super) form: Vec<(&'a str, &'a Value, Value)>,
    /// The type and the body of Swagger 2.0.
    pub(super) body: Option<(String, Body)>,
}

impl<'a> Reader<'a> {
    pub(super) fn parts_of(
        &mut self,
        item: &'a Value,
        operation: &'a Value,
        place: &str,
    ) -> Result<Parts<'a>, String> {
        let mut parts = Parts::default();
        for (name, at, parameter) in self.parameters(item, operation) {
            self.unknown(parameter, &KNOWN, place);
            let is_needed = parameter["required"] == true || has_example(parameter);
            if !is_needed && ["query", "header", "cookie", "formData"].contains(&at) {
                self.odd("an optional parameter without an example, which is not sent");
                continue;
            }
            let style = Style::of(parameter, at, self.version());
            let value = self.parameter(parameter);
            // What has a media type is one text.
            let style = match parameter["content"].is_object() {
                true => Style::of(&Value::Null, at, "3.1"),
                false => style,
            };
            match at {
                "path" => drop(parts.fields.insert(name, style.path(name, &value))),
                "query" => parts.query.push(style.query(name, &value)),
                "header" => parts.headers.push((name.to_owned(), style.header(&value).into())),
                "cookie" => parts.cookies.push(style.cookie(name, &value)),
                "formData" => parts.form.push((name, parameter, value)),
                "body" => parts.body = self.old_body(operation, parameter)?,
                "" => {}
                at => self.odd(format!("a parameter in {at}, which is not sent")),
            }
        }
        Ok(parts)
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
            let (Some(name), Some(at)) = (parameter["name"].as_str(), parameter["in"].as_str())
            else {
                self.odd("a parameter without a name or a place, which is not sent");
                continue;
            };
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
        if let Some(value) = self.given(parameter) {
            return value;
        }
        match parameter["content"].as_object().and_then(|all| all.iter().next()) {
            // One of a media type.
            Some((kind, media)) => {
                let value = self.given(media).unwrap_or_else(|| self.value(&media["schema"], 0));
                let is_text = value.is_string() && !kind.contains("json");
                if is_text { value } else { Value::String(value.to_string()) }
            }
            // In Swagger 2.0, a parameter is its own schema.
            None if parameter["schema"].is_null() => self.value(parameter, 0),
            None => self.value(&parameter["schema"], 0),
        }
    }

    /// The first example of a parameter or a media type.
    pub(super) fn given(&self, of: &'a Value) -> Option<Value> {
        if !of["example"].is_null() {
            return Some(self.example(&of["example"]));
        }
        let first = self.resolved(of["examples"].as_object()?.values().next()?);
        let value = ["value", "dataValue"].into_iter().map(|key| &first[key]);
        let found = value.into_iter().find(|value| !value.is_null());
        if found.is_none() {
            self.odd("an example without a value in the document, which is not used");
        }
        found.map(|value| self.example(value))
    }
}

/// The place of a parameter that another one replaces: none.
const REPLACED: &str = "";

fn has_example(parameter: &Value) -> bool {
    let has = |of: &Value| ["example", "examples"].into_iter().any(|key| !of[key].is_null());
    has(parameter) || has(&parameter["schema"]) || !plain(&parameter["x-example"]).is_empty()
}
