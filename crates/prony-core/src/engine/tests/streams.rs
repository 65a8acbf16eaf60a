//! Turns of a connection of HTTP/2, with a manual driver.

use super::{closed, connect_of, ms};
use crate::engine::Engine;
use prony_base::http2::PREFACE;
use prony_base::http2::frame::{self, flag, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::machine::{Action, Machine};
use prony_base::units::Nanos;
use prony_plan::plan::HttpVersion;
use prony_proto::proto::h2::H2;

const STREAMS: u32 = 10;

/// Executes all actions. Returns those other than writes, and the kinds of frames in each write.
fn turn(e: &mut Engine<H2>, now: Nanos) -> (Vec<Action>, Vec<Vec<u8>>) {
    let (mut actions, mut writes) = (Vec::new(), Vec::new());
    while let Some(action) = e.poll_action() {
        let Action::Transmit { id } = action else {
            actions.push(action);
            continue;
        };
        let all = e.take_output(id, now, &mut |bytes| {
            writes.push(kinds(bytes));
            bytes.len()
        });
        assert!(all);
    }
    (actions, writes)
}

fn kinds(bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
    let mut kinds = Vec::new();
    while let Some(head) = frame::Head::read(rest) {
        kinds.push(head.kind);
        rest = &rest[frame::HEADER + head.length as usize..];
    }
    assert!(rest.is_empty(), "whole frames");
    kinds
}

/// The replies of a round, each with a body, and a PING among them.
fn replies(round: u32) -> Vec<u8> {
    let (mut out, mut block) = (Vec::new(), Vec::new());
    encode_static(&mut block, b":status", b"200");
    for n in 0..STREAMS {
        let stream = 2 * (round * STREAMS + n) + 1;
        frame::header_block(&mut out, stream, 0, &block);
        frame::head(&mut out, 3, kind::DATA, flag::END_STREAM, stream);
        out.extend_from_slice(b"abc");
    }
    frame::ping(&mut out, [7; 8], false);
    out
}

/// One read brings all replies of a round and more, and one write has all that follows from them:
/// the next requests, and what the connection owes.
#[test]
fn a_turn_has_one_read_and_one_write() {
    const ROUNDS: u32 = 20;
    let mut plan = closed(1, u64::from(ROUNDS * STREAMS));
    (plan.http, plan.pipeline) = (HttpVersion::Http2Only, STREAMS);
    let mut e = Engine::new(&plan, H2::new(&plan));
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(1));
    let requests = vec![kind::HEADERS; STREAMS as usize];
    let (_, writes) = turn(&mut e, ms(1));
    let first = [&[kind::SETTINGS, kind::WINDOW_UPDATE][..], &requests].concat();
    assert_eq!(writes, [first], "with the preface");
    for round in 0..ROUNDS {
        let mut bytes = replies(round);
        if round == 0 {
            let mut settings = Vec::new();
            frame::settings(&mut settings, &[]);
            bytes = [settings, bytes].concat();
        }
        let now = ms(u64::from(round) + 2);
        e.on_recv(id, &mut bytes, now);
        let (actions, writes) = turn(&mut e, now);
        if round == ROUNDS - 1 {
            assert_eq!(actions.last(), Some(&Action::Finished));
            break;
        }
        assert_eq!((actions, writes.len()), (vec![], 1), "round {round}");
        let of = |kind| writes[0].iter().filter(|k| **k == kind).count();
        assert_eq!(of(kind::HEADERS), STREAMS as usize, "round {round}");
        assert_eq!((of(kind::PING), of(kind::SETTINGS)), (1, usize::from(round == 0)));
    }
    let t = e.finish().1;
    assert_eq!((t.replies, t.failed), (u64::from(ROUNDS * STREAMS), 0));
    // Each round takes 1 ms: all replies of a read have its time.
    assert_eq!(t.times.service.max(), Some(prony_base::units::Span::from_millis(1)));
}
