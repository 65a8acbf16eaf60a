//! Settings that change while requests are in flight. The server checks the limit of streams from
//! the acknowledgement on.

use prony_base::http2::frame::Settings;
use prony_plan::plan::Http2Spec;

use super::*;

fn limit(n: u32) -> [(u16, u32); 1] {
    [(Settings::STREAMS, n)]
}

/// A lowered limit holds for new streams; those in flight go on.
#[test]
fn a_lowered_limit_holds_from_its_acknowledgement_on() {
    for setup in links() {
        let mut plan = plan();
        plan.pipeline = 10;
        let (mut open, mut most, mut lowered) = (0_u32, 0, false);
        let (t, seen) = run(&plan, &setup, "a lowered limit", |turn| {
            match turn.event {
                Event::Opened => turn.settings(&limit(10)),
                // All ten are in flight when it falls.
                Event::Request(9) => turn.settings(&limit(2)).after(ms(30), 0),
                Event::Request(0..=8) => turn,
                Event::Timer(0) => {
                    lowered = true;
                    for n in 0..10 {
                        turn.on(2 * n + 1).ok();
                    }
                    turn
                }
                Event::Request(_) => {
                    open += 1;
                    most = most.max(open);
                    turn.after(ms(2), 1)
                }
                Event::Timer(_) => {
                    open -= 1;
                    turn.ok()
                }
                _ => turn,
            };
        });
        assert!(lowered && most == 2, "{most}");
        assert_eq!((t.replies, t.failed, t.connects), (REQUESTS, 0, 1), "{:?}", t.faults);
        let http2 = t.http2.as_deref().expect("HTTP/2");
        assert_eq!((http2.limit_least, http2.limit_last), (Some(2), Some(2)));
        assert_eq!(http2.open_max, 10);
        assert!(t.times.stream_wait.count() >= REQUESTS - 20, "{}", t.times.stream_wait.count());
        assert!(seen.settings_acks >= 2);
    }
}

/// A limit of 0 stops the load until it rises again; the time is a wait for a stream.
#[test]
fn a_limit_of_zero_is_a_wait() {
    let setup = Setup::new(Link::with_latency(ms(1)), 1);
    let (t, _) = run(&plan(), &setup, "a limit of 0", |turn| {
        match turn.event {
            Event::Request(3) => turn.settings(&limit(0)).after(ms(500), 0).ok(),
            Event::Timer(_) => turn.settings(&limit(100)),
            _ => turn.usual(),
        };
    });
    assert_eq!((t.replies, t.failed, t.connects), (REQUESTS, 0, 1));
    // The first four are answered at once; the next four wait for 500 ms, from the reply, which
    // comes with the new limit, to the next one.
    assert_eq!(t.times.stream_wait.count(), 4);
    assert_eq!(t.times.stream_wait.sum_ns(), 4 * u128::from(ms(500).0));
    assert_eq!(t.times.response.max(), Some(ms(502)));
}

/// A server that never raises its limit of 0 makes each request time out, without a reset: nothing
/// was sent.
#[test]
fn a_limit_of_zero_for_ever_is_a_timeout() {
    let setup = links().next().expect("a fast link");
    let mut plan = plan();
    plan.timeout = ms(50);
    plan.stop.requests = Some(12);
    plan.http2 = Some(Box::new(Http2Spec { wait_settings: true, ..Http2Spec::default() }));
    let (t, seen) = run(&plan, &setup, "no streams", |turn| {
        match turn.event {
            Event::Opened => turn.settings(&limit(0)),
            _ => turn,
        };
    });
    assert_eq!((t.failed, t.fault(Fault::RequestTimeout)), (12, 12), "{:?}", t.faults);
    assert_eq!((t.sent, seen.requests, seen.resets.len()), (0, 0, 0));
}

/// Settings in the middle of a load, all at once: each frame is acknowledged once, in order.
#[test]
fn each_settings_frame_is_acknowledged() {
    for setup in links() {
        let (t, seen) = run(&posts(5_000), &setup, "settings", |turn| {
            match turn.event {
                Event::Request(n) => {
                    for k in 0..3 {
                        turn.settings(&[
                            (Settings::TABLE_SIZE, (1_000 * k + n as u32) % 5_000),
                            (Settings::WINDOW, 10_000 + 1_000 * k),
                            (Settings::FRAME_SIZE, (1 << 14) + k),
                            (Settings::LIST_SIZE, 100),
                            (0xf000, k),
                        ]);
                    }
                    turn.ok().window(0, 5_000)
                }
                _ => turn.usual(),
            };
        });
        assert_eq!((t.replies, t.failed, t.connects), (REQUESTS, 0, 1), "{:?}", t.faults);
        // The run ends with the last ones.
        let all = 1 + 3 * REQUESTS;
        assert!((all - 12..=all).contains(&seen.settings_acks), "{}", seen.settings_acks);
    }
}

/// Without settings, requests are sent at once, but at most 100 on a connection; or they wait for
/// them.
#[test]
fn requests_before_the_settings() {
    let setup = Setup::new(Link::with_latency(ms(1)), 1);
    for waits in [false, true] {
        let mut plan = plan();
        plan.pipeline = 150;
        plan.stop.requests = Some(300);
        plan.http2 = Some(Box::new(Http2Spec { wait_settings: waits, ..Http2Spec::default() }));
        let (mut greeted, mut before) = (false, 0);
        let (t, _) = run(&plan, &setup, "late settings", |turn| {
            match turn.event {
                Event::Opened => turn.after(ms(50), 0),
                Event::Timer(0) => {
                    greeted = true;
                    turn.settings(&[]).after(ms(50), 1)
                }
                // What came before the settings is answered after them.
                Event::Timer(_) => {
                    (0..before).for_each(|n| _ = turn.on(2 * n + 1).ok());
                    turn
                }
                Event::Request(_) if !greeted => {
                    before += 1;
                    turn
                }
                _ => turn.usual(),
            };
        });
        assert_eq!((t.replies, t.failed, t.connects), (300, 0, 1));
        assert_eq!(before, if waits { 0 } else { 100 });
    }
}
