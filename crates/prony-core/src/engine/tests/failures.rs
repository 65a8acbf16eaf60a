//! The first failed request of each kind is kept, with what its reply says.

use super::{closed, connect_of, ms};
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::machine::{Action, Machine};
use prony_base::merge::Merge;
use prony_base::units::Span;
use prony_proto::proto::h1::H1;
use prony_tally::record::{FirstFailure, Tally};

fn reply(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A load of as many requests as replies, each of which arrives after 1 ms, in these pieces.
fn answered(replies: &[&[&[u8]]]) -> Tally {
    let plan = closed(1, replies.len() as u64);
    let mut e = Engine::new(&plan, H1::new(&plan));
    let turn = |e: &mut Engine<H1>, now| {
        let mut actions = Vec::new();
        while let Some(action) = e.poll_action() {
            match action {
                Action::Transmit { id } => {
                    e.take_output(id, now, &mut <[u8]>::len);
                }
                action => actions.push(action),
            }
        }
        actions
    };
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)))[0];
    e.on_connected(id, ms(0));
    turn(&mut e, ms(0));
    for (now, pieces) in (1..).zip(replies) {
        for piece in *pieces {
            e.on_recv(id, &mut piece.to_vec(), ms(now));
        }
        turn(&mut e, ms(now));
    }
    e.finish().1
}

#[test]
fn the_first_unexpected_reply_is_kept_with_the_start_of_its_body() {
    let long = reply("400 Bad Request", &"x".repeat(300));
    let (head, rest) = long.split_at(100);
    let (good, late) = (reply("200 OK", "fine"), reply("503 Busy", "later"));
    let t = answered(&[&[&good], &[head, rest], &[&late]]);
    let first = FirstFailure {
        after: Span::from_millis(2),
        request: Some(0),
        status: Some(400),
        body: "x".repeat(200),
    };
    assert_eq!(t.first_failures, [(Fault::UnexpectedStatus, first)].into());
}

/// What comes in place of a reply is kept, escaped: an alert of TLS, frames of HTTP/2, and banners.
#[test]
fn the_start_of_what_is_no_reply_is_kept() {
    let settings = [&[0, 0, 18, 4, 0, 0, 0, 0, 0][..], &[0, 3, 0, 0, 0, 100]].concat();
    let (ssh, long) = (&b"SSH-2.0-OpenSSH_9.6\r\n"[..], [b'x'; 70]);
    for (bytes, kept) in [
        (&b"\x15\x03\x03\0\x02\x02\x28"[..], r"\x15\x03\x03\x00\x02\x02("),
        (&settings, r"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00d"),
        (ssh, r"SSH-2.0-OpenSSH_9.6\r\n"),
        (b"220 mail ESMTP\r\n", r"220 mail ESMTP\r\n"),
        (b"-ERR unknown command 'GET'\r\n", r"-ERR unknown command \'GET\'\r\n"),
        (&long, &"x".repeat(60)),
    ] {
        let t = answered(&[&[bytes]]);
        let first = &t.first_failures[&Fault::BadStatusLine];
        assert_eq!((first.status, first.body.as_str()), (None, kept));
    }
}

/// A body says more than a status, and an earlier failure of another worker comes first.
#[test]
fn workers_agree_on_the_first() {
    let of = |replies: &[&[u8]]| {
        let replies: Vec<[&[u8]; 1]> = replies.iter().map(|reply| [*reply]).collect();
        answered(&replies.iter().map(<[&[u8]; 1]>::as_slice).collect::<Vec<_>>())
    };
    let (good, bare, said) =
        (reply("200 OK", ""), reply("404 No", ""), reply("500 Oh", "out of memory"));
    let (a, b) = (of(&[&good, &bare, &said]), of(&[&bare, &good, &good, &said]));
    for (mut all, other) in [(a.clone(), &b), (b.clone(), &a)] {
        all.merge(other);
        let first = &all.first_failures[&Fault::UnexpectedStatus];
        assert_eq!((first.status, first.after), (Some(500), Span::from_millis(3)));
        assert_eq!(first.body, "out of memory");
    }
    assert!(of(&[&good]).first_failures.is_empty());
}
