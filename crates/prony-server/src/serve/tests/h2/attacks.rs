//! Floods: the connection is closed, the server's memory is bounded, and the server goes on.

use prony_base::http2::frame::Settings;

use super::*;

/// Send pieces until the server closes; assert with which code, and after how many.
fn flood(before: &mut Frames, code: Code, mut piece: impl FnMut(&mut Frames, u32)) -> u32 {
    let mut rig = rig(ServerBehavior::default(), before);
    let mut frames = Frames { encoder: before.encoder.clone(), ..Frames::default() };
    for n in 0..100_000 {
        piece(&mut frames, n);
        rig.send(0, frames.take());
        if rig.served().violations > 0 {
            assert_eq!(rig.goaways(0).last().map(|&(_, code)| code), Some(code));
            let other = rig.connect();
            rig.send(other, Frames::start().get(1, "/").take());
            assert_eq!(rig.statuses_h2(other, &[1]), ["200"]);
            return n;
        }
    }
    panic!("no end after 100,000");
}

const CALM: Code = Code::ENHANCE_YOUR_CALM;

#[test]
fn rapid_resets() {
    let n = flood(&mut Frames::start(), CALM, |frames, n| {
        frames.get(2 * n + 1, "/delay/9s").reset(2 * n + 1);
    });
    assert_eq!(n, 1_000);
}

#[test]
fn streams_that_make_the_server_reset() {
    let n = flood(&mut Frames::start(), CALM, |frames, n| {
        frames.get(2 * n + 1, "/delay/9s").window(2 * n + 1, 0);
    });
    assert_eq!(n, 1_000);
}

#[test]
fn pings_settings_and_frames_without_effect() {
    let calm = |piece: fn(&mut Frames, u32)| flood(&mut Frames::start(), CALM, piece);
    assert_eq!(
        calm(|f, _| {
            f.ping(b"12345678");
        }),
        1_000
    );
    assert_eq!(
        calm(|f, _| {
            f.frame(kind::SETTINGS, 0, 0, b"");
        }),
        1_000
    );
    assert_eq!(
        calm(|f, _| {
            f.frame(77, 0, 0, b"");
        }),
        1_000
    );
    assert_eq!(
        calm(|f, _| {
            f.frame(kind::PRIORITY, 0, 3, &[0; 5]);
        }),
        1_000
    );
    let mut start = Frames::start();
    start.post(1, "/echo", &[]);
    assert_eq!(
        flood(&mut start, CALM, |f, _| {
            f.data(1, b"", false);
        }),
        1_000
    );
}

#[test]
fn header_blocks_without_end() {
    let mut start = Frames::start();
    start.frame(kind::HEADERS, 0, 1, b"");
    assert_eq!(
        flood(&mut start, CALM, |f, _| {
            f.frame(kind::CONTINUATION, 0, 1, b"");
        }),
        64
    );
    start = Frames::start();
    start.frame(kind::HEADERS, 0, 1, b"");
    let n = flood(&mut start, CALM, |f, _| {
        f.frame(kind::CONTINUATION, 0, 1, &[0; 9_999]);
    });
    assert_eq!(n, 6, "64 KiB");
}

#[test]
fn header_blocks_that_grow() {
    let mut frames = Frames::start();
    let value = "x".repeat(3_000);
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("x-large", &value)];
    let mut block = frames.block(&fields);
    // The field that was just inserted, 3 KB each.
    block.extend_from_slice(&[0xbe; 10_000]);
    frames.frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block);
    frames.get(3, "/");
    let rig = rig(ServerBehavior::default(), &mut frames);
    assert_eq!(rig.statuses_h2(0, &[1, 3]), ["431", "200"]);
}

#[test]
fn windows_that_let_through_single_bytes() {
    let mut start = Frames::with_settings(&[(Settings::WINDOW, 0)]);
    start.get(1, "/bytes/100000");
    assert_eq!(
        flood(&mut start, CALM, |f, _| {
            f.window(1, 1);
        }),
        1_000
    );
}

#[test]
fn useful_traffic_is_not_a_flood() {
    let mut frames = Frames::start();
    frames.frame(kind::SETTINGS, flag::ACK, 0, b"");
    let mut rig = rig(ServerBehavior::default(), &mut frames);
    for n in 0..5_000 {
        frames.get(2 * n + 1, "/bytes/1").ping(b"12345678").window(0, 1);
        rig.send(0, frames.take());
    }
    // A client that gives up now and then.
    for n in 5_000..10_000 {
        rig.run_until(at(u64::from(n) * 10));
        rig.send(0, frames.get(2 * n + 1, "/delay/9s").reset(2 * n + 1).take());
    }
    let served = rig.served();
    assert_eq!((served.violations, served.replies, served.cancelled), (0, 5_000, 5_000));
}

#[test]
fn a_client_that_does_not_read_uses_little_memory() {
    let mut frames = Frames::with_settings(&[(Settings::WINDOW, (1 << 31) - 1)]);
    frames.window(0, (1 << 31) - 1 - 65_535);
    let mut rig = Rig::new(ServerBehavior::default());
    rig.connect();
    rig.links[0].window = 0;
    for stream in 0..250 {
        frames.get(2 * stream + 1, "/bytes/1000000000");
    }
    rig.send(0, frames.take());
    rig.open_window(0, 1 << 20);
    // One buffer of a few pieces, however much is ready.
    let largest = rig.links[0].got.iter().map(|(_, bytes)| bytes.len()).max();
    assert!(largest.is_some_and(|n| n < 100_000), "{largest:?}");
}

/// With `--refuse`, each request costs the server a reset: it keeps a limited number of them.
#[test]
fn refusals_that_a_client_does_not_read_are_limited() {
    let refuse =
        || ServerBehavior { refuse: "100%".parse().expect("a share"), ..Default::default() };
    let mut rig = Rig::new(refuse());
    rig.connect();
    rig.links[0].window = 0;
    let mut frames = Frames::start();
    let mut n = 0;
    while rig.served().violations == 0 {
        assert!(n < 100_000, "no end");
        rig.send(0, frames.get(2 * n + 1, "/").take());
        n += 1;
    }
    assert_eq!(n, 11_002, "10,000 waiting, and an allowance of 1,000");
    rig.open_window(0, 1 << 20);
    assert_eq!(rig.goaways(0).last().map(|&(_, code)| code), Some(CALM));
    // A client that reads may go on.
    let mut rig = Rig::new(refuse());
    rig.connect();
    let mut frames = Frames::start();
    for n in 0..20_000 {
        rig.send(0, frames.get(2 * n + 1, "/").take());
    }
    assert_eq!((rig.served().violations, rig.served().refused), (0, 20_000));
}

/// The end of the client's side comes in the same batch as the flood.
#[test]
fn a_client_that_leaves_gets_the_reason() {
    let mut rig = rig(ServerBehavior::default(), &mut Frames::start());
    let mut frames = Frames::default();
    for _ in 0..2_000 {
        frames.ping(b"12345678");
    }
    rig.serve.on_recv(rig.links[0].id, &mut frames.take(), rig.now);
    rig.half_close(0);
    assert_eq!(rig.goaways(0).last().map(|&(_, code)| code), Some(CALM));
    assert!(rig.links[0].closed.is_some());
}
