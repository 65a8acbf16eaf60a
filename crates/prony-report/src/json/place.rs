//! Where a text is not a saved report.

/// The position of the error, with the field if the text is valid JSON.
pub(super) fn place(e: &serde_json::Error) -> String {
    let at = format!("line {}, column {}", e.line(), e.column());
    let text = e.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) if e.is_data() => format!("{} ({at})", plain(what)),
        _ => at,
    }
}

/// The parser's message without type names, which mean nothing to users.
fn plain(what: &str) -> String {
    let what = what.split_once(", expected").map_or(what, |(found, _)| found);
    for (prefix, is) in [
        ("missing field ", "is missing"),
        ("unknown field ", "is unknown"),
        ("duplicate field ", "occurs twice"),
        ("unknown variant ", "is unknown"),
        ("invalid type: ", "has the wrong type"),
        ("invalid value: ", "is out of range"),
        ("invalid length ", "is the wrong length"),
    ] {
        if let Some(found) = what.strip_prefix(prefix) {
            return format!("{found} {is}");
        }
    }
    what.to_owned()
}
