//! A line of a terminal that is overwritten in place.

use std::io::{self, Write as _};

use prony_base::plain;
use rustix::termios::tcgetwinsize;

/// The width of a terminal that does not report it.
const COLUMNS: usize = 80;

/// Replaces the line with `text`, on standard error.
pub(crate) fn show(text: &str) {
    let columns = match tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => COLUMNS,
    };
    // A failed write must not end the run.
    let _ = io::stderr().lock().write_all(drawn(text, columns).as_bytes());
}

/// Clears the line.
pub(crate) fn clear() {
    show("");
}

/// The control sequence that clears the line, and the text up to the last column but one, so that
/// the terminal does not wrap.
fn drawn(text: &str, columns: usize) -> String {
    let room = columns.saturating_sub(1);
    "\r\x1b[K".chars().chain(plain::line(text).chars().take(room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_lines_before_the_terminal_wraps_them() {
        for (text, columns, want) in [
            ("abc", 4, "abc"),
            ("abcd", 4, "abc"),
            ("äöü", 3, "äö"),
            ("", 80, ""),
            ("a", 0, ""),
            ("\x1b[2J", 10, "\\u{1b}[2J"),
        ] {
            assert_eq!(drawn(text, columns), format!("\r\x1b[K{want}"), "{text} in {columns}");
        }
    }
}
