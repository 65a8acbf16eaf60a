//! vegeta's targets: as text (`METHOD URL`, headers, `@FILE` for the body, an empty line), or as
//! JSON lines.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::context::Context;
use crate::notes::Notes;
use crate::text::Text;
use crate::url;
use crate::{Import, Request, Session, Step};

/// The targets in turn.
pub(crate) fn read(text: &str, context: &Context<'_>) -> Result<Import, String> {
    let mut import = Import { is_list: true, ..Import::default() };
    let requests = match text.trim_start().starts_with('{') {
        true => json(text, context)?,
        false => http(text, context)?,
    };
    for (at, request) in requests {
        match request.map(|request| framed(request, &mut import.notes)) {
            Ok(request) => {
                context.weigh(&request).map_err(|e| format!(":{at}: {e}"))?;
                import.sessions.push(alone(request));
            }
            Err(why) => import.notes.add(&why, &format!("line {at}")),
        }
    }
    Ok(import)
}

/// The request without headers that say how long its body is, which Go's client does not send.
fn framed(mut request: Request, notes: &mut Notes) -> Request {
    let place = &request.place;
    request.headers.retain(|(name, _)| {
        let is_framing = ["content-length", "transfer-encoding", "trailer"]
            .iter()
            .any(|framing| name.eq_ignore_ascii_case(framing));
        if is_framing {
            notes.add(&format!("{name} is that of the body, whatever a target says"), place);
        }
        !is_framing
    });
    request
}

/// A session of one request.
pub(crate) fn alone(request: Request) -> Session {
    Session { steps: vec![Step::from(request)], ..Session::default() }
}

type Found = Vec<(usize, Result<Request, String>)>;

fn json(text: &str, context: &Context<'_>) -> Result<Found, String> {
    let mut all = Vec::new();
    for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let at = line + 1;
        context.count().map_err(|e| format!(":{at}: {e}"))?;
        let target = serde_json::from_str::<Map<String, Value>>(text);
        let target = target.map_err(|e| format!("this is not a target: {e}"));
        all.push((at, target.and_then(|target| of_json(target, at))));
    }
    Ok(all)
}

/// The request of an object, or why it is left out.
fn of_json(target: Map<String, Value>, at: usize) -> Result<Request, String> {
    let (mut method, mut address) = (None, None);
    let (mut body, mut headers) = (Vec::new(), Vec::new());
    for (key, value) in target {
        match (key.as_str(), value) {
            (_, Value::Null) => {}
            ("method", Value::String(text)) => method = Some(text),
            ("url", Value::String(text)) => address = Some(text),
            ("body", Value::String(code)) => {
                body = STANDARD.decode(code).map_err(|_| "a body that is not base64")?;
            }
            ("header", Value::Object(all)) => {
                for (name, values) in &all {
                    headers.extend(values_of(name, values)?);
                }
            }
            ("method" | "url" | "body" | "header", _) => {
                return Err(format!("the {key} of a target has a wrong type"));
            }
            _ => return Err(format!("'{key}' is no key of a target")),
        }
    }
    let address = address.ok_or("a target without a url")?;
    let method = method.ok_or("a target without a method")?;
    request(&method, &address, headers, at).map(|request| Request { body: body.into(), ..request })
}

/// A header with one value or several.
fn values_of(name: &str, values: &Value) -> Result<Vec<(String, Text)>, String> {
    let one = |value: &Value| match value {
        Value::String(text) => Ok((name.to_owned(), Text::from(text.as_str()))),
        _ => Err(format!("the header {name} has a value that is no text")),
    };
    match values {
        Value::Array(all) => all.iter().map(one).collect(),
        value => one(value).map(|header| vec![header]),
    }
}

/// The request of a target, as Go's client sends it.
fn request(
    method: &str,
    address: &str,
    mut headers: Vec<(String, Text)>,
    at: usize,
) -> Result<Request, String> {
    let (origin, path) = url::split(&encoded(address))?;
    url::add_credentials(address, &mut headers);
    Ok(Request {
        place: format!("line {at}"),
        origin,
        path: path.into(),
        method: method.to_owned(),
        headers,
        ..Request::default()
    })
}

/// The URL with its path as Go's client sends it: one with a character that no path has is encoded
/// anew, all others stay.
fn encoded(address: &str) -> Cow<'_, str> {
    let start = address.find("://").map_or(0, |at| at + "://".len());
    let start = address[start..].find('/').map_or(address.len(), |at| start + at);
    let end = address.find(['?', '#']).map_or(address.len(), |end| end.max(start));
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b);
    let path = &address[start..end];
    if path.bytes().all(|b| is_plain(b) || b"!'()*[]%".contains(&b)) {
        return Cow::Borrowed(address);
    }
    let mut out = address[..start].to_owned();
    for b in url::unescaped(path) {
        match b {
            b if is_plain(b) => out.push(char::from(b)),
            b => out.push_str(&format!("%{b:02X}")),
        }
    }
    out.push_str(&address[end..]);
    Cow::Owned(out)
}

/// The lines of a target: the first one, and those with its headers and its body.
fn http(text: &str, context: &Context<'_>) -> Result<Found, String> {
    let mut all: Found = Vec::new();
    // A target has headers until an empty line, its body, or the next target.
    let mut open = false;
    let lines = text.lines().map(str::trim).enumerate().map(|(line, text)| (line + 1, text));
    for (at, text) in lines {
        if text.is_empty() || text.starts_with('#') {
            open &= !text.is_empty();
            continue;
        }
        let (first, address) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if !address.is_empty() && first.bytes().all(|b| b.is_ascii_uppercase()) {
            context.count().map_err(|e| format!(":{at}: {e}"))?;
            open = true;
            all.push((at, request(first, address.trim(), Vec::new(), at)));
            continue;
        }
        let target = all.last_mut().filter(|_| open);
        let Some((_, target)) = target else {
            let what =
                format!("'{first}' starts neither a target (METHOD URL) nor a header of one");
            all.push((at, Err(what)));
            continue;
        };
        if let Ok(request) = target
            && let Err(why) = add_line(text, request, at, context)
        {
            context.check().map_err(|e| format!(":{at}: {e}"))?;
            *target = Err(why);
        }
    }
    Ok(all)
}

/// Adds a line to a target: a header, or `@FILE`.
fn add_line(
    text: &str,
    request: &mut Request,
    at: usize,
    context: &Context<'_>,
) -> Result<(), String> {
    if let Some(file) = text.strip_prefix('@') {
        request.body = context.read(file, &format!("line {at}"))?.into();
        return Ok(());
    }
    let header = text.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    let (name, value) = header
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .ok_or("a header that is not 'Name: value'")?;
    // It replaces that of a user in the URL.
    if name.eq_ignore_ascii_case("authorization") {
        request.headers.retain(|(n, _)| !n.eq_ignore_ascii_case("authorization"));
    }
    request.headers.push((name.to_owned(), value.into()));
    Ok(())
}
