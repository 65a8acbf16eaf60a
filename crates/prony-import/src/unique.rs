//! Names of variables of which no two are the same.

use std::collections::{HashMap, HashSet};

use crate::text::variable_name;

/// The names so far.
#[derive(Default)]
pub(crate) struct Unique {
    taken: HashSet<String>,
    /// The next number of a name that several things would have.
    numbers: HashMap<String, usize>,
}

impl Unique {
    /// Takes a name, whatever has it.
    pub(crate) fn take(&mut self, name: String) {
        self.taken.insert(name);
    }

    /// A free name like this one, which is taken then.
    pub(crate) fn like(&mut self, of: &str) -> String {
        let base = variable_name(of);
        if self.taken.insert(base.clone()) {
            return base;
        }
        let number = self.numbers.entry(base.clone()).or_insert(2);
        loop {
            let name = format!("{base}_{number}");
            *number += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}
