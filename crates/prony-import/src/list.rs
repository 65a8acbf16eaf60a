//! A URL per line, as siege and similar tools read them: `URL`, or `URL POST DATA`. `NAME = value`
//! sets a variable for `$NAME` and `$(NAME)`.

use crate::url;
use crate::vegeta::alone;
use crate::{Body, Import, Options, Request};

pub(crate) fn read(text: &str, options: &Options<'_>) -> Result<Import, String> {
    let mut import = Import { is_list: true, ..Import::default() };
    let mut variables: Vec<(String, String)> = Vec::new();
    for (line, text) in text.lines().map(str::trim).enumerate() {
        let at = line + 1;
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = variable(text) {
            variables.push((name.to_owned(), value.to_owned()));
            continue;
        }
        let text = filled(text, &variables);
        match request(&text, at, options) {
            Ok(Ok(request)) => import.sessions.push(alone(request)),
            Ok(Err(why)) => import.notes.add(&why, &format!("line {at}")),
            Err(e) => return Err(format!(":{at}: {e}")),
        }
    }
    Ok(import)
}

fn variable(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    (starts && name.bytes().all(is_name)).then(|| (name, value.trim()))
}

fn filled(text: &str, variables: &[(String, String)]) -> String {
    let mut out = text.to_owned();
    // Longer names first, as one name may start with another.
    let mut order: Vec<&(String, String)> = variables.iter().rev().collect();
    order.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    for (name, value) in order {
        for form in [format!("$({name})"), format!("${{{name}}}"), format!("${name}")] {
            out = out.replace(&form, value);
        }
    }
    out
}

/// The request of a line, or why it is left out.
fn request(
    text: &str,
    at: usize,
    options: &Options<'_>,
) -> Result<Result<Request, String>, String> {
    let mut words = text.splitn(3, char::is_whitespace);
    let address = words.next().unwrap_or_default();
    let method = words.next().unwrap_or("GET").to_ascii_uppercase();
    let data = words.next().unwrap_or_default().trim();
    let address = match address.starts_with('/') {
        false if !address.contains("://") => format!("http://{address}"),
        _ => options.at(address)?,
    };
    let body = match data.strip_prefix('<') {
        _ if data.is_empty() => Body::None,
        Some(file) => options.read(file)?.into(),
        None => Body::Text(data.into()),
    };
    let kind = ("Content-Type".to_owned(), "application/x-www-form-urlencoded".into());
    let mut headers = if body == Body::None { Vec::new() } else { vec![kind] };
    url::add_credentials(&address, &mut headers);
    Ok(url::split(&address).map(|(origin, path)| Request {
        place: format!("line {at}"),
        origin,
        path: path.into(),
        method,
        headers,
        body,
        ..Request::default()
    }))
}
