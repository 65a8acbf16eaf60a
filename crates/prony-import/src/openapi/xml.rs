//! A value as XML, by what its schema says of names and attributes.

use serde_json::Value;

use super::Reader;
use super::style::plain;

/// How deep elements may be in each other.
const DEPTH: u32 = 16;

impl<'a> Reader<'a> {
    /// The document of a value. `schema` may be a reference, whose last part is then the name.
    pub(super) fn xml(&self, schema: &'a Value, value: &Value) -> String {
        let name = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()).unwrap_or("root");
        self.element(name, schema, value, 0)
    }

    fn element(&self, name: &str, schema: &'a Value, value: &Value, depth: u32) -> String {
        let schema = self.resolved(schema);
        let xml = &schema["xml"];
        let own = xml["name"].as_str().unwrap_or(name);
        if depth > DEPTH {
            return String::new();
        }
        if let Value::Array(items) = value {
            let is_wrapped = xml["wrapped"] == true || depth == 0;
            let inner = if is_wrapped { own } else { name };
            let one = |item: &Value| self.element(inner, &schema["items"], item, depth + 1);
            let all: String = items.iter().map(one).collect();
            return if is_wrapped { format!("<{own}>{all}</{own}>") } else { all };
        }
        let tag = match xml["prefix"].as_str() {
            Some(prefix) => format!("{prefix}:{own}"),
            None => own.to_owned(),
        };
        let mut start = tag.clone();
        if let Some(namespace) = xml["namespace"].as_str() {
            let prefix =
                xml["prefix"].as_str().map_or(String::new(), |prefix| format!(":{prefix}"));
            start.push_str(&format!(" xmlns{prefix}=\"{}\"", text(namespace)));
        }
        let mut content = String::new();
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let inner = self.property(schema, name);
                    let resolved = self.resolved(inner);
                    if resolved["xml"]["attribute"] == true {
                        let name = resolved["xml"]["name"].as_str().unwrap_or(name);
                        start.push_str(&format!(" {name}=\"{}\"", text(&plain(value))));
                    } else {
                        content.push_str(&self.element(name, inner, value, depth + 1));
                    }
                }
            }
            value => content = text(&plain(value)),
        }
        format!("<{start}>{content}</{tag}>")
    }

    /// The schema of a member, which may be in a part of `allOf`.
    fn property(&self, schema: &'a Value, name: &str) -> &'a Value {
        let own = &schema["properties"][name];
        let parts = schema["allOf"].as_array().into_iter().flatten();
        let mut inner = parts.map(|part| &self.resolved(part)["properties"][name]);
        if own.is_null() { inner.find(|found| !found.is_null()).unwrap_or(own) } else { own }
    }
}

fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
