//! Scripted bytes of both sides.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::log::Counts;

const NOW: Duration = Duration::from_millis(1);

/// A pair, with what it has given to both sides.
struct Rig {
    log: Arc<Log>,
    pair: Pair,
    target: Vec<u8>,
    client: Vec<u8>,
}

impl Rig {
    fn new() -> Self {
        let log = Arc::new(Log::default());
        let pair = Pair::new(Arc::clone(&log), "target:81".into(), Ipv4Addr::LOCALHOST.into());
        Self { log, pair, target: Vec::new(), client: Vec::new() }
    }

    fn asks(&mut self, text: &str) -> &mut Self {
        self.pair.client_sent(text.as_bytes(), NOW);
        self.taken()
    }

    fn replies(&mut self, text: &str) -> &mut Self {
        self.pair.target_sent(text.as_bytes(), NOW);
        self.taken()
    }

    fn ends(&mut self) -> &mut Self {
        self.pair.target_ended(NOW);
        self.taken()
    }

    fn taken(&mut self) -> &mut Self {
        self.target.append(&mut self.pair.to_target);
        self.client.append(&mut self.pair.to_client);
        self
    }

    fn to_target(&self) -> &str {
        str::from_utf8(&self.target).expect("text")
    }

    fn to_client(&self) -> &str {
        str::from_utf8(&self.client).expect("text")
    }

    /// Of each exchange: the path, the status, the bodies, how it ended.
    fn log(&self) -> Vec<(String, u16, String, String, Ended)> {
        let text = |body: &Body| String::from_utf8(body.bytes.clone()).expect("text");
        let all = self.log.read().0.into_iter().map(|e| {
            let (status, body) = match &e.reply {
                Some(reply) => (reply.head.status, text(&reply.body)),
                None => (0, String::new()),
            };
            (e.request.target, status, text(&e.body), body, e.how)
        });
        all.collect()
    }

    fn counts(&self) -> Counts {
        self.log.read().1
    }
}

fn complete(
    path: &str,
    status: u16,
    sent: &str,
    body: &str,
) -> (String, u16, String, String, Ended) {
    (path.into(), status, sent.into(), body.into(), Ended::Complete)
}

#[test]
fn only_the_host_changes() {
    let mut rig = Rig::new();
    rig.asks("GET /a HTTP/1.1\r\nhost:   127.0.0.1:8000\r\nX: Host: y\r\n").asks("A:b\r\n\r\n");
    assert_eq!(
        rig.to_target(),
        "GET /a HTTP/1.1\r\nhost:   target:81\r\nX: Host: y\r\nA:b\r\n\r\n"
    );
    let reply = "HTTP/1.1 200 OK\r\nContent-Type:text/plain\r\nContent-Length: 2\r\n\r\nok";
    rig.replies(&reply[..20]).replies(&reply[20..]);
    assert_eq!(rig.to_client(), reply);
    assert_eq!(rig.log(), [complete("/a", 200, "", "ok")]);
    assert!(rig.pair.is_idle());
    assert_eq!(rig.log.read().0[0].host, "127.0.0.1:8000");
}

#[test]
fn framing_passes_as_it_is() {
    let mut rig = Rig::new();
    let request = "PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3;e\r\nabc\r\n0\r\nT: 1\r\n\r\n";
    let reply = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n\
                 2\r\nde\r\n1\r\nf\r\n0\r\n\r\n";
    for part in request.as_bytes().chunks(3) {
        rig.asks(str::from_utf8(part).expect("text"));
    }
    for part in reply.as_bytes().chunks(5) {
        rig.replies(str::from_utf8(part).expect("text"));
    }
    assert_eq!(rig.to_target(), request.replace("Host: x", "Host: target:81"));
    assert_eq!(rig.to_client(), reply);
    assert_eq!(rig.log(), [complete("/a", 200, "abc", "def")]);
}

#[test]
fn pipelined_requests_get_their_own_replies() {
    let mut rig = Rig::new();
    rig.asks("HEAD /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
    rig.asks("POST /c HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
    rig.replies(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n",
    );
    rig.replies("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Made\r\n\r\nuntil the end").ends();
    let all = rig.log();
    assert_eq!(all[0], complete("/a", 200, "", ""));
    assert_eq!(all[1], complete("/b", 304, "", ""));
    assert_eq!((all[2].1, all[2].2.as_str(), all[2].4), (201, "x", Ended::Complete));
    // Without a type, it is not known to be text.
    assert_eq!(
        (all[2].3.as_str(), rig.log.read().0[2].reply.as_ref().unwrap().body.length),
        ("", 13)
    );
}

#[test]
fn a_client_that_waits_for_100_gets_it() {
    let mut rig = Rig::new();
    rig.asks("POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    rig.replies("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(rig.to_client(), "HTTP/1.1 100 Continue\r\n\r\n");
    rig.asks("hi").replies("HTTP/1.1 204 Done\r\n\r\n");
    assert_eq!(rig.log(), [complete("/a", 204, "hi", "")]);
}

#[test]
fn a_reply_before_the_end_of_the_request_is_recorded_with_all_of_it() {
    let mut rig = Rig::new();
    rig.asks("POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nab");
    rig.replies("HTTP/1.1 413 Long\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(rig.log(), []);
    rig.asks("cd");
    assert_eq!(rig.log(), [complete("/a", 413, "abcd", "")]);
}

#[test]
fn bytes_after_an_upgrade_pass_unread() {
    let mut rig = Rig::new();
    rig.asks("GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x01\x02");
    // What follows may be a request, if the target refuses.
    assert!(!rig.to_target().ends_with('\x02'));
    rig.replies("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n\x03")
        .asks("\x04")
        .replies("\x05");
    assert!(rig.to_target().ends_with("\r\n\r\n\x01\x02\x04"), "{}", rig.to_target());
    assert!(rig.to_client().ends_with("\x03\x05"));
    assert_eq!(rig.log()[0].4, Ended::Upgraded);
    assert!(!rig.pair.is_idle());
    let mut refused = Rig::new();
    refused.asks("GET /ws HTTP/1.1\r\nUpgrade: h2c\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    refused.replies(ok).replies(ok);
    assert_eq!(refused.log(), [complete("/ws", 200, "", ""), complete("/b", 200, "", "")]);
}

#[test]
fn a_target_that_does_not_reply_is_502() {
    let mut rig = Rig::new();
    rig.asks("GET /a HTTP/1.1\r\n\r\n").ends();
    assert!(rig.to_client().starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{}", rig.to_client());
    assert_eq!((rig.log()[0].4, rig.counts().bad_gateway), (Ended::NoReply, 1));
    let mut refused = Rig::new();
    refused.asks("GET /a HTTP/1.1\r\n\r\n").pair.unreachable("no");
    refused.taken();
    assert!(refused.to_client().ends_with("\r\n\r\nprony record: no\n"), "{}", refused.to_client());
    assert_eq!((refused.log()[0].4, refused.counts().bad_gateway), (Ended::NoReply, 1));
    // A client knows what the end of a connection means that has had replies.
    let mut reused = Rig::new();
    reused.asks("GET /a HTTP/1.1\r\n\r\n").replies("HTTP/1.1 204 No\r\n\r\n");
    reused.asks("GET /b HTTP/1.1\r\n\r\n").ends();
    assert_eq!(reused.to_client(), "HTTP/1.1 204 No\r\n\r\n");
    assert_eq!((reused.log()[1].4, reused.counts().bad_gateway), (Ended::NoReply, 0));
}

#[test]
fn a_cut_reply_is_passed_on_as_far_as_it_came() {
    for reply in ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "HTTP/1.1 2"] {
        let mut rig = Rig::new();
        rig.asks("GET /a HTTP/1.1\r\n\r\n").replies(reply).ends();
        assert_eq!(rig.to_client(), reply);
        assert_eq!(
            (rig.log()[0].4, rig.counts()),
            (Ended::Cut, Counts { connections: 1, ..Counts::default() })
        );
    }
}

#[test]
fn what_is_no_request_to_a_reverse_proxy_is_refused() {
    for (text, status) in [
        ("CONNECT h:443 HTTP/1.1\r\n\r\n", "501"),
        ("GET http://h/ HTTP/1.1\r\n\r\n", "501"),
        ("\x16\x03\x01\x02\x00\x01 \r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "400"),
    ] {
        let mut rig = Rig::new();
        rig.asks(text).asks("more");
        assert!(rig.to_client().starts_with(&format!("HTTP/1.1 {status} ")), "{}", rig.to_client());
        assert_eq!(rig.to_target(), "", "{text}");
        assert!(rig.pair.is_refused() && rig.log().is_empty());
        assert_eq!(rig.counts().forward + rig.counts().bad_requests, 1);
    }
}

#[test]
fn what_is_no_reply_passes_unread() {
    let mut rig = Rig::new();
    rig.asks("GET /a HTTP/1.1\r\n\r\n").replies("SSH-2.0-x\r\n").replies("more").ends();
    assert_eq!(rig.to_client(), "SSH-2.0-x\r\nmore");
    assert_eq!((rig.counts().bad_replies, rig.log()[0].4), (1, Ended::Cut));
}

#[test]
fn long_bodies_are_recorded_up_to_a_limit() {
    let mut rig = Rig::new();
    let n = REQUEST_LIMIT + 10;
    rig.asks(&format!("POST /a HTTP/1.1\r\nContent-Length: {n}\r\n\r\n"));
    let piece = "x".repeat(1 << 20);
    for _ in 0..16 {
        rig.asks(&piece);
    }
    rig.asks("0123456789").replies("HTTP/1.1 204 No\r\n\r\n");
    let (all, _) = rig.log.read();
    let body = &all[0].body;
    assert_eq!((body.bytes.len(), body.length, body.is_whole()), (REQUEST_LIMIT, n as u64, false));
    assert!(rig.to_target().ends_with("xx0123456789"));
}

proptest! {
    /// Whatever arrives, bytes of the target reach the client unchanged, and nothing panics.
    #[test]
    fn replies_pass_unchanged(
        replies in prop::collection::vec(prop_oneof![
            Just(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc".to_vec()),
            Just(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()),
            Just(b"1\r\na\r\n0\r\n\r\n".to_vec()),
            Just(b"HTTP/1.1 101 Up\r\n\r\n".to_vec()),
            prop::collection::vec(any::<u8>(), 0..20),
        ], 0..6),
        asked in prop::collection::vec(prop_oneof![
            Just(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
            Just(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()),
            Just(b"1\r\na\r\n0\r\n\r\n".to_vec()),
            Just(b"GET / HTTP/1.1\r\nUpgrade: x\r\n\r\n".to_vec()),
            prop::collection::vec(any::<u8>(), 0..20),
        ], 0..6),
        piece in 1..30_usize,
    ) {
        let mut rig = Rig::new();
        for part in asked.concat().chunks(piece) {
            rig.pair.client_sent(part, NOW);
            rig.taken();
        }
        let refused = rig.client.len();
        let all = replies.concat();
        for part in all.chunks(piece) {
            rig.pair.target_sent(part, NOW);
            rig.taken();
        }
        let passed = &rig.client[refused..];
        let same = passed.iter().zip(&all).take_while(|(a, b)| a == b).count();
        // A refused client gets that reply, and nothing after it.
        let own = &passed[same..];
        let is_ours = own.is_empty() || String::from_utf8_lossy(own).contains("prony record: ");
        prop_assert!(passed == all || rig.pair.is_refused() && is_ours);
        rig.ends();
        prop_assert!(rig.pair.open.is_empty());
    }
}

/// What is behind might take a part of a body for a request: it never gets these.
#[test]
fn requests_that_servers_understand_differently_are_refused() {
    for headers in [
        "Host: a\r\nHost: b",
        "Host: a\r\nhost: a",
        "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        "Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
        "Host: a\r\nContent-Length: 5\r\nContent-Length: 5",
        "Host: a\r\nContent-Length: 5\r\nContent-Length: 6",
        "Host: a\r\nTransfer-Encoding: chunked, identity",
        "Host: a\r\nTransfer-Encoding: xchunked",
        "Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Host: a\r\nTransfer-Encoding: identity",
    ] {
        let mut rig = Rig::new();
        rig.asks(&format!("POST /a HTTP/1.1\r\n{headers}\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"));
        assert_eq!(rig.to_target(), "", "{headers}");
        assert!(rig.to_client().starts_with("HTTP/1.1 400 Bad Request\r\n"), "{headers}");
        assert_eq!(rig.counts().ambiguous, 1, "{headers}");
        assert!(rig.pair.is_refused() && rig.log().is_empty(), "{headers}");
    }
    let mut rig = Rig::new();
    rig.asks("POST /a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!((rig.to_target(), rig.counts().ambiguous), ("", 1));
    let mut rig = Rig::new();
    rig.asks("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(rig.counts().ambiguous, 0);
    assert!(rig.to_target().ends_with("0\r\n\r\n"));
}
