//! Entries of an archive from its JSON. What is odd in one is named, or leaves it out alone.

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::archive::{Content, Entry, Field, Pair, Post, Reply, Sent};
use crate::ledger::{Ledger, Node};
use crate::notes::Notes;

/// Members of an entry that change no request.
const WITHOUT_EFFECT: [&str; 46] = [
    "comment",
    "timings",
    "cache",
    "connection",
    "serverIPAddress",
    "headersSize",
    "bodySize",
    "response/statusText",
    "response/httpVersion",
    "response/redirectURL",
    "response/cookies",
    "content/size",
    "content/compression",
    "content/comment",
    "request/httpVersion",
    // Attributes of cookies: a request has their names and values.
    "cookies/path",
    "cookies/domain",
    "cookies/expires",
    "cookies/httpOnly",
    "cookies/secure",
    "cookies/sameSite",
    "cookies/partitionKey",
    // What browsers add.
    "_blocked_queueing",
    "_blocked_proxy",
    "_connectionId",
    "_error",
    "_errorCode",
    "_errorMessage",
    "_fetchType",
    "_fetchedViaServiceWorker",
    "_chunks",
    "_serverAddress",
    "_serverPort",
    "_id",
    "_initiator",
    "_initiator_detail",
    "_initiator_type",
    "_isLink",
    "_monotonicTime",
    "_priority",
    "_requestId",
    "_responseCacheStorageCacheName",
    "_securityDetails",
    "_securityState",
    "_transferSize",
    "_frameref",
];

/// Reads an entry, and names what in it is not used.
///
/// # Errors
/// Why it cannot be sent, as a note.
pub(super) fn read(value: &Value, place: &str, notes: &mut Notes) -> Result<Entry, String> {
    let ledger = Ledger::default();
    let found = entry(ledger.root(value))?;
    ledger.note_unused(value, &WITHOUT_EFFECT, &format!("{place}: "), notes);
    Ok(found)
}

fn entry(node: Node<'_>) -> Result<Entry, String> {
    let (sent, reply) = (node.at("request"), node.at("response"));
    let text = |node: Node<'_>| node.text().map(str::to_owned);
    let url = text(sent.at("url")).ok_or("left out: a request without a URL")?;
    let method = text(sent.at("method")).filter(|method| !method.is_empty());
    let method = method.ok_or("left out: a request without a method")?;
    // Messages are named with what leaves the entry out.
    let is_socket = !node.at("_webSocketMessages").whole().is_null();
    let resource = text(node.at("_resourceType"));
    let from_cache = node.at("_fromCache").whole();
    Ok(Entry {
        pageref: text(node.at("pageref")),
        started_date_time: text(node.at("startedDateTime")).unwrap_or_default(),
        time: node.at("time").number().unwrap_or_default(),
        request: Sent {
            method,
            url,
            cookies: pairs(sent.at("cookies")),
            headers: pairs(sent.at("headers")),
            query_string: pairs(sent.at("queryString")),
            body_size: sent.at("bodySize").number().unwrap_or_default() as i64,
            post_data: sent.at("postData").object().map(post),
            ..Sent::default()
        },
        response: Reply {
            status: reply.at("status").number().unwrap_or_default() as i32,
            headers: pairs(reply.at("headers")),
            content: content(reply.at("content")),
            ..Reply::default()
        },
        cache: Default::default(),
        timings: Default::default(),
        connection: None,
        session: text(node.at("_session")),
        from_cache: Some(from_cache.clone()).filter(|value| !value.is_null()),
        resource: if is_socket { Some("websocket".into()) } else { resource },
    })
}

/// Names and values. A pair without a name stays unused, and is named.
fn pairs(list: Node<'_>) -> Vec<Pair> {
    let pair = |node: Node<'_>| {
        let name = node.at("name").text().filter(|name| !name.is_empty())?.to_owned();
        Some(Pair { name, value: node.at("value").scalar().unwrap_or_default() })
    };
    list.items().filter_map(pair).collect()
}

fn post(node: Node<'_>) -> Post {
    let text = |name: &str| node.at(name).scalar();
    let field = |node: Node<'_>| {
        let text = |name: &str| node.at(name).scalar();
        Some(Field {
            name: text("name")?,
            value: text("value").unwrap_or_default(),
            file_name: text("fileName"),
            content_type: text("contentType"),
        })
    };
    // A key of Playwright and of others.
    let encoding = text("encoding").or_else(|| text("_encoding"));
    Post {
        mime_type: text("mimeType").unwrap_or_default(),
        text: text("text"),
        encoding,
        params: node.at("params").items().filter_map(field).collect(),
        is_truncated: node.at("_truncated").flag() == Some(true),
    }
}

fn content(node: Node<'_>) -> Content {
    let text = |name: &str| node.at(name).text().map(str::to_owned);
    Content {
        size: 0,
        mime_type: text("mimeType").unwrap_or_default(),
        text: text("text"),
        encoding: text("encoding"),
    }
}

/// A date and time in milliseconds since 1970, as RFC 3339 has it, and as programs write it: with a
/// blank for the `T`, with `+0100` or `+01`, or without a zone, which is then UTC.
pub(super) fn date(text: &str) -> Option<f64> {
    let text = text.trim();
    let parsed = |text: &str| {
        let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        Some((at.unix_timestamp_nanos() / 1_000) as f64 / 1e3)
    };
    if let Some(at) = parsed(text) {
        return Some(at);
    }
    let (day, time) = text.split_once(['T', 't', ' '])?;
    let end = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at(end);
    let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    let zone = match (zone.get(..1), digits.len()) {
        (None | Some("Z" | "z"), 0) => "Z".to_owned(),
        (Some(sign @ ("+" | "-")), 2) => format!("{sign}{digits}:00"),
        (Some(sign @ ("+" | "-")), 4) => format!("{sign}{}:{}", &digits[..2], &digits[2..]),
        _ => return None,
    };
    let seconds = if time.matches(':').count() == 1 { ":00" } else { "" };
    let time = time.trim().replace(',', ".");
    parsed(&format!("{day}T{time}{seconds}{zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_many_forms() {
        let at = date("2026-11-24T10:00:00.250Z").expect("a date");
        for text in [
            "2026-11-24T11:00:00.25+01:00",
            "2026-11-24T11:00:00.250+0100",
            "2026-11-24T11:00:00.250+01",
            "2026-11-24T10:00:00.250",
            "2026-11-24 10:00:00,250",
            " 2026-11-24t04:30:00.25-0530 ",
        ] {
            assert_eq!(date(text), Some(at), "{text}");
        }
        assert_eq!(date("2026-11-24T10:00Z"), Some(at - 250.0));
        for text in ["", "today", "2026-11-24", "2026-13-24T10:00:00Z", "2026-11-24T10:00:00+1"] {
            assert_eq!(date(text), None, "{text}");
        }
    }
}
