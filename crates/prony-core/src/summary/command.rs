//! The command line that made a run.

use serde::{Deserialize, Serialize};

/// A command line as it was typed, and as reports show it where they hide secrets. It is saved as
/// the list of its words, of which one that was read back knows no other form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct CommandLine {
    words: Vec<String>,
    shown: Vec<String>,
}

impl CommandLine {
    /// The words as they were typed, and the same without secrets.
    pub fn new(words: Vec<String>, shown: Vec<String>) -> Self {
        Self { words, shown }
    }

    /// The words; without secrets after [`CommandLine::hide`].
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Forget the secrets.
    pub fn hide(&mut self) {
        self.words.clone_from(&self.shown);
    }
}

/// Without a secret, as far as is known.
impl From<Vec<String>> for CommandLine {
    fn from(words: Vec<String>) -> Self {
        Self { shown: words.clone(), words }
    }
}

impl From<CommandLine> for Vec<String> {
    fn from(line: CommandLine) -> Self {
        line.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_what_is_not_shown_and_is_saved_as_a_list() {
        let words = |last: &str| vec!["prony".to_owned(), "-u".to_owned(), last.to_owned()];
        let mut line = CommandLine::new(words("me:pw"), words("(hidden)"));
        assert_eq!(line.words(), words("me:pw"));
        assert_eq!(Vec::from(line.clone()), words("me:pw"));
        line.hide();
        assert_eq!(line.words(), words("(hidden)"));
        assert_eq!(CommandLine::from(words("x")).words(), words("x"));
    }
}
