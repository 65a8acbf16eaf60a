//! Tests of sessions whose steps a director decides.

use std::sync::{Arc, Mutex};

use super::*;
use prony_base::director::{Director, Received, Step, Written};
use prony_plan::plan::{Burst, OnFailure, SessionKind, Sessions};

/// What a director has seen, by session number.
#[derive(Debug, Default)]
struct Seen {
    /// For each step: the session, and the status and fault of its last request.
    steps: Vec<(u64, Option<u16>, Option<Fault>)>,
    left: Vec<u64>,
}

/// A director by a table: the steps of every session.
struct Table {
    steps: Vec<Step>,
    /// By slot: the session, and how many steps it has made.
    places: Vec<(u64, usize)>,
    seen: Arc<Mutex<Seen>>,
}

impl Director for Table {
    fn begin(&mut self, slot: u32, kind: u32, number: u64) {
        assert_eq!(kind, 0);
        self.places.resize(self.places.len().max(slot as usize + 1), (0, 0));
        self.places[slot as usize] = (number, 0);
    }

    fn step(&mut self, slot: u32, last: &Received, next: &mut Written) -> Step {
        assert!(next.path.is_empty());
        let (number, made) = &mut self.places[slot as usize];
        self.seen.lock().unwrap().steps.push((*number, last.status, last.fault));
        *made += 1;
        next.path.push(b'/');
        self.steps[*made - 1]
    }

    fn leave(&mut self, slot: u32) {
        self.seen.lock().unwrap().left.push(self.places[slot as usize].0);
    }
}

fn directed(sessions: u64) -> Plan {
    let mut plan = closed(1, 1);
    plan.stop = Stop { requests: None, sessions: Some(sessions), duration: None };
    plan.calls.push(plan.calls[0].clone());
    let burst = Burst::of(vec![0], Think::None);
    let kind = SessionKind { name: "user".into(), weight: 1, bursts: vec![burst] };
    plan.sessions = Some(Sessions {
        directed: true,
        on_failure: OnFailure::Continue,
        ..Sessions::plain(vec![kind])
    });
    plan.check().expect("a valid plan");
    plan
}

fn engine(plan: &Plan, steps: &[Step]) -> (Engine<Letters>, Arc<Mutex<Seen>>) {
    let seen = Arc::default();
    let mut engine = Engine::new(plan, Letters);
    let table = Table { steps: steps.to_vec(), places: Vec::new(), seen: Arc::clone(&seen) };
    engine.direct(Box::new(table));
    (engine, seen)
}

const FIRST: Step = Step::Request { call: 0 };
const SECOND: Step = Step::Request { call: 1 };
const MS: u64 = 1_000_000;

#[test]
fn requests_of_a_director_are_intended_for_the_reply_or_the_end_of_the_pause() {
    let (mut e, seen) =
        engine(&directed(1), &[FIRST, SECOND, Step::Pause(10 * MS), FIRST, Step::Done]);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(1));
    assert_eq!(turn(&mut e, ms(1)).1, "?");
    e.on_recv(id, &mut b"!".to_vec(), ms(4));
    // The director has taken 3 ms to decide: a lag of the meter.
    assert_eq!(turn(&mut e, ms(7)).1, "1");
    e.on_recv(id, &mut b"x".to_vec(), ms(9));
    assert_eq!(turn(&mut e, ms(9)).1, "");
    // The pause starts with the reply, and not when the director has decided.
    assert_eq!(e.deadline(), Some(ms(19)));
    e.on_tick(ms(21));
    assert_eq!(turn(&mut e, ms(21)).1, "?");
    e.on_recv(id, &mut b"!".to_vec(), ms(22));
    turn(&mut e, ms(22));
    let t = e.finish().1;
    assert_eq!((t.started, t.replies, t.failed), (3, 3, 0));
    assert_eq!(t.times.lag.sum_ns(), (3 + 2) * 1_000_000);
    assert_eq!(t.times.service.sum_ns(), (3 + 2 + 1) * 1_000_000);
    assert_eq!(t.times.response.sum_ns(), (4 + 5 + 3) * 1_000_000);
    let sessions = t.sessions.expect("sessions");
    assert_eq!((sessions.started, sessions.completed), (1, 1));
    let seen = seen.lock().unwrap();
    let last: Vec<Option<u16>> = seen.steps.iter().map(|step| step.1).collect();
    assert_eq!(last, [None, Some(200), Some(200), None, Some(200)]);
    assert_eq!(seen.left, [0]);
}

#[test]
fn failed_requests_reach_the_director_which_continues() {
    let (mut e, seen) = engine(&directed(2), &[FIRST, SECOND, Step::Done]);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(1));
    assert_eq!(turn(&mut e, ms(1)).1, "?");
    e.on_closed(id, Some(Fault::Reset), ms(2));
    let again = connect_of(&turn(&mut e, ms(2)).0)[0];
    e.on_connected(again, ms(3));
    assert_eq!(turn(&mut e, ms(3)).1, "1");
    e.on_recv(again, &mut b"!".to_vec(), ms(4));
    // The next session has connections of its own.
    let next = connect_of(&turn(&mut e, ms(4)).0)[0];
    assert_ne!(next, again);
    e.on_stop(StopRequest::Now, ms(5));
    turn(&mut e, ms(5));
    let t = e.finish().1;
    assert_eq!((t.started, t.replies, t.fault(Fault::Reset)), (3, 1, 1));
    let sessions = t.sessions.expect("sessions");
    assert_eq!((sessions.failed, sessions.unfinished), (1, 1));
    let seen = seen.lock().unwrap();
    let steps =
        [(0, None, None), (0, None, Some(Fault::Reset)), (0, Some(200), None), (1, None, None)];
    assert_eq!(seen.steps, steps);
    assert_eq!(seen.left, [0, 1]);
}

#[test]
fn sessions_without_requests_do_not_spin() {
    let mut plan = directed(1);
    plan.stop = Stop { requests: None, sessions: None, duration: Some(Span::from_millis(20)) };
    let (mut e, seen) = engine(&plan, &[Step::Pause(0), Step::Failed]);
    e.on_tick(ms(0));
    turn(&mut e, ms(0));
    assert_eq!(e.deadline(), Some(ms(1)));
    for at in 1..=30 {
        e.on_tick(ms(at));
        turn(&mut e, ms(at));
    }
    let sessions = e.finish().1.sessions.expect("sessions");
    assert_eq!(sessions.started, sessions.failed);
    assert!((15..=21).contains(&sessions.failed), "{}", sessions.failed);
    assert_eq!(seen.lock().unwrap().left.len() as u64, sessions.failed);
}

#[test]
fn pauses_of_no_time_do_not_spin() {
    let mut plan = directed(1);
    plan.stop = Stop { requests: None, sessions: None, duration: Some(Span::from_millis(20)) };
    let (mut e, seen) = engine(&plan, &[Step::Pause(0); 1000]);
    e.on_tick(ms(0));
    turn(&mut e, ms(0));
    assert_eq!(e.deadline(), Some(ms(1)));
    for at in 1..=30 {
        e.on_tick(ms(at));
        turn(&mut e, ms(at));
    }
    let sessions = e.finish().1.sessions.expect("sessions");
    assert_eq!((sessions.started, sessions.unfinished), (1, 1));
    // Two steps of each millisecond.
    let seen = seen.lock().unwrap();
    assert!((30..=44).contains(&seen.steps.len()), "{}", seen.steps.len());
    assert_eq!(seen.left, [0]);
}
