//! Flow control. The server checks each byte against the windows that it has given: also while they
//! are negative, and whatever the order of settings and updates.

use prony_base::http2::frame::Settings;
use prony_plan::plan::Http2Spec;

use super::*;

/// Bodies of requests wait while their window is negative.
#[test]
fn windows_may_become_negative() {
    const BODY: usize = 30_000;
    let mut plan = posts(BODY);
    plan.http2 = Some(Box::new(Http2Spec { wait_settings: true, ..Http2Spec::default() }));
    for setup in links() {
        let mut fell = false;
        let (t, seen) = run(&plan, &setup, "negative windows", |turn| {
            match turn.event {
                Event::Opened => turn.settings(&[(Settings::WINDOW, 20_000)]).window(0, 1 << 30),
                // Bytes of the first streams were sent: their windows are negative from here to the
                // next settings.
                Event::Data(_) if !std::mem::replace(&mut fell, true) => {
                    turn.settings(&[(Settings::WINDOW, 0)]).after(ms(100), 0)
                }
                Event::Timer(0) => {
                    (0..4).for_each(|n| _ = turn.window(2 * n + 1, 1));
                    turn.after(ms(100), 1)
                }
                Event::Timer(1) => turn.settings(&[(Settings::WINDOW, 1 << 20)]),
                Event::Request(_) => {
                    assert_eq!(turn.request.body.len(), BODY);
                    turn.ok()
                }
                _ => turn,
            };
        });
        assert_eq!((t.replies, t.failed, t.connects), (REQUESTS, 0, 1), "{:?}", t.faults);
        assert_eq!(seen.requests, REQUESTS);
        assert!(t.times.flow_wait.count() >= 4, "{}", t.times.flow_wait.count());
        assert!(t.times.flow_wait.max().is_some_and(|wait| wait >= ms(100)));
    }
}

/// A window that opens by single bytes: the client sends them, as there is nothing better to send.
#[test]
fn windows_of_single_bytes() {
    let mut plan = posts(200);
    plan.stop.requests = Some(12);
    for setup in links() {
        let (t, seen) = run(&plan, &setup, "single bytes", |turn| {
            match turn.event {
                Event::Opened => turn.settings(&[(Settings::WINDOW, 0)]),
                Event::Head => turn.window(turn.stream, 1),
                Event::Data(n) => {
                    let stream = turn.stream;
                    turn.window(0, n).window(stream, 1)
                }
                Event::Request(_) => {
                    assert_eq!(turn.request.body, [b'x'; 200]);
                    turn.ok()
                }
                _ => turn,
            };
        });
        assert_eq!((t.replies, t.failed, t.connects), (12, 0, 1), "{:?}", t.faults);
        // What is sent before the settings is one frame.
        let single = seen.data.iter().filter(|(_, length)| *length == 1).count();
        assert!(single >= 8 * 200, "{single} frames of one byte");
        assert!(seen.data.iter().all(|(_, length)| *length == 1 || *length == 200));
    }
}

/// No update ever: the requests fail as what they are, and their wait is in the report.
#[test]
fn windows_that_never_open() {
    let mut plan = posts(100_000);
    plan.timeout = ms(40);
    for setup in links().take(1) {
        let (t, seen) = run(&plan, &setup, "no updates", |turn| {
            match turn.event {
                Event::Opened => turn.settings(&[(Settings::WINDOW, 10)]),
                _ => turn,
            };
        });
        let all = (REQUESTS, REQUESTS);
        assert_eq!((t.failed, t.fault(Fault::FlowTimeout)), all, "{:?}", t.faults);
        assert_eq!(t.times.flow_wait.count(), REQUESTS);
        let resets = seen.resets.get(&Code::CANCEL.0).copied().unwrap_or(0);
        assert!((REQUESTS - 4..=REQUESTS).contains(&resets), "{:?}", seen.resets);
        assert_eq!(seen.connections, 1);
    }
}

/// An update that overflows the window of one stream, or is empty, fails its request only.
#[test]
fn bad_updates_fail_one_request() {
    let rows: [(&str, u32, Fault, Code); 2] = [
        ("2^31 - 1 more", (1 << 31) - 1, Fault::FlowControl, Code::FLOW_CONTROL_ERROR),
        ("0 more", 0, Fault::BadHttp2, Code::PROTOCOL_ERROR),
    ];
    for (name, more, fault, code) in rows {
        for setup in links() {
            let (t, seen) = run(&plan(), &setup, name, |turn| {
                match turn.event {
                    Event::Request(n) if n % 2 == 1 => turn.window(turn.stream, more),
                    _ => turn.usual(),
                };
            });
            let odd = REQUESTS / 2;
            assert_eq!((t.failed, t.fault(fault)), (odd, odd), "{name}: {:?}", t.faults);
            assert_eq!((t.replies, t.connects, seen.connections), (odd, 1, 1), "{name}");
            let resets = seen.resets.get(&code.0).copied().unwrap_or(0);
            assert!((odd - 4..=odd).contains(&resets), "{name}: {:?}", seen.resets);
            assert_eq!(goaways(&seen), [], "{name}");
        }
    }
}

/// Random settings and updates, at random times: no byte exceeds a window, and all bodies arrive.
#[test]
fn bodies_arrive_whatever_the_windows_do() {
    let mut waits = 0;
    for seed in crate::plans::seeds(150) {
        let _case = crate::plans::Seed(seed);
        let mut rng = Rng::new(seed, 161);
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.link.rate = None;
        setup.link.window = None;
        let body = rng.between(1, 60_000) as usize;
        let mut plan = posts(body);
        plan.pipeline = rng.between(1, 6) as u32;
        plan.stop.requests = Some(12);
        let mut last = 0;
        let (t, seen) = run(&plan, &setup, "random windows", |turn| {
            match turn.event {
                Event::Opened => {
                    turn.settings(&[]).after(ms(1), 0);
                }
                Event::Head => last = turn.stream,
                Event::Request(_) => {
                    assert_eq!(turn.request.body.len(), body);
                    turn.ok();
                }
                // A change now and then, and in the end room for everything.
                Event::Timer(n) if n < 60 => {
                    match rng.below(4) {
                        0 => turn.settings(&[(Settings::WINDOW, rng.below(70_000) as u32)]),
                        1 => turn.settings(&[
                            (Settings::WINDOW, rng.below(100) as u32),
                            (Settings::FRAME_SIZE, rng.between(1 << 14, 1 << 18) as u32),
                            (Settings::WINDOW, rng.below(9_000) as u32),
                        ]),
                        2 => turn.window(0, rng.between(1, 20_000) as u32),
                        _ => {
                            let stream = (2 * rng.below(3) as u32 + 1).min(last);
                            turn.window(stream, rng.between(1, 2_000) as u32)
                        }
                    };
                    turn.after(rng.up_to(ms(3)), n + 1);
                }
                Event::Timer(_) => {
                    turn.settings(&[(Settings::WINDOW, 1 << 24)]).window(0, 1 << 24);
                }
                _ => {}
            }
        });
        assert_eq!((t.replies, t.failed, t.connects), (12, 0, 1), "{:?}", t.faults);
        assert_eq!(seen.data.iter().map(|(_, n)| u64::from(*n)).sum::<u64>(), 12 * body as u64);
        waits += t.times.flow_wait.count();
    }
    assert!(!crate::plans::has_all_seeds() || waits > 300, "{waits}");
}
