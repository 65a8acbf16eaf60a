//! From JSON to messages. What has no template fields is encoded at once; around them stays a tree
//! whose other parts are bytes.

use prony_core::grpc::prefix;
use prony_core::plan::{GrpcCall, MessagePart, ScalarKind, Wire};
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use crate::fields::Marked;
use crate::schema::{Method, listed};

/// The encoded messages of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The call, with the messages that have variable parts.
    pub call: GrpcCall,
    /// The messages with their prefixes, if none has variable parts.
    pub body: Vec<u8>,
}

impl Method {
    /// Encodes the messages of a call: one in JSON, or several one after another (or in a list) if
    /// the method takes several. No text is one empty message.
    ///
    /// # Errors
    /// The text is not JSON, or does not fit the type of the method's messages.
    pub fn encode(&self, text: &str) -> Result<Encoded, String> {
        let marked = Marked::new(text)?;
        let mut values = Vec::new();
        for value in serde_json::Deserializer::from_str(&marked.json).into_iter::<Value>() {
            values.push(value.map_err(|e| format!("this is not JSON: {e}"))?);
        }
        if let [Value::Array(all)] = &mut values[..]
            && self.is_client_streaming()
        {
            values = std::mem::take(all);
        } else if values.is_empty() {
            values.push(Value::Object(Map::new()));
        }
        if values.len() > 1 && !self.is_client_streaming() {
            return Err(format!("{} takes one message, not {}", self.path(), values.len()));
        }
        let input = self.method.input();
        let encoder = Encoder { marked: &marked };
        let messages = values.iter().map(|value| encoder.message(value, &input, ""));
        let messages: Vec<Vec<MessagePart>> = messages.collect::<Result<_, _>>()?;
        let (streams, takes) = (self.is_server_streaming(), self.is_client_streaming());
        if messages.iter().flatten().any(|part| !matches!(part, MessagePart::Bytes(_))) {
            let call = GrpcCall { streams, takes, messages, ..GrpcCall::default() };
            return Ok(Encoded { call, body: Vec::new() });
        }
        let mut body = Vec::new();
        for message in &messages {
            let parts = message.iter().map(|part| match part {
                MessagePart::Bytes(bytes) => &bytes[..],
                _ => &[],
            });
            let bytes = parts.collect::<Vec<_>>().concat();
            let length = u32::try_from(bytes.len()).map_err(|_| "a message is over 4 GiB")?;
            body.extend_from_slice(&prefix(false, length));
            body.extend_from_slice(&bytes);
        }
        Ok(Encoded { call: GrpcCall { streams, takes, ..GrpcCall::default() }, body })
    }
}

struct Encoder<'a> {
    marked: &'a Marked,
}

impl Encoder<'_> {
    /// The parts of a message. `path` is the field that it is the value of.
    fn message(
        &self,
        value: &Value,
        kind: &MessageDescriptor,
        path: &str,
    ) -> Result<Vec<MessagePart>, String> {
        if !varies(value) {
            return Ok(vec![MessagePart::Bytes(constant(value.clone(), kind, path)?)]);
        }
        if is_special(kind) {
            return Err(format!(
                "{}template fields are not possible in a {}",
                at(path),
                kind.full_name()
            ));
        }
        let Value::Object(fields) = value else {
            return Err(format!(
                "{}a message is an object, {{...}}; a template field can stand for a value in it",
                at(path)
            ));
        };
        let fixed = fields.iter().filter(|(name, value)| !varies_in(name, value));
        let fixed: Map<String, Value> = fixed.map(|(n, v)| (n.clone(), v.clone())).collect();
        let mut parts = Vec::new();
        if !fixed.is_empty() {
            parts.push(MessagePart::Bytes(constant(Value::Object(fixed), kind, path)?));
        }
        for (name, value) in fields.iter().filter(|(name, value)| varies_in(name, value)) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let known = kind.get_field_by_json_name(name).or_else(|| kind.get_field_by_name(name));
            let Some(field) = known else {
                let known = listed("fields", kind.fields().map(|f| f.name().to_owned()));
                return Err(format!("{} has no field '{name}'; {known}", kind.full_name()));
            };
            self.field(&field, name, value, &path, &mut parts)?;
        }
        Ok(parts)
    }

    fn field(
        &self,
        field: &FieldDescriptor,
        name: &str,
        value: &Value,
        path: &str,
        parts: &mut Vec<MessagePart>,
    ) -> Result<(), String> {
        let alone = |value: Value| {
            let object = Value::Object(Map::from_iter([(name.to_owned(), value)]));
            constant(object, field.parent_message(), path).map(MessagePart::Bytes)
        };
        match value {
            Value::Object(entries) if field.is_map() => {
                let Kind::Message(entry) = field.kind() else { return Ok(()) };
                let (key, of_value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
                for (name, value) in entries {
                    if !varies_in(name, value) {
                        let map = Map::from_iter([(name.clone(), value.clone())]);
                        parts.push(alone(Value::Object(map))?);
                        continue;
                    }
                    let name = Value::String(name.clone());
                    let key = self.value(1, &key.kind(), &name, path)?;
                    let value = self.value(2, &of_value.kind(), value, path)?;
                    let entry = vec![key, value];
                    parts.push(MessagePart::Message { number: field.number(), parts: entry });
                }
            }
            Value::Array(values) if field.is_list() => {
                for value in values {
                    parts.push(match varies(value) {
                        true => self.value(field.number(), &field.kind(), value, path)?,
                        false => alone(Value::Array(vec![value.clone()]))?,
                    });
                }
            }
            _ if field.is_list() || field.is_map() => {
                let what = if field.is_map() { "an object, {...}" } else { "a list, [...]" };
                return Err(format!("{}expected {what}", at(path)));
            }
            _ => parts.push(self.value(field.number(), &field.kind(), value, path)?),
        }
        Ok(())
    }

    /// One value, with a template field in it.
    fn value(
        &self,
        number: u32,
        kind: &Kind,
        value: &Value,
        path: &str,
    ) -> Result<MessagePart, String> {
        if let Kind::Message(message) = kind {
            let parts = match message.get_field_by_name("value").filter(|_| is_wrapper(message)) {
                Some(field) => vec![self.value(field.number(), &field.kind(), value, path)?],
                None => self.message(value, message, path)?,
            };
            return Ok(MessagePart::Message { number, parts });
        }
        let text = match value {
            Value::String(text) => self.marked.template(text),
            // The constant value of an entry whose key varies.
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return Err(format!("{}expected a single value", at(path))),
        };
        Ok(MessagePart::Field { number, kind: scalar(kind), text })
    }
}

/// Encodes a message without template fields.
fn constant(value: Value, kind: &MessageDescriptor, path: &str) -> Result<Vec<u8>, String> {
    let message = DynamicMessage::deserialize(kind.clone(), value);
    message.map(|message| message.encode_to_vec()).map_err(|e| format!("{}{e}", at(path)))
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("the field '{path}': ") }
}

/// Whether a value has a template field.
fn varies(value: &Value) -> bool {
    match value {
        Value::String(text) => Marked::is_marked(text),
        Value::Array(values) => values.iter().any(varies),
        Value::Object(fields) => fields.iter().any(|(name, value)| varies_in(name, value)),
        _ => false,
    }
}

fn varies_in(name: &str, value: &Value) -> bool {
    Marked::is_marked(name) || varies(value)
}

/// Whether the JSON of a type is not that of its fields.
fn is_special(kind: &MessageDescriptor) -> bool {
    kind.package_name() == "google.protobuf"
        && matches!(
            kind.name(),
            "Any" | "Duration" | "FieldMask" | "ListValue" | "Struct" | "Timestamp" | "Value"
        )
}

/// Whether the type wraps a single value.
fn is_wrapper(kind: &MessageDescriptor) -> bool {
    kind.package_name() == "google.protobuf" && kind.name().ends_with("Value") && !is_special(kind)
}

fn scalar(kind: &Kind) -> ScalarKind {
    match kind {
        Kind::Double => ScalarKind::Double,
        Kind::Float => ScalarKind::Float,
        Kind::Int32 => ScalarKind::Int32(Wire::Varint),
        Kind::Int64 => ScalarKind::Int64(Wire::Varint),
        Kind::Uint32 => ScalarKind::Uint32(Wire::Varint),
        Kind::Uint64 => ScalarKind::Uint64(Wire::Varint),
        Kind::Sint32 => ScalarKind::Int32(Wire::ZigZag),
        Kind::Sint64 => ScalarKind::Int64(Wire::ZigZag),
        Kind::Fixed32 => ScalarKind::Uint32(Wire::Fixed),
        Kind::Fixed64 => ScalarKind::Uint64(Wire::Fixed),
        Kind::Sfixed32 => ScalarKind::Int32(Wire::Fixed),
        Kind::Sfixed64 => ScalarKind::Int64(Wire::Fixed),
        Kind::Bool => ScalarKind::Bool,
        Kind::String => ScalarKind::String,
        Kind::Bytes | Kind::Message(_) => ScalarKind::Bytes,
        Kind::Enum(kind) => {
            ScalarKind::Enum(kind.values().map(|v| (v.name().to_owned(), v.number())).collect())
        }
    }
}
