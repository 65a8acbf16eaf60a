//! Bounds of what the meter added, poll by poll.

use super::*;
use crate::record::lower_bounds::LowerBounds;
use crate::record::tests::reply;
use crate::record::{CallStart, TokenReply};
use prony_base::fault::Fault;
use prony_plan::messages::Matched;

const US: u64 = 1_000;

fn stamps(sent: u64, done: u64) -> Stamps {
    let (sent, done) = (Nanos(sent * US), Nanos(done * US));
    Stamps { intended: sent, sent, first: done, done, ..Stamps::default() }
}

fn poll(at: u64, previous: PreviousPoll) -> Poll {
    Poll { at: Nanos(at * US), previous }
}

fn success(r: &mut Recorder, stamps: Stamps) {
    r.event_delivered(stamps.done);
    r.replied(&stamps, &reply(200, 0), None);
}

/// The largest bound of any request, and the smallest lower bound of a response time, in
/// microseconds.
fn finished(r: Recorder) -> (u64, u64) {
    let (_, main) = r.finish(false);
    let without = main.without_meter.expect("the driver reported its polls");
    assert_eq!(without.times.count(), main.times.response.count());
    (without.added_max.0 / US, without.times.min().expect("some").0.div_ceil(US))
}

#[test]
fn has_no_bound_if_the_driver_reports_no_polls() {
    let mut r = Recorder::new(Nanos::ZERO);
    success(&mut r, stamps(0, 50));
    assert_eq!(r.finish(false).1.without_meter, None);
}

/// The poll starts at 10 us and returns at 510 us.
#[test]
fn sleeping_poll_adds_only_the_run_queue_delay() {
    for (delay, added) in [(0, 0), (30, 30), (495, 505)] {
        let mut r = Recorder::new(Nanos::ZERO);
        r.polled(poll(5, PreviousPoll::Empty));
        r.polled(poll(10, PreviousPoll::Drained));
        success(&mut r, stamps(0, 510));
        r.sched_delay(Span(delay * US));
        assert_eq!(finished(r).0, added, "{delay}");
    }
}

/// The run-queue delay is read after two polls: each of them can have waited that long.
#[test]
fn replies_stay_pending_until_the_run_queue_delay_is_known() {
    let mut r = Recorder::new(Nanos::ZERO);
    for (asked, done) in [(10, 110), (120, 220)] {
        r.polled(poll(asked, PreviousPoll::Drained));
        success(&mut r, stamps(asked, done));
        success(&mut r, Stamps { intended: Nanos((asked - 5) * US), ..stamps(asked, done) });
    }
    r.sched_delay(Span(40 * US));
    r.polled(poll(230, PreviousPoll::Drained));
    success(&mut r, stamps(230, 330));
    r.sched_delay(Span(7 * US));
    let without = r.finish(false).1.without_meter.expect("polls were reported");
    let least: Vec<u64> = without.times.recorded().map(|(_, n)| n).collect();
    assert_eq!((without.added_max, least), (Span(45 * US), vec![4, 1]), "60 us and 93 us");
}

/// In a turn of 300 us replies are read one after the other, and more arrive meanwhile.
#[test]
fn busy_loop_adds_the_time_since_the_previous_poll() {
    let mut r = Recorder::new(Nanos::ZERO);
    r.polled(poll(100, PreviousPoll::Empty));
    success(&mut r, stamps(0, 100));
    success(&mut r, stamps(0, 400));
    r.polled(poll(400, PreviousPoll::Drained));
    success(&mut r, stamps(0, 400));
    assert_eq!(finished(r), (300, 100));
}

#[test]
fn events_left_by_a_partial_poll_count_from_that_poll() {
    let mut r = Recorder::new(Nanos::ZERO);
    r.polled(poll(100, PreviousPoll::Empty));
    success(&mut r, stamps(0, 100));
    r.polled(poll(200, PreviousPoll::Partial));
    success(&mut r, stamps(0, 205));
    assert_eq!(finished(r).0, 105);
}

/// A reply cannot arrive before its request was sent.
#[test]
fn bound_is_at_most_service_time_plus_send_lag() {
    let mut r = Recorder::new(Nanos::ZERO);
    r.polled(poll(0, PreviousPoll::Drained));
    let late = Stamps { intended: Nanos(30 * US), ..stamps(40, 60) };
    success(&mut r, late);
    assert_eq!(finished(r), (30, 0));
}

#[test]
fn timeout_counts_an_unread_reply() {
    let mut r = Recorder::new(Nanos::ZERO);
    r.polled(poll(900, PreviousPoll::Empty));
    r.failed(&stamps(0, 1_200), Fault::RequestTimeout, true, Span(1_000 * US));
    assert_eq!(finished(r), (300, 900));
    let mut r = Recorder::new(Nanos::ZERO);
    r.polled(poll(900, PreviousPoll::Empty));
    r.overdue(Nanos::ZERO);
    r.failed(&stamps(0, 1_200), Fault::RequestTimeout, false, Span(1_000 * US));
    assert_eq!(finished(r), (1_200, 0));
}

#[test]
fn bins_round_down_by_at_most_a_512th() {
    for shift in 0..42 {
        for ns in [(1_u64 << shift) - 1, 1 << shift, (1 << shift) + 1, (3 << shift) / 2 + 1] {
            let mut least = LowerBounds::default();
            least.record(Span(ns), Span::ZERO, 1);
            let kept = least.finish().times.max().expect("one").0;
            assert!(kept <= ns && ns - kept <= ns / 512, "{ns}: {kept}");
        }
    }
}

/// Every tenth of a hundred requests of 500 us may have been read 400 us late. That changes the
/// fastest tenth, and neither the median nor the maximum.
#[test]
fn bound_of_a_quantile_depends_on_requests_near_it() {
    let mut r = Recorder::new(Nanos::ZERO);
    for i in 0..100 {
        let done = 1_000 * (i + 1);
        let asked = if i % 10 == 0 { done - 400 } else { done };
        r.polled(poll(asked, PreviousPoll::Empty));
        success(&mut r, stamps(done - 500, done));
        r.sched_delay(Span(400 * US));
    }
    let (_, main) = r.finish(false);
    let share = |q| main.meter_added(q).map(|t| t.0 / US);
    assert_eq!([0.1, 0.5, 1.0].map(share), [Some(400), Some(0), Some(0)]);
    assert_eq!(share(0.99), None, "100 samples are too few for a p99");
}

/// The bounds of a time in streams, in microseconds: of the longest, and of the median.
fn in_streams(t: &Tally, time: StreamTime) -> (u64, Option<u64>) {
    let bounds = &t.streams_without_meter[&time];
    assert_eq!(bounds.times.count(), t.times_in_streams(time).expect("some").count());
    (bounds.added_max.0 / US, t.meter_added_in_streams(time, 0.5).map(|t| t.0 / US))
}

/// Messages are sent 40 us late and read up to 200 us late: a poll that returned at once after a
/// turn of that length.
#[test]
fn messages_have_the_bounds_of_requests() {
    let at = |us: u64| Nanos(us * US);
    let mut r = Recorder::new(Nanos::ZERO);
    for i in 0..40 {
        let start = 1_000 * i;
        let replied = at(start + 500);
        r.polled(poll(start + 300, PreviousPoll::Empty));
        r.event_delivered(replied);
        let (response, service) = (Span(500 * US), Span(460 * US));
        r.message_replied(&Matched { intended: at(start), response, service }, replied);
        r.ping_answered(at(start), at(start + 40), replied);
        let call = CallStart { intended: at(start), sent: at(start + 40), before: Span(40 * US) };
        r.first_message(call, replied);
        r.first_content(call, replied);
        r.first_output(call, replied);
        r.next_message(at(start + 350), replied);
        r.output_arrived(Some(at(start)), replied);
        r.sched_delay(Span(200 * US));
    }
    let (_, t) = r.finish(false);
    for time in [
        StreamTime::Message,
        StreamTime::Ping,
        StreamTime::FirstMessage,
        StreamTime::FirstContent,
        StreamTime::Ttft,
    ] {
        assert_eq!(in_streams(&t, time), (240, Some(240)), "{time:?}");
    }
    // A gap begins with a read: at most all of it, and no send.
    assert_eq!(in_streams(&t, StreamTime::MessageGap), (150, Some(150)));
    assert_eq!(in_streams(&t, StreamTime::ChunkGap), (200, Some(200)));
}

/// What a late read of the last token added is spread over all gaps of a reply.
#[test]
fn bound_of_the_time_between_tokens_is_that_of_the_longest_wait() {
    let mut r = Recorder::new(Nanos::ZERO);
    let at = |us: u64| Nanos(us * US);
    r.polled(poll(800, PreviousPoll::Empty));
    r.event_delivered(at(1_000));
    r.output_arrived(Some(at(100)), at(1_000));
    r.sched_delay(Span(200 * US));
    r.polled(poll(2_000, PreviousPoll::Drained));
    r.event_delivered(at(2_010));
    let chunks = TokenReply {
        first: Some(at(0)),
        last: at(1_000),
        chunks: 2,
        input: None,
        output: Some(11),
        is_tokenized: false,
        finish: None,
        is_doubted: false,
        choices: 1,
    };
    r.tokens_replied(&stamps(0, 2_010), &chunks, &[]);
    let (_, t) = r.finish(false);
    assert_eq!(in_streams(&t, StreamTime::Itl), (20, None));
}

#[test]
fn times_in_streams_have_no_bound_without_polls() {
    let mut r = Recorder::new(Nanos::ZERO);
    r.next_message(Nanos(5), Nanos(9));
    let (_, t) = r.finish(false);
    assert!(t.streams_without_meter.is_empty());
    assert_eq!(t.meter_added_in_streams(StreamTime::MessageGap, 1.0), None);
}
