//! The types that a document's members must have. A reader takes a value of another type for one
//! that is not there; this names each of them, so that none falls back to a default in silence.

use std::collections::HashSet;

use serde_json::Value;

use crate::ledger::Ledger;

/// What a value must be. Null counts as not there.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Anything.
    Any,
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    Flag,
    /// A number that is not negative and has no fraction.
    Count,
    Number,
    /// A text, a number or a flag.
    Scalar,
    /// Items of this shape.
    List(&'static Self),
    /// One item of this shape or more.
    Some(&'static Self),
    /// Members with any names, whose values have this shape.
    Map(&'static Self),
    /// Members with these names; others can be anything.
    Object(&'static [(&'static str, &'static Self)]),
    /// One of these, by its type.
    Either(&'static [Self]),
}

impl Shape {
    /// Whether a value has the right type, whatever is in it.
    fn has_type(&self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Text => value.is_string(),
            Self::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Self::Flag => value.is_boolean(),
            Self::Count => value.as_u64().is_some(),
            Self::Number => value.is_number(),
            Self::Scalar => value.is_string() || value.is_boolean() || value.is_number(),
            Self::List(_) => value.is_array(),
            Self::Some(_) => value.as_array().is_some_and(|items| !items.is_empty()),
            Self::Map(_) | Self::Object(_) => value.is_object(),
            Self::Either(all) => all.iter().any(|shape| shape.has_type(value)),
        }
    }
}

/// Marks what has a wrong type in what can be reached from `root`, also by references: `resolved`
/// gives the value to which one leads. Each value is looked at once for each of its shapes.
pub(crate) fn check<'a>(
    (root, shape): (&'a Value, &'static Shape),
    resolved: impl Fn(&'a Value) -> &'a Value,
    ledger: &Ledger,
) {
    let mut seen: HashSet<(*const Value, *const Shape)> = HashSet::new();
    let mut rest = vec![(root, shape)];
    while let Some((value, shape)) = rest.pop() {
        let key = (std::ptr::from_ref(value), std::ptr::from_ref(shape));
        if value.is_null() || matches!(shape, Shape::Any) || !seen.insert(key) {
            continue;
        }
        if !shape.has_type(value) {
            ledger.mark_wrong(value);
            continue;
        }
        match (shape, value) {
            (Shape::Either(all), _) => {
                rest.extend(all.iter().find(|one| one.has_type(value)).map(|one| (value, one)));
            }
            (Shape::List(each) | Shape::Some(each), Value::Array(items)) => {
                rest.extend(items.iter().map(|item| (item, *each)));
            }
            (Shape::Map(each), Value::Object(members)) => {
                let own = members.iter().filter(|(name, _)| !name.starts_with("x-"));
                rest.extend(own.map(|(_, value)| (value, *each)));
            }
            (Shape::Object(known), Value::Object(members)) => {
                if members.contains_key("$ref") {
                    rest.push((resolved(value), shape));
                }
                let each =
                    known.iter().filter_map(|(name, shape)| Some((members.get(*name)?, *shape)));
                rest.extend(each);
            }
            _ => {}
        }
    }
}
