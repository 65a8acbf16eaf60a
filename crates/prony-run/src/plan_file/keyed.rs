//! Tables of a plan file whose keys are declared in [`crate::keys`].

use super::reader::{Item, Problems, Section};
use super::written::{array, line, quoted};
use crate::keys::{Field, Key, Keyed, Value};

/// Reads the keys of a table.
pub(super) fn read<T: Keyed>(section: &mut Section<'_>, problems: &mut Problems<'_>) -> T {
    let mut part = T::default();
    for key in T::KEYS {
        if let Some(item) = section.take(key.name()) {
            set(key, &mut part, item, problems);
        }
    }
    part
}

/// Sets a key to a value of the file, if it is valid.
fn set<T: Keyed>(key: &Key<T>, part: &mut T, item: Item<'_>, problems: &mut Problems<'_>) {
    match &key.field {
        Field::Flag(field) => {
            let Some(is) = item.boolean(problems) else { return };
            *field(part) = is;
        }
        Field::Word(words) => {
            let Some(set) = item.word(problems, words) else { return };
            set(part);
        }
        Field::Names(names) => {
            let Some(all) = item.texts(problems, names.what) else { return };
            let text = if all.is_empty() { names.none.to_owned() } else { all.join(",") };
            item.taken(problems, &text, key.set(part, &text));
        }
        Field::Texts(_, what) => {
            for text in item.texts(problems, what).unwrap_or_default() {
                item.taken(problems, text, key.set(part, text));
            }
        }
        field => {
            item.parse(problems, field.kind(), |text| key.set(part, text));
        }
    }
}

/// Writes the keys that do not have their defaults.
pub(super) fn explain<T: Keyed>(part: &T, out: &mut String) {
    for key in T::KEYS {
        let text = match key.get(part) {
            Some(Value::Set(is)) => is.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Text(text)) => quoted(&text),
            Some(Value::Names(names)) => {
                array(&names.iter().map(|name| quoted(name)).collect::<Vec<_>>())
            }
            None => continue,
        };
        line(out, key.name(), text);
    }
}
