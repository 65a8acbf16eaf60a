//! HTTP Archives (HAR 1.2), as browsers save them: a session of the pages, one after another.
//!
//! The first document of a page is sent alone, and what was fetched in parallel in one burst. A
//! pause lasts as long as nothing was being fetched.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prony_core::plan::Think;
use prony_core::units::Span;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::archive::{Archive, Content, Entry, Field, Pair, Post, Sent};
use crate::correlate::Reply;
use crate::json;
use crate::multipart::{self, Part};
use crate::notes::Notes;
use crate::text::Text;
use crate::url;
use crate::{Body, Import, Request, Session, Step};

const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

/// A request that can be sent, with its times in milliseconds.
struct Fetch {
    start: f64,
    end: f64,
    page: Option<String>,
    is_document: bool,
    is_redirect: bool,
    request: Request,
}

pub(crate) fn read(text: &str, all_sites: bool) -> Result<Import, String> {
    json::check(text)?;
    let har: Archive = serde_json::from_str(text)
        .map_err(|e| format!(":{}:{}: this is not an HTTP archive: {e}", e.line(), e.column()))?;
    of(har, all_sites)
}

/// The sessions of an archive. A browser's is one session. Without `all_sites`, requests to other
/// sites than that of the first page are left out.
pub(crate) fn of(har: Archive, all_sites: bool) -> Result<Import, String> {
    let mut import = Import::default();
    let mut entries: Vec<(usize, f64, Entry)> = Vec::new();
    for (nth, entry) in har.log.entries.into_iter().enumerate() {
        let at = OffsetDateTime::parse(&entry.started_date_time, &Rfc3339).map_err(|_| {
            format!(": entry {}: '{}' is no date and time", nth + 1, entry.started_date_time)
        })?;
        entries.push((nth + 1, at.unix_timestamp_nanos() as f64 / 1e6, entry));
    }
    entries.sort_by(|a, b| a.1.total_cmp(&b.1));
    let site = (!all_sites).then(|| site_of(entries.iter().map(|(.., entry)| entry))).flatten();
    let mut sessions: Vec<(String, Vec<Fetch>, HashSet<String>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (nth, start, mut entry) in entries {
        let place = format!("entry {nth}");
        if let Some(why) = is_left_out(&entry) {
            import.notes.add(why, &place);
            continue;
        }
        if let Some(host) = elsewhere(&entry, site.as_deref()) {
            let what = format!("a request to another site, {host}; --all-sites keeps it");
            import.notes.add(&what, &place);
            continue;
        }
        let name = entry.session.take().unwrap_or_default();
        let session = *known.entry(name.clone()).or_insert_with(|| {
            sessions.push((name, Vec::new(), HashSet::new()));
            sessions.len() - 1
        });
        let (_, fetches, jar) = &mut sessions[session];
        match fetch(entry, start, &place, jar, &mut import.notes) {
            Ok(fetch) => fetches.push(fetch),
            Err(why) => import.notes.add(&why, &place),
        }
    }
    let is_one = sessions.len() == 1;
    for (name, fetches, jar) in sessions {
        import.has_jar |= !jar.is_empty();
        let name = if is_one { String::new() } else { name };
        import.sessions.push(Session { name, steps: steps(fetches), weight: None });
    }
    Ok(import)
}

/// The site of the first page, or else of the first request.
fn site_of<'a>(entries: impl Iterator<Item = &'a Entry> + Clone) -> Option<String> {
    let mut sent = entries.filter(|entry| is_left_out(entry).is_none());
    let site = |entry: &Entry| {
        let (origin, _) = url::split(&entry.request.url).ok()?;
        Some(url::site(&origin).to_owned())
    };
    let page = sent
        .clone()
        .filter(|entry| is_document(&entry.response.content, entry.resource.as_deref()))
        .find_map(site);
    page.or_else(|| sent.find_map(site))
}

/// The host of a request that goes to another site than this one.
fn elsewhere(entry: &Entry, site: Option<&str>) -> Option<String> {
    let (origin, _) = url::split(&entry.request.url).ok()?;
    let is_other = site.is_some_and(|site| url::site(&origin) != site);
    is_other.then(|| url::host(&origin).to_owned())
}

fn is_document(content: &Content, resource: Option<&str>) -> bool {
    content.mime_type.starts_with("text/html") && resource.is_none_or(|kind| kind == "document")
}

fn is_left_out(entry: &Entry) -> Option<&'static str> {
    let is_cached = match &entry.from_cache {
        None | Some(serde_json::Value::Null | serde_json::Value::Bool(false)) => false,
        Some(_) => true,
    };
    if is_cached {
        return Some("answered from the browser's cache");
    }
    if entry.resource.as_deref() == Some("websocket") {
        return Some("a WebSocket, whose messages are not imported");
    }
    if entry.request.method.eq_ignore_ascii_case("CONNECT") {
        return Some("a request to a proxy");
    }
    if entry.request.post_data.as_ref().is_some_and(|post| post.is_truncated) {
        return Some("its body is longer than what was recorded");
    }
    (entry.response.status <= 0).then_some("no reply arrived (blocked, cancelled or failed)")
}

fn fetch(
    entry: Entry,
    start: f64,
    place: &str,
    jar: &mut HashSet<String>,
    notes: &mut Notes,
) -> Result<Fetch, String> {
    let (origin, path) = url::split(&entry.request.url)?;
    let path = with_query(path, &entry.request);
    let status = entry.response.status;
    let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
    if is_redirect {
        notes.add("a redirect: what it leads to is a request of its own", place);
    }
    if status == 304 {
        notes.add("the browser asked whether its copy was current (304), as it will here", place);
    }
    let sent = with_cookies(entry.request);
    let headers = sent.headers.into_iter().filter_map(|pair| header(pair, jar));
    let mut headers: Vec<(String, Text)> = headers.collect();
    let (method, post) = (sent.method, sent.post_data);
    let (body, kind) = post.map_or((Body::None, String::new()), |post| {
        let kind = post.mime_type.clone();
        let has_fields_only = post.text.as_ref().is_none_or(String::is_empty);
        match has_fields_only && !post.params.is_empty() && kind.starts_with("multipart/") {
            true => {
                // What stands between the parts is ours.
                headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
                (form(post.params), multipart::kind())
            }
            false => (body(post, place, notes), kind),
        }
    });
    let has_kind = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if body != Body::None && !has_kind && !kind.is_empty() {
        headers.push(("Content-Type".into(), kind.into()));
    }
    for pair in &entry.response.headers {
        if pair.name.eq_ignore_ascii_case("set-cookie") {
            // Some browsers join several lines.
            let names = pair.value.lines().filter_map(|line| line.split('=').next());
            jar.extend(names.map(|name| name.trim().to_owned()));
        }
    }
    let is_document = is_document(&entry.response.content, entry.resource.as_deref());
    Ok(Fetch {
        start,
        end: start + entry.time.max(0.0),
        page: entry.pageref,
        is_document,
        is_redirect,
        request: Request {
            place: place.to_owned(),
            origin,
            method,
            path: path.into(),
            headers,
            body,
            expect: if (100..400).contains(&status) { 0 } else { status as u16 },
            reply: reply(entry.response.headers, entry.response.content),
            ..Request::default()
        },
    })
}

/// A path with the parameters that some programs have only beside the URL.
fn with_query(path: String, sent: &Sent) -> String {
    if path.contains('?') || sent.query_string.is_empty() {
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
fn reply(headers: Vec<Pair>, content: Content) -> Reply {
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

/// A header as it is to be sent; none if prony writes it, or if the jar has it.
fn header(pair: Pair, jar: &HashSet<String>) -> Option<(String, Text)> {
    let lower = pair.name.to_ascii_lowercase();
    let is_ours = [
        "host",
        "content-length",
        "connection",
        "transfer-encoding",
        "keep-alive",
        "expect",
        "upgrade",
        "http2-settings",
    ];
    if lower.starts_with(':') || is_ours.contains(&lower.as_str()) {
        return None;
    }
    let mut value = pair.value.trim().to_owned();
    if lower == "cookie" {
        let is_other = |cookie: &&str| {
            let name = cookie.split('=').next().unwrap_or_default();
            !jar.contains(name.trim())
        };
        let others: Vec<&str> = value.split(';').map(str::trim).filter(is_other).collect();
        value = others.join("; ");
    }
    (!value.is_empty()).then(|| (pair.name, value.into()))
}

fn body(post: Post, place: &str, notes: &mut Notes) -> Body {
    match (post.text, post.encoding.as_deref()) {
        (Some(text), Some("base64")) => match STANDARD.decode(text.trim()) {
            Ok(bytes) => Body::Bytes(bytes),
            Err(_) => Body::Text(text.into()),
        },
        (Some(text), _) if !text.is_empty() => Body::Text(text.into()),
        _ if post.params.is_empty() => Body::None,
        _ if post.mime_type.starts_with("application/x-www-form-urlencoded") => {
            let pair = |p: &Field| format!("{}={}", p.name, p.value);
            let pairs: Vec<String> = post.params.iter().map(pair).collect();
            Body::Text(pairs.join("&").into())
        }
        _ => {
            notes.add("sent without its body, of which the archive has only the fields", place);
            Body::None
        }
    }
}

/// Bursts: what overlaps in time is sent together.
fn steps(fetches: Vec<Fetch>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut end = f64::NEG_INFINITY;
    let mut page: Option<String> = None;
    // After a document or a redirect, the next request waits for its reply.
    let mut alone = true;
    for fetch in fetches {
        let is_new_page = fetch.page != page;
        let follows = fetch.start < end && !is_new_page;
        let is_first = is_new_page || fetch.is_document && !follows;
        match steps.last_mut() {
            Some(last) if follows && !alone => last.requests.push(fetch.request),
            // What a document needs is fetched while it still arrives.
            Some(last) if follows && last.lead && !fetch.is_redirect => {
                last.requests.push(fetch.request);
            }
            last => {
                let pause = (fetch.start - end).max(0.0);
                if let Some(last) = last
                    && pause.is_finite()
                {
                    // A pause of years is none that anybody waits for.
                    last.think = match (pause.round() as u64).min(YEAR_MS) {
                        0 => Think::None,
                        ms => Think::Fixed(Span::from_millis(ms)),
                    };
                }
                let (lead, requests) = (is_first && !fetch.is_redirect, vec![fetch.request]);
                steps.push(Step { requests, lead, think: Think::None });
                alone = fetch.is_redirect || lead;
            }
        }
        end = end.max(fetch.end);
        page = fetch.page;
    }
    for step in &mut steps {
        step.lead &= step.requests.len() > 1;
    }
    steps
}
