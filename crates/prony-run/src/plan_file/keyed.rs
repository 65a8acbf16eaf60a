//! Tables of a plan file whose keys are declared in [`crate::keys`].

use super::reader::{Problems, Section};
use super::written::{line, quoted};
use crate::keys::{Field, Keyed, Value};

/// Reads the keys of a table; `None` if all have their defaults.
pub(super) fn read<T: Keyed>(section: &mut Section<'_>, problems: &mut Problems<'_>) -> Option<T> {
    let mut part = T::default();
    for key in T::KEYS {
        let Some(item) = section.take(key.name()) else { continue };
        let value = match key.field {
            Field::Flag(_) => item.boolean(problems).map(Value::Bool),
            Field::Choice(_, words) => item.word(problems, &words).map(Value::Bool),
            _ => item.parse(problems, key.field.kind(), |text| key.parse(text)),
        };
        if let Some(value) = value {
            key.set(&mut part, value);
        }
    }
    (part != T::default()).then_some(part)
}

/// Writes the keys that do not have their defaults.
pub(super) fn explain<T: Keyed>(part: &T, out: &mut String) {
    for key in T::KEYS {
        match (&key.field, key.get(part)) {
            (Field::Choice(_, words), Some(Value::Bool(is))) => {
                let word = words.iter().find(|(_, of)| *of == is);
                line(out, key.name(), quoted(word.map_or("", |(word, _)| word)));
            }
            (_, Some(Value::Bool(is))) => line(out, key.name(), is),
            (_, Some(Value::Size(size))) => line(out, key.name(), size),
            (_, Some(Value::Time(time))) => line(out, key.name(), quoted(&time.to_string())),
            (_, None) => {}
        }
    }
}
