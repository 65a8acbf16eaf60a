//! Names of variables in the plan: each thing that a file names has one, and no two have the same.

use std::collections::HashMap;

use crate::unique::Unique;

/// The variables so far.
#[derive(Default)]
pub(crate) struct Names {
    names: Unique,
    /// Those that a user must fill in, by what the file calls them.
    blank: HashMap<String, String>,
    /// Those that have a value of a reply.
    extracted: HashMap<String, String>,
    /// What is to be filled in, in order: the name in the plan, and in the file.
    blanks: Vec<(String, String)>,
}

impl Names {
    /// The variable without a value that a file calls so.
    pub(crate) fn blank(&mut self, of: &str) -> String {
        if let Some(known) = self.blank.get(of) {
            return known.clone();
        }
        let name = self.names.like(of);
        self.blank.insert(of.to_owned(), name.clone());
        self.blanks.push((name.clone(), of.to_owned()));
        name
    }

    /// The value of a reply that a file calls so.
    pub(crate) fn extracted(&mut self, of: &str) -> String {
        if let Some(known) = self.extracted.get(of) {
            return known.clone();
        }
        let name = self.names.like(of);
        self.extracted.insert(of.to_owned(), name.clone());
        name
    }

    /// What is to be filled in: the name in the plan, and in the file.
    pub(crate) fn into_blanks(self) -> impl Iterator<Item = (String, String)> {
        self.blanks.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_things_have_the_same_name() {
        let mut names = Names::default();
        assert_eq!(names.blank("a b"), "a_b");
        assert_eq!(names.blank("a-b"), "a_b_2");
        assert_eq!(names.blank("a b"), "a_b");
        assert_eq!(
            (names.extracted("a b"), names.extracted("a b")),
            ("a_b_3".into(), "a_b_3".into())
        );
        let blanks: Vec<_> = names.into_blanks().collect();
        assert_eq!(blanks, [("a_b".into(), "a b".into()), ("a_b_2".into(), "a-b".into())]);
    }
}
