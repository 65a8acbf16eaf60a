//! Bytes in any segmentation, sockets that accept little, and malformed requests.

use prony_base::machine::CloseHow;
use proptest::prelude::*;

use super::{Rig, at, get, replies};
use crate::serve::{HEAD_LIMIT, ServerBehavior};

/// Malformed requests, each with the status of the expected reply.
fn malformed() -> Vec<(String, u16)> {
    let h = "Host: a\r\n";
    let post = |fields: &str| format!("POST / HTTP/1.1\r\n{h}{fields}\r\n");
    let chunked = |body: &str| post("Transfer-Encoding: chunked\r\n") + body;
    vec![
        ("GET\r\n\r\n".into(), 400),
        ("GET /\r\n\r\n".into(), 400),
        (format!("GET  / HTTP/1.1\r\n{h}\r\n"), 400),
        (format!("GET / HTTP/1.1 \r\n{h}\r\n"), 400),
        (format!(" GET / HTTP/1.1\r\n{h}\r\n"), 400),
        (format!("G(T / HTTP/1.1\r\n{h}\r\n"), 400),
        (format!("GET x HTTP/1.1\r\n{h}\r\n"), 400),
        (format!("GET * HTTP/1.1\r\n{h}\r\n"), 400),
        (format!("GET ftp://a/ HTTP/1.1\r\n{h}\r\n"), 400),
        (format!("GET http:///x HTTP/1.1\r\n{h}\r\n"), 400),
        (format!("GET /\x7f HTTP/1.1\r\n{h}\r\n"), 400),
        (format!("GET /é HTTP/1.1\r\n{h}\r\n"), 400),
        (format!("GET / http/1.1\r\n{h}\r\n"), 400),
        (format!("GET / HTTP/11\r\n{h}\r\n"), 400),
        (format!("GET / HTTP/2.0\r\n{h}\r\n"), 505),
        (format!("GET / HTTP/0.9\r\n{h}\r\n"), 505),
        (format!("CONNECT a:1 HTTP/1.1\r\n{h}\r\n"), 501),
        (format!("BREW / HTTP/1.1\r\n{h}\r\n"), 501),
        ("GET / HTTP/1.1\r\n\r\n".into(), 400),
        (format!("GET / HTTP/1.1\r\n{h}{h}\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{h}no colon\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{h}A : b\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{h}: b\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{h}A: b\r\n folded\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{h}A: b\x01c\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{h}A: b\rc\r\n\r\n"), 400),
        ("GET / HTTP/1.1\n".into(), 400),
        (format!("GET / HTTP/1.1\r\n{h}\n"), 400),
        ("\n".into(), 400),
        ("\r\n\r\n".into(), 400),
        (post("Content-Length: x\r\n"), 400),
        (post("Content-Length: -1\r\n"), 400),
        (post("Content-Length: +1\r\n"), 400),
        (post("Content-Length: \r\n"), 400),
        (post("Content-Length: 1\r\nContent-Length: 2\r\n"), 400),
        (post("Content-Length: 1, 2\r\n"), 400),
        (post("Content-Length: 99999999999999999999\r\n"), 400),
        (post("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400),
        (post("Content-Length: 101\r\n"), 413),
        (post("Transfer-Encoding: gzip\r\n"), 501),
        (post("Transfer-Encoding: gzip, chunked\r\n"), 501),
        (post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 501),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".into(), 400),
        (chunked("\r\n"), 400),
        (chunked("x\r\n"), 400),
        (chunked("-1\r\n"), 400),
        (chunked("0x1\r\n"), 400),
        (chunked("1 1\r\n"), 400),
        (chunked("1\n"), 400),
        (chunked("1;\x01\r\n"), 400),
        (chunked("1\r\nab"), 400),
        (chunked("1000000000000000\r\n"), 400),
        (chunked("65\r\n"), 413),
        (chunked(&format!("64\r\n{}\r\n1\r\n", "x".repeat(100))), 413),
        (chunked(&format!("1;{}", "x".repeat(5000))), 400),
        (chunked("0\r\nno colon\r\n"), 400),
        (chunked("0\r\nA: b\n"), 400),
        (chunked(&format!("0\r\n{}", "A: b\r\n".repeat(HEAD_LIMIT / 6 + 1))), 431),
        (chunked(&format!("0\r\nA:{}", "b".repeat(HEAD_LIMIT))), 431),
        (format!("GET /{}", "x".repeat(HEAD_LIMIT)), 431),
        (format!("GET / HTTP/1.1\r\n{h}{}", "A: b\r\n".repeat(HEAD_LIMIT / 6 + 1)), 431),
    ]
}

#[test]
fn rejects_malformed_requests() {
    let behavior = ServerBehavior { max_body: 100, ..ServerBehavior::default() };
    for (bytes, status) in malformed() {
        let shown = &bytes[..bytes.len().min(100)];
        let mut rig = Rig::new(behavior.clone());
        let link = rig.connect();
        rig.send(link, get("/") + &bytes);
        let got = replies(&rig.bytes(link));
        assert_eq!(got.len(), 2, "{shown:?}");
        assert_eq!((got[0].status, got[1].status), (200, status), "{shown:?}");
        assert!(got[1].head.contains("Connection: close\r\n"));
        assert!(got[1].body.ends_with(b"\n"), "the reply says why");
        let s = rig.served();
        assert_eq!((s.requests, s.bad_requests, s.replies), (1, 1, 2));
        // Further input is discarded, and the connection is closed after a timeout.
        rig.send(link, get("/"));
        assert_eq!(rig.links[link].closed, None);
        rig.run_until(at(5_000));
        assert_eq!(rig.links[link].closed, Some((at(1_000), CloseHow::Orderly)));
        assert_eq!(rig.served().requests, 1);
    }
}

#[test]
fn rejections_do_not_depend_on_segmentation() {
    let behavior = ServerBehavior { max_body: 100, ..ServerBehavior::default() };
    for (bytes, status) in malformed().into_iter().filter(|(bytes, _)| bytes.len() < 300) {
        let mut rig = Rig::new(behavior.clone());
        let link = rig.connect();
        for b in bytes.bytes() {
            rig.send(link, [b]);
        }
        assert_eq!(rig.statuses(link), [status], "{bytes:?}");
    }
}

#[test]
fn accepts_requests_at_the_limits() {
    let behavior = ServerBehavior { max_body: 100, ..ServerBehavior::default() };
    let h = "Host: a\r\n";
    let first = format!("GET / HTTP/1.1\r\n{h}A: ");
    let fill = HEAD_LIMIT - first.len() - 4;
    for request in [
        format!("{first}{}\r\n\r\n", "x".repeat(fill)),
        format!("\r\nGET / HTTP/1.1\r\n{h}\r\n"),
        "GET / HTTP/1.1\r\nHost:\r\nA:b\r\nC:\t d \r\n\r\n".into(),
        format!("GET / HTTP/1.2\r\n{h}\r\n"),
        format!("POST / HTTP/1.1\r\n{h}Content-Length: 100\r\n\r\n{}", "x".repeat(100)),
        format!("POST / HTTP/1.1\r\n{h}Content-Length: 2, 2\r\nContent-Length: 2\r\n\r\nab"),
        format!("POST / HTTP/1.1\r\n{h}Content-Length: 0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{h}Transfer-Encoding: Chunked\r\n\r\n0 ; x\r\n\r\n"),
    ] {
        let mut rig = Rig::new(behavior.clone());
        let link = rig.connect();
        rig.send(link, request.clone() + &get("/status/201"));
        assert_eq!(rig.statuses(link), [200, 201], "{:?}", &request[..60.min(request.len())]);
    }
}

#[test]
fn rejects_a_head_one_byte_over_the_limit() {
    let first = "GET / HTTP/1.1\r\nHost: a\r\nA: ";
    let fill = HEAD_LIMIT - first.len() - 3;
    let mut rig = Rig::new(ServerBehavior::default());
    let link = rig.connect();
    rig.send(link, format!("{first}{}\r\n\r\n", "x".repeat(fill)));
    assert_eq!(rig.statuses(link), [431]);
}

/// A conversation with every kind of request, and the replies to it.
fn conversation() -> (String, Vec<u16>) {
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\n";
    let text = get("/")
        + &get("/")
        + &get("/bytes/40000")
        + post
        + "Content-Length: 3\r\n\r\nabc"
        + &get("/")
        + post
        + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nA: b\r\n\r\n"
        + "HEAD /bytes/0 HTTP/1.1\r\nHost: a\r\n\r\n"
        + &get("/status/503")
        + &get("/")
        + "\r\n"
        + "GET / HTTP/1.1\r\nHost: other\r\n\r\n"
        + "junk\r\n\r\n";
    (text, vec![200, 200, 200, 200, 200, 200, 200, 503, 200, 200, 400])
}

proptest! {
    #[test]
    fn replies_do_not_depend_on_segmentation(cuts in prop::collection::vec(0..600usize, 0..40)) {
        let (text, statuses) = conversation();
        let mut whole = Rig::new(ServerBehavior::default());
        let link = whole.connect();
        whole.send(link, &text);
        prop_assert_eq!(whole.statuses(link), statuses);

        let mut cut = Rig::new(ServerBehavior::default());
        let link = cut.connect();
        let mut ends: Vec<usize> = cuts.into_iter().filter(|c| *c < text.len()).collect();
        ends.push(text.len());
        ends.sort_unstable();
        let mut from = 0;
        for to in ends {
            cut.send(link, &text[from..to]);
            from = to;
        }
        prop_assert_eq!(cut.text(link), whole.text(0));
        prop_assert_eq!(cut.served(), whole.served());
    }

    #[test]
    fn replies_do_not_depend_on_the_socket_buffer(
        windows in prop::collection::vec(1..9000usize, 1..30),
    ) {
        let (text, _) = conversation();
        let mut whole = Rig::new(ServerBehavior::default());
        let link = whole.connect();
        whole.send(link, &text);

        let mut slow = Rig::new(ServerBehavior::default());
        let link = slow.connect();
        slow.links[link].window = 0;
        slow.send(link, &text);
        prop_assert_eq!(slow.served().replies, 0);
        let mut windows = windows.into_iter().cycle();
        while slow.links[link].blocked {
            slow.open_window(link, windows.next().expect("endless"));
        }
        prop_assert!(slow.bytes(link) == whole.bytes(0));
        prop_assert_eq!(slow.served(), whole.served());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut rig = Rig::new(ServerBehavior::default());
        let link = rig.connect();
        rig.send(link, bytes);
        rig.half_close(link);
    }

    #[test]
    fn mangled_requests_do_not_panic(
        at in 0..600usize,
        byte in any::<u8>(),
        gone in 0..20usize,
    ) {
        let mut bytes = conversation().0.into_bytes();
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        bytes.drain(at..(at + gone).min(bytes.len()));
        let mut rig = Rig::new(ServerBehavior::default());
        let link = rig.connect();
        rig.send(link, bytes);
        rig.half_close(link);
        rig.run_until(super::at(10_000));
        prop_assert!(rig.links[link].closed.is_some());
        prop_assert_eq!(rig.served().outstanding, 0);
    }
}

#[test]
fn sends_many_constant_replies_through_a_small_socket_buffer() {
    let mut rig = Rig::new(ServerBehavior { size: 10, ..ServerBehavior::default() });
    let link = rig.connect();
    rig.links[link].window = 777;
    rig.send(link, get("/").repeat(5_000));
    while rig.links[link].blocked {
        rig.open_window(link, 777);
    }
    let got = replies(&rig.bytes(link));
    assert_eq!(got.len(), 5_000);
    assert!(got.iter().all(|r| r.status == 200 && r.body == b"ABCDEFGHIJ"));
    assert_eq!((rig.served().requests, rig.served().replies), (5_000, 5_000));
}

#[test]
fn half_closed_client_gets_its_replies() {
    let mut rig = Rig::new(ServerBehavior::default());
    let link = rig.connect();
    rig.send(link, get("/delay/10ms") + &get("/"));
    rig.half_close(link);
    assert_eq!(rig.links[link].closed, None);
    rig.run_until(at(20));
    assert_eq!(rig.statuses(link), [200, 200]);
    assert_eq!(rig.links[link].closed, Some((at(10), CloseHow::Orderly)));
    assert_eq!(rig.served().cut_requests, 0);
}

#[test]
fn counts_requests_cut_off_by_the_client() {
    for part in ["GET", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"] {
        let mut rig = Rig::new(ServerBehavior::default());
        let link = rig.connect();
        rig.send(link, part);
        rig.half_close(link);
        assert_eq!(rig.links[link].closed, Some((at(0), CloseHow::Orderly)));
        assert_eq!((rig.served().cut_requests, rig.served().requests), (1, 0));
    }
}
