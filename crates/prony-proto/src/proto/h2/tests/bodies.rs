//! Bodies of requests and replies under flow control.

use super::*;
use crate::proto::h2::conn::CANCELS_MAX;
use crate::proto::h2::own::Spare;
use prony_base::grpc::prefix;
use prony_base::http2::{FRAME_SIZE, WINDOW};
use prony_base::units::Span;
use prony_plan::plan::{GrpcCall, MessagePlan};

/// The lengths of the DATA frames of each stream, and whether the last one ends it.
fn data(frames: &[Frame]) -> Vec<(u32, Vec<u32>, bool)> {
    let mut all: BTreeMap<u32, (Vec<u32>, bool)> = BTreeMap::new();
    for frame in frames.iter().filter(|f| f.head.kind == kind::DATA) {
        let (lengths, ended) = all.entry(frame.head.stream).or_default();
        assert!(!*ended, "nothing follows the end");
        lengths.push(frame.head.length);
        *ended = frame.head.has(frame::flag::END_STREAM);
    }
    all.into_iter().map(|(id, (lengths, ended))| (id, lengths, ended)).collect()
}

fn posts(body: usize) -> Client {
    Client::new(&plan(vec![post(body)]))
}

#[test]
fn sends_bodies_in_frames_of_the_allowed_size() {
    let mut client = posts(40_000);
    let sent = frames(&client.send(0, 1));
    assert_eq!(data(&sent), [(1, vec![16_384, 16_384, 7232], true)]);
    assert!(!client.h2.owes(&client.conn));
    let head = sent.iter().find(|f| f.head.kind == kind::HEADERS).unwrap().head;
    assert!(!head.has(frame::flag::END_STREAM));
}

#[test]
fn bodies_wait_for_the_window_of_the_connection() {
    let mut client = posts(40_000);
    let sent = frames(&client.send(0, 2));
    let left = WINDOW - 40_000;
    assert_eq!(
        data(&sent),
        [(1, vec![16_384, 16_384, 7232], true), (3, vec![16_384, left - 16_384], false)]
    );
    assert!(!client.h2.owes(&client.conn), "nothing can be sent");
    client.now = Nanos(500);
    client.receive(&Server::new().window(0, 10).0, usize::MAX).unwrap();
    // 10 bytes are less than a piece, but nothing else moves.
    assert_eq!(data(&client.owed()), [(3, vec![10], false)]);
    client.receive(&Server::default().window(0, 1 << 20).0, usize::MAX).unwrap();
    let rest = 40_000 - left - 10;
    assert_eq!(data(&client.owed()), [(3, vec![rest], true)]);
}

#[test]
fn records_how_long_bodies_wait() {
    let mut client = posts(WINDOW as usize + 1);
    let mut out = Out::default();
    client.send(0, 1);
    client.now = Nanos(701);
    client.receive(&Server::new().window(0, 100).window(1, 100).0, usize::MAX).unwrap();
    client.h2.transmit(&mut client.conn, client.now, &mut out);
    let waits: Vec<_> = out.take_waits().collect();
    assert_eq!(waits, [(RequestId { slot: 0, generation: 0 }, Span(700))]);
}

/// Each stream has a window of its own, which settings change, also below zero.
#[test]
fn bodies_follow_the_windows_of_streams() {
    let mut client = posts(2000);
    let window = |n| Server::default().settings(&[(Settings::WINDOW, n)]).0;
    client.receive(&window(1500), usize::MAX).unwrap();
    let sent = data(&frames(&client.send(0, 2)));
    assert_eq!(sent, [(1, vec![1500], false), (3, vec![1500], false)]);
    client.receive(&window(1000), usize::MAX).unwrap();
    assert_eq!(data(&client.owed()), []);
    client.receive(&Server::default().window(1, 500).0, usize::MAX).unwrap();
    assert_eq!(data(&client.owed()), [], "the window of stream 1 was -500 bytes");
    client.receive(&Server::default().window(3, 600).0, usize::MAX).unwrap();
    assert_eq!(data(&client.owed()), [(3, vec![100], false)]);
    client.receive(&window(5000), usize::MAX).unwrap();
    assert_eq!(data(&client.owed()), [(1, vec![500], true), (3, vec![400], true)]);
}

#[test]
fn streams_take_turns() {
    let mut client = posts(50_000);
    client.receive(&Server::default().settings(&[(Settings::WINDOW, 0)]).0, usize::MAX).unwrap();
    client.send(0, 3);
    let open = Server::default().settings(&[(Settings::WINDOW, 1 << 20)]).window(0, 1 << 20);
    client.receive(&open.0, usize::MAX).unwrap();
    let order: Vec<u32> =
        client.owed().iter().filter(|f| f.head.kind == kind::DATA).map(|f| f.head.stream).collect();
    assert_eq!(order, [1, 3, 5].repeat(4));
}

/// A piece of less than 1 KiB goes after all that is larger. Updates of one read are one piece.
#[test]
fn small_pieces_wait_for_all_larger_ones() {
    let mut client = posts(50_000);
    client.receive(&Server::default().settings(&[(Settings::WINDOW, 0)]).0, usize::MAX).unwrap();
    client.send(0, 2);
    let open = Server::default().window(0, 1 << 20).window(1, 1_023).window(3, 50_000);
    client.receive(&open.0, usize::MAX).unwrap();
    let sent = |client: &mut Client| -> Vec<(u32, u32)> {
        let owed = client.owed().into_iter().map(|frame| frame.head);
        let data = owed.filter(|head| head.kind == kind::DATA);
        data.map(|head| (head.stream, head.length)).collect()
    };
    let all = [(3, 16_384), (3, 16_384), (3, 16_384), (3, 848), (1, 1_023)];
    assert_eq!(sent(&mut client), all);
    let bytes = (0..20).fold(Server::default(), |server, _| server.window(1, 1));
    client.receive(&bytes.0, usize::MAX).unwrap();
    assert_eq!(sent(&mut client), [(1, 20)]);
}

/// The bytes of a body go to the sink where they were received, whatever part of a frame a read
/// has: only a part of a header is kept for the next read.
#[test]
fn data_is_not_copied() {
    let frames = [Server::default().data(1, 0, 1_000).0, Server::default().data(1, 1, 16_384).0];
    for at in [0, 1, 8, 9, 10, 500, 1_009, 1_010, 1_018, 1_019, 9_000] {
        let mut client = Client::with_requests(1);
        client.receive(&Server::new().ok(1, 0).0, usize::MAX).unwrap();
        let bytes = frames.concat();
        let mut begin = 0;
        for end in [at, bytes.len()] {
            let data = &bytes[begin..end];
            client.seen.pieces.clear();
            let used = client.h2.receive(&mut client.conn, data, client.now, &mut client.seen);
            begin += used.expect("valid frames");
            // What is left is a header without its end.
            assert!(end - begin < frame::HEADER, "{} bytes are left of {end}", end - begin);
            let place = data.as_ptr_range();
            for piece in &client.seen.pieces {
                assert!(place.start <= piece.start && piece.end <= place.end, "it was moved");
            }
        }
        assert_eq!(client.seen.all(), "200 17384");
    }
}

/// A flood of frames with a byte each: nothing is kept, and windows are renewed by the half.
#[test]
fn frames_of_single_bytes_are_no_burden() {
    let window = 100_000;
    let mut plan = plan(vec![get()]);
    plan.http2 = Some(Box::new(Http2Spec { window, ..Http2Spec::default() }));
    let mut client = Client::new(&plan);
    client.send(0, 1);
    client.receive(&Server::new().ok(1, 0).0, usize::MAX).unwrap();
    client.owed();
    let piece = (0..1_000).fold(Server::default(), |server, _| server.data(1, 0, 1));
    let (mut sent, mut updates) = (0, 0);
    while sent < 3 * window {
        client.receive(&piece.0, usize::MAX).expect("it is allowed");
        sent += 1_000;
        let owed = client.owed();
        assert!(owed.iter().all(|frame| frame.head.kind == kind::WINDOW_UPDATE), "{owed:?}");
        updates += owed.iter().filter(|frame| frame.head.stream == 1).count() as u32;
        assert!(client.stash.is_empty());
    }
    assert!((3..=6).contains(&updates), "{updates} updates of {sent} bytes, window {window}");
}

#[test]
fn a_reply_before_the_end_of_the_request_cancels_the_rest() {
    let mut client = posts(100_000);
    client.send(0, 1);
    client.receive(&Server::new().ok(1, 1).0, usize::MAX).unwrap();
    assert_eq!(client.seen.all(), "200 0");
    let owed = client.owed();
    assert!(owed.iter().any(|f| f.head.kind == kind::RST_STREAM && f.head.stream == 1), "{owed:?}");
    assert_eq!(data(&owed), []);
}

/// Where another frame may follow in what was sent.
#[test]
fn boundaries_are_those_of_frames() {
    let mut client = posts(3);
    let sent = client.send(0, 2);
    let mut starts = vec![prony_base::http2::PREFACE.len()];
    for frame in frames(&sent) {
        starts.push(starts[starts.len() - 1] + frame::HEADER + frame.payload.len());
    }
    assert_eq!(*starts.last().unwrap(), sent.len());
    for at in 0..=sent.len() {
        let next = starts.iter().find(|start| **start >= at).unwrap();
        assert_eq!(client.h2.boundary(&client.conn, &sent, at), *next, "{at}");
        let begin = starts[1];
        if at <= sent.len() - begin {
            let next = starts.iter().find(|start| **start >= begin + at).unwrap();
            assert_eq!(client.h2.boundary(&client.conn, &sent[begin..], at), *next - begin, "{at}");
        }
    }
}

/// A server that always replies early must not make the connection remember ever more streams.
#[test]
fn many_cancelled_rests_drain_the_connection() {
    let mut client = posts(100);
    client.receive(&Server::new().settings(&[(Settings::WINDOW, 0)]).0, usize::MAX).unwrap();
    for i in 0..CANCELS_MAX as u32 {
        assert!(!client.seen.drains, "{i}");
        client.send(0, 1);
        client.receive(&Server::default().ok(2 * i + 1, 1).0, usize::MAX).unwrap();
        client.owed();
    }
    assert!(client.seen.drains);
    assert_eq!(client.conn.cancels, CANCELS_MAX);
}

#[test]
fn filled_bodies_are_kept_until_they_are_sent() {
    // A body that is not the plan's: of a call with a template.
    let mut client = posts(10);
    client.receive(&Server::default().settings(&[(Settings::WINDOW, 4)]).0, usize::MAX).unwrap();
    client.send(0, 1);
    let stream = client.conn.streams.get(1).unwrap();
    stream.own = Spare::default().body(Some(b"0123456789"));
    client.receive(&Server::default().window(1, 100).0, usize::MAX).unwrap();
    let owed = client.owed();
    let last = owed.iter().find(|f| f.head.kind == kind::DATA).unwrap();
    assert_eq!(last.payload, b"456789");
    assert!(client.conn.streams.get(1).unwrap().own.is_none());
}

/// The windows for replies are renewed when half of them is used.
#[test]
fn renews_windows() {
    let mut plan = plan(vec![get()]);
    plan.http2 = Some(Box::new(Http2Spec { window: 100_000, ..Http2Spec::default() }));
    let mut client = Client::new(&plan);
    client.send(0, 2);
    let mut server = Server::new().ok(1, 0).ok(3, 0);
    for _ in 0..3 {
        server = server.data(1, 0, FRAME_SIZE as usize);
    }
    client.receive(&server.0, 1000).unwrap();
    let updates = |client: &mut Client| -> Vec<(u32, u32)> {
        let owed = client.owed();
        let owed = owed.iter().filter(|f| f.head.kind == kind::WINDOW_UPDATE);
        owed.map(|f| (f.head.stream, u32::from_be_bytes(f.payload[..].try_into().unwrap())))
            .collect()
    };
    assert_eq!(updates(&mut client), []);
    client.receive(&Server::default().data(1, 0, 1000).0, 1000).unwrap();
    let used = 3 * FRAME_SIZE + 1000;
    assert_eq!(updates(&mut client), [(0, used), (1, used)]);
    assert_eq!(updates(&mut client), []);
    // A stream that ends needs no more.
    client.receive(&Server::default().data(3, 1, 16_384).0, 1000).unwrap();
    assert_eq!(updates(&mut client), []);
}

#[test]
fn bodies_over_the_window_end_the_connection() {
    let mut plan = plan(vec![get()]);
    plan.http2 = Some(Box::new(Http2Spec { window: 20_000, ..Http2Spec::default() }));
    let over = |server: Server| {
        let mut client = Client::new(&plan);
        client.send(0, 9);
        (client.receive(&server.0, 5000), client.close())
    };
    let size = FRAME_SIZE as usize;
    let head = Server::new().ok(1, 0);
    assert_eq!(over(head.clone().data(1, 0, size).data(1, 0, 3616)).0, Ok(()));
    let expected = (Err(Fault::FlowControl), Some(Code::FLOW_CONTROL_ERROR));
    assert_eq!(over(head.data(1, 0, size).data(1, 0, 3617)), expected);
    let mut all = Server::new();
    for stream in [1, 3, 5, 7, 9] {
        all = all.ok(stream, 0).data(stream, 0, 13_107);
    }
    assert_eq!(over(all.clone()).0, Ok(()));
    assert_eq!(over(all.ok(11, 0).data(11, 0, 1)), expected, "65,535 bytes in all");
}

/// A client with a call of two messages that have a schedule: of 3 and of `long` bytes.
fn paced(long: usize) -> Client {
    let messages = [vec![b'a'; 3], vec![b'b'; long]];
    let framed = messages.iter().map(|m| [&prefix(false, m.len() as u32)[..], m].concat());
    let mut call = CallSpec { path: "/p.S/M".into(), ..post(0) };
    call.body = framed.collect::<Vec<_>>().concat();
    call.grpc = Some(Box::new(GrpcCall { streams: true, takes: true, ..GrpcCall::default() }));
    let mut plan = plan(vec![call]);
    plan.messages = Some(Box::new(MessagePlan::fixed(1.0, None, None)));
    Client::new(&plan)
}

/// Messages are sent when they are due, in turn, and the last one ends the stream.
#[test]
fn sends_messages_when_they_are_due() {
    let mut client = paced(10);
    client.receive(&Server::new().0, usize::MAX).unwrap();
    let sent = frames(&client.send(0, 1));
    assert_eq!(data(&sent), [], "no message is due: {sent:?}");
    let head = sent.iter().find(|f| f.head.kind == kind::HEADERS).expect("a head");
    assert!(!head.head.has(frame::flag::END_STREAM));
    let id = client.ids()[0];
    client.h2.send_messages(&mut client.conn, id, 1, false);
    assert_eq!(data(&client.owed()), [(1, vec![8], false)]);
    client.h2.send_messages(&mut client.conn, id, 2, false);
    assert_eq!(data(&client.owed()), [(1, vec![15, 8], false)]);
    client.h2.send_messages(&mut client.conn, id, 1, true);
    assert_eq!(data(&client.owed()), [(1, vec![15], true)]);
    assert_eq!(data(&client.owed()), []);
    assert_eq!(client.written, 4);
}

/// A message that does not fit into the window waits for it, and those after it do, too.
#[test]
fn messages_wait_for_the_window() {
    let mut client = paced(5_000);
    let server = Server::default().settings(&[(Settings::WINDOW, 4_000)]);
    client.receive(&server.0, usize::MAX).unwrap();
    client.send(0, 1);
    let id = client.ids()[0];
    client.h2.send_messages(&mut client.conn, id, 3, false);
    assert_eq!(data(&client.owed()), [(1, vec![8, 3_992], false)]);
    assert_eq!(client.written, 2);
    client.h2.send_messages(&mut client.conn, id, 0, true);
    assert_eq!(data(&client.owed()), []);
    client.receive(&Server::default().window(1, 2_000).0, usize::MAX).unwrap();
    assert_eq!(data(&client.owed()), [(1, vec![1_013, 8], true)]);
    assert_eq!(client.written, 3);
}

/// A stream without a further message ends with an empty frame. A reply before that cancels it.
#[test]
fn streams_of_messages_end() {
    let mut client = paced(10);
    client.receive(&Server::new().0, usize::MAX).unwrap();
    client.send(0, 2);
    let ids = client.ids();
    client.h2.send_messages(&mut client.conn, ids[0], 0, true);
    assert_eq!(data(&client.owed()), [(1, vec![0], true)]);
    let head = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "0")];
    for stream in [1, 3] {
        client.receive(&Server::default().headers(stream, 1, &head).0, usize::MAX).unwrap();
    }
    assert_eq!(client.seen.all(), "OK, OK");
    let resets = client.owed().into_iter().filter(|f| f.head.kind == kind::RST_STREAM);
    assert_eq!(resets.map(|f| f.head.stream).collect::<Vec<_>>(), [3]);
}
