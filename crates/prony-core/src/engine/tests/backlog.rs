//! Tests of a meter that cannot keep up: bounded turns, a bounded backlog, a run that ends.

use super::*;
use prony_plan::plan::{Burst, SessionKind, Sessions};

/// A million arrivals a millisecond for 20 ms, on at most two connections.
fn flood(arrivals: Arrivals) -> Plan {
    let load = Load::Open { rate: RatePlan::constant(1e9), arrivals, connections: 2 };
    let mut plan = plan(load, 1);
    plan.stop = Stop { requests: None, sessions: None, duration: Some(Span::from_millis(20)) };
    plan
}

/// The same, but each arrival is a session of two requests.
fn flood_of_sessions() -> Plan {
    let burst = Burst::of(vec![0, 0], Think::None);
    let kind = SessionKind { name: String::new(), weight: 1, bursts: vec![burst] };
    Plan { sessions: Some(Sessions::plain(vec![kind])), ..flood(Arrivals::Fixed) }
}

fn models() -> [Plan; 4] {
    [
        flood(Arrivals::Fixed),
        flood(Arrivals::Poisson),
        flood(Arrivals::Uniform(Span::ZERO, Span::from_nanos(2))),
        flood_of_sessions(),
    ]
}

/// A driver without replies: each turn takes 1 ms. Returns how many turns there were.
fn run(e: &mut Engine<Letters>, from: u64, to: u64) -> u64 {
    let mut turns = 0;
    for at in from..to {
        e.on_tick(ms(at));
        // A turn continues until the machine wants to wait.
        loop {
            let (actions, _) = turn(e, ms(at));
            if actions.contains(&Action::Finished) {
                return turns;
            }
            turns += 1;
            if !actions.contains(&Action::Yield) {
                break;
            }
            assert!(turns < 100_000, "the run does not end");
            e.on_turn(ms(at));
        }
    }
    turns
}

#[test]
fn one_turn_starts_a_bounded_number_of_arrivals() {
    for plan in models() {
        let mut e = Engine::new(&plan, Letters);
        e.on_tick(ms(10));
        let started = e.recorder().progress()[0];
        assert!((1..=512).contains(&started), "{started} of {:?}", plan.load);
        assert!(turn(&mut e, ms(10)).0.contains(&Action::Yield), "it checks the sockets");
        assert!(e.deadline() > Some(ms(10)), "due arrivals wait for that");
        e.on_turn(ms(10));
        assert!(e.recorder().progress()[0] > started, "then it continues");
    }
}

#[test]
fn a_full_backlog_drops_due_arrivals() {
    for plan in models() {
        let mut e = Engine::new(&plan, Letters);
        let bytes = 1 << 20;
        e.limit_backlog(bytes);
        run(&mut e, 0, 10);
        assert!((500..5_000).contains(&e.in_flight()), "{} wait", e.in_flight());
        run(&mut e, 11, 25);
        assert!(e.in_flight() < 5_000, "{} wait", e.in_flight());
        e.on_stop(StopRequest::Now, ms(25));
        let (_, t) = e.finish();
        let all = t.started as f64;
        assert!((all / 20e6 - 1.0).abs() < 1e-3, "{all} of {:?}", plan.load);
        assert_eq!(t.started, t.failed + t.unfinished);
        assert_eq!(t.failed, t.fault(Fault::Dropped));
        assert_eq!(t.times.failed.count(), t.failed);
        assert_eq!(t.series.cells().iter().map(|c| c.started).sum::<u64>(), t.started);
        if let Some(s) = &t.sessions {
            assert_eq!(s.started, s.completed + s.failed + s.unfinished);
        }
    }
}

/// What finds no room is dropped at the end, so that the run ends with the requests in flight.
#[test]
fn a_run_with_drops_does_not_wait_for_its_backlog() {
    for plan in models() {
        let mut e = Engine::new(&plan, Letters);
        e.limit_backlog(1 << 20);
        run(&mut e, 0, 22);
        // On the two connections that were requested.
        assert!(e.in_flight() <= 4, "{} in flight of {:?}", e.in_flight(), plan.load);
        // It waits only briefly for their replies.
        assert_eq!(e.deadline(), Some(ms(1_020)));
        e.on_tick(ms(1_020));
        assert!(turn(&mut e, ms(1_020)).0.contains(&Action::Finished));
    }
}

/// A meter that can catch up gets the time for it, and drops nothing.
#[test]
fn arrivals_that_were_due_before_the_end_start_after_it() {
    let load = Load::Open {
        rate: RatePlan::constant(100_000.0),
        arrivals: Arrivals::Fixed,
        connections: 2,
    };
    let mut plan = plan(load, 1);
    plan.stop = Stop { requests: None, sessions: None, duration: Some(Span::from_millis(20)) };
    let mut e = Engine::new(&plan, Letters);
    run(&mut e, 30, 31);
    assert_eq!(e.in_flight(), 2_000);
    e.on_stop(StopRequest::Now, ms(31));
    let (_, t) = e.finish();
    assert_eq!((t.started, t.unfinished, t.failed), (2_000, 2_000, 0));
}

/// A meter that cannot catch up drops the rest quickly, with or without room for it.
#[test]
fn a_meter_that_cannot_catch_up_drops_the_rest() {
    for plan in models() {
        let mut e = Engine::new(&plan, Letters);
        e.on_tick(ms(600));
        assert!(e.in_flight() <= 4, "{} in flight of {:?}", e.in_flight(), plan.load);
        e.on_stop(StopRequest::Now, ms(600));
        let (_, t) = e.finish();
        let all = t.started as f64;
        assert!((all / 20e6 - 1.0).abs() < 1e-2, "{all} of {:?}", plan.load);
        assert_eq!(t.started, t.failed + t.unfinished);
    }
}

#[test]
fn a_stop_counts_arrivals_that_were_due_before_it() {
    for how in [StopRequest::Drain, StopRequest::Now] {
        for plan in models() {
            let mut e = Engine::new(&plan, Letters);
            e.limit_backlog(1 << 20);
            e.on_tick(ms(0));
            turn(&mut e, ms(0));
            e.on_stop(how, ms(10));
            run(&mut e, 10, 12);
            e.on_stop(StopRequest::Now, ms(12));
            let (_, t) = e.finish();
            assert!(
                (t.started as f64 / 10e6 - 1.0).abs() < 2e-2,
                "{} of {:?}",
                t.started,
                plan.load
            );
            assert_eq!(t.end, ms(10));
        }
    }
}

/// A count ends the load: it is over when the last arrival was due, sent or not.
#[test]
fn a_count_of_requests_that_cannot_be_sent_ends_in_time() {
    let mut plan = flood(Arrivals::Fixed);
    plan.stop = Stop { requests: Some(10_000_000), sessions: None, duration: None };
    let mut e = Engine::new(&plan, Letters);
    e.limit_backlog(1 << 16);
    run(&mut e, 0, 2_000);
    let (_, t) = e.finish();
    assert_eq!((t.started, t.failed + t.unfinished), (10_000_000, 10_000_000));
    assert!(t.end <= ms(12), "{:?}", t.end);
}

/// The last time of a trace also ends the load: after a drop, later arrivals do not keep the run
/// from ending, however few turns the meter has.
#[test]
fn an_overloaded_trace_ends_after_its_last_time() {
    let times = (0..20_000).map(|i| Span::from_nanos(i * 1_000)).collect();
    let load =
        Load::Open { rate: RatePlan::default(), arrivals: Arrivals::Trace(times), connections: 2 };
    let mut plan = plan(load, 1);
    plan.stop = Stop { requests: None, sessions: None, duration: Some(Span::from_millis(50)) };
    let mut e = Engine::new(&plan, Letters);
    e.limit_backlog(1 << 20);
    // Its only turn comes when more is due than there is room for, the next one after the last
    // time.
    e.on_tick(ms(18));
    assert!(e.recorder().fault(Fault::Dropped) > 0);
    turn(&mut e, ms(18));
    e.on_tick(ms(30));
    assert_eq!(e.recorder().progress()[0], 20_000, "all are counted");
    assert!(e.in_flight() <= 2, "{} in flight", e.in_flight());
    e.on_tick(ms(1_030));
    assert!(turn(&mut e, ms(1_030)).0.contains(&Action::Finished));
}
