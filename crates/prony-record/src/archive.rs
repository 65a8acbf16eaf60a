//! The recording as an HTTP archive, and what is to be said about it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prony_import::archive::{
    Archive, Content, Creator, Entry, Log, Pair, Post, Reply as Answer, Sent, Timings,
};
use prony_plan::script::{Coding, Undecoded};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::head::{self, Header};
use crate::log::{Ended, Exchange, REPLY_LIMIT, Reply};
use crate::sessions::{By, sessions};

/// Whose exchanges they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The target: `http://host` or `https://host:port`.
    pub origin: String,
    /// Whether clients reach the proxy by `https`.
    pub is_secured: bool,
}

/// What the user should know about a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Exchanges that are complete.
    pub complete: usize,
    /// Changes to another protocol, such as WebSocket.
    pub upgraded: usize,
    /// Requests without a reply.
    pub no_reply: usize,
    /// Replies that the target cut off.
    pub cut: usize,
    /// Requests whose client left.
    pub left: usize,
    /// Requests in flight at the end.
    pub stopped: usize,
    /// Replies that lead the client to the target itself, past the proxy.
    pub redirects: usize,
    /// Cookies with a `Domain`, which browsers refuse from the proxy if it is another.
    pub domains: usize,
    /// Replies in a compression that is not read.
    pub compressed: usize,
}

/// What is to be said about these exchanges.
pub fn facts(exchanges: &[Exchange], site: &Site) -> Facts {
    let mut facts = Facts::default();
    for exchange in exchanges {
        match exchange.how {
            Ended::Complete => facts.complete += 1,
            Ended::Upgraded => facts.upgraded += 1,
            Ended::NoReply => facts.no_reply += 1,
            Ended::Cut => facts.cut += 1,
            Ended::ClientLeft => facts.left += 1,
            Ended::Stopped => facts.stopped += 1,
        }
        let Some(reply) = &exchange.reply else { continue };
        let location = head::header(&reply.head.headers, "location").unwrap_or_default();
        let rest = location.strip_prefix(&site.origin);
        let is_target = rest.is_some_and(|r| r.is_empty() || r.starts_with(['/', '?', '#']));
        facts.redirects += usize::from(is_target);
        let cookies = head::all(&reply.head.headers, "set-cookie");
        let has_domain = |cookie: &&str| {
            let mut attributes = cookie.split(';').skip(1).filter_map(|a| a.split_once('='));
            attributes.any(|(name, _)| name.trim().eq_ignore_ascii_case("domain"))
        };
        facts.domains += cookies.filter(has_domain).count();
        facts.compressed += usize::from(reply.body.length > 0 && plain(reply) == Text::Unknown);
    }
    facts
}

/// The archive of these exchanges, which are in the order of their requests. `started` is the time
/// from which theirs count.
pub fn archive(
    exchanges: &[Exchange],
    site: &Site,
    by: By,
    started: OffsetDateTime,
    version: &str,
) -> Archive {
    let sessions = sessions(exchanges, by);
    let entry = |(exchange, session): (&Exchange, usize)| {
        let (ended, first) = (exchange.ended, exchange.first.unwrap_or(exchange.ended));
        let wait = millis(first.saturating_sub(exchange.begun));
        let receive = millis(ended.saturating_sub(first));
        Entry {
            pageref: None,
            started_date_time: (started + exchange.begun).format(&Rfc3339).unwrap_or_default(),
            time: wait + receive,
            request: sent(exchange, site),
            response: answer(exchange),
            cache: prony_import::archive::Cache {},
            timings: Timings { send: 0.0, wait, receive },
            connection: Some(exchange.connection.to_string()),
            session: Some(format!("session {}", session + 1)),
            from_cache: None,
            resource: resource(exchange),
        }
    };
    let creator = Creator { name: "prony record".into(), version: version.into() };
    let entries = exchanges.iter().zip(sessions).map(entry).collect();
    Archive { log: Log { version: "1.2".into(), creator, entries } }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What the browser says that it is for.
fn resource(exchange: &Exchange) -> Option<String> {
    if exchange.how == Ended::Upgraded {
        return Some("websocket".into());
    }
    let kind = head::header(&exchange.request.headers, "sec-fetch-dest")?;
    Some(match kind {
        "iframe" | "frame" => "document".into(),
        "empty" => "fetch".into(),
        kind => kind.to_owned(),
    })
}

fn sent(exchange: &Exchange, site: &Site) -> Sent {
    let request = &exchange.request;
    let scheme = if site.is_secured { "https" } else { "http" };
    let proxy = format!("{scheme}://{}", exchange.host);
    let header = |(name, value): &Header| {
        // What the client says about the proxy is true of the target when the plan runs.
        let is_about = ["origin", "referer"].iter().any(|n| name.eq_ignore_ascii_case(n));
        let rest = value.strip_prefix(&proxy).filter(|r| r.is_empty() || r.starts_with('/'));
        let value = match rest {
            Some(rest) if is_about => format!("{}{rest}", site.origin),
            _ => value.clone(),
        };
        Pair { name: name.clone(), value }
    };
    let query = request.target.split_once('?').map_or("", |(_, query)| query);
    let path = if request.target == "*" { "/*" } else { &request.target };
    Sent {
        method: request.method.clone(),
        url: format!("{}{path}", site.origin),
        http_version: request.version.into(),
        cookies: cookies(&request.headers, "cookie"),
        headers: request.headers.iter().map(header).collect(),
        query_string: pairs(query, '&'),
        post_data: (exchange.body.length > 0).then(|| post(exchange)),
        headers_size: -1,
        body_size: i64::try_from(exchange.body.length).unwrap_or(-1),
    }
}

fn post(exchange: &Exchange) -> Post {
    let (text, encoding) = text(&exchange.body.bytes);
    Post {
        mime_type: kind(&exchange.request.headers),
        text: Some(text),
        encoding,
        params: Vec::new(),
        is_truncated: !exchange.body.is_whole(),
    }
}

fn answer(exchange: &Exchange) -> Answer {
    let is_complete = matches!(exchange.how, Ended::Complete | Ended::Upgraded);
    let Some(reply) = exchange.reply.as_ref().filter(|_| is_complete) else {
        return Answer { headers_size: -1, body_size: -1, ..Answer::default() };
    };
    let head = &reply.head;
    let header = |(name, value): &Header| Pair { name: name.clone(), value: value.clone() };
    let (size, text, encoding) = match plain(reply) {
        Text::Is(bytes) => {
            let (text, encoding) = text(&bytes);
            (bytes.len() as u64, Some(text), encoding)
        }
        Text::None | Text::Unknown => (reply.body.length, None, None),
    };
    Answer {
        status: i32::from(head.status),
        status_text: head.reason.clone(),
        http_version: head.version.into(),
        cookies: cookies(&head.headers, "set-cookie"),
        headers: head.headers.iter().map(header).collect(),
        content: Content {
            size: i64::try_from(size).unwrap_or(i64::MAX),
            mime_type: kind(&head.headers),
            text,
            encoding,
        },
        redirect_url: head::header(&head.headers, "location").unwrap_or_default().to_owned(),
        headers_size: -1,
        body_size: i64::try_from(reply.body.length).unwrap_or(-1),
    }
}

fn kind(headers: &[Header]) -> String {
    head::header(headers, "content-type").unwrap_or_default().to_owned()
}

/// The text of a body, or its bytes as base64.
fn text(bytes: &[u8]) -> (String, Option<String>) {
    match str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (STANDARD.encode(bytes), Some("base64".into())),
    }
}

fn cookies(headers: &[Header], name: &str) -> Vec<Pair> {
    let of_line = |line: &str| match name {
        "cookie" => pairs(line, ';'),
        _ => pairs(line.split(';').next().unwrap_or_default(), ';'),
    };
    head::all(headers, name).flat_map(of_line).collect()
}

fn pairs(text: &str, between: char) -> Vec<Pair> {
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        Pair { name: name.trim().to_owned(), value: value.trim().to_owned() }
    };
    text.split(between).filter(|text| !text.trim().is_empty()).map(pair).collect()
}

/// The body of a reply without its compression.
#[derive(Debug, PartialEq, Eq)]
enum Text {
    Is(Vec<u8>),
    /// It is not recorded, or too long.
    None,
    /// It is compressed in a way that is not known here.
    Unknown,
}

fn plain(reply: &Reply) -> Text {
    if reply.limit() == 0 || !reply.body.is_whole() {
        return Text::None;
    }
    let mut codings = Vec::new();
    for value in head::all(&reply.head.headers, "content-encoding") {
        Coding::parse(value.as_bytes(), &mut codings);
    }
    let mut text = reply.body.bytes.clone();
    // The last one was applied last.
    for coding in codings.into_iter().rev() {
        let mut out = Vec::new();
        match coding.decode(&text, REPLY_LIMIT, &mut out) {
            Ok(()) => text = out,
            Err(Undecoded::TooLong) => return Text::None,
            Err(Undecoded::Unreadable) => return Text::Unknown,
        }
    }
    Text::Is(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::Ipv4Addr;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;
    use crate::Body;
    use crate::head::{ReplyHead, RequestHead};

    const SITE: &str = "http://target:81";

    /// "hello hello hello hello\n", by the reference encoder of Brotli (that of Node.js 20).
    const BROTLI: &[u8] = &[
        0x1b, 0x17, 0x00, 0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x44, 0x55, 0x86, 0xd6, 0x0a, 0x20, 0x6c,
        0x6f, 0x4a, 0x11, 0x79, 0xe2, 0x80, 0xae, 0x16,
    ];

    /// The same, by `zstd` 1.5.
    const ZSTD: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0x6d, 0x00, 0x00, 0x38, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
        0x20, 0x0a, 0x01, 0x00, 0x99, 0x4b, 0x11, 0xa8, 0x7c, 0x2e, 0xa8,
    ];

    fn headers(all: &[(&str, &str)]) -> Vec<Header> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn body(bytes: &[u8]) -> Body {
        Body { bytes: bytes.to_vec(), length: bytes.len() as u64, is_left_out: false }
    }

    /// A GET whose reply has these headers and this body.
    fn exchange(reply: &[(&str, &str)], bytes: &[u8]) -> Exchange {
        let head = ReplyHead {
            status: 200,
            reason: "OK".into(),
            version: "HTTP/1.1",
            headers: headers(reply),
        };
        Exchange {
            connection: 1,
            client: Ipv4Addr::LOCALHOST.into(),
            begun: Duration::from_millis(10),
            first: Some(Duration::from_millis(12)),
            ended: Duration::from_millis(15),
            host: "127.0.0.1:8000".into(),
            request: RequestHead {
                method: "GET".into(),
                target: "/a?b=c".into(),
                version: "HTTP/1.1",
                headers: headers(&[
                    ("Referer", "http://127.0.0.1:8000/x"),
                    ("Origin", "http://127.0.0.1:8000"),
                    ("X-Other", "http://127.0.0.1:8000/x"),
                    ("Cookie", "a=b; c=d"),
                ]),
            },
            body: Body::default(),
            reply: Some(Reply { head, body: body(bytes) }),
            how: Ended::Complete,
        }
    }

    fn site() -> Site {
        Site { origin: SITE.into(), is_secured: false }
    }

    fn of(exchange: Exchange) -> Entry {
        let started = OffsetDateTime::UNIX_EPOCH;
        archive(&[exchange], &site(), By::Cookie, started, "1").log.entries.remove(0)
    }

    #[test]
    fn entries_have_all_that_the_format_requires() {
        let mut post =
            exchange(&[("Content-Type", "text/plain"), ("Set-Cookie", "s=t; Path=/")], b"x");
        post.body = body(b"\xff\xfe");
        let entry = of(post);
        assert_eq!(entry.started_date_time, "1970-01-01T00:00:00.01Z");
        assert_eq!((entry.time, entry.timings.wait, entry.timings.receive), (5.0, 2.0, 3.0));
        assert_eq!(entry.request.url, "http://target:81/a?b=c");
        let values: Vec<&str> = entry.request.headers.iter().map(|h| h.value.as_str()).collect();
        let wanted = [&format!("{SITE}/x"), SITE, "http://127.0.0.1:8000/x", "a=b; c=d"];
        assert_eq!(values, wanted);
        let text = entry.request.post_data.as_ref().and_then(|p| p.text.as_deref());
        assert_eq!(text, Some("//4="));
        let archive = Archive {
            log: Log { version: "1.2".into(), creator: Creator::default(), entries: vec![entry] },
        };
        let json = serde_json::to_value(&archive).expect("an archive");
        assert_eq!(json["log"]["version"], "1.2");
        let entry = &json["log"]["entries"][0];
        // Section 3 of the specification: what is not marked as optional.
        let required: [(&serde_json::Value, &[&str]); 8] = [
            (&json["log"], &["version", "creator", "entries"]),
            (&json["log"]["creator"], &["name", "version"]),
            (entry, &["startedDateTime", "time", "request", "response", "cache", "timings"]),
            (&entry["timings"], &["send", "wait", "receive"]),
            (
                &entry["request"],
                &[
                    "method",
                    "url",
                    "httpVersion",
                    "cookies",
                    "headers",
                    "queryString",
                    "headersSize",
                    "bodySize",
                ],
            ),
            (&entry["request"]["postData"], &["mimeType", "text"]),
            (
                &entry["response"],
                &[
                    "status",
                    "statusText",
                    "httpVersion",
                    "cookies",
                    "headers",
                    "content",
                    "redirectURL",
                    "headersSize",
                    "bodySize",
                ],
            ),
            (&entry["response"]["content"], &["size", "mimeType"]),
        ];
        for (value, names) in required {
            for name in names {
                assert!(value.get(name).is_some_and(|v| !v.is_null()), "{name}: {value}");
            }
        }
        assert_eq!(entry["request"]["cookies"][1]["value"], "d");
        assert_eq!(entry["response"]["cookies"][0]["name"], "s");
    }

    #[test]
    fn compression_is_undone() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"some text").expect("memory");
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(b"some text").expect("memory");
        let (gzip, zlib) = (gzip.finish().expect("memory"), zlib.finish().expect("memory"));
        let mut twice = ZlibEncoder::new(Vec::new(), Compression::fast());
        twice.write_all(&gzip).expect("memory");
        let twice = twice.finish().expect("memory");
        let long = vec![b'x'; REPLY_LIMIT + 1];
        let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
        bomb.write_all(&long).expect("memory");
        for (coding, bytes, text) in [
            ("identity", b"some text".to_vec(), Some("some text")),
            ("GZIP", gzip, Some("some text")),
            ("deflate", zlib, Some("some text")),
            ("gzip", bomb.finish().expect("memory"), None),
            ("gzip", b"no gzip".to_vec(), None),
            ("br", BROTLI.to_vec(), Some("hello hello hello hello\n")),
            ("zstd", ZSTD.to_vec(), Some("hello hello hello hello\n")),
            ("zstd, identity", ZSTD.to_vec(), Some("hello hello hello hello\n")),
            ("gzip, deflate", twice, Some("some text")),
            ("br", b"x".to_vec(), None),
            ("compress", b"x".to_vec(), None),
        ] {
            let entry = of(exchange(
                &[("Content-Type", "text/html"), ("Content-Encoding", coding)],
                &bytes,
            ));
            assert_eq!(entry.response.content.text.as_deref(), text, "{coding}");
        }
        // Only text is kept.
        assert_eq!(
            of(exchange(&[("Content-Type", "image/png")], b"x")).response.content.text,
            None
        );
    }

    #[test]
    fn what_the_user_should_know_is_counted() {
        let ended = |how| Exchange { how, ..exchange(&[], b"") };
        let all = [
            exchange(&[("Location", "http://target:81/x")], b""),
            exchange(&[("Location", "http://target:81")], b""),
            exchange(&[("Location", "http://target:8123/x")], b""),
            exchange(&[("Location", "/x"), ("Set-Cookie", "a=b; domain=target")], b""),
            exchange(&[("Set-Cookie", "domain=b; Path=/")], b""),
            exchange(&[("Content-Type", "text/html"), ("Content-Encoding", "br")], b"x"),
            ended(Ended::Upgraded),
            ended(Ended::NoReply),
            ended(Ended::Cut),
            ended(Ended::ClientLeft),
            ended(Ended::Stopped),
        ];
        let wanted = Facts {
            complete: 6,
            upgraded: 1,
            no_reply: 1,
            cut: 1,
            left: 1,
            stopped: 1,
            redirects: 2,
            domains: 1,
            compressed: 1,
        };
        assert_eq!(facts(&all, &site()), wanted);
        assert_eq!(of(ended(Ended::Cut)).response.status, 0);
    }
}
