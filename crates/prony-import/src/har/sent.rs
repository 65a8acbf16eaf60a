//! What an entry says was sent, as a request.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::archive::{Content, Field, Pair, Post, Sent};
use crate::correlate::Reply;
use crate::multipart::{self, Part};
use crate::notes::Notes;
use crate::text::Text;
use crate::{Body, Request, url};

/// Headers that prony writes itself, or that belong to the browser's connection.
const OURS: [&str; 7] = [
    "content-length",
    "connection",
    "transfer-encoding",
    "keep-alive",
    "expect",
    "upgrade",
    "http2-settings",
];

/// The request, without what the jar returns.
///
/// # Errors
/// It cannot be sent: why, as a note.
pub(super) fn request(
    sent: Sent,
    place: &str,
    jar: &HashSet<String>,
    notes: &mut Notes,
) -> Result<Request, String> {
    let (origin, path) = url::split(&sent.url)?;
    let path = with_query(path, &sent, place, notes);
    let sent = with_cookies(sent);
    let length = length(&sent);
    let mut headers = headers(sent.headers, &origin, jar, place, notes);
    let has_fields = sent.post_data.as_ref().is_some_and(|post| !post.params.is_empty());
    let (body, kind) = match sent.post_data {
        Some(post) => body(post, length, &mut headers, place, notes),
        None => (Body::None, String::new()),
    };
    // Fields that make no body are named with them.
    let is_named = has_fields && body == Body::None;
    let has_length = length.is_some_and(|length| length > 0) || sent.body_size > 0;
    if sent.method != "GET" && body == Body::None && has_length && !is_named {
        notes.add("sent without its body, which the archive does not have", place);
    }
    let has_kind = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if body != Body::None && !has_kind && !kind.is_empty() {
        headers.push(("Content-Type".into(), kind.into()));
    }
    Ok(Request {
        place: place.to_owned(),
        origin,
        method: sent.method,
        path: path.into(),
        headers,
        body,
        ..Request::default()
    })
}

/// The length of the body as its header says, or without one as the program that wrote the archive
/// counts it: some programs lose the header, and some count characters.
fn length(sent: &Sent) -> Option<usize> {
    let is_length = |pair: &&Pair| pair.name.eq_ignore_ascii_case("content-length");
    let header =
        sent.headers.iter().filter(is_length).find_map(|pair| pair.value.trim().parse().ok());
    header.or_else(|| usize::try_from(sent.body_size).ok().filter(|size| *size > 0))
}

/// A path with the parameters that some programs have only beside the URL.
fn with_query(path: String, sent: &Sent, place: &str, notes: &mut Notes) -> String {
    if sent.query_string.is_empty() {
        return path;
    }
    if let Some((_, query)) = path.split_once('?') {
        let count = query.split('&').filter(|pair| !pair.is_empty()).count();
        if count != sent.query_string.len() {
            notes.add("its `queryString` differs from its URL, which is sent", place);
        }
        return path;
    }
    let pair = |pair: &Pair| {
        format!("{}={}", url::escaped(pair.name.as_bytes()), url::escaped(pair.value.as_bytes()))
    };
    let pairs: Vec<String> = sent.query_string.iter().map(pair).collect();
    format!("{path}?{}", pairs.join("&"))
}

/// The request with the cookies that some programs have only beside the headers.
fn with_cookies(mut sent: Sent) -> Sent {
    let is_cookie = |pair: &Pair| pair.name.eq_ignore_ascii_case("cookie");
    if !sent.cookies.is_empty() && !sent.headers.iter().any(is_cookie) {
        let pair = |pair: &Pair| format!("{}={}", pair.name, pair.value);
        let pairs: Vec<String> = sent.cookies.iter().map(pair).collect();
        sent.headers.push(Pair { name: "Cookie".into(), value: pairs.join("; ") });
    }
    sent
}

/// The headers that are sent. Cookies that the jar has are not among them, and the others are in
/// one header: HTTP/2 splits them, which no server of HTTP/1.1 expects.
fn headers(
    pairs: Vec<Pair>,
    origin: &str,
    jar: &HashSet<String>,
    place: &str,
    notes: &mut Notes,
) -> Vec<(String, Text)> {
    let mut all: Vec<(String, Text)> = Vec::new();
    let mut cookies: Option<usize> = None;
    for pair in pairs {
        let lower = pair.name.to_ascii_lowercase();
        let value = pair.value.trim();
        let server = origin.split_once("://").map_or(origin, |(_, host)| host);
        if ["host", ":authority"].contains(&&*lower) && !value.eq_ignore_ascii_case(server) {
            notes.add("its host differs from that of its URL, which is sent", place);
        }
        if lower.starts_with(':') || lower == "host" || OURS.contains(&lower.as_str()) {
            continue;
        }
        if lower != "cookie" {
            // No browser sends one twice, but some programs write it twice.
            let is_same = |(name, known): &(String, Text)| {
                name.eq_ignore_ascii_case(&pair.name) && known.literal() == Some(value)
            };
            match all.iter().any(is_same) {
                true => notes.add("a header twice with one value, which is sent once", place),
                false => all.push((pair.name, value.into())),
            }
            continue;
        }
        let is_other = |cookie: &&str| {
            let name = cookie.split('=').next().unwrap_or_default();
            !cookie.is_empty() && !jar.contains(name.trim())
        };
        let others: Vec<&str> = value.split(';').map(str::trim).filter(is_other).collect();
        match cookies {
            _ if others.is_empty() => {}
            Some(at) => all[at].1.push(&format!("; {}", others.join("; "))),
            None => {
                cookies = Some(all.len());
                all.push((pair.name, others.join("; ").into()));
            }
        }
    }
    all
}

/// The body, and its type.
fn body(
    post: Post,
    length: Option<usize>,
    headers: &mut Vec<(String, Text)>,
    place: &str,
    notes: &mut Notes,
) -> (Body, String) {
    let kind = post.mime_type;
    let text = post.text.filter(|text| !text.is_empty() || post.params.is_empty());
    if let Some(text) = text {
        let decoded = STANDARD.decode(text.trim());
        let body = match (post.encoding.as_deref(), decoded) {
            (Some("base64"), Ok(bytes)) => Body::Bytes(bytes),
            (Some("base64"), Err(_)) => {
                notes.add("its body is not the base64 that it should be: sent as it is", place);
                Body::Text(text.into())
            }
            (encoding, _) => {
                if let Some(encoding) = encoding.filter(|name| !name.is_empty()) {
                    let what = format!("the encoding {encoding} of its body: sent as it is");
                    notes.add(&what, place);
                }
                if length.is_some_and(|length| length != text.len()) {
                    let what = "its body has another length than was sent, by Content-Length or `bodySize`";
                    notes.add(what, place);
                }
                if text.is_empty() { Body::None } else { Body::Text(text.into()) }
            }
        };
        return (body, kind);
    }
    if post.params.is_empty() {
        return (Body::None, kind);
    }
    if kind.starts_with("multipart/") {
        // What stands between the parts is ours.
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        if post.params.iter().any(|field| field.file_name.is_some() && field.value.is_empty()) {
            notes.add("a file of a form without content, which the archive does not have", place);
        }
        return (form(post.params), multipart::kind());
    }
    if kind.is_empty() || kind.starts_with("application/x-www-form-urlencoded") {
        // As browsers do, a blank is a plus.
        let escaped = |text: &str| url::escaped(text.as_bytes()).replace("%20", "+");
        let pair = |field: &Field| format!("{}={}", escaped(&field.name), escaped(&field.value));
        let pairs: Vec<String> = post.params.iter().map(pair).collect();
        let kind = if kind.is_empty() { "application/x-www-form-urlencoded".into() } else { kind };
        return (Body::Text(pairs.join("&").into()), kind);
    }
    notes.add("sent without its body, of which the archive has only the fields", place);
    (Body::None, kind)
}

/// A multi-part form of which the archive has the fields.
fn form(fields: Vec<Field>) -> Body {
    let part = |field: Field| Part {
        name: field.name,
        file: field.file_name,
        kind: field.content_type,
        content: field.value.into_bytes().into(),
        ..Part::default()
    };
    multipart::body(fields.into_iter().map(part).collect()).expect("no field is a variable")
}

/// A reply, as far as values can be found in it.
pub(super) fn reply(headers: Vec<Pair>, content: Content) -> Reply {
    let body = match content.encoding.as_deref() {
        Some("base64") => {
            let bytes = STANDARD.decode(content.text.unwrap_or_default().trim());
            bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
        }
        _ => content.text.unwrap_or_default(),
    };
    // Some browsers join several lines.
    let lines = |pair: &Pair| -> Vec<(String, String)> {
        pair.value.lines().map(|line| (pair.name.clone(), line.to_owned())).collect()
    };
    Reply {
        headers: headers.iter().flat_map(lines).collect(),
        body,
        kind: content.mime_type.to_ascii_lowercase(),
    }
}
