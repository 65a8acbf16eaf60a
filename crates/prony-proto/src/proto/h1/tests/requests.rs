//! Tests of the encoded requests.

use super::*;
use prony_base::units::Nanos;
use prony_plan::plan::{Burst, Cookies, HttpVersion, SessionKind, Sessions, Think};
use prony_plan::script::{Filled, Jar, Locals, Origin, Script};

/// The bytes of one call, once as a call that keeps the connection open and once as the last one.
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
fn encodes_a_request_of_1_1() {
    let (open, last) = encoded("GET", HttpVersion::Http11, &[], "");
    let start = "GET /a?b=c HTTP/1.1|Host: localhost:8080|User-Agent: prony/V|Accept: */*|";
    assert_eq!(open, format!("{start}|"));
    assert_eq!(last, format!("{start}Connection: close||"));
}

#[test]
fn encodes_a_request_of_1_0() {
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
fn headers_of_the_user_replace_the_defaults() {
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
}

#[test]
fn sends_a_chunked_body_as_one_chunk_and_the_last() {
    let headers = [("Transfer-Encoding", "chunked")];
    let encoded = |body: &str| encoded("POST", HttpVersion::Http11, &headers, body);
    let (open, last) = encoded("a body of more than 16 bytes");
    let end = "Transfer-Encoding: chunked||1c|a body of more than 16 bytes|0||";
    assert!(open.ends_with(end) && !open.contains("Length"), "{open}");
    assert!(last.ends_with(end) && last.contains("|Connection: close|"), "{last}");
    // An empty chunk would be the last one.
    let (open, _) = encoded("");
    assert!(open.ends_with("|Transfer-Encoding: chunked||0||"), "{open}");
}

#[test]
fn a_bare_request_has_no_default_headers() {
    let mut plan = plan(&["POST"]);
    let call = &mut plan.calls[0];
    (call.bare, call.path, call.body) = (true, "x y".into(), b"abc".to_vec());
    call.headers = vec![("A".to_owned(), "b".to_owned())].into();
    call.raw = b"C:d\nE".to_vec();
    for last in [false, true] {
        let mut out = Vec::new();
        H1::new(&plan).encode(&mut Conn::default(), 0, last, &mut out);
        assert_eq!(out, b"POST x y HTTP/1.1\r\nA: b\r\nC:d\nE\r\nabc");
    }
}

/// After a `Connection` header of the user that ends the connection, nothing more may be sent.
#[test]
fn recognizes_a_close_in_headers_of_the_user() {
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
        plan.calls[0].headers = vec![("connection".to_owned(), value.to_owned())].into();
        let (mut h1, mut conn) = (H1::new(&plan), Conn::default());
        h1.encode(&mut conn, 0, false, &mut Vec::new());
        assert_eq!(h1.capacity(&conn, 1, 2), u32::from(!closes), "{version:?} {value}");
    }
}

/// A plan of sessions with cookies. Each makes one call with this method and these templates.
fn filling(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> prony_plan::plan::Plan {
    let mut plan = plan(&[method]);
    let call = &mut plan.calls[0];
    (call.template, call.path, call.body) = (true, path.to_owned(), body.as_bytes().to_vec());
    call.headers = headers.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect();
    let burst = Burst::of(vec![0], Think::None);
    plan.sessions = Some(Sessions {
        cookies: Cookies::Session,
        ..Sessions::plain(vec![SessionKind { name: String::new(), weight: 1, bursts: vec![burst] }])
    });
    plan
}

/// The request of session `session` with these cookies in its jar.
fn encode_filled(plan: &prony_plan::plan::Plan, session: u64, cookies: &[&str]) -> Vec<u8> {
    let script = Script::new(plan).expect("a valid plan").expect("templates");
    let (mut locals, mut filled, mut jar) =
        (Locals::default(), Filled::default(), Jar::new(Cookies::Session));
    for line in cookies {
        let origin = Origin { authority: &plan.calls[0].authority, path: b"/", secure: false };
        jar.set(line.as_bytes(), origin, None, Nanos::ZERO);
    }
    script.begin(session, &mut locals);
    script
        .fill(0, 0, &locals, Some((&mut jar, false)), Nanos::ZERO, &mut filled)
        .expect("every field has a value");
    H1::new(plan).encode_filled(&mut Conn::default(), 0, &filled)
}

#[test]
fn a_filled_request_has_its_own_parts_and_length() {
    let headers = [("X-A", "<{{session}}>"), ("Cookie", "own={{session}}"), ("X-B", "b")];
    let plan = filling("POST", "/s/{{session}}", &headers, "{\"n\":{{counter}}}");
    let start = "POST /s/8 HTTP/1.1|Host: localhost:8080|User-Agent: prony/V|Accept: */*|X-A: <8>|";
    for (cookies, header) in
        [(&["a=1", "b=2"][..], "Cookie: own=8; a=1; b=2"), (&[], "Cookie: own=8")]
    {
        let text = String::from_utf8(encode_filled(&plan, 7, cookies)).expect("text");
        let version = concat!("prony/", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            text.replace(version, "prony/V").replace("\r\n", "|"),
            format!("{start}{header}|X-B: b|Content-Length: 7||{{\"n\":8}}")
        );
    }
    let chunked = [("transfer-encoding", "chunked")];
    let plan = filling("POST", "/", &chunked, "{\"n\":{{counter}}}");
    let text = String::from_utf8(encode_filled(&plan, 7, &[])).expect("text");
    let end = "\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"n\":8}\r\n0\r\n\r\n";
    assert!(text.ends_with(end) && !text.contains("Length"), "{text}");
    let plan = filling("GET", "/", &[], "");
    let text = String::from_utf8(encode_filled(&plan, 7, &["a=1"])).expect("text");
    assert!(text.ends_with("Accept: */*\r\nCookie: a=1\r\n\r\n"), "{text}");
    let text = String::from_utf8(encode_filled(&plan, 7, &[])).expect("text");
    assert!(text.ends_with("Accept: */*\r\n\r\n"), "{text}");
}

proptest! {
    /// Another implementation reads the filled-in parts from the request.
    #[test]
    fn filled_requests_are_read_back(
        length in 1_u32..100,
        session in 0_u64..1000,
        plain in "[a-z{}/?=&%]{0,10}",
        body in "[a-z{} \r\n]{0,20}",
    ) {
        prop_assume!(!plain.contains("{{") && !plain.ends_with('{'));
        prop_assume!(!body.contains("{{") && !body.ends_with('{'));
        let text = format!("{{{{random.text {length}}}}}");
        let path = format!("/{plain}{text}");
        let plan = filling("PUT", &path, &[("X-Value", &text)], &format!("{body}{text}"));
        let bytes = encode_filled(&plan, session, &["sid=1"]);
        let mut fields = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut fields);
        let status = request.parse(&bytes).expect("a request");
        let httparse::Status::Complete(head) = status else { panic!("the head does not end") };
        let field = |name: &str| {
            let field = request.headers.iter().find(|h| h.name == name).expect("the header");
            std::str::from_utf8(field.value).expect("text")
        };
        let drawn = &request.path.expect("a path")[1 + plain.len()..];
        prop_assert_eq!(drawn.len(), length as usize);
        prop_assert!(drawn.bytes().all(|b| b.is_ascii_alphanumeric()));
        let own = std::str::from_utf8(&bytes[head..]).expect("text");
        prop_assert_eq!(&own[..body.len()], body.as_str());
        prop_assert_eq!(own.len(), body.len() + length as usize);
        prop_assert_eq!(field("Content-Length"), own.len().to_string());
        prop_assert_eq!(field("Cookie"), "sid=1");
        prop_assert_eq!(field("X-Value").len(), length as usize);
        prop_assert_ne!((drawn, field("X-Value")), (&own[body.len()..], drawn), "drawn once");
    }
}
