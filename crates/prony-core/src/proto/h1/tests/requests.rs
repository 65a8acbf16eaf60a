//! What goes out.

use super::*;
use crate::plan::HttpVersion;

/// The bytes of one call, as one that leaves the connection open and as the last one.
fn encoded(
    method: &str,
    version: HttpVersion,
    headers: &[(&str, &str)],
    body: &str,
) -> (String, String) {
    let mut plan = plan(&["GET", method]);
    plan.http = version;
    let call = &mut plan.calls[1];
    call.path = "/a?b=c".to_owned();
    call.headers = headers.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect();
    call.body = body.as_bytes().to_vec();
    let mut h1 = H1::new(&plan);
    let mut text = |last| {
        let mut out = b"before".to_vec();
        h1.encode(&mut Conn::default(), 1, last, &mut out);
        let text = String::from_utf8(out).expect("text");
        let text = text.strip_prefix("before").expect("appended").to_owned();
        text.replace(concat!("prony/", env!("CARGO_PKG_VERSION")), "prony/V").replace("\r\n", "|")
    };
    (text(false), text(true))
}

#[test]
fn a_request_of_1_1() {
    let (open, last) = encoded("GET", HttpVersion::Http11, &[], "");
    let start = "GET /a?b=c HTTP/1.1|Host: localhost:8080|User-Agent: prony/V|Accept: */*|";
    assert_eq!(open, format!("{start}|"));
    assert_eq!(last, format!("{start}Connection: close||"));
}

#[test]
fn a_request_of_1_0() {
    let (open, last) = encoded("HEAD", HttpVersion::Http10, &[], "");
    let start = "HEAD /a?b=c HTTP/1.0|Host: localhost:8080|User-Agent: prony/V|Accept: */*|";
    assert_eq!(open, format!("{start}Connection: keep-alive||"));
    assert_eq!(last, format!("{start}|"));
}

#[test]
fn bodies_have_a_length() {
    let start = "/a?b=c HTTP/1.1|Host: localhost:8080|User-Agent: prony/V|Accept: */*|";
    let (open, last) = encoded("POST", HttpVersion::Http11, &[("X", "y")], "hello");
    assert_eq!(open, format!("POST {start}X: y|Content-Length: 5||hello"));
    assert_eq!(last, format!("POST {start}Connection: close|X: y|Content-Length: 5||hello"));
    for method in ["POST", "PUT", "PATCH"] {
        let (open, _) = encoded(method, HttpVersion::Http11, &[], "");
        assert_eq!(open, format!("{method} {start}Content-Length: 0||"));
    }
    let (open, _) = encoded("DELETE", HttpVersion::Http11, &[], "x");
    assert_eq!(open, format!("DELETE {start}Content-Length: 1||x"));
}

#[test]
fn the_users_headers_take_the_place_of_ours() {
    let headers = [
        ("hOST", "a"),
        ("user-agent", "b"),
        ("ACCEPT", "c"),
        ("Content-length", "3"),
        ("CONNECTION", "upgrade"),
        ("X", "1"),
        ("X", "2"),
    ];
    let (open, last) = encoded("POST", HttpVersion::Http11, &headers, "abc");
    assert_eq!(
        open,
        "POST /a?b=c HTTP/1.1|hOST: a|user-agent: b|ACCEPT: c|Content-length: 3|\
         CONNECTION: upgrade|X: 1|X: 2||abc"
    );
    assert_eq!(last, open);
    let (open, _) =
        encoded("POST", HttpVersion::Http11, &[("Transfer-Encoding", "chunked")], "0\r\n\r\n");
    assert!(
        open.contains("|Transfer-Encoding: chunked||0||") && !open.contains("Length"),
        "{open}"
    );
}

/// After a `Connection` header of the user's that ends the connection nothing more may be sent.
#[test]
fn the_users_own_close_is_seen() {
    for (version, value, closes) in [
        (HttpVersion::Http11, "close", true),
        (HttpVersion::Http11, "TE, Close", true),
        (HttpVersion::Http11, "keep-alive", false),
        (HttpVersion::Http11, "upgrade", false),
        (HttpVersion::Http10, "upgrade", true),
        (HttpVersion::Http10, "Keep-Alive", false),
    ] {
        let mut plan = plan(&["GET"]);
        plan.http = version;
        plan.calls[0].headers = vec![("connection".to_owned(), value.to_owned())];
        let (mut h1, mut conn) = (H1::new(&plan), Conn::default());
        h1.encode(&mut conn, 0, false, &mut Vec::new());
        assert_eq!(h1.room(&conn, 1, 2), u32::from(!closes), "{version:?} {value}");
    }
}
