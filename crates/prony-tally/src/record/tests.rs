mod counters;

use proptest::prelude::*;

use super::*;

const TIMEOUT: Span = Span::from_secs(2);

/// One request of a synthetic run: its intended start, its waits, and how it ends.
#[derive(Clone, Debug)]
struct Life {
    intended: u64,
    waits: [u64; 5],
    end: u8,
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let wait = || prop_oneof![Just(0), 0..100_000_u64, 0..3_000_000_000_u64];
    let life = (0..20_000_000_000_u64, [wait(), wait(), wait(), wait(), wait()], 0..8_u8)
        .prop_map(|(intended, waits, end)| Life { intended, waits, end });
    prop::collection::vec(life, 0..60)
}

pub(super) fn reply(status: u16, body_bytes: u64) -> Reply {
    Reply {
        status,
        head_bytes: 100,
        framing_bytes: 0,
        footer_bytes: 0,
        body_bytes,
        interim: 0,
        keeps_open: true,
        fault: None,
    }
}

fn play(lives: &[Life]) -> (Option<Tally>, Tally) {
    let mut r = Recorder::new(Nanos(1_000_000_000));
    r.keep_service();
    for life in lives {
        let [queue, connect, lag, service, transfer] = life.waits;
        let intended = Nanos(life.intended);
        let sent = intended + Span(queue + connect + lag);
        let (first, done) = (sent + Span(service), sent + Span(service + transfer));
        let stamps = Stamps {
            intended,
            sent,
            first,
            done,
            queue: Span(queue),
            connect: Span(connect),
            stream: Span::ZERO,
            late: Span::ZERO,
        };
        r.started(intended);
        if life.end == 7 {
            r.unfinished(intended);
            continue;
        }
        if life.end != 5 {
            r.sent(&stamps);
        }
        let reply = |status| reply(status, service % 1_000);
        match life.end {
            3 => r.replied(&stamps, &reply(503), Some(Fault::UnexpectedStatus)),
            4 => r.failed(&stamps, Fault::RequestTimeout, true, TIMEOUT),
            5 => r.failed(&stamps, Fault::ConnectRefused, false, TIMEOUT),
            6 => r.failed(&stamps, Fault::Truncated, true, TIMEOUT),
            _ => r.replied(&stamps, &reply(200), None),
        }
    }
    r.load_ended(Nanos(21_000_000_000));
    r.finish(true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn p10_saved_tally_round_trips_and_merges_exactly(a in lives(), b in lives()) {
        let read = |t: &Tally| -> Tally {
            let text = serde_json::to_string(t).expect("tallies can be serialized");
            serde_json::from_str(&text).expect("saved tallies can be read")
        };
        let (_, direct) = play(&[a.clone(), b.clone()].concat());
        let ((_, a), (_, b)) = (play(&a), play(&b));
        prop_assert_eq!(&read(&a), &a);
        let mut merged = read(&a);
        merged.merge(&read(&b));
        prop_assert_eq!(&merged, &direct);
        prop_assert_eq!(serde_json::to_string(&merged).ok(), serde_json::to_string(&direct).ok());
    }

    #[test]
    fn p04_counts_every_request_once(all in lives()) {
        let (warm, main) = play(&all);
        let warm = warm.expect("the plan has a warm-up");
        prop_assert_eq!(warm.started + main.started, all.len() as u64);
        for t in [&warm, &main] {
            let timeouts = t.fault(Fault::RequestTimeout);
            prop_assert_eq!(t.started, t.replies + t.failed + t.unfinished);
            prop_assert_eq!(t.times.response.count(), t.replies + timeouts);
            prop_assert_eq!(t.times.failed.count(), t.failed - timeouts);
            prop_assert_eq!(t.times.lag.count(), t.sent);
            prop_assert_eq!(t.times.first_byte.count(), t.replies);
            let cells = t.series.cells();
            prop_assert_eq!(cells.iter().map(|c| c.started).sum::<u64>(), t.started);
            prop_assert_eq!(cells.iter().map(|c| c.replies).sum::<u64>(), t.replies);
            prop_assert_eq!(cells.iter().map(|c| c.failed).sum::<u64>(), t.failed);
        }
        let served = main.service_series.expect("service times are kept");
        let kept: u64 = served.blocks().all().iter().map(series::Block::count).sum();
        prop_assert_eq!(kept, main.times.service.count());
        prop_assert!(warm.service_series.is_none());
    }
}

#[test]
fn counts_requests_that_only_the_meter_delayed_past_the_end() {
    let ms = Span::from_millis;
    let tally = |by_time| {
        let mut r = Recorder::new(Nanos::ZERO);
        r.load_ended(Nanos::ZERO + ms(1_000));
        let mut sent = |intended, queue, lag| {
            let intended = Nanos::ZERO + ms(intended);
            let sent = intended + ms(queue) + lag;
            r.sent(&Stamps { intended, sent, queue: ms(queue), ..Stamps::default() });
        };
        sent(900, 0, ms(100)); // at the end of the load, not after it
        sent(900, 0, ms(101)); // late, because of the meter alone
        sent(900, 101, ms(5)); // the wait for a connection alone exceeds the end
        sent(1_000, 0, Span::from_micros(50)); // due exactly at the end and sent at once
        r.finish(by_time).1
    };
    assert_eq!((tally(true).sent, tally(true).sent_late), (4, 1));
    assert_eq!(tally(false).sent_late, 0);
}

#[test]
fn counts_the_drain_apart_unless_a_count_ends_the_load() {
    let tally = |by_time| {
        let mut r = Recorder::new(Nanos::ZERO);
        r.load_ended(Nanos(1_000));
        for done in [1_000, 1_001] {
            let stamps = Stamps { done: Nanos(done), first: Nanos(done), ..Stamps::default() };
            r.bytes_received(Nanos(done), 107);
            r.replied(&stamps, &reply(200, 7), None);
        }
        r.finish(by_time).1
    };
    let (timed, counted) = (tally(true), tally(false));
    assert_eq!((timed.end, timed.replies_in_drain, timed.bytes_in_drain), (Nanos(1_000), 1, 107));
    assert_eq!((timed.time_in_drain, counted.time_in_drain), (Span(1), Span::ZERO));
    assert_eq!(
        (counted.end, counted.replies_in_drain, counted.bytes_in_drain),
        (Nanos(1_001), 0, 0)
    );
}

#[test]
fn concurrency_excludes_the_drain() {
    let mut r = Recorder::new(Nanos::ZERO);
    r.load_ended(Nanos(1_000));
    // Two users for the whole window, one for its second half, one for its last tenth.
    let at = |intended, done| Stamps {
        intended: Nanos(intended),
        done: Nanos(done),
        ..Stamps::default()
    };
    r.replied(&at(0, 5_000), &reply(200, 7), None);
    r.replied(&at(500, 1_500), &reply(404, 7), Some(Fault::UnexpectedStatus));
    r.failed(&at(900, 9_000), Fault::RequestTimeout, true, Span(8_100));
    r.unfinished(Nanos::ZERO);
    let t = r.finish(true).1;
    assert!((t.concurrency() - 2.6).abs() < 1e-9, "{}", t.concurrency());
}

#[test]
fn stopping_in_the_warm_up_ends_the_warm_up() {
    let mut r = Recorder::new(Nanos(5_000));
    r.load_ended(Nanos(300));
    let (warm, main) = r.finish(true);
    assert_eq!(warm.expect("a warm-up").window(), Span(300));
    assert_eq!(main.window(), Span::ZERO);
}

#[test]
fn rejects_corrupt_histograms_with_a_reason() {
    let mut h = Hist::new();
    h.record(Span(5));
    let good = serde_json::to_value(&h).expect("can be written");
    let refused = |field: &str, value: serde_json::Value| {
        let mut bad = good.clone();
        bad[field] = value;
        serde_json::from_value::<Hist>(bad).expect_err(field).to_string()
    };
    assert!(serde_json::from_value::<Hist>(good.clone()).is_ok());
    assert!(refused("hdr", "?".into()).contains("base64"));
    assert!(refused("hdr", "AAAA".into()).contains("decoded"));
    assert!(refused("sum_ns", "-1".into()).contains("not a valid sum"));
    assert!(refused("count", 2.into()).contains("contradicts"));
    assert!(refused("min_ns", serde_json::Value::Null).contains("no minimum"));
    let other = Hist::new();
    assert!(refused("hdr", other.encode().into()).contains("contradicts"));
}

#[test]
fn keeps_timestamps_of_successes_if_requested() {
    let life = |ms: u64| {
        let at = |ms| Nanos::ZERO + Span::from_millis(ms);
        let sent = at(ms + 1);
        Stamps { intended: at(ms), sent, first: at(ms + 3), done: at(ms + 4), ..Stamps::default() }
    };
    for keeps in [false, true] {
        let mut r = Recorder::new(Nanos::ZERO);
        if keeps {
            r.keep_requests();
        }
        for ms in [5, 10] {
            r.started(life(ms).intended);
            r.replied(&life(ms), &reply(200, 1), None);
        }
        r.replied(&life(15), &reply(404, 1), Some(Fault::UnexpectedStatus));
        let (_, tally) = r.finish(false);
        let mut both = tally.clone();
        both.merge(&tally);
        let kept = if keeps { vec![life(5), life(10)] } else { Vec::new() };
        assert_eq!(both.kept, [kept.clone(), kept.clone()].concat());
        assert_eq!(tally.kept, kept);
    }
}

#[test]
fn requests_given_up_count_until_the_last_completion() {
    let mut r = Recorder::new(Nanos::ZERO);
    r.event(Nanos(0));
    r.started_together(Nanos(0), 2);
    r.event(Nanos(1_000));
    let done = Stamps { done: Nanos(1_000), ..Stamps::default() };
    r.replied(&done, &reply(200, 7), None);
    // A count ends the load; its last request hangs until the user interrupts.
    r.event(Nanos(7_000));
    r.load_ended(Nanos(7_000));
    r.event(Nanos(9_000));
    r.unfinished(Nanos::ZERO);
    let t = r.finish(false).1;
    assert_eq!((t.end, t.time_unfinished), (Nanos(1_000), Span(1_000)));
    assert!((t.concurrency() - 2.0).abs() < 1e-9, "{}", t.concurrency());
    assert_eq!(t.in_flight_mean(), Some(2.0));
}
