//! Names of variables in the plan: each thing that a file names has one, and no two have the same.

use crate::text::variable_name;

/// The variables so far.
#[derive(Default)]
pub(crate) struct Names {
    all: Vec<Named>,
}

struct Named {
    /// Its name in the plan.
    name: String,
    /// What the file calls it.
    of: String,
    /// Whether a user must fill it in.
    is_blank: bool,
}

impl Names {
    /// The variable without a value that a file calls so.
    pub(crate) fn blank(&mut self, of: &str) -> String {
        self.name(of, true)
    }

    /// The value of a reply that a file calls so.
    pub(crate) fn extracted(&mut self, of: &str) -> String {
        self.name(of, false)
    }

    /// What is to be filled in: the name in the plan, and in the file.
    pub(crate) fn into_blanks(self) -> impl Iterator<Item = (String, String)> {
        self.all.into_iter().filter(|named| named.is_blank).map(|named| (named.name, named.of))
    }

    fn name(&mut self, of: &str, is_blank: bool) -> String {
        let is_it = |named: &&Named| named.of == of && named.is_blank == is_blank;
        if let Some(known) = self.all.iter().find(is_it) {
            return known.name.clone();
        }
        let base = variable_name(of);
        let numbered = (2..).map(|n| format!("{base}_{n}"));
        let is_free = |name: &String| !self.all.iter().any(|named| named.name == *name);
        let name = [base.clone()].into_iter().chain(numbered).find(is_free);
        let name = name.expect("there is no end of names");
        self.all.push(Named { name: name.clone(), of: of.to_owned(), is_blank });
        name
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
