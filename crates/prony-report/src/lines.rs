//! The writer of texts whose lines are all plain, whatever is in them.

use prony_base::plain;

/// Complete lines. Nothing in the text of a line can end it, move a cursor or give a command.
#[derive(Debug, Default)]
pub(crate) struct Lines(String);

impl Lines {
    /// A line of this text, without spaces at its end.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.0.push_str(plain::line(text.as_ref()).trim_end_matches(' '));
        self.0.push('\n');
    }

    /// An empty line.
    pub(crate) fn blank(&mut self) {
        self.0.push('\n');
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_on_its_line() {
        let mut lines = Lines::default();
        lines.line("a\n::error::b\x1b[2J  ");
        lines.blank();
        lines.line("##[error]c");
        assert_eq!(lines.finish(), "a\\n: :error::b\\u{1b}[2J\n\n# #[error]c\n");
    }
}
