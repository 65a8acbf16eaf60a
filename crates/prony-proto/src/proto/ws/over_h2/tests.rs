//! Streams of a scripted server, in any split, and what the client sends on them.

mod client;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::proto::ws::tests::plan;
use client::{Client, Server, frame_of};
use prony_base::http2::frame::{self, Code, Settings, flag};
use prony_base::websocket::Opcode;
use prony_plan::plan::MessageReply;

fn echoes() -> Plan {
    plan(Some(MessageReply::Order), false)
}

#[test]
fn the_handshake_is_an_extended_connect() {
    let client = Client::with_sockets(&echoes(), 1);
    let version = env!("CARGO_PKG_VERSION");
    let mut fields = client.streams[&1].fields.clone();
    fields.sort_unstable();
    let agent = format!("user-agent=prony/{version}");
    let expected = [
        ":authority=h",
        ":method=CONNECT",
        ":path=/chat?room=1",
        ":protocol=websocket",
        ":scheme=http",
        "accept=*/*",
        "origin=http://h",
        "sec-websocket-protocol=chat, superchat",
        "sec-websocket-version=13",
        &agent,
    ];
    assert_eq!(fields, expected);
}

/// No handshake before the peer's settings; none at all if these do not allow it.
#[test]
fn only_peers_that_allow_it_get_handshakes() {
    let mut client = Client::new(&echoes());
    client.transmit();
    assert!(!client.over.is_ready(&client.conn));
    assert_eq!(client.receive(&Server::new().0, &[3, 9, 11]), Ok(()));
    assert!(client.over.is_ready(&client.conn));
    for settings in [&[][..], &[(Settings::CONNECT, 0)], &[(Settings::STREAMS, 8)]] {
        let mut client = Client::new(&echoes());
        client.transmit();
        let bytes = Server::default().settings(settings).0;
        let all: Vec<usize> = (1..bytes.len()).collect();
        assert_eq!(client.receive(&bytes, &all), Err(Fault::NoExtendedConnect), "{settings:?}");
    }
    // It may not be taken back, and has two values.
    for value in [0, 2] {
        let mut client = Client::with_sockets(&echoes(), 1);
        let bytes = Server::default().settings(&[(Settings::CONNECT, value)]).0;
        assert_eq!(client.receive(&bytes, &[]), Err(Fault::BadHttp2), "{value}");
    }
}

/// Three connections in turn on the streams of one: two are closed by the client, one by the
/// server.
#[test]
fn conversations_are_the_same_in_every_split() {
    let run = |cuts: &[usize]| {
        let mut client = Client::with_sockets(&echoes(), 3);
        // Before the streams are open.
        (0..2).for_each(|slot| client.due(slot, 1, false));
        (0..2).for_each(|slot| client.due(slot, 1, true));
        assert_eq!(client.messages_sent, 0);
        let opening = Server::default()
            .headers(0, 0, &[(":status", "103"), ("link", "</a>")])
            .headers(0, 0, &[(":status", "200"), ("sec-websocket-protocol", "superchat")])
            .accept(2)
            .accept(1);
        let hello = frame_of(Opcode::Text, b"hello");
        let rest = Server::default()
            .data(0, 0, &[&hello[..], &hello[..3]].concat())
            .frame(2, Opcode::Ping, b"are you there")
            .data(0, 0, &hello[3..])
            .frame(1, Opcode::Text, b"hello")
            .frame(1, Opcode::Text, "zw\u{f6}lf".as_bytes())
            .close(2, flag::END_STREAM, 4001)
            .close(0, flag::END_STREAM, 1000)
            .close(1, 0, 1000)
            .data(1, flag::END_STREAM, b"");
        let at: Vec<usize> = cuts.iter().copied().filter(|&cut| cut < opening.0.len()).collect();
        client.receive(&opening.0, &at).expect("valid frames");
        let at: Vec<usize> =
            cuts.iter().filter_map(|cut| cut.checked_sub(opening.0.len())).collect();
        client.receive(&rest.0, &at).expect("valid frames");
        assert_eq!((client.messages_sent, client.is_empty()), (4, true), "{cuts:?}");
        assert_eq!(client.log.of(0), "message, message, 1000 10", "{cuts:?}");
        assert_eq!(client.log.of(1), "message, message, 1000 11", "{cuts:?}");
        assert_eq!(client.log.of(2), "4001 0", "{cuts:?}");
        for slot in [0, 1] {
            assert_eq!(client.sent(slot), "text hello, text hello, close 1000 END", "{cuts:?}");
        }
        let last = client.sent(2);
        assert!(
            ["close 4001 END", "pong are you there, close 4001 END"].contains(&&*last),
            "{last}"
        );
        let next = client.streams[&1].bytes[2..6].to_vec();
        assert_ne!(next, client.streams[&3].bytes[2..6], "each frame has a mask of its own");
        opening.0.len() + rest.0.len()
    };
    let length = run(&[]);
    (1..length).for_each(|cut| _ = run(&[cut]));
    run(&(1..length).collect::<Vec<_>>());
}

#[test]
fn other_replies_are_those_of_http() {
    for step in [1, 1_000] {
        let mut client = Client::with_sockets(&echoes(), 4);
        let bytes = Server::default()
            .headers(0, flag::END_STREAM, &[(":status", "403")])
            .headers(1, 0, &[(":status", "404"), ("content-length", "4")])
            .headers(2, 0, &[(":status", "200"), ("sec-websocket-protocol", "other")])
            .headers(3, 0, &[(":status", "101")])
            .data(1, flag::END_STREAM, b"nope");
        let cuts: Vec<usize> = (1..bytes.0.len()).step_by(step).collect();
        client.receive(&bytes.0, &cuts).expect("valid frames");
        let ends = [0, 1, 2, 3].map(|slot| client.log.of(slot));
        assert_eq!(ends, ["403 0", "404 4", "BadUpgrade", "BadHeader"]);
        let sent = [0, 1, 2, 3].map(|slot| client.sent(slot));
        assert_eq!(sent, [" RST 8", " RST 8", " RST 8", " RST 1"]);
        assert!(client.is_empty());
    }
}

/// A violation ends its stream, with its close code and a reset. The others go on.
#[test]
fn violations_end_their_stream_alone() {
    let masked = [0x81, 0x81, 0, 0, 0, 0, 0];
    let not_text = frame_of(Opcode::Text, b"\xff");
    for (bytes, fault, code) in [(&masked[..], "BadWebSocket", 1002), (&not_text, "BadText", 1007)]
    {
        for step in [1, 1_000] {
            let mut client = Client::with_sockets(&echoes(), 2);
            let bytes = Server::default()
                .accept(0)
                .accept(1)
                .data(0, 0, bytes)
                .frame(0, Opcode::Text, b"more")
                .close(1, flag::END_STREAM, 1000);
            let cuts: Vec<usize> = (1..bytes.0.len()).step_by(step).collect();
            client.receive(&bytes.0, &cuts).expect("valid frames of HTTP/2");
            assert_eq!([client.log.of(0), client.log.of(1)], [fault, "1000 0"]);
            assert_eq!(client.sent(0), format!("close {code} RST 8"));
            assert_eq!(client.sent(1), "close 1000 END");
            assert!(client.is_empty());
        }
    }
}

/// Streams that end without a close frame.
#[test]
fn ends_without_a_close_frame_are_failures() {
    let message = frame_of(Opcode::Text, b"hello");
    for step in [1, 1_000] {
        let mut client = Client::with_sockets(&echoes(), 6);
        (0..6).for_each(|slot| client.due(slot, 2, true));
        let mut bytes = Server::default();
        for slot in 0..3 {
            bytes = bytes.accept(slot).data(slot, 0, &message[..4]);
        }
        let mut bytes = bytes
            .data(0, flag::END_STREAM, b"")
            .rst(1, Code::CANCEL)
            .headers(3, flag::END_STREAM, &[(":status", "200")])
            .rst(4, Code::REFUSED_STREAM);
        frame::goaway(&mut bytes.0, 9, Code::NO_ERROR, b"");
        let cuts: Vec<usize> = (1..bytes.0.len()).step_by(step).collect();
        client.receive(&bytes.0, &cuts).expect("valid frames");
        let ends = [0, 1, 2, 3, 4, 5].map(|slot| client.log.of(slot));
        assert_eq!(ends, ["Truncated", "StreamReset", "", "Truncated", "Refused", "refused"]);
        assert!(client.sent(0).ends_with(" END"), "{}", client.sent(0));
        assert_eq!(client.sent(3), " END");
        assert!(client.log.drains);
        assert_eq!(client.over.capacity(&client.conn, 1, 10), 0, "it accepts no more");
        // The one that is left goes on.
        let rest = Server::default().data(2, 0, &message[4..]).frame(2, Opcode::Text, b"hello");
        client.receive(&rest.0, &[]).expect("valid frames");
        client.receive(&Server::default().close(2, 1, 1000).0, &[]).expect("valid frames");
        assert_eq!(client.log.of(2), "message, message, 1000 10");
        assert_eq!(client.sent(2), "text hello, text hello, close 1000 END");
        assert!(client.is_empty());
    }
}

/// Messages wait for both windows. A message counts as sent when its first byte is.
#[test]
fn messages_wait_for_windows() {
    let mut client = Client::with_sockets(&echoes(), 2);
    let small = Server::default().settings(&[(Settings::WINDOW, 15)]).accept(0).accept(1);
    client.receive(&small.0, &[]).expect("valid frames");
    client.due(0, 1, false);
    client.due(1, 1, false);
    client.due(0, 1, true);
    // A frame has 11 bytes.
    assert_eq!((client.messages_sent, client.streams[&1].bytes.len()), (3, 15));
    let id = Client::id(0);
    assert_eq!(client.over.waits_for_window(&client.conn, id), Some(client.now));
    assert_eq!(client.over.waits_for_window(&client.conn, Client::id(1)), None);
    client.later(Span(500));
    assert!(!client.over.owes(&client.conn), "it waits");
    client.receive(&Server::default().window(1, 3).0, &[]).expect("valid frames");
    assert_eq!((client.streams[&1].bytes.len(), client.waited), (18, 500));
    client.receive(&Server::default().window(1, 300).0, &[]).expect("valid frames");
    assert_eq!(client.sent(0), "text hello, text hello");
    // A message over the window, which opens again and again.
    let mut long = echoes();
    let mut calls = long.calls.to_vec();
    calls[0].body = vec![b'x'; 200_000];
    long.calls = calls.into();
    let mut client = Client::with_sockets(&long, 1);
    client.receive(&Server::default().accept(0).0, &[]).expect("valid frames");
    client.due(0, 1, true);
    assert_eq!((client.messages_sent, client.streams[&1].bytes.len()), (1, 65_535));
    for _ in 0..5 {
        let more = Server::default().window(0, 40_000).window(1, 40_000);
        client.receive(&more.0, &[]).expect("valid frames");
    }
    assert_eq!(client.streams[&1].frames().len(), "text ".len() + 200_000);
}

/// A server that answers the close, but does not end the stream: it counts for the peer's limit,
/// and is reset later.
#[test]
fn streams_that_are_not_ended_are_reset() {
    let mut client = Client::with_sockets(&plan(None, false), 1);
    let limit = Server::default().settings(&[(Settings::STREAMS, 2)]).accept(0);
    client.receive(&limit.0, &[]).expect("valid frames");
    assert_eq!(client.sent(0), "close 1000");
    client.receive(&Server::default().close(0, 0, 1000).0, &[]).expect("valid frames");
    assert_eq!((client.log.of(0), client.sent(0)), ("1000 0".into(), "close 1000".into()));
    assert_eq!(client.over.capacity(&client.conn, 0, 10), 1);
    assert_eq!(client.over.deadline(&client.conn), Some(client.now + LINGER));
    client.later(LINGER);
    assert_eq!(client.sent(0), "close 1000 RST 8");
    assert_eq!((client.over.capacity(&client.conn, 0, 10), client.is_empty()), (2, true));
    // What still comes is ignored.
    client.receive(&Server::default().data(0, 1, b"late").0, &[]).expect("valid frames");
}

/// An exchange that is not awaited any more ends alone, as do streams that have had enough.
#[test]
fn exchanges_are_ended_from_outside() {
    let mut client = Client::with_sockets(&echoes(), 3);
    client.receive(&Server::default().accept(0).accept(2).0, &[]).expect("valid frames");
    for slot in [0, 1] {
        let cancelled = client.over.cancel(&mut client.conn, Client::id(slot));
        assert_eq!(cancelled, Cancelled::Exchange);
        client.log.open.remove(0);
    }
    client.transmit();
    assert_eq!([client.sent(0), client.sent(1)], ["close 1001 RST 8", " RST 8"]);
    let late = Server::default().frame(0, Opcode::Text, b"x").accept(1).close(2, 1, 1000);
    client.receive(&late.0, &[]).expect("valid frames");
    assert_eq!((client.log.of(2), client.is_empty()), ("1000 0".into(), true));

    let mut client = Client::with_sockets(&plan(None, true), 1);
    let pushed = Server::default().accept(0).frame(0, Opcode::Text, b"one");
    client.receive(&pushed.0, &[]).expect("valid frames");
    client.over.stop(&mut client.conn, Client::id(0), &mut client.log);
    client.transmit();
    assert_eq!((client.log.of(0), client.sent(0)), ("1000 3".into(), "close 1000".into()));
    let more = Server::default().frame(0, Opcode::Text, b"two").close(0, 1, 1000);
    client.receive(&more.0, &[]).expect("valid frames");
    assert_eq!((client.sent(0), client.is_empty()), ("close 1000 END".into(), true));
}

/// At the end of a run, every open connection gets a close frame.
#[test]
fn the_end_of_the_connection_closes_all() {
    let mut client = Client::with_sockets(&echoes(), 3);
    client.receive(&Server::default().accept(0).accept(2).0, &[]).expect("valid frames");
    let mut last = Vec::new();
    client.over.close(&mut client.conn, &mut last);
    client.read_bytes(&last);
    let sent = [0, 1, 2].map(|slot| client.sent(slot));
    assert_eq!(sent, ["close 1001 END", "", "close 1001 END"]);
}

proptest! {
    /// Whatever a server sends on an open stream, and in whatever pieces: the same is seen.
    #[test]
    fn anything_is_the_same_in_every_split(
        bytes in vec(prop_oneof![Just(0x81_u8), Just(0x01), 0_u8..8, any::<u8>()], 0..80),
        sizes in vec(1_usize..20, 1..8),
        ends in any::<bool>(),
        cuts in vec(0_usize..300, 0..12),
    ) {
        let mut server = Server::default().accept(0).accept(1);
        let mut rest = &bytes[..];
        for size in sizes.iter().cycle() {
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            rest = after;
            server = server.data(0, u8::from(ends && rest.is_empty()), piece);
            if rest.is_empty() {
                break;
            }
        }
        let server = server.close(1, 1, 1000);
        let run = |cuts: &[usize]| {
            let mut client = Client::with_sockets(&echoes(), 2);
            client.receive(&server.0, cuts).expect("valid frames of HTTP/2");
            (client.log.of(0), client.log.of(1), client.sent(1))
        };
        let mut cuts = cuts;
        cuts.sort_unstable();
        let whole = run(&[]);
        prop_assert_eq!(&whole.1, "1000 0");
        prop_assert_eq!(whole, run(&cuts));
    }
}

/// Last bytes follow a whole frame, as with requests over HTTP/2.
#[test]
fn other_bytes_may_follow_whole_frames_alone() {
    let client = Client::with_sockets(&echoes(), 1);
    let mut bytes = Vec::new();
    frame::rst_stream(&mut bytes, 1, Code::CANCEL);
    let first = bytes.len();
    frame::goaway(&mut bytes, 0, Code::NO_ERROR, b"bye");
    for at in 0..=bytes.len() {
        let expected = match at {
            0 => 0,
            _ if at <= first => first,
            _ => bytes.len(),
        };
        assert_eq!(client.over.boundary(&client.conn, &bytes, at), expected, "{at}");
    }
}
