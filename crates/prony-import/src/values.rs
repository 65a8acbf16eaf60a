//! The variables of a file, whose values may have others in them.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::context::DEPTH;

/// Values by their names.
#[derive(Default)]
pub(crate) struct Values {
    by_name: HashMap<String, String>,
    /// Whether a value is complete, of those that were asked for.
    complete: RefCell<HashMap<String, bool>>,
}

impl Values {
    /// Sets a value, which replaces an earlier one.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.by_name.insert(name.to_owned(), value.to_owned());
    }

    /// Sets a value if there is none.
    pub(crate) fn set_first(&mut self, name: &str, value: &str) {
        self.by_name.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(String::as_str)
    }

    /// Whether a variable has a value, and so have all in it. `is_known` knows others.
    pub(crate) fn is_complete(&self, name: &str, is_known: &dyn Fn(&str) -> bool) -> bool {
        self.look(name, is_known, 0)
    }

    fn look(&self, name: &str, is_known: &dyn Fn(&str) -> bool, depth: usize) -> bool {
        if is_known(name) {
            return true;
        }
        if let Some(known) = self.complete.borrow().get(name) {
            return *known;
        }
        let Some(value) = self.get(name).filter(|value| !value.is_empty()) else { return false };
        // What is in itself is not.
        self.complete.borrow_mut().insert(name.to_owned(), false);
        let is_complete = depth < DEPTH
            && fields(value).all(|field| self.look(field.trim(), is_known, depth + 1));
        self.complete.borrow_mut().insert(name.to_owned(), is_complete);
        is_complete
    }
}

/// What stands between the braces of each field.
fn fields(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|(field, _)| field)
}
