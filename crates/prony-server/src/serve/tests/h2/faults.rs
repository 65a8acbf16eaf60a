//! Faults on purpose.

use std::num::NonZeroU32;

use super::*;
use crate::serve::{Latency, Share};

const ALWAYS: Share = Share(1.0);

fn behavior() -> ServerBehavior {
    ServerBehavior::default()
}

#[test]
fn refuses_streams_over_the_limit() {
    let limited = ServerBehavior { max_streams: 2, latency: Latency::Fixed(ms(1)), ..behavior() };
    let mut frames = Frames::start();
    frames.get(1, "/").get(3, "/").get(5, "/").get(7, "/");
    let mut rig = rig(limited, &mut frames);
    let resets = [1, 3, 5, 7].map(|s| rig.reply(0, s).reset);
    assert_eq!(resets, [None, None, Some(Code::REFUSED_STREAM), Some(Code::REFUSED_STREAM)]);
    rig.run_until(at(1));
    // A refused stream is over: what comes late on it is ignored.
    rig.send(0, frames.get(9, "/").data(5, b"late", true).window(7, 9).reset(5).take());
    rig.run_until(at(2));
    assert_eq!(rig.statuses_h2(0, &[1, 3, 9]), ["200"; 3]);
    let served = rig.served();
    assert_eq!((served.requests, served.refused, served.streams), (3, 2, 5));
}

#[test]
fn refuses_and_resets_a_share_of_the_streams() {
    let share = Share(0.25);
    let mut frames = Frames::start();
    for stream in 0..2_000 {
        frames.get(2 * stream + 1, "/");
    }
    frames.window(0, 1 << 20);
    let refusing = rig(ServerBehavior { refuse: share, max_streams: 10_000, ..behavior() }, &mut {
        let mut copy = Frames::default();
        copy.out.clone_from(&frames.out);
        copy
    });
    let served = refusing.served();
    assert!((400..600).contains(&served.refused), "{}", served.refused);
    assert_eq!((served.requests, served.replies), (2_000 - served.refused, served.requests));
    let resetting =
        rig(ServerBehavior { rst: share, max_streams: 10_000, ..behavior() }, &mut frames);
    let served = resetting.served();
    assert!((400..600).contains(&served.stream_resets), "{}", served.stream_resets);
    assert_eq!((served.requests, served.replies), (2_000, 2_000 - served.stream_resets));
    assert_eq!(resetting.count(0, kind::RST_STREAM) as u64, served.stream_resets);
    let reset = (0..2_000).map(|s| resetting.reply(0, 2 * s + 1)).find(|r| r.reset.is_some());
    let reset = reset.expect("a quarter of them");
    assert_eq!((reset.reset, reset.statuses.len()), (Some(Code::INTERNAL_ERROR), 0));
}

#[test]
fn truncates_replies() {
    let mut frames = Frames::start();
    frames.get(1, "/bytes/1000").get(3, "/status/204");
    let rig = rig(ServerBehavior { truncate: ALWAYS, ..behavior() }, &mut frames);
    let reply = rig.reply(0, 1);
    assert_eq!((reply.body.len(), reply.ended), (500, false));
    assert_eq!(reply.reset, Some(Code::INTERNAL_ERROR));
    assert_eq!(rig.reply(0, 3).reset, Some(Code::INTERNAL_ERROR));
    assert_eq!((rig.served().truncated, rig.served().replies), (2, 0));
    assert!(rig.links[0].closed.is_none(), "only the streams end");
}

#[test]
fn resets_the_connection() {
    let mut frames = Frames::start();
    frames.get(1, "/delay/1ms").get(3, "/delay/9ms");
    let mut rig = rig(ServerBehavior { reset: ALWAYS, ..behavior() }, &mut frames);
    rig.run_until(at(1));
    assert_eq!(rig.links[0].closed, Some((at(1), CloseHow::Reset)));
    assert_eq!((rig.served().resets, rig.served().unanswered), (1, 1));
}

#[test]
fn announces_the_end_in_two_steps() {
    let goaway_after = NonZeroU32::new(2);
    let mut frames = Frames::start();
    frames.get(1, "/");
    let mut rig = rig(ServerBehavior { goaway_after, ..behavior() }, &mut frames);
    assert_eq!(rig.goaways(0), []);
    rig.send(0, frames.get(3, "/").take());
    assert_eq!(rig.goaways(0), [(prony_base::http2::STREAM_MAX, Code::NO_ERROR)]);
    let ping = rig.frames(0).into_iter().find(|frame| frame.kind == kind::PING).expect("a PING");
    // The client has not seen it yet, and sends more; another acknowledgement changes nothing.
    rig.send(0, frames.get(5, "/").frame(kind::PING, flag::ACK, 0, b"anything").take());
    assert_eq!((rig.goaways(0).len(), rig.reply(0, 5).ended), (1, true));
    rig.send(0, frames.get(7, "/delay/5ms").frame(kind::PING, flag::ACK, 0, &ping.payload).take());
    assert_eq!(rig.goaways(0)[1..], [(7, Code::NO_ERROR)]);
    rig.send(0, frames.get(9, "/").take());
    rig.run_until(at(5));
    assert_eq!(rig.statuses_h2(0, &[1, 3, 5, 7]), ["200"; 4]);
    assert_eq!(rig.reply(0, 9), Reply::default());
    assert!(rig.links[0].closed.is_none(), "until the client has closed");
    rig.half_close(0);
    assert!(rig.links[0].closed.is_some());
    assert_eq!((rig.served().goaways, rig.served().ignored), (2, 1));
}

#[test]
fn delays_its_settings_and_all_else() {
    let settings_delay = Some(ms(30));
    let mut frames = Frames::start();
    frames.get(1, "/").ping(b"12345678");
    let mut rig = rig(ServerBehavior { settings_delay, ..behavior() }, &mut frames);
    rig.run_until(at(29));
    assert!(rig.bytes(0).is_empty());
    rig.run_until(at(30));
    assert_eq!(rig.frames(0)[0].kind, kind::SETTINGS);
    assert!(rig.reply(0, 1).ended);
    assert_eq!(rig.links[0].got[0].0, at(30));
}

#[test]
fn closes_idle_connections() {
    let mut frames = Frames::start();
    frames.get(1, "/delay/30ms");
    let mut rig = rig(ServerBehavior { idle_close: Some(ms(20)), ..behavior() }, &mut frames);
    rig.run_until(at(49));
    assert!(rig.reply(0, 1).ended && rig.goaways(0).is_empty());
    rig.run_until(at(50));
    assert_eq!(rig.goaways(0), [(1, Code::NO_ERROR)]);
    rig.run_until(at(1_050));
    assert_eq!(rig.links[0].closed, Some((at(1_050), CloseHow::Orderly)));
    assert_eq!(rig.served().idle_closes, 1);
}

#[test]
fn a_client_can_cancel_at_any_time() {
    let mut frames = Frames::start();
    frames.get(1, "/delay/9ms").get(3, "/bytes/200000").post(5, "/", &[]);
    let mut rig = rig(behavior(), &mut frames);
    assert_eq!(rig.reply(0, 3).body.len(), 65_535, "the window is used up");
    rig.send(0, frames.reset(1).reset(3).reset(5).reset(5).window(3, 5).window(0, 100_000).take());
    rig.run_until(at(9));
    rig.send(0, frames.get(7, "/bytes/20000").take());
    assert_eq!(rig.reply(0, 7).body.len(), 20_000);
    let served = rig.served();
    assert_eq!((served.cancelled, served.cut_requests, served.replies), (2, 1, 1));
    assert_eq!((served.violations, rig.count(0, kind::RST_STREAM)), (0, 0));
}
