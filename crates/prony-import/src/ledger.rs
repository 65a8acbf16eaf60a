//! Which elements of a JSON document an import has used, or could not read. What it has not used is
//! named in notes with its place, so that nothing of an input is lost in silence.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::Value;

use crate::notes::Notes;

static NULL: Value = Value::Null;

/// What was used so far, by the addresses of the values.
#[derive(Default)]
pub(crate) struct Ledger(RefCell<HashMap<*const Value, Use>>);

/// What is known of a value. The last of these counts, if it is more than one: a reader that
/// accepts several types asks for one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// Nothing that was read needs it.
    Aside,
    /// It has not the type, or the value, that was asked for.
    Wrong,
    /// It was used, and what is in it says for itself.
    Itself,
    /// It was used with all that is in it.
    Whole,
}

/// A value of a document. What reads its content marks it as used, if the content has the type that
/// is asked for; otherwise as wrong, and it is named.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    ledger: &'a Ledger,
}

impl Ledger {
    pub(crate) fn root<'a>(&'a self, value: &'a Value) -> Node<'a> {
        Node { value, ledger: self }
    }

    fn mark(&self, value: &Value, as_what: Use) {
        if !value.is_null() {
            let mut all = self.0.borrow_mut();
            let known = all.entry(std::ptr::from_ref(value)).or_insert(as_what);
            *known = as_what.max(*known);
        }
    }

    /// The value has not the type that it must have, or is none of the words that are known.
    pub(crate) fn mark_wrong(&self, value: &Value) {
        self.mark(value, Use::Wrong);
    }

    /// Adds a note for each value in `root` that was found to be wrong. `shown` says how a pointer
    /// is shown.
    pub(crate) fn note_wrong(
        &self,
        root: &Value,
        shown: impl Fn(&str) -> String,
        notes: &mut Notes,
    ) {
        let used = self.0.borrow();
        if !used.is_empty() {
            let mut found = Vec::new();
            wrong_in(root, &used, (&mut String::new(), ""), &mut found);
            for (name, pointer) in found {
                notes.add(&format!("{WRONG}: {name}"), &shown(&pointer));
            }
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

/// What a note says of a value that is not what it must be.
const WRONG: &str = "not used, as its type or value is wrong";

/// The names and the pointers of the values that are wrong in a value.
fn wrong_in<'a>(
    value: &'a Value,
    used: &HashMap<*const Value, Use>,
    (pointer, name): (&mut String, &'a str),
    found: &mut Vec<(&'a str, String)>,
) {
    if used.get(&std::ptr::from_ref(value)) == Some(&Use::Wrong) {
        found.push((name, pointer.clone()));
        return;
    }
    let length = pointer.len();
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                push(pointer, member);
                wrong_in(value, used, (pointer, member), found);
                pointer.truncate(length);
            }
        }
        Value::Array(items) => {
            for (nth, value) in items.iter().enumerate() {
                pointer.push_str(&format!("/{nth}"));
                wrong_in(value, used, (pointer, name), found);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// Adds a member to a pointer (RFC 6901).
fn push(pointer: &mut String, member: &str) {
    pointer.push('/');
    pointer.push_str(&member.replace('~', "~0").replace('/', "~1"));
}

struct Walk<'a> {
    used: &'a HashMap<*const Value, Use>,
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
                    push(&mut self.pointer, member);
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
            Some(Use::Whole | Use::Aside) => {}
            Some(Use::Itself) => self.inside(value, name),
            Some(Use::Wrong) => self.notes.add(&format!("{WRONG}: {name}"), &self.pointer),
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
        let members = self.read(self.value.as_object());
        Self { value: members.and_then(|members| members.get(name)).unwrap_or(&NULL), ..self }
    }

    /// What was read of the value, as the type that was asked for.
    fn read<T>(self, content: Option<T>) -> Option<T> {
        let as_what = if content.is_some() { Use::Itself } else { Use::Wrong };
        self.ledger.mark(self.value, as_what);
        content
    }

    /// The object; none of another type.
    pub(crate) fn object(self) -> Option<Self> {
        self.read(self.value.is_object().then_some(self))
    }

    /// It is not needed, unless something else reads it.
    pub(crate) fn set_aside(self) {
        self.ledger.mark(self.value, Use::Aside);
    }

    /// Null, in place of a value that is not there.
    pub(crate) fn nothing(self) -> Self {
        Self { value: &NULL, ..self }
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
        self.read(self.value.as_str())
    }

    pub(crate) fn flag(self) -> Option<bool> {
        self.read(self.value.as_bool())
    }

    pub(crate) fn number(self) -> Option<f64> {
        self.read(self.value.as_f64())
    }

    /// A text, or what a number or a flag is as a text.
    pub(crate) fn scalar(self) -> Option<String> {
        self.read(match self.value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(self.value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        })
    }

    /// The items of a list; none of what is no list.
    pub(crate) fn items(self) -> impl Iterator<Item = Self> {
        let items = self.read(self.value.as_array()).map(Vec::as_slice).unwrap_or_default();
        items.iter().map(move |value| Self { value, ..self })
    }

    /// The members of an object; none of what is no object.
    pub(crate) fn members(self) -> impl Iterator<Item = (&'a str, Self)> {
        let members = self.read(self.value.as_object()).into_iter().flatten();
        members.map(move |(name, value)| (name.as_str(), Self { value, ..self }))
    }

    /// The value with all that is in it.
    pub(crate) fn whole(self) -> &'a Value {
        self.ledger.mark(self.value, Use::Whole);
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
            .map(|(name, at)| {
                let why = if ["c", "e"].contains(name) { WRONG } else { "not used" };
                (format!("{why}: {name}"), format!("entry 1: {at}"))
            })
            .collect();
        assert_eq!(found, wanted);
    }
}
