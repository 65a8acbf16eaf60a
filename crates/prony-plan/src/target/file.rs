//! URL files: one URL per line, or vegeta's format with methods, headers and bodies.

use super::Url;
use super::header::{check_method, is_token, parse_header};
use prony_base::units::ParseError;

/// One request of a URL file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlEntry {
    /// The line of its URL, from 1.
    pub line: usize,
    /// The method, if the line has one.
    pub method: Option<String>,
    /// The URL.
    pub url: Url,
    /// Its own headers, in order.
    pub headers: Vec<(String, String)>,
    /// The file with its body, as written.
    pub body_file: Option<String>,
}

/// Words that are taken for a method without a URL, not for a host.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

/// Parse a URL file: a line is `URL` or `METHOD URL`. The lines after it may be headers (`Name:
/// value`) and one `@FILE` with the body, up to the next URL or blank line. Blank lines and lines
/// that start with `#` are ignored.
///
/// After a `URL` without a method, a header needs a space after its colon, because `localhost:8080`
/// is a URL too.
///
/// # Errors
/// The first malformed line, or a file without URLs.
pub fn parse_url_file(text: &str) -> Result<Vec<UrlEntry>, ParseError> {
    let mut entries: Vec<UrlEntry> = Vec::new();
    // Whether a header or body may follow.
    let mut open = false;
    for (i, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let (number, line) = (i + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            open &= !line.is_empty();
            continue;
        }
        let entry = entries.last_mut().filter(|_| open);
        let result = match entry {
            Some(entry) if line.starts_with('@') => add_body(entry, &line[1..]),
            Some(entry) if is_header(line, entry.method.is_some()) => {
                parse_header(line).map(|header| entry.headers.push(header))
            }
            _ => parse_target(line, number).map(|entry| entries.push(entry)),
        };
        result.map_err(|e| e.at_line(number))?;
        open = true;
    }
    if entries.is_empty() {
        return Err(ParseError::new("the file has no URLs; write one per line"));
    }
    Ok(entries)
}

fn parse_target(line: &str, number: usize) -> Result<UrlEntry, ParseError> {
    let (method, url) = match line.split_once([' ', '\t']) {
        _ if line.starts_with('@') => {
            return Err(ParseError::new(
                "a body file (@FILE) must follow its URL, and there is none before it",
            ));
        }
        Some((name, _)) if name.ends_with(':') => {
            return Err(ParseError::new(
                "a header must follow its URL, and there is none before it",
            ));
        }
        // A URL that contains a space; the URL parser reports it.
        Some((url, _)) if url.contains("://") => (None, line),
        Some((method, url)) => (Some(method), url.trim_start()),
        None if METHODS.contains(&line) => {
            return Err(ParseError::new(format!("the URL after {line} is missing")));
        }
        None => (None, line),
    };
    if let Some(method) = method {
        check_method(method).map_err(ParseError::new)?;
        if !is_method(method) {
            return Err(ParseError::new(format!(
                "'{method}' is not a method; write it in capitals, as in GET http://host/path"
            )));
        }
    }
    Ok(UrlEntry {
        line: number,
        method: method.map(str::to_owned),
        url: Url::parse(url)?,
        headers: Vec::new(),
        body_file: None,
    })
}

fn add_body(entry: &mut UrlEntry, file: &str) -> Result<(), ParseError> {
    if file.is_empty() {
        return Err(ParseError::new("the name of the body file after '@' is missing"));
    }
    if entry.body_file.is_some() {
        return Err(ParseError::new("the request already has a body file; omit one of them"));
    }
    entry.body_file = Some(file.to_owned());
    Ok(())
}

/// Whether the line is `Name: value` and not a URL or `METHOD URL`.
fn is_header(line: &str, after_method: bool) -> bool {
    let Some((name, value)) = line.split_once(':') else {
        return false;
    };
    let is_name = !name.is_empty() && name.chars().all(is_token);
    let spaced = value.is_empty() || value.starts_with([' ', '\t']);
    is_name && (spaced || (after_method && !value.starts_with("//")))
}

fn is_method(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_uppercase() || b"-_".contains(&b))
}
