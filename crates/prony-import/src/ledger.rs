//! Which elements of a JSON document an import has used. What it has not is named in notes, so that
//! nothing of an input is lost in silence.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::Value;

use crate::notes::Notes;

static NULL: Value = Value::Null;

/// What was used so far, by the addresses of the values; true with all that is in a value.
#[derive(Default)]
pub(crate) struct Ledger(RefCell<HashMap<*const Value, bool>>);

/// A value of a document. What reads its content marks it as used, if the content has the type that
/// is asked for: a value of another type stays unused, and is named.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    ledger: &'a Ledger,
}

impl Ledger {
    pub(crate) fn root<'a>(&'a self, value: &'a Value) -> Node<'a> {
        Node { value, ledger: self }
    }

    fn mark(&self, value: &Value, is_whole: bool) {
        if !value.is_null() {
            *self.0.borrow_mut().entry(std::ptr::from_ref(value)).or_default() |= is_whole;
        }
    }

    /// Adds a note for each element below `root` that was not used. `without_effect` are the
    /// members that change no request, as `member` or `parent/member`; `place` is in front of the
    /// pointers.
    pub(crate) fn note_unused(
        &self,
        root: &Value,
        without_effect: &[&str],
        place: &str,
        notes: &mut Notes,
    ) {
        let used = self.0.borrow();
        let mut walk = Walk { used: &used, without_effect, notes, pointer: place.to_owned() };
        walk.inside(root, "");
    }
}

struct Walk<'a> {
    used: &'a HashMap<*const Value, bool>,
    without_effect: &'a [&'a str],
    notes: &'a mut Notes,
    pointer: String,
}

impl Walk<'_> {
    /// What is in a value that was used; `name` is what it is called.
    fn inside(&mut self, value: &Value, name: &str) {
        let length = self.pointer.len();
        match value {
            Value::Object(members) => {
                for (member, value) in members {
                    if has_no_effect(self.without_effect, name, member) {
                        continue;
                    }
                    self.pointer.push('/');
                    self.pointer.push_str(&member.replace('~', "~0").replace('/', "~1"));
                    self.one(value, member);
                    self.pointer.truncate(length);
                }
            }
            Value::Array(items) => {
                for (nth, value) in items.iter().enumerate() {
                    self.pointer.push_str(&format!("/{nth}"));
                    self.one(value, name);
                    self.pointer.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn one(&mut self, value: &Value, name: &str) {
        match self.used.get(&std::ptr::from_ref(value)) {
            Some(true) => {}
            Some(false) => self.inside(value, name),
            None if is_empty(value) => {}
            None => self.notes.add(&format!("not used: {name}"), &self.pointer),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn has_no_effect(all: &[&str], parent: &str, member: &str) -> bool {
    member.starts_with("x-")
        || all.iter().any(|name| match name.split_once('/') {
            Some((above, name)) => above == parent && name == member,
            None => *name == member,
        })
}

impl<'a> Node<'a> {
    /// A member of an object; null if there is none.
    pub(crate) fn at(self, name: &str) -> Self {
        let value = match self.value {
            Value::Object(members) => {
                self.ledger.mark(self.value, false);
                members.get(name).unwrap_or(&NULL)
            }
            _ => &NULL,
        };
        Self { value, ..self }
    }

    pub(crate) fn is_null(self) -> bool {
        self.value.is_null()
    }

    pub(crate) fn is_object(self) -> bool {
        self.value.is_object()
    }

    pub(crate) fn is_list(self) -> bool {
        self.value.is_array()
    }

    pub(crate) fn text(self) -> Option<&'a str> {
        let text = self.value.as_str()?;
        self.ledger.mark(self.value, false);
        Some(text)
    }

    pub(crate) fn flag(self) -> Option<bool> {
        let flag = self.value.as_bool()?;
        self.ledger.mark(self.value, false);
        Some(flag)
    }

    pub(crate) fn number(self) -> Option<f64> {
        let number = self.value.as_f64()?;
        self.ledger.mark(self.value, false);
        Some(number)
    }

    /// A text, or what a number or a flag is as a text.
    pub(crate) fn scalar(self) -> Option<String> {
        match self.value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(self.value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
        .inspect(|_| self.ledger.mark(self.value, false))
    }

    /// The items of a list; none of what is no list.
    pub(crate) fn items(self) -> impl Iterator<Item = Self> {
        let items = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        if self.value.is_array() {
            self.ledger.mark(self.value, false);
        }
        items.iter().map(move |value| Self { value, ..self })
    }

    /// The members of an object; none of what is no object.
    pub(crate) fn members(self) -> impl Iterator<Item = (&'a str, Self)> {
        if self.value.is_object() {
            self.ledger.mark(self.value, false);
        }
        let members = self.value.as_object().into_iter().flatten();
        members.map(move |(name, value)| (name.as_str(), Self { value, ..self }))
    }

    /// The value with all that is in it.
    pub(crate) fn whole(self) -> &'a Value {
        self.ledger.mark(self.value, true);
        self.value
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_used_is_named_with_its_place() {
        let document = json!({
            "a": {"b": 1, "c": "x", "d": [{"e": 1}, {"e": "y", "f~/": 2}], "id": 7, "none": null},
            "id": 1, "g": {"h": [1]}, "x-i": {"j": 1}, "k": {"id": 2, "l": 1}, "m": [], "n": {},
        });
        let ledger = Ledger::default();
        let root = ledger.root(&document);
        let a = root.at("a");
        assert_eq!((a.at("b").number(), a.at("c").flag()), (Some(1.0), None));
        let texts: Vec<_> = a.at("d").items().map(|item| item.at("e").text()).collect();
        assert_eq!(texts, [None, Some("y")]);
        assert_eq!(root.at("k").whole()["l"], 1);
        assert!(root.at("z").at("y").is_null());
        let mut notes = Notes::default();
        ledger.note_unused(&document, &["a/id", "m"], "entry 1: ", &mut notes);
        let mut found: Vec<_> =
            notes.all().iter().map(|note| (note.what.to_owned(), note.shown_places())).collect();
        found.sort();
        let wanted =
            [("c", "/a/c"), ("e", "/a/d/0/e"), ("f~/", "/a/d/1/f~0~1"), ("g", "/g"), ("id", "/id")];
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(name, at)| (format!("not used: {name}"), format!("entry 1: {at}")))
            .collect();
        assert_eq!(found, wanted);
    }
}
