//! Validates methods and header lines, so that nothing is sent that would end a line early.

use prony_base::units::ParseError;

/// Parse a header `Name: value`. Spaces around the value are removed; the rest is verbatim.
///
/// # Errors
/// No colon, an invalid name, a value with a control character.
pub fn parse_header(text: &str) -> Result<(String, String), ParseError> {
    let Some((name, value)) = text.split_once(':') else {
        return Err(ParseError::new("this is not a header: it has no colon; write 'Name: value'"));
    };
    let value = value.trim_matches([' ', '\t']);
    check_header(name, value).map_err(ParseError::new)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Check the name and value of a header.
///
/// # Errors
/// A name that is not a token (RFC 9110, 5.6.2), a value with a control character other than a tab.
pub fn check_header(name: &str, value: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a header's name is missing; write 'Name: value'".into());
    }
    if let Some((at, c)) = name.char_indices().find(|&(_, c)| !is_token(c)) {
        // The rest may belong to a value, which may be a secret.
        let place = if at > 0 {
            format!("contains {c:?} after '{}'", &name[..at])
        } else {
            format!("begins with {c:?}")
        };
        return Err(format!(
            "the header name {place}; names have letters, digits and !#$%&'*+-.^_`|~"
        ));
    }
    match value.chars().find(|&c| c.is_ascii_control() && c != '\t') {
        Some(c) => Err(format!(
            "the value of the header '{name}' contains {c:?}, which would break the request"
        )),
        None => Ok(()),
    }
}

/// Check a method.
///
/// # Errors
/// A text that is not a token (RFC 9110, 5.6.2).
pub fn check_method(method: &str) -> Result<(), String> {
    if method.is_empty() {
        return Err("the method is missing; write GET, POST or the like".into());
    }
    match method.chars().find(|&c| !is_token(c)) {
        Some(c) => Err(format!(
            "the method '{}' contains {c:?}; write GET, POST or the like",
            method.escape_debug()
        )),
        None => Ok(()),
    }
}

pub(super) fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}
