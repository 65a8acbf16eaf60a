//! The replies of the scripted server: one behavior per path.

use std::time::Duration;

/// The parts of a request that matter to the server.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The minor version of HTTP/1.
    pub(crate) minor: u8,
}

impl Request {
    /// The first request in the bytes and its length; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let head = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
        let text = String::from_utf8_lossy(&bytes[..head]);
        let mut lines = text.lines();
        let mut words = lines.next().unwrap_or("").split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let minor = u8::from(words.next().is_none_or(|v| !v.ends_with(".0")));
        let length = lines
            .filter_map(|l| l.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.trim().parse::<usize>().ok());
        let whole = head + length.unwrap_or(0);
        (bytes.len() >= whole).then_some((Self { method, path, minor }, whole))
    }
}

/// An action of the server.
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Close the connection.
    Close,
    /// Reset the connection.
    Reset,
    /// Continue to read, and never reply.
    Silence,
    /// Send the same bytes for ever.
    Forever {
        bytes: Vec<u8>,
        gap: Duration,
    },
}
use Step::{Close, Forever, Reset, Send, Silence, Wait};

/// The body of a normal reply.
const BODY: &str = "0123456789";

/// The actions after the `nth` request (from 1) of a connection.
pub(crate) fn script(request: &Request, nth: usize) -> Vec<Step> {
    // The path decides; text after a `?` or another `/` is ignored.
    let path = request.path.split('?').next().unwrap_or("");
    let word = path.split('/').nth(1).unwrap_or("");
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let number: u64 = word[letters.len()..].parse().unwrap_or(0);
    let minor = request.minor;
    let ok = || plain(minor, 200, "", BODY);
    match letters {
        "s" => vec![Send(status(request, number))],
        "delay" => vec![Wait(ms(number)), Send(ok())],
        "size" => vec![Send(sized(number))],
        "evenfail" => {
            vec![Send(plain(minor, if nth.is_multiple_of(2) { 503 } else { 200 }, "", BODY))]
        }
        "cookie" => {
            let cookie = format!("Set-Cookie: sid={nth}; Path=/\r\n");
            vec![Send(plain(minor, 200, &cookie, BODY))]
        }
        "" | "index.html" | "foo.html" | "pict" => vec![Send(bodiless(request, ok()))],
        _ => framed(letters, number)
            .or_else(|| broken(letters, number))
            .unwrap_or_else(|| vec![Send(bodiless(request, ok()))]),
    }
}

/// All kinds of framing, and servers that close.
fn framed(letters: &str, number: u64) -> Option<Vec<Step>> {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
    Some(match letters {
        "chunkedtrailer" => {
            vec![text(format!("{chunked}Trailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"))]
        }
        "chunks" => {
            let all = "5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\n";
            vec![text(format!("{chunked}\r\n{all}"))]
        }
        "slowchunks" => {
            vec![text(format!("{chunked}\r\n5\r\nhel")), Wait(ms(number)), text("lo\r\n0\r\n\r\n")]
        }
        "twice" => {
            let (head, body) = ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234", "56789");
            vec![text(head), Wait(ms(number)), text(body)]
        }
        "close" => vec![Send(plain(1, 200, "Connection: close\r\n", BODY)), Close],
        "leave" => vec![Send(plain(1, 200, "", BODY)), Close],
        "eof" => vec![text("HTTP/1.1 200 OK\r\nServer: odd\r\n\r\n0123456789"), Close],
        "old" => vec![text("HTTP/1.0 200 OK\r\nServer: odd\r\n\r\n0123456789"), Close],
        "many" => {
            let lines: String = (0..50).map(|i| format!("X-{i}: {i}\r\n")).collect();
            vec![Send(plain(1, 200, &lines, BODY))]
        }
        "longline" => {
            let line = format!("X-Long: {}\r\n", "x".repeat(3_000));
            vec![Send(plain(1, 200, &line, BODY))]
        }
        "twocookies" => {
            let both = "Set-Cookie: a=1; Path=/\r\nset-cookie: b=2\r\n";
            vec![Send(plain(1, 200, both, BODY))]
        }
        "tightcookie" => vec![Send(plain(1, 200, "Set-Cookie:sid=tight\r\n", BODY))],
        "html" => vec![Send(plain(1, 200, "Content-Type: text/html\r\n", "<img src=/a.gif>"))],
        "frames" => {
            let body = "<img src=/pict1.gif><frame src='/html'><img src=pict2.gif>";
            vec![Send(plain(1, 200, "Content-Type: text/html; charset=utf-8\r\n", body))]
        }
        "moved" => vec![Send(plain(1, 302, "Location: /html\r\n", ""))],
        _ => return None,
    })
}

/// Faulty servers.
fn broken(letters: &str, number: u64) -> Option<Vec<Step>> {
    let ok = || Send(plain(1, 200, "", BODY));
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    let forever = |bytes: &str| Forever { bytes: bytes.into(), gap: ms(number) };
    let begun = || text("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    Some(match letters {
        "hang" => vec![Silence],
        "cont" => vec![text("HTTP/1.1 100 Continue\r\n\r\n"), ok()],
        "early" => vec![text(early), ok()],
        "trunc" => vec![text("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"), Close],
        "cut" => vec![text("HTTP/1.1 200 OK\r\nConte"), Close],
        "empty" => vec![Close],
        "reset" => vec![Reset],
        "cutchunk" => {
            vec![text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhel"), Close]
        }
        "badchunk" => {
            vec![text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), Close]
        }
        "surplus" => vec![ok(), text("and more than was announced"), Silence],
        "garbage" => vec![text("this is not http\r\n\r\n"), Close],
        "binary" => vec![Send((0..=255).cycle().take(5_000).collect()), Close],
        "headers" => {
            vec![text("HTTP/1.1 200 OK\r\n"), forever(&"X-Endless: header\r\n".repeat(99))]
        }
        "oneheader" => vec![text("HTTP/1.1 200 OK\r\nX: "), forever(&"x".repeat(4_096))],
        "statusline" => vec![forever(&"x".repeat(4_096))],
        "interim" => vec![forever(&early.repeat(99))],
        "bodies" => vec![ok(), forever("surplus")],
        "trailers" => vec![
            text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"),
            forever(&"X-T: 1\r\n".repeat(99)),
        ],
        "chunkline" => vec![
            text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;"),
            forever(&"x".repeat(4_096)),
        ],
        "drip" => vec![begun(), forever("x")],
        "driphead" => vec![text("HTTP/1.1 200 OK\r\n"), forever("X")],
        _ => return None,
    })
}

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn text(text: impl Into<String>) -> Step {
    Send(text.into().into_bytes())
}

/// A reply with a length.
fn plain(minor: u8, status: u64, headers: &str, body: &str) -> Vec<u8> {
    let reason = reason(status);
    // With HTTP/1.0, the server must announce keep-alive.
    let kept = if minor == 0 { "Connection: keep-alive\r\n" } else { "" };
    let length = body.len();
    format!(
        "HTTP/1.{minor} {status} {reason}\r\nServer: odd\r\nContent-Length: {length}\r\n\
         {kept}{headers}\r\n{body}"
    )
    .into_bytes()
}

/// A reply with this status, without a body if HTTP forbids one.
fn status(request: &Request, status: u64) -> Vec<u8> {
    match status {
        204 | 304 => {
            format!("HTTP/1.1 {status} {}\r\nServer: odd\r\n\r\n", reason(status)).into_bytes()
        }
        _ => bodiless(request, plain(request.minor, status, "", BODY)),
    }
}

/// A body with this length.
fn sized(bytes: u64) -> Vec<u8> {
    let mut reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
    reply.resize(reply.len() + bytes as usize, b'x');
    reply
}

/// The reply, without its body for a HEAD request.
fn bodiless(request: &Request, mut reply: Vec<u8>) -> Vec<u8> {
    if request.method == "HEAD" {
        let head = reply.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
        reply.truncate(head);
    }
    reply
}

fn reason(status: u64) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        302 => "Found",
        304 => "Not Modified",
        404 => "Not Found",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
