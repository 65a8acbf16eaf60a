//! Command lines that a reader can paste into a shell.

use std::fmt::Write as _;

/// A command line, quoted for a shell.
pub(crate) fn typed(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        if !word.is_empty() && word.chars().all(plain) {
            line.push_str(word);
        } else {
            let _ = write!(line, "'{}'", word.replace('\'', r"'\''"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_command_lines_for_a_shell() {
        let words = ["prony", "-H", "A: it's", "", "http://h/?a=1&b"].map(str::to_owned);
        assert_eq!(typed(&words), r"prony -H 'A: it'\''s' '' 'http://h/?a=1&b'");
    }
}
