//! HTTP Archives (HAR 1.2), as browsers save them: a session of the pages, one after another.
//!
//! The first document of a page is sent alone, and what was fetched in parallel in one burst. A
//! pause lasts as long as nothing was being fetched.

mod entry;
mod sent;

use std::collections::{HashMap, HashSet};

use prony_base::units::Span;
use prony_plan::plan::Think;
use serde_json::Value;

use crate::archive::{Archive, Content, Entry, Log};
use crate::context::REQUESTS;
use crate::json;
use crate::url;
use crate::{Import, Request, Session, Step};

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
    let wrong = |at: String, why: String| format!("{at}: this is not an HTTP archive: {why}");
    let mut document: Value = serde_json::from_str(text)
        .map_err(|e| wrong(format!(":{}:{}", e.line(), e.column()), e.to_string()))?;
    let entries = match document.pointer_mut("/log/entries").map(Value::take) {
        Some(Value::Array(all)) if all.len() > REQUESTS => {
            return Err(": more than 100,000 entries".into());
        }
        Some(Value::Array(all)) => all,
        None | Some(Value::Null) if document["log"].is_object() => Vec::new(),
        _ => return Err(wrong(String::new(), "it has no `log` with a list of `entries`".into())),
    };
    let mut import = Import::default();
    let mut read = Vec::new();
    for (nth, value) in entries.into_iter().enumerate() {
        let place = format!("entry {}", nth + 1);
        match entry::read(&value, &place, &mut import.notes) {
            Ok(entry) => read.push((nth + 1, entry)),
            Err(why) => import.notes.add(&why, &place),
        }
    }
    sessions(import, read, all_sites)
}

/// The sessions of an archive that a program has made.
pub(crate) fn of(archive: Archive, all_sites: bool) -> Result<Import, String> {
    let Archive { log: Log { entries, .. } } = archive;
    let entries = entries.into_iter().enumerate().map(|(nth, entry)| (nth + 1, entry));
    sessions(Import::default(), entries.collect(), all_sites)
}

/// The sessions of entries with their numbers. A browser's is one session. Without `all_sites`,
/// requests to other sites than that of the first page are left out.
fn sessions(
    mut import: Import,
    read: Vec<(usize, Entry)>,
    all_sites: bool,
) -> Result<Import, String> {
    let mut entries: Vec<(usize, f64, Entry)> = Vec::new();
    for (nth, entry) in read {
        let at = entry::date(&entry.started_date_time).unwrap_or_else(|| {
            let what = "without a date that can be read: as if at that of the entry before";
            import.notes.add(what, &format!("entry {nth}"));
            entries.last().map_or(0.0, |(_, at, _)| *at)
        });
        entries.push((nth, at, entry));
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
        match fetch(entry, start, &place, jar, &mut import) {
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
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(_) => true,
    };
    if is_cached {
        return Some("answered from the browser's cache");
    }
    let is_socket = ["ws:", "wss:"].iter().any(|scheme| entry.request.url.starts_with(scheme));
    let is_switched = entry.response.status == 101;
    if is_socket || is_switched || entry.resource.as_deref() == Some("websocket") {
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
    import: &mut Import,
) -> Result<Fetch, String> {
    let notes = &mut import.notes;
    let status = entry.response.status;
    let mut request = sent::request(entry.request, place, jar, notes)?;
    let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
    if is_redirect {
        notes.add("a redirect: what it leads to is a request of its own", place);
    }
    if status == 304 {
        notes.add("the browser asked whether its copy was current (304), as it will here", place);
    }
    for pair in &entry.response.headers {
        if pair.name.eq_ignore_ascii_case("set-cookie") {
            // Some browsers join several lines.
            let names = pair.value.lines().filter_map(|line| line.split('=').next());
            jar.extend(names.map(|name| name.trim().to_owned()));
        }
    }
    request.expect = if (100..400).contains(&status) { 0 } else { status as u16 };
    let is_document = is_document(&entry.response.content, entry.resource.as_deref());
    request.reply = sent::reply(entry.response.headers, entry.response.content);
    Ok(Fetch {
        start,
        end: start + entry.time.max(0.0),
        page: entry.pageref,
        is_document,
        is_redirect,
        request,
    })
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
