//! What the recorder counts of streams, messages, tokens, pings and broadcasts.

use std::collections::BTreeMap;

use super::super::*;
use super::reply;
use prony_plan::events::Finish;
use prony_plan::messages::{Delivery, Stamp};
use prony_plan::plan::{TokenLimit, TokenTime};

/// The tally of what `with` records in a run that ends by time, at 60 s.
fn recorded(with: impl FnOnce(&mut Recorder)) -> Tally {
    let mut r = Recorder::new(Nanos::ZERO);
    r.load_ended(Nanos(60_000_000_000));
    with(&mut r);
    r.finish(true).1
}

#[test]
fn messages_in_one_read_are_counted_as_such() {
    let t = recorded(|r| {
        r.message_received(Nanos(100), false);
        r.message_received(Nanos(100), true);
        r.next_message(Nanos(100), Nanos(100));
        r.next_message(Nanos(100), Nanos(400));
        r.next_message(Nanos(400), Nanos(700));
        r.unmatched_message(Nanos(400));
        r.unmatched_message(Nanos(500));
    });
    let counts = t.stream_messages.unwrap();
    assert_eq!((counts.received, counts.together, counts.unmatched), (5, 2, 2));
    assert_eq!((t.times.message_gap.count(), t.times.message_gap.sum_ns()), (3, 600));
}

#[test]
fn streams_have_an_end_and_a_size() {
    let t = recorded(|r| {
        for (why, size) in [
            (StreamEnd::Server, (3, 300)),
            (StreamEnd::Count, (5, 700)),
            (StreamEnd::Time, (0, 0)),
            (StreamEnd::Text, (1, 9)),
        ] {
            r.stream_began(Nanos(1));
            r.stream_ended(Nanos(1), why, size);
        }
        r.stream_failed(Nanos(2), (2, 20));
        r.stream_failed(Nanos(2), (0, 5));
        r.stream_incomplete(Nanos(2));
    });
    let counts = *t.stream_messages.unwrap();
    let sizes = counts.sizes.unwrap();
    assert_eq!((sizes.messages.count(), sizes.messages.sum_ns()), (6, 11));
    assert_eq!((sizes.bytes.count(), sizes.bytes.sum_ns()), (6, 1_034));
    let bodies = counts.bodies.unwrap();
    assert_eq!((bodies.begun, bodies.empty, bodies.failed, bodies.incomplete), (4, 2, 2, 1));
    let ends =
        [bodies.ended_by_server, bodies.ended_by_count, bodies.ended_by_time, bodies.ended_by_text];
    assert_eq!(ends, [1; 4]);
}

#[test]
fn streams_that_are_opened_again_are_counted() {
    let t = recorded(|r| {
        let first = Reply {
            interim: 2,
            head_bytes: 120,
            framing_bytes: 30,
            footer_bytes: 5,
            ..reply(200, 1_000)
        };
        r.stream_ended_early(Nanos(1), &first);
        r.stream_ended_early(Nanos(1), &reply(200, 7));
        r.stream_broke(Nanos(1));
        for _ in 0..3 {
            r.stream_reconnects(Nanos(1));
        }
        r.stream_resumed(Nanos(1));
        r.stream_resumed(Nanos(1));
        r.first_message_again(Nanos(1), Nanos(500), Nanos(800));
        r.stream_disagrees(Nanos(1), true, 0);
        r.stream_disagrees(Nanos(1), false, 4);
    });
    assert_eq!((t.interim, t.bytes_head, t.bytes_body), (2, 220, 1_007));
    assert_eq!((t.bytes_framing, t.bytes_footer), (30, 5));
    assert_eq!(t.statuses, BTreeMap::from([(200, 2)]));
    let again = t.stream_messages.unwrap().bodies.unwrap().reconnects.unwrap();
    assert_eq!((again.made, again.resumed, again.ended, again.broken), (3, 2, 2, 1));
    assert_eq!((again.repeated, again.missed), (1, 4));
    assert_eq!(t.times.reconnect.sum_ns(), 300);
}

#[test]
fn pings_and_their_pongs_are_counted() {
    let t = recorded(|r| {
        for due in [10, 20, 30] {
            r.ping_sent(Nanos(due));
        }
        r.ping_answered(Nanos(10), Nanos(11), Nanos(15));
        r.ping_answered(Nanos(20), Nanos(20), Nanos(31));
    });
    let pings = t.pings.unwrap();
    assert_eq!((pings.sent, pings.answered, pings.time.sum_ns()), (3, 2, 16));
}

#[test]
fn open_streams_count_until_the_last_completion() {
    let mut r = Recorder::new(Nanos::ZERO);
    r.streams_changed(0, 2, Nanos(0));
    let done = Stamps { done: Nanos(500), ..Stamps::default() };
    r.replied(&done, &reply(200, 0), None);
    r.streams_changed(2, 1, Nanos(500));
    // The other stream hangs until the user interrupts: it is no completion.
    r.streams_changed(1, 0, Nanos(9_000));
    assert_eq!(r.open_streams(false), (Span(1_000), 2));
}

#[test]
fn statuses_after_the_end_of_the_load_are_known() {
    let mut r = Recorder::new(Nanos::ZERO);
    r.load_ended(Nanos(1_000));
    for (done, status) in [(900, 500), (1_000, 200), (1_100, 500), (1_200, 404)] {
        r.started(Nanos(10));
        let stamps = Stamps { intended: Nanos(10), done: Nanos(done), ..Stamps::default() };
        r.replied(&stamps, &reply(status, 0), None);
    }
    let (_, t) = r.finish(true);
    assert_eq!((t.replies, t.replies_in_drain), (4, 2));
    assert_eq!(t.statuses_in_drain, BTreeMap::from([(404, 1), (500, 1)]));
    assert_eq!((t.statuses_inside(400..), t.statuses_inside(..)), (1, 2));
}

/// 100 streams whose time ends after 2 s. Their resets are written a little later.
#[test]
fn open_streams_count_until_the_last_completion_although_they_are_reset_later() {
    let s = 1_000_000_000;
    for reset in [Nanos(2 * s), Nanos(2 * s + 50_000)] {
        let mut r = Recorder::new(Nanos::ZERO);
        r.streams_changed(0, 100, Nanos(0));
        let done = Stamps { done: Nanos(2 * s), ..Stamps::default() };
        for _ in 0..100 {
            r.replied(&done, &reply(200, 0), None);
        }
        r.streams_changed(100, 0, reset);
        assert_eq!(r.open_streams(false), (Span(200 * s), 100), "{reset:?}");
    }
    // They are not written any more.
    let mut r = Recorder::new(Nanos::ZERO);
    r.streams_changed(0, 3, Nanos(0));
    r.replied(&Stamps { done: Nanos(s), ..Stamps::default() }, &reply(200, 0), None);
    assert_eq!(r.open_streams(false), (Span(3 * s), 3));
}

#[test]
fn messages_of_a_broadcast_are_settled_when_all_workers_are_known() {
    let mut t = recorded(|r| {
        let whole = (Nanos(0), Nanos(1_000));
        let stamp = |sequence, sent| Stamp {
            publisher: 0,
            sequence,
            intended: Nanos(sent),
            sent: Nanos(sent),
        };
        for at in [100, 200] {
            r.published(0, Nanos(at));
        }
        r.delivered(&stamp(0, 100), Delivery::InOrder, Nanos(110));
        r.delivered(&stamp(0, 100), Delivery::InOrder, Nanos(150));
        r.delivered(&stamp(1, 200), Delivery::InOrder, Nanos(230));
        r.delivered(&stamp(1, 200), Delivery::Duplicate, Nanos(240));
        r.subscriber_ended(whole);
        r.subscriber_ended(whole);
    });
    t.settle();
    let all = *t.broadcast.unwrap();
    assert_eq!((all.subscribers, all.published, all.expected), (2, 2, 4));
    assert_eq!((all.delivered, all.complete, all.duplicates), (3, 1, 1));
    assert_eq!((all.spread.count(), all.spread.sum_ns()), (1, 40));
    assert_eq!((all.delivery.count(), all.delivery.sum_ns()), (3, 10 + 50 + 30));
}

#[test]
fn tokens_of_replies_are_counted() {
    let stamps =
        |done| Stamps { sent: Nanos(1), first: Nanos(10), done: Nanos(done), ..Stamps::default() };
    let one = TokenReply {
        first: Some(Nanos(10)),
        last: Nanos(110),
        chunks: 4,
        input: Some(7),
        output: Some(11),
        is_tokenized: true,
        finish: Some(Finish::Length),
        is_doubted: false,
        choices: 1,
    };
    let limits = [TokenLimit { time: TokenTime::Response, limit: Span(200_000_000_000) }];
    // The load ends at 60 s.
    let t = recorded(|r| {
        r.tokens_replied(&stamps(120), &one, &limits);
        r.tokens_replied(&stamps(60_000_000_000), &TokenReply { chunks: 2, ..one }, &limits);
        let uncounted = TokenReply { output: None, chunks: 0, finish: None, ..one };
        for done in [60_000_000_001, 60_000_000_002] {
            r.tokens_replied(&stamps(done), &uncounted, &limits);
        }
    });
    let tokens = t.tokens.unwrap();
    assert_eq!((tokens.replies, tokens.empty, tokens.counted, tokens.tokenized), (4, 2, 2, 2));
    assert_eq!((tokens.counted_chunks, tokens.output_tokens, tokens.input_tokens), (6, 22, 14));
    assert_eq!((tokens.good, tokens.good_in_drain), (4, 2));
    assert_eq!((tokens.itl.count(), tokens.itl.sum_ns()), (2, 20));
    assert_eq!((tokens.finished.length, tokens.finished.none), (2, 2));
    assert_eq!(tokens.good_by_second, BTreeMap::from([(0, 1), (60, 3)]));
}

#[test]
fn requests_without_kernel_timestamps_are_counted_by_which_is_missing() {
    let t = recorded(|r| {
        let stamps = Stamps::default();
        r.kernel_times(&stamps, Err(MissingTime::Sent));
        r.kernel_times(&stamps, Err(MissingTime::Received));
        r.kernel_times(&stamps, Err(MissingTime::Received));
    });
    let phases = t.phases.unwrap();
    assert_eq!((phases.no_sent, phases.no_received), (1, 2));
}

#[test]
fn failed_requests_of_a_name_are_counted() {
    let mut r = Recorder::new(Nanos::ZERO).of(false, 2);
    r.load_ended(Nanos(60_000_000_000));
    let stamps = Stamps { done: Nanos(5), ..Stamps::default() };
    r.name_ended(1, stamps, 200, None);
    r.name_ended(1, stamps, 503, Some(Fault::UnexpectedStatus));
    r.name_failed(1, &stamps, Fault::Truncated, true, Span(9));
    r.name_failed(1, &stamps, Fault::RequestTimeout, true, Span(9));
    let names = r.finish(true).1.names;
    assert_eq!((names[1].replies, names[1].failed), (1, 3));
    assert_eq!(names[1].response.sum_ns(), 5 + 9);
    assert_eq!((names[0].replies, names[0].failed), (0, 0));
}

#[test]
fn completed_sessions_are_counted_by_the_second_of_their_end() {
    let mut r = Recorder::new(Nanos::ZERO).of(true, 0);
    r.load_ended(Nanos(60_000_000_000));
    for (intended, end) in [(1, 900), (100, 1_000), (200, 1_999), (300, 4_000), (5_000, 70_000)] {
        let at = |ms: u64| Nanos(ms * 1_000_000);
        r.session_started(0, at(intended));
        r.session_ended(SessionEnd::Completed, 0, at(intended), at(end), 2, 1);
    }
    let sessions = r.finish(true).1.sessions.unwrap();
    assert_eq!(sessions.per_second, BTreeMap::from([(0, 1), (1, 2), (4, 1), (70, 1)]));
    assert_eq!((sessions.completed, sessions.completed_in_drain, sessions.connections), (5, 1, 5));
}

#[test]
fn acknowledgements_are_times_of_the_kernel() {
    let t = recorded(|r| {
        r.acknowledged(Nanos(1), Span(20));
        r.acknowledged(Nanos(2), Span(40));
    });
    let phases = t.phases.unwrap();
    assert_eq!((phases.acknowledged.count(), phases.acknowledged.sum_ns()), (2, 60));
}
