//! Verdicts on streams of messages.

use super::*;

/// Ten streams of ten seconds, with 2,000 messages of 5 ms each.
fn streams() -> Tally {
    let mut t = Tally::new(Nanos::ZERO);
    t.end = Nanos(10_000_000_000);
    (t.started, t.sent, t.replies) = (10, 10, 10);
    t.times.response.record_n(Span::from_secs(10), 10);
    t.times.service.record_n(Span::from_secs(10), 10);
    t.times.lag.record_n(Span::ZERO, 10);
    t.times.message.record_n(Span::from_millis(5), 2_000);
    t.times.message_service.record_n(Span::from_millis(5), 2_000);
    t.times.message_lag.record_n(Span::ZERO, 2_000);
    t
}

/// A stream is one request, but what it measures are messages: the rules count and compare these.
#[test]
fn p08_rules_of_the_meter_apply_to_messages() {
    let judged = |t: &Tally, w: WorkerStats| reasons(&summary(closed(), t.clone(), w));
    assert_eq!(judged(&streams(), meter(100)), []);
    // Ten requests, but 2,000 messages.
    let busy = [Reason::CpuSaturated { worker: 0, share: 0.95 }];
    assert_eq!(judged(&streams(), meter(9_500)), busy);
    // Away for 25 ms in every tenth check: much beside 5 ms, nothing beside 10 s.
    let (sum, longest) = (Span::from_millis(500), Span::from_millis(30));
    let stalls = Stalls { checks: 200, late: 20, sum, longest };
    let stalled = WorkerStats { stalls, ..meter(100) };
    let late = Span::from_millis(25);
    let stall = [Reason::EventLoopStall { worker: 0, share: 0.1, late, longest }];
    assert_eq!(judged(&streams(), stalled.clone()), stall);
    // A wait of 1 ms for a processor adds a fifth to 5 ms.
    let waits = SchedDelay { total: Span::from_millis(2_000), count: 2_000 };
    let waiting = WorkerStats { sched_delay: Some(waits), ..meter(100) };
    let wait = Span::from_millis(1);
    let waited = [Reason::RunQueueDelay { worker: 0, share: 0.2, wait }];
    assert_eq!(judged(&streams(), waiting.clone()), waited);
    // Whatever the time is.
    for time in StreamTime::ALL {
        let mut t = streams();
        (t.times.message, t.times.message_service) = Default::default();
        t.times.message_lag = Hist::new();
        let each = Span::from_millis(5);
        match time {
            StreamTime::Message => t.times.message_service.record_n(each, 2_000),
            StreamTime::FirstMessage => t.times.first_message.record_n(each, 2_000),
            StreamTime::FirstContent => t.times.first_content.record_n(each, 2_000),
            StreamTime::MessageGap => t.times.message_gap.record_n(each, 2_000),
            StreamTime::Ttft => {
                let tokens = t.tokens.get_or_insert_default();
                tokens.ttft.record_n(each, 2_000);
                tokens.ttft_service.record_n(each, 2_000);
            }
            StreamTime::Itl => t.tokens.get_or_insert_default().itl.record_n(each, 2_000),
            StreamTime::ChunkGap => {
                t.tokens.get_or_insert_default().chunk_gap.record_n(each, 2_000);
            }
            StreamTime::Delivery => {
                t.broadcast.get_or_insert_default().delivery.record_n(each, 2_000);
            }
            StreamTime::Ping => t.pings.get_or_insert_default().time.record_n(each, 2_000),
        }
        if time == StreamTime::Message {
            t.times.message.record_n(each, 2_000);
        }
        if t.tokens.is_some() {
            // Of language models, the replies are the sample.
            (t.started, t.sent, t.replies) = (2_000, 2_000, 2_000);
        }
        assert_eq!(judged(&t, stalled.clone()), stall, "{time:?}");
        assert_eq!(judged(&t, waiting.clone()), waited, "{time:?}");
        assert_eq!(judged(&t, meter(100)), [], "{time:?}");
    }
}

/// Messages that arrive in one read have no gap. The scale is the gaps that there are.
#[test]
fn gaps_of_messages_that_came_together_are_no_scale() {
    let mut t = streams();
    (t.times.message, t.times.message_service) = Default::default();
    t.times.message_gap.record_n(Span::ZERO, 9_000);
    t.times.message_gap.record_n(Span::from_millis(100), 1_000);
    let stalls = |late| Stalls { checks: 200, late: 20, sum: late * 20, longest: late };
    let judged = |late| {
        let worker = WorkerStats { stalls: stalls(Span::from_millis(late)), ..meter(100) };
        summary(closed(), t.clone(), worker).verdict().is_valid()
    };
    assert!(judged(9));
    assert!(!judged(11));
}

#[test]
fn p08_late_messages_invalidate() {
    let (us, ms) = (Span::from_micros, Span::from_millis);
    let late = |lag: Span, n: u64, change: fn(&mut Tally)| {
        let mut t = streams();
        t.times.message_lag = Hist::new();
        t.times.message_lag.record_n(Span::ZERO, 2_000 - n);
        t.times.message_lag.record_n(lag, n);
        change(&mut t);
        reasons(&summary(closed(), t, meter(100)))
    };
    let sent = LateSend::Messages;
    let of =
        |lag, time, typical| [Reason::SendLag { sent, percentile: Some(99.0), lag, time, typical }];
    assert_eq!(late(us(600), 21, |_| ()), of(us(600), Some(StreamTime::Message), ms(5)));
    assert_eq!(late(us(600), 20, |_| ()), [], "one in a hundred");
    assert_eq!(late(us(500), 21, |_| ()), [], "10 % of the median exactly");
    // Without replies, deliveries are measured, or nothing is.
    let delivered = |t: &mut Tally| {
        t.broadcast.get_or_insert_default().delivery.record_n(Span::from_millis(2), 9_000);
        (t.times.message, t.times.message_service) = Default::default();
    };
    assert_eq!(late(us(300), 21, delivered), of(us(300), Some(StreamTime::Delivery), ms(2)));
    let alone = |t: &mut Tally| (t.times.message, t.times.message_service) = Default::default();
    // A message every 50 ms on each stream.
    assert_eq!(late(ms(6), 21, alone), of(ms(6), None, ms(50)));
    assert_eq!(late(ms(5), 21, alone), []);
    // Requests that begin late are late beside their first message, not beside their stream.
    let calls = |t: &mut Tally| {
        t.times.lag.record_n(Span::from_millis(1), 1_000);
        t.times.first_message.record_n(Span::from_millis(8), 1_000);
    };
    let sent = LateSend::Requests;
    let time = Some(StreamTime::FirstMessage);
    let expected =
        Reason::SendLag { sent, percentile: Some(99.0), lag: ms(1), time, typical: ms(8) };
    assert_eq!(late(us(0), 0, calls), [expected]);
}
