//! Bounds on texts in JSON, which are read whole.

use crate::context::VALUES;

/// Refuses a text with more values than an import may have, before they take memory.
///
/// # Errors
/// `: sentence`.
pub(crate) fn check(text: &str) -> Result<(), String> {
    // Each value but the first follows one of these, and those within strings are few.
    let (mut values, mut is_text, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => values += 1,
            _ => {}
        }
    }
    match values > VALUES {
        true => Err(": it has more than 4,000,000 values".into()),
        false => Ok(()),
    }
}
