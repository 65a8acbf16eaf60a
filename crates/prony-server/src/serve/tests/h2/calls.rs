//! Calls of gRPC.

use std::num::NonZeroU32;

use prony_base::grpc::prefix;
use prony_base::http2::frame::Settings;

use super::*;
use crate::serve::{Latency, Share, StatusMix};

const UNARY: &str = "UnaryCall";
const DUPLEX: &str = "FullDuplexCall";

fn grpc() -> ServerBehavior {
    ServerBehavior { grpc: true, ..ServerBehavior::default() }
}

fn slow(milliseconds: u64) -> ServerBehavior {
    ServerBehavior { latency: Latency::Fixed(ms(milliseconds)), ..grpc() }
}

/// A message with its prefix.
fn message(bytes: &[u8]) -> Vec<u8> {
    [&prefix(false, bytes.len() as u32)[..], bytes].concat()
}

/// A `SimpleRequest` for a reply of up to 127 bytes.
fn simple(size: u8) -> Vec<u8> {
    message(&[0x10, size])
}

/// A response with a payload of up to 100 bytes.
fn response(size: u8) -> Vec<u8> {
    let mut bytes = vec![0x0a, size + 2, 0x12, size];
    bytes.resize(4 + usize::from(size), 0);
    message(&bytes)
}

impl Frames {
    fn call(&mut self, stream: u32, method: &str) -> &mut Self {
        self.call_with(stream, &format!("grpc.testing.TestService/{method}"), &[])
    }

    fn call_with(&mut self, stream: u32, path: &str, more: &[(&str, &str)]) -> &mut Self {
        let fields = [&[("content-type", "application/grpc"), ("te", "trailers")], more].concat();
        self.post(stream, &format!("/{path}"), &fields)
    }
}

impl Rig {
    /// The status of a call.
    fn status(&self, stream: u32) -> Option<String> {
        let reply = self.reply(0, stream);
        match &reply.statuses[..] {
            [_, status] => Some(status.clone()),
            // Trailers only.
            _ => self.field(stream, "grpc-status"),
        }
    }

    fn field(&self, stream: u32, name: &str) -> Option<String> {
        let fields = self.reply(0, stream).fields;
        fields.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn ended(&self, stream: u32, status: &str) -> bool {
        self.reply(0, stream).ended && self.status(stream).as_deref() == Some(status)
    }
}

#[test]
fn answers_unary_calls() {
    let mut frames = Frames::start();
    frames.call(1, UNARY).data(1, &simple(10), true);
    frames.call(3, "EmptyCall").data(3, &message(b""), false).data(3, b"", true);
    let rig = rig(grpc(), &mut frames);
    assert_eq!(rig.reply(0, 1).statuses, ["200", "0"]);
    assert_eq!(rig.reply(0, 1).body, response(10));
    assert_eq!((rig.reply(0, 3).body, rig.ended(3, "0")), (message(b""), true));
    let served = rig.served();
    let messages = (served.messages_received, served.messages_sent);
    assert_eq!((served.calls, served.requests, messages), (2, 2, (2, 2)));
    assert_eq!(served.grpc_statuses.get("OK"), Some(&2));
    assert_eq!(served.replies, 2);
}

#[test]
fn reads_messages_in_any_pieces() {
    let sent = [simple(100), simple(3), simple(0)];
    for size in [1, 2, 3, 5, 8, 100] {
        let mut frames = Frames::start();
        frames.call(1, UNARY);
        let mut rig = rig(grpc(), &mut frames);
        for piece in sent[0].chunks(size) {
            rig.send(0, frames.data(1, piece, false).take());
            assert!(!rig.reply(0, 1).ended);
        }
        rig.send(0, frames.data(1, b"", true).take());
        assert_eq!((rig.reply(0, 1).body, rig.ended(1, "0")), (response(100), true), "{size}");
    }
}

#[test]
fn other_requests_are_served_as_ever() {
    let mut frames = Frames::start();
    frames.get(1, "/bytes/7").post(3, "/grpc.testing.TestService/EmptyCall", &[]);
    frames.data(3, b"", true);
    frames.post(5, "/", &[("content-type", "application/grpc+json")]);
    let at = frames.out.len();
    frames.request(7, "GET", "/", &[("content-type", "application/grpc")]);
    frames.out[at + 4] |= flag::END_STREAM;
    let server = rig(grpc(), &mut frames);
    assert_eq!(server.reply(0, 1).body.len(), 7);
    assert_eq!(server.reply(0, 3).body.len(), 128);
    assert_eq!((server.reply(0, 5).status(), server.reply(0, 7).status()), ("415", "405"));
    assert_eq!(server.served().calls, 0);
    // Without gRPC, a call is a request.
    let mut frames = Frames::start();
    frames.call(1, "EmptyCall").data(1, &message(b""), true);
    let server = rig(ServerBehavior::default(), &mut frames);
    assert_eq!((server.reply(0, 1).body.len(), server.served().calls), (128, 0));
}

#[test]
fn responses_of_a_stream_come_at_their_times() {
    let mut frames = Frames::start();
    // Pauses of 2 ms and 0.1 ms; sizes 3 and 5.
    let request = message(b"\x12\x05\x08\x03\x10\xd0\x0f\x12\x04\x08\x05\x10\x64");
    frames.call(1, "StreamingOutputCall").data(1, &request, true);
    let mut rig = rig(slow(1), &mut frames);
    rig.run_until(at(2));
    assert_eq!(rig.reply(0, 1).body, b"");
    rig.run_until(at(3));
    assert_eq!(rig.reply(0, 1).body, response(3));
    rig.run_until(at(3) + Span(99_000));
    assert!(!rig.reply(0, 1).ended);
    rig.run_until(at(3) + Span(100_000));
    assert_eq!(rig.reply(0, 1).body, [response(3), response(5)].concat());
    assert!(rig.ended(1, "0"));
}

#[test]
fn a_stream_in_both_directions_is_answered_before_it_ends() {
    let mut frames = Frames::start();
    let wants = |size| message(&[0x12, 0x02, 0x08, size]);
    frames.call(1, DUPLEX).data(1, &wants(1), false);
    let mut rig = rig(slow(5), &mut frames);
    rig.run_until(at(5));
    assert_eq!(rig.reply(0, 1).body, response(1));
    // Two at once: one after the other, as in a handler.
    rig.send(0, frames.data(1, &[wants(2), wants(3)].concat(), false).take());
    rig.run_until(at(14));
    assert_eq!(rig.reply(0, 1).body, [response(1), response(2)].concat());
    rig.run_until(at(15));
    assert_eq!(rig.reply(0, 1).body, [1, 2, 3].map(response).concat());
    assert!(!rig.reply(0, 1).ended);
    rig.send(0, frames.data(1, b"", true).take());
    assert!(rig.ended(1, "0"));
    assert_eq!((rig.served().messages_received, rig.served().messages_sent), (3, 3));
}

#[test]
fn streams_to_the_server_are_added_up() {
    let mut frames = Frames::start();
    let input = |size: u8| {
        let body = vec![0; usize::from(size)];
        message(&[&[0x0a, size + 2, 0x12, size][..], &body].concat())
    };
    frames.call(1, "StreamingInputCall").data(1, &[input(20), input(7)].concat(), false);
    frames.data(1, &input(100), true).call(3, "StreamingInputCall").data(3, b"", true);
    frames.call(5, "HalfDuplexCall").data(5, &message(b"\x12\x02\x08\x09"), false);
    let mut rig = rig(grpc(), &mut frames);
    assert_eq!(rig.reply(0, 1).body, message(b"\x08\x7f"));
    assert_eq!(rig.reply(0, 3).body, message(b""));
    assert_eq!(rig.reply(0, 5), Reply::default(), "answered when the client has sent all");
    rig.send(0, frames.data(5, b"", true).take());
    assert_eq!((rig.reply(0, 5).body, rig.ended(5, "0")), (response(9), true));
}

#[test]
fn calls_share_workers_with_requests() {
    let mut frames = Frames::start();
    frames.call(1, UNARY).data(1, &simple(1), true).get(3, "/").call(5, UNARY);
    frames.data(5, &simple(2), true);
    let mut rig = rig(ServerBehavior { workers: NonZeroU32::new(1), ..slow(10) }, &mut frames);
    rig.run_until(at(29));
    assert!(rig.ended(1, "0") && rig.reply(0, 3).ended && !rig.reply(0, 5).ended);
    rig.run_until(at(30));
    assert!(rig.ended(5, "0"));
    assert_eq!(rig.served().in_server_max, 3);
}

#[test]
fn windows_bound_what_a_call_sends() {
    let mut frames = Frames::with_settings(&[(Settings::WINDOW, 10)]);
    // 70,000 bytes.
    frames.call(1, UNARY).data(1, &message(b"\x10\xf0\xa2\x04"), true);
    frames.call(3, UNARY).data(3, &simple(1), true);
    let mut rig = rig(grpc(), &mut frames);
    assert_eq!((rig.reply(0, 1).body.len(), rig.reply(0, 3).body.len()), (10, 10));
    assert!(rig.ended(3, "0"));
    rig.send(0, frames.window(1, 100_000).take());
    assert_eq!(rig.reply(0, 1).body.len(), 65_535 - 10, "the connection's window");
    rig.send(0, frames.window(0, 100_000).take());
    assert_eq!(rig.reply(0, 1).body.len(), 5 + 8 + 70_000);
    assert!(rig.ended(1, "0"));
}

#[test]
fn a_client_that_is_ahead_is_slowed_down_by_its_window() {
    let window = 3_000;
    let mut frames = Frames::start();
    frames.frame(kind::SETTINGS, flag::ACK, 0, b"").call(1, DUPLEX);
    let mut rig = rig(ServerBehavior { window, ..slow(1) }, &mut frames);
    let updates = |rig: &Rig| {
        let own = |f: &&Frame| f.kind == kind::WINDOW_UPDATE && f.stream == 1;
        rig.frames(0).iter().filter(own).count()
    };
    let wants = message(&[0x12, 0x02, 0x08, 1]);
    rig.send(0, frames.data(1, &wants.repeat(200), false).take());
    assert_eq!(updates(&rig), 0, "400 steps wait");
    rig.run_until(at(71));
    assert_eq!(updates(&rig), 0);
    rig.run_until(at(73));
    assert_eq!(updates(&rig), 1, "256 steps wait");
    rig.run_until(at(200));
    assert_eq!(rig.served().messages_sent, 200);
}

#[test]
fn failures_apply_to_calls() {
    let always: Share = "1".parse().expect("a share");
    let server = |change: fn(&mut ServerBehavior, Share)| {
        let mut behavior = grpc();
        change(&mut behavior, always);
        let mut frames = Frames::start();
        frames.call(1, UNARY).data(1, &simple(40), true);
        frames.call_with(3, "grpc.health.v1.Health/Check", &[]).data(3, &message(b""), true);
        rig(behavior, &mut frames)
    };
    let status = server(|behavior, _| behavior.statuses = StatusMix(vec![(503, 1)]));
    assert_eq!((status.reply(0, 1).statuses.len(), status.ended(1, "14")), (1, true));
    assert_eq!(status.served().grpc_statuses.get("UNAVAILABLE"), Some(&1));
    assert_eq!(status.reply(0, 3).body, message(&[8, 1]), "health does not fail");
    let rst = server(|behavior, share| behavior.rst = share);
    assert_eq!(rst.reply(0, 1).reset, Some(Code::INTERNAL_ERROR));
    assert!(rst.ended(3, "0") && rst.served().stream_resets == 1);
    let truncated = server(|behavior, share| behavior.truncate = share);
    let whole = response(40);
    assert_eq!(truncated.reply(0, 1).body, whole[..whole.len() / 2]);
    assert_eq!(truncated.reply(0, 1).reset, Some(Code::INTERNAL_ERROR));
    assert_eq!((truncated.served().truncated, truncated.ended(3, "0")), (1, true));
    let reset = server(|behavior, share| behavior.reset = share);
    assert_eq!(reset.links[0].closed.map(|(_, how)| how), Some(CloseHow::Reset));
    assert_eq!(reset.served().resets, 1);
}

#[test]
fn a_deadline_that_has_passed_is_the_status() {
    let mut frames = Frames::start();
    let path = "grpc.testing.TestService/UnaryCall";
    frames.call_with(1, path, &[("grpc-timeout", "9m")]).data(1, &simple(1), true);
    frames.call_with(3, path, &[("grpc-timeout", "10m")]).data(3, &simple(1), true);
    let mut rig = rig(slow(10), &mut frames);
    rig.run_until(at(10));
    assert!(rig.ended(1, "4") && rig.ended(3, "0"));
    assert_eq!(rig.reply(0, 1).body, b"");
}

#[test]
fn a_cancelled_call_is_forgotten() {
    let mut frames = Frames::start();
    frames.call(1, UNARY).data(1, &simple(1), true).call(3, DUPLEX).call(5, UNARY);
    let mut rig = rig(slow(10), &mut frames);
    rig.send(0, frames.reset(1).reset(3).reset(5).take());
    rig.run_until(at(20));
    assert_eq!([1, 3, 5].map(|stream| rig.reply(0, stream)), [(); 3].map(|()| Reply::default()));
    assert_eq!((rig.served().cancelled, rig.served().messages_sent), (3, 0));
}

#[test]
fn statuses_and_metadata_are_returned() {
    let mut frames = Frames::start();
    let echo = [("x-grpc-test-echo-initial", "first"), ("x-grpc-test-echo-trailing-bin", "q6ur")];
    let path = "grpc.testing.TestService/UnaryCall";
    frames.call_with(1, path, &echo).data(1, &simple(1), true);
    // Code 2, with a message that needs an encoding.
    let status = message("\x3a\x08\x08\x02\x12\x04\t\u{e9}%".as_bytes());
    frames.call_with(3, path, &echo).data(3, &status, true);
    // The client may go on, but its call has ended.
    frames.call(5, DUPLEX).data(5, &message(b"\x3a\x02\x08\x05"), false);
    let rig = rig(grpc(), &mut frames);
    let value = |stream, name| rig.field(stream, name);
    assert_eq!(value(1, "x-grpc-test-echo-trailing-bin").as_deref(), Some("q6ur"));
    assert_eq!(rig.reply(0, 1).body, response(1));
    assert!(rig.ended(3, "2"), "{:?}", rig.reply(0, 3));
    assert_eq!(value(3, "x-grpc-test-echo-initial").as_deref(), Some("first"));
    assert_eq!(value(3, "grpc-message").as_deref(), Some("%09%C3%A9%25"));
    assert!(rig.ended(5, "5"));
    assert_eq!(rig.reply(0, 5).reset, Some(Code::NO_ERROR));
}

#[test]
fn calls_that_are_wrong_have_a_status() {
    let long = ServerBehavior { max_body: 100, ..grpc() };
    let two = [simple(1), simple(1)].concat();
    let gzip: (&str, &str) = ("grpc-encoding", "gzip");
    for (method, headers, body, status) in [
        ("Test/Call", &[][..], simple(1), "12"),
        ("grpc.testing.TestService/UnimplementedCall", &[], simple(1), "12"),
        ("grpc.testing.TestService/UnaryCall", &[("grpc-encoding", "snappy")], simple(1), "12"),
        ("grpc.testing.TestService/UnaryCall", &[], vec![], "13"),
        ("grpc.testing.TestService/UnaryCall", &[], two, "13"),
        ("grpc.testing.TestService/UnaryCall", &[], simple(1)[..6].to_vec(), "13"),
        ("grpc.testing.TestService/UnaryCall", &[], message(&[0x10]), "13"),
        ("grpc.testing.TestService/UnaryCall", &[], message(&[8, 1]), "3"),
        ("grpc.testing.TestService/UnaryCall", &[], vec![2, 0, 0, 0, 0], "13"),
        ("grpc.testing.TestService/UnaryCall", &[], vec![1, 0, 0, 0, 0], "13"),
        ("grpc.testing.TestService/UnaryCall", &[gzip], vec![1, 0, 0, 0, 1, 7], "13"),
        ("grpc.testing.TestService/UnaryCall", &[], prefix(false, 101).to_vec(), "8"),
        // expect_compressed, but it is not.
        ("grpc.testing.TestService/UnaryCall", &[], message(b"\x42\x02\x08\x01"), "3"),
        ("grpc.testing.TestService/StreamingInputCall", &[], message(b"\x12\x02\x08\x01"), "3"),
        ("grpc.testing.TestService/EmptyCall", &[], message(&[0x08]), "13"),
        ("grpc.health.v1.Health/Check", &[], message(b"\x0a\x01x"), "5"),
    ] {
        let mut frames = Frames::start();
        frames.call_with(1, method, headers).data(1, &body, true);
        let rig = rig(long.clone(), &mut frames);
        assert!(rig.ended(1, status), "{method} {body:?}: {:?}", rig.reply(0, 1));
        assert_eq!((rig.served().violations, rig.served().replies), (0, 1));
    }
}

#[test]
fn messages_are_compressed_as_asked() {
    let mut frames = Frames::start();
    let accepts = ("grpc-accept-encoding", "identity,gzip");
    let path = "grpc.testing.TestService/UnaryCall";
    // response_compressed, 100 bytes.
    let request = message(b"\x10\x64\x32\x02\x08\x01");
    frames.call_with(1, path, &[accepts]).data(1, &request, true);
    frames.call_with(3, path, &[]).data(3, &request, true);
    let rig = rig(grpc(), &mut frames);
    let body = rig.reply(0, 1).body;
    assert!(body[0] == 1 && body.len() < 60, "{body:?}");
    assert_eq!(rig.reply(0, 3).body, response(100), "the client does not accept gzip");
}

#[test]
fn watches_end_when_the_server_stops() {
    let mut frames = Frames::start();
    let watch = "grpc.health.v1.Health/Watch";
    frames.call_with(1, watch, &[]).data(1, &message(b""), true);
    frames.call_with(3, watch, &[]).data(3, &message(b"\x0a\x01x"), true);
    let mut rig = rig(slow(10), &mut frames);
    assert_eq!(rig.reply(0, 1).body, message(&[8, 1]));
    assert_eq!(rig.reply(0, 3).body, message(&[8, 3]), "no such service");
    rig.run_until(at(5_000));
    assert!(!rig.reply(0, 1).ended);
    rig.stop(StopRequest::Drain);
    assert_eq!(rig.reply(0, 1).body, [message(&[8, 1]), message(&[8, 2])].concat());
    assert!(rig.ended(1, "14") && rig.ended(3, "14") && rig.finished);
}

#[test]
fn load_reports_come_at_intervals() {
    let mut frames = Frames::start();
    // A load report with a CPU utilization of 0.5, then an interval of 1 s.
    let report = b"\x42\x09\x09\x00\x00\x00\x00\x00\x00\xe0\x3f";
    frames.call(1, DUPLEX).data(1, &message(report), false);
    let path = "xds.service.orca.v3.OpenRcaService/StreamCoreMetrics";
    frames.call_with(3, path, &[]).data(3, &message(b"\x0a\x02\x08\x01"), true);
    let mut rig = rig(grpc(), &mut frames);
    let load = message(&report[2..]);
    assert_eq!(rig.reply(0, 3).body, load);
    rig.run_until(at(2_999));
    assert_eq!(rig.reply(0, 3).body, load.repeat(3));
    rig.run_until(at(3_000));
    assert_eq!(rig.reply(0, 3).body, load.repeat(4));
    assert!(!rig.reply(0, 3).ended);
}
