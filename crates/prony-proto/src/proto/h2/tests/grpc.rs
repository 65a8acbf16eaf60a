//! Replies of gRPC: what their trailers and messages mean, one row for each rule.

use super::*;
use prony_base::grpc::{Gzip, prefix};
use prony_base::units::Span;
use prony_plan::plan::GrpcCall;

fn call(streams: bool) -> CallSpec {
    CallSpec {
        path: "/p.S/M".into(),
        body: [&prefix(false, 2)[..], b"hi"].concat(),
        grpc: Some(Box::new(GrpcCall { streams, ..GrpcCall::default() })),
        ..post(0)
    }
}

impl Server {
    fn grpc_head(self) -> Self {
        self.headers(1, 0, &[(":status", "200"), ("content-type", "application/grpc")])
    }

    fn message(self, flag: u8, length: u32, bytes: usize) -> Self {
        let mut head = prefix(false, length);
        head[0] = flag;
        self.frame(kind::DATA, 0, 1, &[&head[..], &vec![b'm'; bytes]].concat())
    }

    fn status(self, status: &str) -> Self {
        self.headers(1, 1, &[("grpc-status", status), ("grpc-message", "why")])
    }
}

#[track_caller]
fn row(streams: bool, server: Server, expected: &str) {
    for piece in [usize::MAX, 1, 3, 1000] {
        let mut client = Client::new(&plan(vec![call(streams)]));
        client.send(0, 1);
        client.receive(&server.0, piece).expect("the connection stays open");
        assert_eq!(client.seen.all(), expected, "in pieces of {piece}");
    }
}

#[test]
fn the_status_is_that_of_the_trailers() {
    let s = || Server::new().grpc_head();
    row(false, s().message(0, 3, 3).status("0"), "OK");
    row(false, s().message(0, 0, 0).status("0"), "OK");
    row(false, s().message(0, 3, 3).status("5"), "NOT_FOUND");
    row(false, s().status("14"), "UNAVAILABLE");
    row(false, s().message(0, 3, 3).status("99"), "UNKNOWN");
    let only = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "12")];
    row(false, Server::new().headers(1, 1, &only), "UNIMPLEMENTED");
    row(true, s().status("0"), "OK");
    row(true, s().message(0, 3, 3).message(0, 9, 9).status("0"), "OK");
}

#[test]
fn a_reply_without_a_status_is_a_failure() {
    let s = || Server::new().grpc_head();
    row(false, s().message(0, 3, 3).data(1, 1, 0), "UNKNOWN NoGrpcStatus");
    row(true, s().data(1, 1, 0), "UNKNOWN NoGrpcStatus");
    let other = s().message(0, 3, 3).headers(1, 1, &[("x", "y")]);
    row(false, other, "UNKNOWN NoGrpcStatus");
    let no_number = s().message(0, 3, 3).headers(1, 1, &[("grpc-status", "x")]);
    row(false, no_number, "UNKNOWN NoGrpcStatus");
}

#[test]
fn a_status_of_http_stands_for_one_of_grpc() {
    for (status, expected) in [
        ("401", "UNAUTHENTICATED"),
        ("403", "PERMISSION_DENIED"),
        ("404", "UNIMPLEMENTED"),
        ("503", "UNAVAILABLE"),
        ("500", "UNKNOWN"),
    ] {
        let head = [(":status", status), ("content-type", "text/html")];
        row(false, Server::new().headers(1, 0, &head).data(1, 1, 9), expected);
        row(false, Server::new().headers(1, 1, &head), expected);
    }
    // The type of the body is wrong.
    let html = [(":status", "200"), ("content-type", "text/html")];
    row(false, Server::new().headers(1, 0, &html).data(1, 1, 9), "UNKNOWN");
    // A status of gRPC has precedence.
    let both = [(":status", "503"), ("content-type", "application/grpc"), ("grpc-status", "8")];
    row(false, Server::new().headers(1, 1, &both), "RESOURCE_EXHAUSTED");
    let mut client = Client::new(&plan(vec![call(false)]));
    client.send(0, 1);
    client.receive(&Server::new().headers(1, 1, &[(":status", "503")]).0, 9).unwrap();
    assert_eq!(client.h2.counts().unwrap().without_status["503"], 1);
}

#[test]
fn malformed_messages_are_a_failure() {
    let s = || Server::new().grpc_head();
    row(false, s().status("0"), "INTERNAL BadMessage");
    row(false, s().message(0, 3, 2).status("0"), "INTERNAL BadMessage");
    row(true, s().frame(kind::DATA, 0, 1, &[0, 0]).status("0"), "INTERNAL BadMessage");
    row(false, s().message(0, 3, 3).message(0, 3, 3).status("0"), "INTERNAL BadMessage");
    row(false, s().message(1, 3, 3).status("0"), "INTERNAL BadMessage");
    row(false, s().message(2, 3, 3).status("0"), "INTERNAL BadMessage");
    row(true, s().message(0, u32::MAX, 3), "RESOURCE_EXHAUSTED BadMessage");
    // Bytes after a reset are expected.
    let mut client = Client::new(&plan(vec![call(false)]));
    client.send(0, 1);
    client.receive(&s().message(7, 3, 3).0, 1000).unwrap();
    let reset = client.owed().into_iter().find(|f| f.head.kind == kind::RST_STREAM).unwrap();
    assert_eq!(reset.payload, Code::CANCEL.0.to_be_bytes());
    client.receive(&Server::default().message(0, 3, 3).status("0").0, 1000).unwrap();
}

/// A body of messages, all compressed.
fn packed(messages: &[&[u8]]) -> Vec<u8> {
    let (mut body, mut out) = (Vec::new(), Vec::new());
    for message in messages {
        body.extend(prefix(false, message.len() as u32));
        body.extend_from_slice(message);
    }
    Gzip::default().pack(&body, &mut out);
    out
}

#[test]
fn compressed_messages_are_read() {
    let with = |encoding, body: &[u8]| {
        let head =
            [(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", encoding)];
        Server::new().headers(1, 0, &head).frame(kind::DATA, 0, 1, body).status("0")
    };
    let body = [&packed(&[b"one ", b"two "])[..], b"\0\0\0\0\x05three"].concat();
    for piece in [usize::MAX, 1, 2, 7] {
        let mut client = Client::new(&plan(vec![call(true)]));
        client.send(0, 1);
        client.receive(&with("gzip", &body).0, piece).unwrap();
        assert_eq!(client.seen.all(), "OK");
        assert_eq!(client.seen.exchanges.values().next().unwrap().body, b"one two three");
    }
    // Neither an encoding that is not known, nor none; and no other bytes.
    row(false, with("gzip", &packed(&[b"one"])), "OK");
    row(false, with("deflate", &packed(&[b"one"])), "INTERNAL BadMessage");
    row(false, with("identity", &packed(&[b"one"])), "INTERNAL BadMessage");
    row(false, with("gzip", b"\x01\0\0\0\x03mmm"), "INTERNAL BadMessage");
    row(false, with("gzip", b"\x01\0\0\0\0"), "INTERNAL BadMessage");
    row(false, with("gzip", b"\x02\0\0\0\x03mmm"), "INTERNAL BadMessage");
    row(false, with("deflate", b"\0\0\0\0\x03mmm"), "OK");
    // Few bytes that would become many.
    let bomb = packed(&[&vec![0; 65 << 20][..]]);
    assert!(bomb.len() < 70_000, "{}", bomb.len());
    let mut server = Server::new().headers(
        1,
        0,
        &[(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", "gzip")],
    );
    for part in bomb.chunks(16_000) {
        server = server.frame(kind::DATA, 0, 1, part);
    }
    let mut client = Client::new(&plan(vec![call(false)]));
    client.send(0, 1);
    client.receive(&server.0, usize::MAX).unwrap();
    assert_eq!(client.seen.all(), "RESOURCE_EXHAUSTED BadMessage");
}

/// Compressed are the messages of the plan, and those that are filled in.
#[test]
fn messages_are_sent_compressed() {
    let mut spec = call(true);
    spec.grpc.as_mut().unwrap().gzip = true;
    spec.body.extend(prefix(false, 0));
    let whole = spec.body.clone();
    let mut client = Client::new(&plan(vec![spec]));
    let mut filled = Filled::default();
    filled.set(b"/p.S/M", b"", b"\0\0\0\0\x07another");
    let mut same = Filled::default();
    same.set(b"/p.S/M", b"", &whole);
    let rows: [(Option<&Filled>, &[&[u8]]); 4] = [
        (None, &[b"hi", b""]),
        (Some(&filled), &[b"another"]),
        (Some(&same), &[b"hi", b""]),
        (Some(&filled), &[b"another"]),
    ];
    for (filled, messages) in rows {
        let sent = frames(&client.send_filled(0, filled));
        let head = sent.iter().find(|f| f.head.kind == kind::HEADERS).unwrap();
        let mut fields = Vec::new();
        let mut decoder = prony_base::http2::hpack::Decoder::new(4096);
        if filled.is_none() {
            let push = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
            decoder.decode(&head.payload, 1 << 16, push).unwrap();
            for name in [&b"grpc-encoding"[..], b"grpc-accept-encoding"] {
                assert!(fields.contains(&(name.to_vec(), b"gzip".to_vec())), "{fields:?}");
            }
        }
        let data = sent.iter().find(|f| f.head.kind == kind::DATA).unwrap();
        assert_eq!(data.payload, packed(messages));
    }
}

/// The first of two ends counts, and a reset before any of them is a failure of its own.
#[test]
fn resets_and_statuses() {
    let s = || Server::new().grpc_head();
    row(false, s().message(0, 3, 3).status("0").rst(1, Code::NO_ERROR), "OK");
    row(false, s().message(0, 3, 3).rst(1, Code::CANCEL), "StreamReset");
}

#[test]
fn messages_reach_the_sink_without_their_prefixes() {
    let server = Server::new().grpc_head().message(0, 3, 3).message(0, 2, 2).status("0");
    for piece in [usize::MAX, 1, 2, 7] {
        let mut client = Client::new(&plan(vec![call(true)]));
        client.send(0, 1);
        client.receive(&server.0, piece).unwrap();
        assert_eq!(client.seen.exchanges.values().next().unwrap().body, b"mmmmm");
    }
}

#[test]
fn requests_have_the_fields_of_grpc() {
    let sent = frames(&Client::new(&plan(vec![call(false)])).send(0, 1));
    let head = sent.iter().find(|f| f.head.kind == kind::HEADERS).unwrap();
    let mut fields = Vec::new();
    let mut decoder = prony_base::http2::hpack::Decoder::new(4096);
    let push = |name: &[u8], value: &[u8]| {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields.push(format!("{}: {}", text(name), text(value)));
    };
    decoder.decode(&head.payload, 1 << 16, push).unwrap();
    fields.retain(|field| !field.starts_with("user-agent"));
    fields.sort();
    let expected = [
        ":authority: h:80",
        ":method: POST",
        ":path: /p.S/M",
        ":scheme: http",
        "content-type: application/grpc",
        "te: trailers",
    ];
    assert_eq!(fields, expected);
    let data = sent.iter().find(|f| f.head.kind == kind::DATA).unwrap();
    assert_eq!((&data.payload[..], data.head.flags), (&b"\0\0\0\0\x02hi"[..], 1));
}

/// A timeout from the intended start: the server is given what is left of it.
#[test]
fn the_timeout_shrinks_by_the_delay() {
    let mut spec = call(false);
    spec.grpc.as_mut().unwrap().timeout = Some(Span::from_millis(100));
    let mut client = Client::new(&plan(vec![spec]));
    let mut decoder = prony_base::http2::hpack::Decoder::new(4096);
    for (late, expected) in [(0, "100000u"), (30, "70000000n"), (100, "1n"), (200, "1n")] {
        client.h2.set_lateness(Span::from_millis(late));
        let sent = frames(&client.send(0, 1));
        let head = sent.iter().find(|f| f.head.kind == kind::HEADERS).unwrap();
        let mut found = None;
        let push = |name: &[u8], value: &[u8]| {
            if name == b"grpc-timeout" {
                found = Some(String::from_utf8_lossy(value).into_owned());
            }
        };
        decoder.decode(&head.payload, 1 << 16, push).unwrap();
        assert_eq!(found.as_deref(), Some(expected));
    }
}
