//! What is answered to well-formed requests.

use expect_test::expect;
use prony_base::machine::CloseHow;
use prony_base::units::Span;

use super::{Rig, at, get, replies};
use crate::serve::{Latency, ServerBehavior};

fn answer(behavior: &ServerBehavior, request: &str) -> String {
    let mut rig = Rig::new(behavior.clone());
    let link = rig.connect();
    rig.send(link, request);
    rig.run_until(at(10_000));
    let closed = match rig.links[link].closed {
        Some((_, CloseHow::Orderly)) => "\n(closed)",
        Some((_, CloseHow::Reset)) => "\n(reset)",
        None => "",
    };
    rig.text(link).replace('\r', "") + closed
}

#[test]
fn default_reply() {
    let behavior = ServerBehavior { size: 5, ..ServerBehavior::default() };
    expect![[r#"
        HTTP/1.1 200 OK
        Server: prony
        Content-Type: text/plain
        Content-Length: 5

        ABCDE"#]]
    .assert_eq(&answer(&behavior, &get("/")));
    assert_eq!(answer(&behavior, &get("/any/thing?x=/echo")), answer(&behavior, &get("/")));
    assert_eq!(answer(&behavior, &get("http://host:80/x")), answer(&behavior, &get("/")));
    assert_eq!(answer(&behavior, &get("HTTP://host?q")), answer(&behavior, &get("/")));
    let options = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(answer(&behavior, options), answer(&behavior, &get("/")));
}

#[test]
fn head_reply_has_headers_and_no_body() {
    let behavior = ServerBehavior { size: 5, ..ServerBehavior::default() };
    expect![[r#"
        HTTP/1.1 200 OK
        Server: prony
        Content-Type: text/plain
        Content-Length: 5

    "#]]
    .assert_eq(&answer(&behavior, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"));
}

#[test]
fn connection_header_by_version() {
    let behavior = ServerBehavior { size: 1, ..ServerBehavior::default() };
    for (request, says, closes) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None, false),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Some("close"), true),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n", Some("close"), true),
        ("GET / HTTP/1.0\r\n\r\n", Some("close"), true),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive"), false),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive, close\r\n\r\n", Some("close"), true),
    ] {
        let text = answer(&behavior, request);
        let said = text.lines().find_map(|l| l.strip_prefix("Connection: "));
        assert_eq!((said, text.ends_with("(closed)")), (says, closes), "{request}");
    }
}

#[test]
fn bytes_of_any_size() {
    for n in [0, 1, 63, 64, 16_383, 16_384, 16_385, 1_000_000] {
        let mut rig = Rig::new(ServerBehavior::default());
        let link = rig.connect();
        rig.send(link, get(&format!("/bytes/{n}")) + &get("/bytes/3"));
        let got = replies(&rig.bytes(link));
        assert_eq!((got[0].status, got[0].body.len()), (200, n));
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        assert!(got[0].body.iter().enumerate().all(|(i, b)| *b == letters[i % 64]));
        assert_eq!(got[1].body, b"ABC");
    }
}

#[test]
fn status_path_sets_status_and_body() {
    let behavior = ServerBehavior { size: 2, ..ServerBehavior::default() };
    expect![[r#"
        HTTP/1.1 503 Service Unavailable
        Server: prony
        Content-Type: text/plain
        Content-Length: 2

        AB"#]]
    .assert_eq(&answer(&behavior, &get("/status/503")));
    assert_eq!(
        answer(&behavior, &get("/status/204")),
        "HTTP/1.1 204 No Content\nServer: prony\n\n"
    );
    assert_eq!(
        answer(&behavior, &get("/status/304")),
        "HTTP/1.1 304 Not Modified\nServer: prony\n\n"
    );
    assert!(answer(&behavior, &get("/status/299")).starts_with("HTTP/1.1 299 \n"));
    for wrong in ["/status/100", "/status/600", "/status/", "/status/x", "/bytes/", "/bytes/-1"] {
        assert!(answer(&behavior, &get(wrong)).starts_with("HTTP/1.1 404 Not Found\n"), "{wrong}");
    }
    for wrong in ["/bytes/9999999999999999", "/delay/soon", "/delay/2h", "/delay", "/echo/x"] {
        assert!(answer(&behavior, &get(wrong)).starts_with("HTTP/1.1 404 Not Found\n"), "{wrong}");
    }
}

#[test]
fn delay_path_replaces_the_service_time() {
    let behavior =
        ServerBehavior { latency: Latency::Fixed(Span::from_secs(1)), ..ServerBehavior::default() };
    let mut rig = Rig::new(behavior);
    let (a, b) = (rig.connect(), rig.connect());
    rig.send(a, get("/delay/30ms"));
    rig.send(b, get("/"));
    rig.run_until(at(5000));
    assert_eq!(rig.links[a].got[0].0, at(30));
    assert_eq!(rig.links[b].got[0].0, at(1000));
}

#[test]
fn echoes_bodies_of_both_framings() {
    let behavior = ServerBehavior::default();
    let expected = expect![[r#"
        HTTP/1.1 200 OK
        Server: prony
        Content-Type: application/octet-stream
        Content-Length: 11

        hello world"#]];
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\n";
    let plain = format!("{head}Content-Length: 11\r\n\r\nhello world");
    let chunked = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n\
         5;x=\"y\"\r\nhello\r\n006\r\n world\r\n0\r\nT: x\r\n\r\n"
    );
    expected.assert_eq(&answer(&behavior, &plain));
    expected.assert_eq(&answer(&behavior, &chunked));
    assert!(answer(&behavior, &get("/echo")).ends_with("Content-Length: 0\n\n"));
}

#[test]
fn unused_request_bodies_are_skipped() {
    let mut rig = Rig::new(ServerBehavior::default());
    let link = rig.connect();
    let body = "GET /status/500 HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    rig.send(link, post + body + &get("/status/201"));
    assert_eq!(rig.statuses(link), [200, 201]);
}

#[test]
fn chunked_replies() {
    let behavior = ServerBehavior { size: 20_000, chunked: true, ..ServerBehavior::default() };
    let text = answer(&behavior, &get("/"));
    let (head, body) = text.split_once("\n\n").unwrap();
    assert!(head.ends_with("Transfer-Encoding: chunked") && !head.contains("Content-Length"));
    let (size, rest) = body.split_once('\n').unwrap();
    assert_eq!((size, &rest[16_384..16_390]), ("4000", "\ne20\nA"));
    assert!(rest.ends_with("f\n0\n\n"), "{}", &rest[rest.len() - 20..]);
    assert_eq!(body.len(), 5 + 16_384 + 1 + 4 + 3_616 + 1 + 3);
    assert!(answer(&behavior, &get("/bytes/0")).ends_with("chunked\n\n0\n\n"));
    assert!(answer(&behavior, "GET / HTTP/1.0\r\n\r\n").contains("Content-Length: 20000"));
    assert!(answer(&behavior, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("chunked\n\n"));
}

#[test]
fn continue_precedes_the_reply_and_keeps_order() {
    let mut rig = Rig::new(ServerBehavior { size: 0, ..ServerBehavior::default() });
    let link = rig.connect();
    let post =
        "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    rig.send(link, get("/delay/20ms") + post);
    assert_eq!(rig.text(link), "");
    rig.run_until(at(20));
    let text = rig.text(link);
    let (first, second) = text.split_at(text.find("HTTP/1.1 100").unwrap());
    assert!(first.starts_with("HTTP/1.1 200"));
    assert_eq!(second, "HTTP/1.1 100 Continue\r\n\r\n");
    rig.send(link, "ab");
    assert_eq!(rig.statuses(link), [200, 100, 200]);
    assert_eq!((rig.served().continues, rig.served().replies), (1, 2));
}
