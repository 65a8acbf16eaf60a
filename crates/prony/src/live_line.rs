//! One line at the foot of a terminal, written over and over.

use std::io::{self, Write as _};

use rustix::termios::tcgetwinsize;

/// Where the terminal does not say how wide it is.
const COLUMNS: usize = 80;

/// Show `text` instead of what was shown before, on standard error.
pub(crate) fn show(text: &str) {
    let columns = match tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => COLUMNS,
    };
    // A terminal that does not take it must not end a run.
    let _ = io::stderr().lock().write_all(drawn(text, columns).as_bytes());
}

/// Leave an empty line behind.
pub(crate) fn clear() {
    show("");
}

/// What empties the line, and as much of the text as fits before its last column: behind that the
/// terminal would begin another line.
fn drawn(text: &str, columns: usize) -> String {
    let room = columns.saturating_sub(1);
    "\r\x1b[K".chars().chain(text.chars().take(room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_the_terminal_would_wrap_it() {
        for (text, columns, want) in
            [("abc", 4, "abc"), ("abcd", 4, "abc"), ("äöü", 3, "äö"), ("", 80, ""), ("a", 0, "")]
        {
            assert_eq!(drawn(text, columns), format!("\r\x1b[K{want}"), "{text} in {columns}");
        }
    }
}
