//! From JSON to messages. What has no template fields is encoded at once; around them stays a tree
//! whose other parts are bytes.

use prony_base::grpc::prefix;
use prony_plan::plan::{GrpcCall, MessagePart, ScalarKind};
use serde_json::{Map, Value};

use crate::any::any_types;
use crate::fields::{Marked, at, varies};
use crate::model::{Field, Kind, Message, Model, NULL, Scalar, Shape, Special};
use crate::parts::Parts;
use crate::scalar::{enum_number, key_text, payload};
use crate::schema::{Method, listed};
use crate::wire::{WireType, put_bytes, put_key, put_varint};

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
        let encoder = Encoder { model: &self.model, marked: &marked };
        let messages = values.iter().map(|value| {
            let mut parts = Parts::default();
            encoder.message(value, self.rpc.input, "", &mut parts)?;
            Ok(parts.finish())
        });
        let messages: Vec<Vec<MessagePart>> = messages.collect::<Result<_, String>>()?;
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

/// The types that a call's messages in JSON name as those of an `Any`. A text that is not JSON has
/// none.
pub fn types_in_any(text: &str) -> Vec<String> {
    let mut types = Vec::new();
    if let Ok(marked) = Marked::new(text) {
        let values = serde_json::Deserializer::from_str(&marked.json).into_iter::<Value>();
        values.map_while(Result::ok).for_each(|value| any_types(&value, &mut types));
    }
    types
}

pub(crate) struct Encoder<'a> {
    pub(crate) model: &'a Model,
    marked: &'a Marked,
}

impl<'a> Encoder<'a> {
    /// Encodes a message. `path` is the field that it is the value of.
    pub(crate) fn message(
        &self,
        value: &Value,
        index: usize,
        path: &str,
        out: &mut Parts,
    ) -> Result<(), String> {
        let kind = &self.model.messages[index];
        match (kind.special, value) {
            (Some(special), _) => self.special(special, value, path, out),
            (None, Value::Object(fields)) => self.fields(fields.iter(), kind, index, path, out),
            (None, _) => Err(format!(
                "{}a message is an object, {{...}}; a template field can stand for a value in it",
                at(path)
            )),
        }
    }

    /// The fields of a message, in the order of their numbers.
    pub(crate) fn fields<'v>(
        &self,
        values: impl Iterator<Item = (&'v String, &'v Value)>,
        kind: &Message,
        index: usize,
        path: &str,
        out: &mut Parts,
    ) -> Result<(), String> {
        let mut known = Vec::new();
        for (name, value) in values {
            known.push((self.find(name, kind, index, path)?, name, value));
        }
        known.sort_by_key(|(field, _, _)| field.number);
        let mut oneofs = Vec::new();
        for (position, (field, name, value)) in known.iter().enumerate() {
            let path = if path.is_empty() { (*name).clone() } else { format!("{path}.{name}") };
            if position > 0 && known[position - 1].0.number == field.number {
                return Err(format!("{}it is given twice", at(&path)));
            }
            if value.is_null() && !self.has_null(field) {
                continue;
            }
            if let Some(oneof) = field.oneof {
                if oneofs.contains(&oneof) {
                    let name = &kind.oneofs[oneof];
                    return Err(format!("{}another field of the oneof {name} is given", at(&path)));
                }
                oneofs.push(oneof);
            }
            self.field(field, value, &path, out)?;
        }
        Ok(())
    }

    fn find(
        &self,
        name: &str,
        kind: &'a Message,
        index: usize,
        path: &str,
    ) -> Result<&'a Field, String> {
        if let Some(field) = kind.field(name) {
            return Ok(field);
        }
        let extension = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let extension = extension.and_then(|name| self.model.extensions.get(name));
        if let Some((_, field)) = extension.filter(|(extended, _)| *extended == index) {
            return match kind.is_message_set {
                true => Err(format!(
                    "{}{} is a message set, which is not supported",
                    at(path),
                    kind.name
                )),
                false => Ok(field),
            };
        }
        let known = listed("fields", kind.fields.iter().map(|field| field.name.clone()));
        Err(format!("{} has no field '{name}'; {known}", kind.name))
    }

    /// Whether `null` is a value of the field, and not its absence.
    fn has_null(&self, field: &Field) -> bool {
        field.shape == Shape::One
            && match field.kind {
                Kind::Message(index) => self.model.messages[index].special == Some(Special::Value),
                Kind::Enum(index) => self.model.enums[index].name == NULL,
                _ => false,
            }
    }

    fn field(
        &self,
        field: &Field,
        value: &Value,
        path: &str,
        out: &mut Parts,
    ) -> Result<(), String> {
        match (field.shape, value) {
            (Shape::One, _) => self.value(field, value, path, field.has_presence, out),
            (Shape::List { packed }, Value::Array(values)) => {
                if packed && !values.iter().any(varies) {
                    return self.packed(field, values, path, out);
                }
                values.iter().try_for_each(|value| self.value(field, value, path, true, out))
            }
            (Shape::Map, Value::Object(entries)) => {
                let Kind::Message(entry) = field.kind else { return Ok(()) };
                let [key, of_value] = &self.model.messages[entry].fields[..] else {
                    return Ok(());
                };
                for (name, value) in entries {
                    let mut inner = Parts::default();
                    let name = key_text(key.kind, name);
                    self.value(key, &name, path, true, &mut inner)?;
                    self.value(of_value, value, path, true, &mut inner)?;
                    out.message(field.number, inner);
                }
                Ok(())
            }
            (Shape::List { .. }, _) => Err(format!("{}expected a list, [...]", at(path))),
            (Shape::Map, _) => Err(format!("{}expected an object, {{...}}", at(path))),
        }
    }

    /// All values of a field in one.
    fn packed(
        &self,
        field: &Field,
        values: &[Value],
        path: &str,
        out: &mut Parts,
    ) -> Result<(), String> {
        let mut all = Vec::new();
        for value in values {
            match field.kind {
                Kind::Scalar(scalar) => payload(scalar, value, &mut all),
                Kind::Enum(index) => enum_number(&self.model.enums[index], value)
                    .map(|number| put_varint(i64::from(number).cast_unsigned(), &mut all)),
                Kind::Message(_) | Kind::Group(_) => Ok(()),
            }
            .map_err(|why| format!("{}{why}", at(path)))?;
        }
        if !all.is_empty() {
            put_bytes(field.number, &all, &mut out.bytes);
        }
        Ok(())
    }

    /// One value. `always` is whether it is sent if it is the default of its type.
    pub(crate) fn value(
        &self,
        field: &Field,
        value: &Value,
        path: &str,
        always: bool,
        out: &mut Parts,
    ) -> Result<(), String> {
        match field.kind {
            Kind::Message(index) => {
                let mut inner = Parts::default();
                self.message(value, index, path, &mut inner)?;
                out.message(field.number, inner);
                Ok(())
            }
            Kind::Group(index) => {
                let mut inner = Parts::default();
                self.message(value, index, path, &mut inner)?;
                out.group(field.number, inner);
                Ok(())
            }
            Kind::Scalar(scalar) => self.scalar(field.number, scalar, value, path, always, out),
            Kind::Enum(index) => {
                let kind = &self.model.enums[index];
                if varies(value) {
                    let known = ScalarKind::Enum(kind.values.clone());
                    return self.filled_in(field.number, known, value, path, out);
                }
                let number =
                    enum_number(kind, value).map_err(|why| format!("{}{why}", at(path)))?;
                if always || number != 0 {
                    put_key(field.number, WireType::Varint, &mut out.bytes);
                    put_varint(i64::from(number).cast_unsigned(), &mut out.bytes);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn scalar(
        &self,
        number: u32,
        scalar: Scalar,
        value: &Value,
        path: &str,
        always: bool,
        out: &mut Parts,
    ) -> Result<(), String> {
        if varies(value) {
            return self.filled_in(number, scalar.in_plan(), value, path, out);
        }
        let mut bytes = Vec::new();
        payload(scalar, value, &mut bytes).map_err(|why| format!("{}{why}", at(path)))?;
        let is_text = scalar.wire() == WireType::Bytes;
        let is_default = if is_text { bytes.is_empty() } else { bytes.iter().all(|b| *b == 0) };
        match (always || !is_default, is_text) {
            (false, _) => {}
            (true, true) => put_bytes(number, &bytes, &mut out.bytes),
            (true, false) => {
                put_key(number, scalar.wire(), &mut out.bytes);
                out.bytes.extend(bytes);
            }
        }
        Ok(())
    }

    /// A single value with template fields in it.
    fn filled_in(
        &self,
        number: u32,
        kind: ScalarKind,
        value: &Value,
        path: &str,
        out: &mut Parts,
    ) -> Result<(), String> {
        let Value::String(text) = value else {
            return Err(format!("{}expected a single value", at(path)));
        };
        out.push(MessagePart::Field { number, kind, text: self.marked.template(text) });
        Ok(())
    }
}
