//! Names beside values: of attributes, headers and members of JSON.

/// The letters and digits of a name.
pub(super) fn letters(name: &str) -> String {
    let alphanumeric = name.chars().filter(char::is_ascii_alphanumeric);
    alphanumeric.map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether a member of JSON is an ID by its name.
pub(super) fn is_id(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower == "id" || lower.ends_with("_id") || name.ends_with("Id") || name.ends_with("ID")
}

/// The value of an attribute of a tag.
pub(crate) fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag;
    while let Some((before, after)) = rest.split_once('=') {
        let word = before.trim_end().rsplit(|c: char| c.is_whitespace() || "\"'".contains(c));
        let is_it = word.into_iter().next().is_some_and(|w| w.eq_ignore_ascii_case(name));
        let after = after.trim_start();
        let (value, next) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                after[1..].split_once(quote).unwrap_or_else(|| (&after[1..], ""))
            }
            _ => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
        };
        if is_it {
            return Some(value);
        }
        rest = next;
    }
    None
}
