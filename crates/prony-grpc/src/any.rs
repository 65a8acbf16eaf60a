//! The types of messages inside messages (`google.protobuf.Any`).

use serde_json::Value;

use crate::fields::varies;
use crate::model::Special;

pub(crate) const TYPE: &str = "@type";

/// The names of all types that values in JSON name as those of an `Any`.
pub(crate) fn any_types(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(url)) = fields.get(TYPE)
                && let Some((_, name)) = url.rsplit_once('/')
                && Special::new(name).is_none()
                && !varies(&fields[TYPE])
                && !into.iter().any(|known| known == name)
            {
                into.push(name.to_owned());
            }
            fields.values().for_each(|value| any_types(value, into));
        }
        Value::Array(values) => values.iter().for_each(|value| any_types(value, into)),
        _ => {}
    }
}
