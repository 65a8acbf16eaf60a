//! The fuzz target for descriptors: whatever a set of them is, it is refused with a sentence, or
//! messages can be encoded with it.

use serde_json::{Value, json};

use crate::model::{Field, Kind, Shape};
use crate::schema::{Method, Schema};

/// A set of descriptors, of which all methods are called with values for all fields.
pub fn descriptors(data: &[u8]) {
    let mut schema = Schema::default();
    match schema.add_set(data) {
        Ok(()) => all_methods(&schema).iter().for_each(call),
        Err(why) => assert!(!why.is_empty() && !why.chars().any(char::is_control), "{why:?}"),
    }
}

fn all_methods(schema: &Schema) -> Vec<Method> {
    let services = schema.services().into_iter();
    let names = services.flat_map(|(service, methods)| {
        methods.into_iter().map(move |method| format!("{service}/{method}"))
    });
    // A schema with thousands of methods takes no longer than others.
    names.take(16).map(|name| schema.method(&name).expect("a method that is there")).collect()
}

fn call(method: &Method) {
    let messages = &method.model.messages;
    let mut values = vec![json!({}), json!(null), json!("1s"), json!([]), json!(1)];
    for field in messages[method.rpc.input].fields.iter().take(64) {
        for value in values_of(method, field, 3) {
            values.push(json!({ field.name.clone(): value }));
        }
    }
    for value in &values {
        // What is refused has a reason; what is not is a message.
        match method.encode(&value.to_string()) {
            Ok(encoded) => {
                let is_empty = encoded.body.is_empty() && encoded.call.messages.is_empty();
                assert!(!is_empty || method.is_client_streaming());
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
    let mut refused = 0;
    for field in &messages[method.rpc.input].fields {
        refused += u32::from(method.token(&field.name, &field.name).is_err());
    }
    assert!(refused as usize <= messages[method.rpc.input].fields.len());
}

/// Values for a field: of its type, and of others.
fn values_of(method: &Method, field: &Field, depth: u32) -> Vec<Value> {
    let mut values = match field.kind {
        Kind::Scalar(_) => vec![json!(1), json!("1"), json!(true), json!("{{x}}")],
        Kind::Enum(index) => {
            let first = method.model.enums[index].values.first();
            first.map(|(name, number)| vec![json!(name), json!(number)]).unwrap_or_default()
        }
        Kind::Message(_) | Kind::Group(_) if depth == 0 => vec![json!({})],
        Kind::Message(index) | Kind::Group(index) => {
            let inner = method.model.messages[index].fields.iter().take(4);
            let all = inner.flat_map(|field| {
                let values = values_of(method, field, depth - 1).into_iter().take(3);
                values.map(|value| json!({ field.name.clone(): value })).collect::<Vec<_>>()
            });
            all.chain([json!({}), json!("1s"), json!("1970-01-01T00:00:00Z")]).collect()
        }
    };
    values.push(Value::Null);
    match field.shape {
        Shape::One => values,
        Shape::List { .. } => vec![Value::Array(values), json!(0)],
        Shape::Map => vec![json!({ "1": values[0], "true": values[0] }), json!({}), json!([])],
    }
}

#[cfg(test)]
mod tests;
