//! Values that a schema allows: its examples, the least ones, or by seed.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::pattern;
use super::{Bound, DEPTH, Reader, VALUES};

/// Deeper optional values are left out, and lists are as short as they may be.
const WIDE: u32 = 3;

/// Words of schemas that can make a value wrong.
const UNREAD: [&str; 9] = [
    "not",
    "if",
    "prefixItems",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "minProperties",
    "patternProperties",
    "$dynamicRef",
];

impl<'a> Reader<'a> {
    /// A value that a schema allows.
    pub(super) fn value(&self, schema: &'a Value, depth: u32) -> Value {
        let mut value = self.undecided(schema, depth);
        self.discriminate(schema, &mut value);
        value
    }

    /// Sets the members that say which type a value has: those of the schema, and of the schemas
    /// that it extends.
    fn discriminate(&self, schema: &'a Value, value: &mut Value) {
        let Value::Object(fields) = value else { return };
        let Some(reference) = schema["$ref"].as_str() else { return };
        let name = reference.rsplit('/').next().unwrap_or_default();
        let schema = self.resolved(schema);
        let parts = schema["allOf"].as_array().into_iter().flatten();
        let bases = parts.map(|part| self.resolved(part)).chain([schema]);
        // The chosen alternative of several has said it.
        let bases = bases.filter(|base| base["oneOf"].is_null() && base["anyOf"].is_null());
        for discriminator in bases.map(|base| &base["discriminator"]) {
            // Swagger 2.0 has the name alone.
            let property = discriminator["propertyName"].as_str().or(discriminator.as_str());
            let Some(property) = property else { continue };
            fields.insert(property.to_owned(), type_name(discriminator, reference, name).into());
        }
    }

    fn undecided(&self, schema: &'a Value, depth: u32) -> Value {
        // What stands beside a reference counts.
        let beside = ["const", "example", "default"].map(|key| &schema[key]);
        if let Some(value) = beside.into_iter().find(|value| !value.is_null()) {
            return self.example(value);
        }
        let schema = self.resolved(schema);
        for word in UNREAD {
            if !schema[word].is_null() {
                self.odd(format!("a schema with `{word}`, which prony does not look at"));
            }
        }
        let given = ["const", "example", "default"].into_iter().map(|key| &schema[key]);
        let listed = ["examples", "enum"].into_iter().map(|key| {
            let all = schema[key].as_array().filter(|all| !all.is_empty());
            all.map_or(&Value::Null, |all| &all[self.draw.index(all.len())])
        });
        if let Some(value) = given.chain(listed).find(|value| !value.is_null()) {
            return self.example(value);
        }
        self.values.set(self.values.get() + 1);
        self.context.spend(Bound::Values, 1);
        let is_null = schema["nullable"] == true && depth > WIDE;
        if is_null || depth > DEPTH || self.values.get() > VALUES {
            return Value::Null;
        }
        if let Some(all) = schema["allOf"].as_array() {
            let mut fields = Map::new();
            for part in all {
                match self.value(part, depth + 1) {
                    Value::Object(more) => fields.extend(more),
                    // What is no object has one part that says what it is.
                    value if all.len() == 1 => return value,
                    _ => {}
                }
            }
            fields.extend(self.fields(schema, depth));
            return Value::Object(fields);
        }
        let several = ["oneOf", "anyOf"].into_iter().find_map(|key| schema[key].as_array());
        if let Some(all) = several.filter(|all| !all.is_empty()) {
            let chosen = &all[self.draw.index(all.len())];
            let mut value = self.value(chosen, depth + 1);
            let discriminator = &schema["discriminator"];
            let property = discriminator["propertyName"].as_str();
            if let (Value::Object(fields), Some(property)) = (&mut value, property)
                && let Some(reference) = chosen["$ref"].as_str()
            {
                let name = reference.rsplit('/').next().unwrap_or_default();
                let name = type_name(discriminator, reference, name);
                fields.insert(property.to_owned(), name.into());
            }
            // Fields beside the alternatives are needed in each.
            if let (Value::Object(fields), true) = (&mut value, schema["properties"].is_object()) {
                for (name, more) in self.fields(schema, depth) {
                    fields.entry(name).or_insert(more);
                }
            }
            return value;
        }
        match kind(schema) {
            Some("integer") => number(schema, true, &self.draw),
            Some("number") => number(schema, false, &self.draw),
            Some("null") => Value::Null,
            Some("boolean") => Value::Bool(self.draw.index(2) == 0),
            Some("string") => Value::String(self.string(schema)),
            Some("array") => self.list(schema, depth),
            _ => Value::Object(self.fields(schema, depth)),
        }
    }

    /// A value that the description has; null if the request has too much of this.
    pub(super) fn example(&self, value: &'a Value) -> Value {
        let length = length(value, self.examples.get());
        let left = self.examples.get().checked_sub(length);
        self.examples.set(left.unwrap_or(0));
        self.context.spend(Bound::Requests, length);
        if left.is_some() { value.clone() } else { Value::Null }
    }

    fn list(&self, schema: &'a Value, depth: u32) -> Value {
        let length = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let least = length("minItems").unwrap_or(1).clamp(1, if depth < WIDE { 100 } else { 10 });
        let more = if depth < WIDE { self.draw.index(3) } else { 0 };
        let count = (least + more).min(length("maxItems").unwrap_or(usize::MAX));
        let mut all: Vec<Value> = Vec::new();
        for _ in 0..count {
            let mut value = self.value(&schema["items"], depth + 1);
            if schema["uniqueItems"] == true && all.contains(&value) {
                // Others are drawn until there is a new one.
                let drawn = (0..50).map(|seed| {
                    let draw = Draw::new(Some(seed + all.len() as u64 * 50));
                    let reader = self.with_draw(draw);
                    let value = reader.value(&schema["items"], depth + 1);
                    // They have worked for the same request.
                    self.values.set(reader.values.get());
                    self.examples.set(reader.examples.get());
                    value
                });
                let Some(new) = drawn.into_iter().find(|value| !all.contains(value)) else { break };
                value = new;
            }
            all.push(value);
        }
        Value::Array(all)
    }

    fn fields(&self, schema: &'a Value, depth: u32) -> Map<String, Value> {
        let mut fields = Map::new();
        let required = schema["required"].as_array();
        let required: Option<HashSet<&str>> =
            required.map(|all| all.iter().filter_map(Value::as_str).collect());
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            // Without a list, all are there, but for the depths of what refers to itself.
            if self.values.get() > VALUES {
                break;
            }
            let is_required = match &required {
                Some(all) => all.contains(name.as_str()),
                None => depth + 2 < DEPTH,
            };
            let is_drawn = !self.draw.is_fixed() && depth < WIDE && self.draw.index(2) == 1;
            if (is_required || is_drawn) && self.resolved(inner)["readOnly"] != true {
                fields.insert(name.clone(), self.value(inner, depth + 1));
            }
        }
        fields
    }

    /// A string of the pattern, format or length that is asked for.
    fn string(&self, schema: &Value) -> String {
        let length = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let (least, most) = (length("minLength").unwrap_or(0).min(10_000), length("maxLength"));
        if let Some(pattern) = schema["pattern"].as_str() {
            match pattern::text(pattern, least, most, &self.draw) {
                Some(text) => return text,
                None => self.odd("a pattern that prony does not understand"),
            }
        }
        let draw = &self.draw;
        let mut text = match schema["format"].as_str() {
            Some(format) => of_format(format, draw).unwrap_or_else(|| word(draw)),
            None => word(draw),
        };
        let mut count = text.chars().count();
        while count < least {
            text.push('x');
            count += 1;
        }
        match most {
            Some(most) => text.chars().take(most).collect(),
            None => text,
        }
    }
}

/// What a member says of a type: the key of a mapping to it, or its name.
fn type_name<'v>(discriminator: &'v Value, reference: &str, name: &'v str) -> &'v str {
    let mapping = discriminator["mapping"].as_object().into_iter().flatten();
    let mut keys = mapping.filter(|(_, to)| *to == reference || *to == name);
    keys.next().map_or(name, |(key, _)| key)
}

/// The bytes of a value, about, at most a little more than `most`.
fn length(value: &Value, most: usize) -> usize {
    // What it takes in memory, too.
    const ONE: usize = 16;
    let inner = |sum: usize, length: usize| sum.saturating_add(length);
    match value {
        Value::String(text) => ONE + text.len(),
        Value::Array(all) => all.iter().fold(ONE, |sum, value| match sum > most {
            true => sum,
            false => inner(sum, length(value, most)),
        }),
        Value::Object(all) => all.iter().fold(ONE, |sum, (name, value)| match sum > most {
            true => sum,
            false => inner(sum, name.len() + length(value, most)),
        }),
        _ => ONE,
    }
}

/// The type of a value. A schema without one may say by its other words what it is for.
fn kind(schema: &Value) -> Option<&str> {
    let of_list = || {
        // 3.1 has lists of types.
        schema["type"].as_array()?.iter().filter_map(Value::as_str).find(|t| *t != "null")
    };
    let by_words = || {
        let has = |words: &[&str]| words.iter().any(|word| !schema[*word].is_null());
        match () {
            () if has(&["properties", "additionalProperties"]) => Some("object"),
            () if has(&["items"]) => Some("array"),
            () if has(&["pattern", "minLength", "maxLength"]) => Some("string"),
            () if has(&["minimum", "maximum", "multipleOf"]) => Some("number"),
            () => None,
        }
    };
    schema["type"].as_str().or_else(of_list).or_else(by_words)
}

/// A number within its limits: the least from 1 on, or by seed.
fn number(schema: &Value, is_integer: bool, draw: &Draw) -> Value {
    let bound = |plain: &str, exclusive: &str| {
        // In 3.0, `exclusiveMinimum` is a flag.
        match schema[exclusive].as_f64() {
            Some(value) => (Some(value), true),
            None => (schema[plain].as_f64(), schema[exclusive] == true),
        }
    };
    let (least, above) = bound("minimum", "exclusiveMinimum");
    let (most, below) = bound("maximum", "exclusiveMaximum");
    let step = schema["multipleOf"].as_f64().filter(|step| *step > 0.0);
    let size = step.unwrap_or(1.0);
    // Multiples of the step.
    let low = least.map(|least| {
        let first = (least / size).ceil();
        if above && first * size <= least { first + 1.0 } else { first }
    });
    let high = most.map(|most| {
        let last = (most / size).floor();
        if below && last * size >= most { last - 1.0 } else { last }
    });
    let low = low.unwrap_or_else(|| match high {
        Some(high) if high < 1.0 && !draw.is_fixed() => high - 1000.0,
        Some(high) => high.min(1.0),
        None => 1.0,
    });
    let high = high.unwrap_or_else(|| if draw.is_fixed() { low } else { low + 1000.0 });
    if low <= high {
        let nth = draw.whole(low as i64, high.min(low + 1e9) as i64);
        let value = nth as f64 * size;
        return if is_integer { json!(value as i64) } else { json!(value) };
    }
    // There is none between the limits: a part of a number.
    let (least, most) = (least.unwrap_or(0.0), most.unwrap_or(1.0));
    let part = if draw.is_fixed() { 0.5 } else { 0.1 + 0.8 * draw.unit() };
    let value = least + (most - least) * part;
    if is_integer { json!(value as i64) } else { json!(value) }
}

/// A word without a format.
fn word(draw: &Draw) -> String {
    match draw.is_fixed() {
        true => "text".into(),
        false => (0..4 + draw.index(8)).map(|_| char::from(b'a' + draw.index(26) as u8)).collect(),
    }
}

fn of_format(format: &str, draw: &Draw) -> Option<String> {
    let is_fixed = draw.is_fixed();
    let number = |most: i64| draw.whole(1, most);
    let date = || match is_fixed {
        true => "2026-01-15".to_owned(),
        false => format!("2026-{:02}-{:02}", number(12), number(28)),
    };
    let time = || match is_fixed {
        true => "10:30:00Z".to_owned(),
        false => {
            format!("{:02}:{:02}:{:02}Z", number(24) - 1, number(60) - 1, number(60) - 1)
        }
    };
    let hex = |count: usize| -> String {
        (0..count).map(|_| char::from(b"0123456789abcdef"[draw.index(16)])).collect()
    };
    let name = |fixed: &str, drawn: &str| match is_fixed {
        true => fixed.to_owned(),
        false => drawn.replace('N', &number(9999).to_string()),
    };
    Some(match format {
        "date" => date(),
        "date-time" => format!("{}T{}", date(), time()),
        "time" => time(),
        "uuid" if is_fixed => "3fa85f64-5717-4562-b3fc-2c963f66afa6".into(),
        "uuid" => format!("{}-{}-4{}-a{}-{}", hex(8), hex(4), hex(3), hex(3), hex(12)),
        "email" => name("user@example.com", "userN@example.com"),
        "uri" | "url" => name("https://example.com/", "https://example.com/N"),
        "hostname" => name("example.com", "hostN.example.com"),
        "ipv4" => format!("192.0.2.{}", number(254)),
        "ipv6" => name("2001:db8::1", "2001:db8::N"),
        "byte" => "dGV4dA==".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::context::Context;

    /// The value for a schema, which must allow it.
    fn value(schema: &Value, seed: Option<u64>) -> Value {
        let options = Options { seed, ..Options::default() };
        let context = Context::new(&options);
        let reader = Reader::new(&Value::Null, &context);
        let value = reader.value(schema, 0);
        let validator = jsonschema::validator_for(schema).expect("a schema");
        assert!(validator.is_valid(&value), "{schema}: {value}");
        value
    }

    #[test]
    fn values_are_allowed_and_differ_by_seed() {
        for (schema, fixed) in [
            (json!({"type": "integer", "minimum": 10}), json!(10)),
            (json!({"type": "integer", "maximum": -5}), json!(-5)),
            (json!({"type": "integer", "minimum": 3, "multipleOf": 5}), json!(5)),
            (json!({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 6}), json!(4)),
            (json!({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}), json!(0.25)),
            (json!({"type": "string", "minLength": 6, "maxLength": 8}), json!("textxx")),
            (json!({"type": "string", "maxLength": 2}), json!("te")),
            (json!({"type": "string", "pattern": "^[A-Z]{3}$"}), json!("AAA")),
            (json!({"pattern": "^x-[0-9]+$"}), json!("x-0")),
            (json!({"type": "string", "format": "ipv4"}), json!("192.0.2.1")),
            (json!({"enum": ["a", "b", "c"]}), json!("a")),
            (
                json!({"type": "array", "minItems": 2, "maxItems": 3, "items": {"enum": [1, 2]}}),
                json!([1, 1]),
            ),
            (
                json!({"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "boolean"}}),
                json!([true, false]),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": []}),
                json!({}),
            ),
            (json!({"allOf": [{"type": "string", "format": "date"}]}), json!("2026-01-15")),
        ] {
            assert_eq!(value(&schema, None), fixed, "{schema}");
            let drawn: Vec<Value> = (0..40).map(|seed| value(&schema, Some(seed))).collect();
            let again: Vec<Value> = (0..40).map(|seed| value(&schema, Some(seed))).collect();
            assert_eq!(drawn, again);
            assert!(drawn.iter().any(|value| *value != drawn[0]), "{schema}: {drawn:?}");
        }
    }

    /// What refers to itself ends with values that are allowed.
    #[test]
    fn circles_end() {
        let schema = json!({"$ref": "#/a", "a": {"type": "object", "properties": {
            "at": {"type": "string"}, "inner": {"type": "array", "items": {"$ref": "#/a"}}
        }}});
        let options = Options::default();
        let context = Context::new(&options);
        let reader = Reader::new(&schema, &context);
        let value = reader.value(&schema, 0);
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        assert!(value["inner"][0]["at"] == "text" && validator.is_valid(&value), "{value}");
    }

    #[test]
    fn odd_patterns_are_noted() {
        let options = Options::default();
        let context = Context::new(&options);
        let reader = Reader::new(&Value::Null, &context);
        let schema = json!({"type": "string", "pattern": "^(?=a).*$"});
        let text = reader.value(&schema, 0);
        assert_eq!(text, json!("text"));
        assert_eq!(reader.odd.take().len(), 1);
    }
}
