//! The command line of a run.

use serde::{Deserialize, Serialize};

/// A command line as typed, and as reports show it when they hide secrets. It is saved as the list
/// of its words; one that was loaded has only that form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct CommandLine {
    words: Vec<String>,
    shown: Vec<String>,
}

impl CommandLine {
    /// The words as typed, and the same without secrets.
    pub fn new(words: Vec<String>, shown: Vec<String>) -> Self {
        Self { words, shown }
    }

    /// The words; without secrets after [`CommandLine::hide`].
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Replace the words by those without secrets.
    pub fn hide(&mut self) {
        self.words.clone_from(&self.shown);
    }
}

/// For a saved command line, which is shown as it was saved.
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
    fn hides_secrets_and_is_saved_as_a_list() {
        let words = |last: &str| vec!["prony".to_owned(), "-u".to_owned(), last.to_owned()];
        let mut line = CommandLine::new(words("me:pw"), words("(hidden)"));
        assert_eq!(line.words(), words("me:pw"));
        assert_eq!(Vec::from(line.clone()), words("me:pw"));
        line.hide();
        assert_eq!(line.words(), words("(hidden)"));
        assert_eq!(CommandLine::from(words("x")).words(), words("x"));
    }
}
