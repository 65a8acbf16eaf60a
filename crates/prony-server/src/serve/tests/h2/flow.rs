//! Flow control, in both directions.

use prony_base::http2::frame::Settings;

use super::*;

fn data(rig: &Rig) -> Vec<(u32, usize)> {
    let data = rig.frames(0).into_iter().filter(|frame| frame.kind == kind::DATA);
    data.map(|frame| (frame.stream, frame.payload.len())).collect()
}

#[test]
fn bodies_take_turns() {
    let mut frames = Frames::with_settings(&[(Settings::WINDOW, 1 << 20)]);
    frames.window(0, 1 << 20).get(1, "/bytes/100000").get(3, "/bytes/50000").get(5, "/bytes/10");
    let rig = rig(ServerBehavior::default(), &mut frames);
    let order: Vec<u32> = data(&rig).into_iter().map(|(stream, _)| stream).collect();
    assert_eq!(order, [1, 3, 5, 1, 3, 1, 3, 1, 3, 1, 1, 1]);
    for (stream, length) in [(1, 100_000), (3, 50_000), (5, 10)] {
        let reply = rig.reply(0, stream);
        assert!(reply.ended);
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        assert!(reply.body.iter().enumerate().all(|(i, &b)| b == letters[i % 64]), "{stream}");
        assert_eq!(reply.body.len(), length);
    }
}

#[test]
fn the_windows_of_stream_and_connection_bound_what_is_sent() {
    let mut frames = Frames::with_settings(&[(Settings::WINDOW, 10)]);
    frames.get(1, "/bytes/25").get(3, "/bytes/70000");
    let mut rig = rig(ServerBehavior::default(), &mut frames);
    assert_eq!(data(&rig), [(1, 10), (3, 10)]);
    rig.send(0, frames.window(1, 15).window(3, 100_000).take());
    assert!(rig.reply(0, 1).ended);
    let sent: usize = data(&rig).into_iter().map(|(_, n)| n).sum();
    assert_eq!(sent, 65_535, "the connection's window");
    // Heads need no window.
    rig.send(0, frames.get(5, "/bytes/5").get(7, "/status/204").take());
    assert_eq!(rig.reply(0, 5).statuses, ["200"]);
    assert!(rig.reply(0, 7).ended && !rig.reply(0, 5).ended);
    rig.send(0, frames.window(0, 70_000).take());
    assert!(rig.reply(0, 5).ended);
    assert_eq!(rig.reply(0, 3).body.len(), 70_000);
}

#[test]
fn a_new_setting_changes_the_windows_of_open_streams() {
    let mut frames = Frames::with_settings(&[(Settings::WINDOW, 100)]);
    frames.get(1, "/bytes/300");
    let mut rig = rig(ServerBehavior::default(), &mut frames);
    let settings = |value: u32| {
        let mut out = Vec::new();
        frame::settings(&mut out, &[(Settings::WINDOW, value)]);
        out
    };
    // The window is -60 now: of 80 more, 20 can be used.
    rig.send(0, settings(40));
    rig.send(0, frames.window(1, 80).take());
    assert_eq!(data(&rig), [(1, 100), (1, 20)]);
    rig.send(0, settings(220));
    assert_eq!(data(&rig).last(), Some(&(1, 180)));
    assert!(rig.reply(0, 1).ended);
    assert_eq!(rig.served().violations, 0);
}

#[test]
fn gives_back_what_it_has_read() {
    let window = 1_000;
    let mut frames = Frames::start();
    frames.frame(kind::SETTINGS, flag::ACK, 0, b"").post(1, "/echo", &[]);
    let mut rig = rig(ServerBehavior { window, ..ServerBehavior::default() }, &mut frames);
    let updates = |rig: &Rig| -> Vec<u32> {
        let own = |f: &Frame| f.kind == kind::WINDOW_UPDATE && f.stream == 1;
        rig.frames(0).iter().filter(|f| own(f)).map(|f| code(&f.payload).0).collect()
    };
    rig.send(0, frames.data(1, &[b'a'; 500], false).take());
    assert!(updates(&rig).is_empty());
    rig.send(0, frames.data(1, &[b'a'; 300], false).data(1, &[b'a'; 200], false).take());
    assert_eq!(updates(&rig), [1_000]);
    rig.send(0, frames.data(1, &[b'a'; 1_000], true).take());
    assert_eq!(updates(&rig), [1_000], "the request is complete");
    assert_eq!(rig.reply(0, 1).body.len(), 2_000);
    // The connection has a window of its own, and gets back what it has used.
    let own = |f: &Frame| f.kind == kind::WINDOW_UPDATE && f.stream == 0;
    let mut all = 65_535;
    for frame in rig.frames(0).iter().filter(|f| own(f)) {
        all += code(&frame.payload).0;
    }
    assert_eq!(all, 16 << 20);
}

#[test]
fn a_window_that_is_exceeded_ends_the_stream() {
    let window = 1_000;
    let mut frames = Frames::start();
    frames.post(1, "/", &[]).data(1, &[b'a'; 900], false);
    // Allowed until the client knows better.
    frames.post(3, "/", &[]).data(3, &[b'a'; 10_000], false);
    frames.frame(kind::SETTINGS, flag::ACK, 0, b"").post(5, "/", &[]);
    frames.data(1, &[b'a'; 100], true).data(5, &[b'a'; 1_001], false);
    let mut rig = rig(ServerBehavior { window, ..ServerBehavior::default() }, &mut frames);
    assert!(rig.reply(0, 1).ended);
    assert_eq!(rig.reply(0, 3).reset, None);
    assert_eq!(rig.reply(0, 5).reset, Some(Code::FLOW_CONTROL_ERROR));
    rig.send(0, frames.data(3, b"a", false).take());
    assert_eq!((rig.served().malformed, rig.served().violations), (1, 0));
}

#[test]
fn with_a_window_of_zero_no_body_arrives() {
    let mut frames = Frames::start();
    frames.frame(kind::SETTINGS, flag::ACK, 0, b"").post(1, "/echo", &[]).data(1, b"", true);
    frames.post(3, "/echo", &[]).data(3, b"a", true);
    let rig = rig(ServerBehavior { window: 0, ..ServerBehavior::default() }, &mut frames);
    assert!(rig.reply(0, 1).ended);
    assert_eq!(rig.reply(0, 3).reset, Some(Code::FLOW_CONTROL_ERROR));
}

#[test]
fn a_full_socket_loses_nothing() {
    let mut frames = Frames::with_settings(&[(Settings::WINDOW, 1 << 20)]);
    frames.window(0, 1 << 20).get(1, "/bytes/90000").get(3, "/bytes/90000");
    let mut rig = Rig::new(ServerBehavior::default());
    rig.connect();
    rig.links[0].window = 100;
    rig.send(0, frames.take());
    assert!(rig.links[0].blocked && rig.served().replies == 0);
    while rig.links[0].blocked {
        rig.open_window(0, 9_999);
    }
    assert_eq!([1, 3].map(|s| rig.reply(0, s).body.len()), [90_000; 2]);
    assert_eq!(rig.served().replies, 2);
}
