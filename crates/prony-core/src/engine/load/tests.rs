//! Tests of the load alone: how many requests start, and when.

use proptest::collection::vec;
use proptest::prelude::*;

use super::arrivals::Arrivals;
use super::clients::Clients;
use super::logged::{Logged, Taken};
use super::users::Users;
use super::*;
use crate::engine::exchange::Exchanges;
use prony_base::feed::{Entry, Fed, Feed, Own};
use prony_plan::plan::{Clients as Spec, Load as PlanLoad, Pace, Stop, Think};

fn users(connections: u32, depth: u32, requests: Option<u64>, think: Think) -> Users {
    let mut plan = crate::engine::tests::closed(connections, 1);
    plan.load = PlanLoad::Closed { connections, think };
    plan.pipeline = depth;
    plan.stop = Stop { requests, ..Stop::default() };
    Users::new(&plan, connections, think)
}

#[test]
fn first_users_of_all_groups_start_before_second_ones() {
    let mut users = users(3, 2, None, Think::None);
    assert_eq!((users.not_started(), users.has_begun()), (0, false));
    users.begin();
    assert_eq!(users.not_started(), 6);
    let order: Vec<u32> = std::iter::from_fn(|| users.next_to_start()).collect();
    assert_eq!(order, [0, 2, 4, 1, 3, 5]);
    assert_eq!(order.iter().map(|&u| users.group(u)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
}

#[test]
fn reserves_one_request_for_each_user_who_has_not_started() {
    let mut users = users(2, 1, Some(2), Think::None);
    users.begin();
    let first = users.next_to_start().unwrap();
    assert_eq!(users.start(first, true, false, true), Some(0));
    users.ended(users.group(first), 1, Nanos::ZERO);
    assert_eq!(
        users.start(first, true, false, false),
        None,
        "the last one is reserved for the other user"
    );
    let second = users.next_to_start().unwrap();
    assert_eq!(users.start(second, true, false, true), Some(1));
    assert!(users.is_used_up() && !users.is_done());
    users.ended(users.group(second), 1, Nanos::ZERO);
    assert_eq!(users.start(second, true, false, false), None);
    assert!(users.is_done());
}

#[test]
fn refills_a_window_when_half_of_it_is_free() {
    let mut users = users(1, 4, None, Think::None);
    users.begin();
    for user in 0..4 {
        assert!(users.start(user, false, false, true).is_some());
    }
    assert!(users.parks());
    users.ended(0, 1, Nanos::ZERO);
    users.park(0, &mut vec![3]);
    assert_eq!(users.unpark(0), None);
    users.ended(0, 1, Nanos::ZERO);
    users.park(0, &mut vec![1]);
    assert_eq!(users.unpark(0), Some(vec![3, 1]));
    users.keep(0, vec![3, 1]);
    assert_eq!(users.unpark(0), None);
    users.ended(0, 2, Nanos::ZERO);
    assert_eq!(users.unpark(0), Some(vec![]), "nothing is in flight");
}

#[test]
fn backs_off_exponentially_after_consecutive_failures() {
    let mut users = users(2, 1, None, Think::None);
    let waits: Vec<u64> = (0..10).map(|_| users.back_off(1).0 / 1_000_000).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]);
    assert_eq!(users.back_off(0), Span::from_millis(1), "another group");
    users.connected(1);
    assert_eq!(users.back_off(1), Span::from_millis(1));
}

proptest! {
    /// Never more requests start than the quota allows, each has its own number, and refunded ones
    /// may start again.
    #[test]
    fn never_starts_more_requests_than_the_quota(
        quota in 0_u64..40,
        groups in 1_u32..4,
        depth in 1_u32..4,
        steps in vec((0_u8..5, any::<prop::sample::Index>(), any::<bool>()), 0..200),
    ) {
        let mut users = users(groups, depth, Some(quota), Think::None);
        users.begin();
        let (mut measured, mut refunds, mut numbers) = (0, 0, Vec::new());
        let mut busy: Vec<u32> = Vec::new();
        let mut idle: Vec<u32> = Vec::new();
        for (what, which, counts) in steps {
            match what {
                0 => if let Some(user) = users.next_to_start() {
                    match users.start(user, counts, false, true) {
                        Some(n) => {
                            (measured, _) = (measured + u64::from(counts), numbers.push(n));
                            busy.push(user);
                        }
                        None => prop_assert!(counts && measured == quota + refunds),
                    }
                },
                1 | 2 if !idle.is_empty() => {
                    let user = idle.remove(which.index(idle.len()));
                    if let Some(n) = users.start(user, counts, false, false) {
                        (measured, _) = (measured + u64::from(counts), numbers.push(n));
                        busy.push(user);
                    }
                }
                3 if !busy.is_empty() => {
                    let user = busy.remove(which.index(busy.len()));
                    users.ended(users.group(user), 1, Nanos::ZERO);
                    idle.push(user);
                }
                4 if measured > refunds => {
                    users.refund();
                    refunds += 1;
                }
                _ => {}
            }
            prop_assert!(measured <= quota + refunds);
        }
        let expected: Vec<u64> = (0..numbers.len() as u64).collect();
        prop_assert_eq!(numbers, expected);
    }

    /// Starting users together is equivalent to starting them one by one.
    #[test]
    fn starting_together_matches_starting_one_by_one(quota in 0_u64..30, batch in 0_usize..20) {
        let (mut one, mut all) =
            (users(1, 20, Some(quota), Think::None), users(1, 20, Some(quota), Think::None));
        for users in [&mut one, &mut all] {
            users.begin();
            while users.next_to_start().is_some() {}
        }
        let started = (0..batch as u32).filter_map(|u| one.start(u, true, false, false)).count();
        prop_assert_eq!(all.start_together(0, batch, true), (0, started));
        prop_assert_eq!(one.is_used_up(), all.is_used_up());
    }
}

/// What ends outside of the measurement is no reply of a client, and no failure.
#[test]
fn clients_count_what_ends_within_the_measurement() {
    let mut plan = crate::engine::tests::closed(1, 1);
    plan.warmup = Span::from_secs(1);
    plan.stop = Stop { duration: Some(Span::from_secs(2)), ..Stop::default() };
    let spec = Spec { starts: None, pace: Pace::Free, lifetime: None, ends_on_timeout: false };
    plan.clients = Some(Box::new(spec));
    let mut clients = Clients::new(&plan, 1, None).unwrap();
    for ms in [500, 1_000, 1_500, 3_000, 3_001] {
        let now = Nanos(ms * 1_000_000);
        for failed in [true, false] {
            if failed {
                clients.failed(0, false, now);
            }
            clients.ended(0, 1, now);
        }
    }
    let replies: Vec<u64> = clients.tallies().map(|client| client.replies).collect();
    assert_eq!(replies, [3]);
}

fn open(stop: Stop) -> Arrivals {
    let rate = "10".parse().unwrap();
    let mut plan = crate::engine::tests::closed(1, 1);
    plan.load =
        PlanLoad::Open { rate, arrivals: prony_plan::rate::Arrivals::Fixed, connections: 1 };
    plan.stop = stop;
    Arrivals::new(&plan)
}

#[test]
fn a_count_that_is_not_reached_does_not_end_the_load() {
    let stop = Stop { requests: Some(3), ..Stop::default() };
    let take = |arrivals: &mut Arrivals, ms: u64| {
        std::iter::from_fn(|| arrivals.take_due(Nanos(ms * 1_000_000))).count()
    };
    let mut all = open(stop);
    assert_eq!((take(&mut all, 150), all.ended_by_count()), (2, false));
    assert_eq!((take(&mut all, 1_000), all.ended_by_count()), (1, true));
    let mut stopped = open(stop);
    stopped.end(Nanos(150_000_000));
    assert_eq!((take(&mut stopped, 1_000), stopped.ended_by_count()), (2, false));
    let mut by_time = open(Stop { duration: Some(Span::from_millis(150)), ..Stop::default() });
    assert_eq!((take(&mut by_time, 1_000), by_time.ended_by_count()), (2, false));
}

/// A log with a request each 10 ms.
struct EachTenMillis(u64);

impl Feed for EachTenMillis {
    fn next(&mut self, entry: &mut Entry, _: Span) -> Fed {
        entry.at = Span::from_millis(self.0 * 10);
        self.0 += 1;
        Fed::Entry
    }

    fn due_before(&self, _: Span) -> u64 {
        0
    }
}

#[test]
fn requests_of_a_log_that_are_due_at_its_end_do_not_start() {
    let mut logged = Logged::new(&crate::engine::tests::closed(1, 1));
    logged.replay(Box::new(EachTenMillis(0)));
    logged.end(Nanos(30_000_000));
    let (mut own, exchanges) = (Own::default(), Exchanges::new());
    let taken = std::iter::from_fn(|| {
        logged.take_due(Nanos(1_000_000_000), &mut own, usize::MAX, &exchanges)
    });
    let due: Vec<u64> = taken
        .map(|taken| match taken {
            Taken::Starts { intended, .. } => intended.0 / 1_000_000,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(due, [0, 10, 20]);
}

#[test]
fn no_user_of_a_ramp_starts_after_the_end_of_the_load() {
    let mut plan = crate::engine::tests::closed(4, 1);
    plan.ramp_up = Some(Span::from_secs(4));
    plan.stop = Stop { duration: Some(Span::from_secs(10)), ..Stop::default() };
    let mut users = Users::new(&plan, 4, Think::None);
    assert!(users.begin_ramp(Nanos::ZERO).is_some());
    assert_eq!(users.next_of_ramp().map(|(user, _)| user), Some(0));
    assert!(!users.is_done());
    users.end();
    assert_eq!((users.next_of_ramp(), users.is_done()), (None, true));
}
