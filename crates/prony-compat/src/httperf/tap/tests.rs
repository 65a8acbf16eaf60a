//! The printed text does not depend on how the stream is split into reads.

use std::sync::{Arc, Mutex};

use prony_base::machine::{Action, Machine};
use prony_base::units::Nanos;
use prony_core::engine::Engine;
use prony_plan::plan::{Load, Stop, Think};
use prony_proto::proto::h1::H1;

use super::*;
use crate::httperf::plan::tests::{opts_of, plan_of};

/// Send `calls` calls, return `bytes` in pieces of `piece` bytes, then close the connection.
/// Returns the printed text and the number of counted replies.
fn printed(options: &str, calls: u32, bytes: &str, piece: usize) -> (String, u64) {
    let mut plan = plan_of(options);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&seen);
    let out = move |text: &[u8]| copy.lock().unwrap().extend_from_slice(text);
    let taps = Arc::new(Taps::new(&opts_of(options), &plan, Box::new(out)).unwrap());
    // All calls are sent on one connection before a reply arrives.
    plan.sessions = None;
    plan.load = Load::Closed { connections: 1, think: Think::None };
    plan.pipeline = calls;
    plan.requests_per_connection = None;
    plan.stop = Stop { requests: Some(u64::from(calls)), ..Stop::default() };
    let mut engine = Engine::new(&plan, H1::new(&plan));
    engine.tap(Box::new(Printer::new(&taps)));
    let at = Nanos::ZERO;
    engine.on_tick(at);
    let id = drive(&mut engine).expect("a connect");
    engine.on_connected(id, at);
    drive(&mut engine);
    for piece in bytes.as_bytes().chunks(piece) {
        engine.on_recv(id, &mut piece.to_vec(), at);
        drive(&mut engine);
    }
    engine.on_closed(id, None, at);
    drive(&mut engine);
    let replies = engine.finish().1.replies;
    let text = String::from_utf8(seen.lock().unwrap().clone()).unwrap();
    (text.replace('\r', "^"), replies)
}

/// Execute the engine's actions. Returns the connection that it opened, if any.
fn drive(engine: &mut Engine<H1>) -> Option<ConnId> {
    let mut opened = None;
    while let Some(action) = engine.poll_action() {
        match action {
            Action::Connect { id, .. } => opened = Some(id),
            Action::Transmit { id } => {
                engine.take_output(id, Nanos::ZERO, &mut |bytes| bytes.len());
            }
            _ => {}
        }
    }
    opened
}

const TWO: &str = "HTTP/1.1 103 Early\r\nX: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nab\ncd\ne\
    HTTP/1.1 302 Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\nT: 1\r\n\r\n";

#[test]
fn prints_replies_line_by_line_for_any_split_into_reads() {
    let whole = "RH0:HTTP/1.1 103 Early^\nRH0:X: 1^\nRH0:^\nRH0:HTTP/1.1 200 OK^\n\
        RH0:Content-Length: 7^\nRH0:^\nRB0:ab\nRB0:cd\nRB0:e\n\
        RS0: header 66 content 7 footer 0\nRH1:HTTP/1.1 302 Found^\n\
        RH1:Transfer-Encoding: chunked^\nRH1:^\nRB1:xyz\nRS1: header 50 content 3 footer 8\n";
    for piece in [1, 2, 3, 7, 40, 1_000] {
        let (text, replies) = printed("--print-reply", 2, TWO, piece);
        assert_eq!((text.as_str(), replies), (whole, 2), "pieces of {piece}");
    }
    let (text, _) = printed("--print-reply=body", 2, TWO, 5);
    assert!(!text.contains("RH") && text.contains("RB1:xyz\nRS1:"), "{text}");
    let (text, _) = printed("--print-reply=header", 2, TWO, 5);
    assert!(!text.contains("RB") && text.contains("RH1:^\nRS1:"), "{text}");
}

#[test]
fn prints_incomplete_and_malformed_replies() {
    for piece in [1, 5, 100] {
        let (text, replies) = printed("--print-reply", 1, "this is not http\r\n\r\n", piece);
        assert_eq!(replies, 0);
        assert!(text.starts_with("RH0:t"), "{text}");
        let cut = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
        let (text, _) = printed("--print-reply", 1, cut, piece);
        assert!(text.ends_with("RH0:^\nRB0:abc\n"), "{text}");
    }
}

#[test]
fn prints_requests_when_they_are_sent() {
    let (text, _) = printed("--print-request --server a --method POST", 2, "", 1);
    let one = |n| {
        format!(
            "SH{n}:POST / HTTP/1.1^\nSH{n}:User-Agent: httperf/0.9.0^\nSH{n}:Host: a^\nSH{n}:^\n\
             SS{n}: header 55 content 0\n"
        )
    };
    assert_eq!(text, one(0) + &one(1));
    let (text, _) = printed("--wset 10,0 -v --num-conns 3", 2, "", 1);
    assert_eq!(text, "httperf: accessing URI `/0.html'\n".repeat(2));
}
