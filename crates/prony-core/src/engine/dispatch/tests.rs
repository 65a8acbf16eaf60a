//! Tests of the queues and lists alone.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::session_conns::SessionConns;
use super::*;
use prony_base::units::Nanos;

fn id(slot: u32) -> RequestId {
    RequestId { slot, generation: 0 }
}

proptest! {
    /// The lists of a pool agree with a model: a connection is in the list into which it was moved
    /// last.
    #[test]
    fn pool_lists_agree_with_a_model(steps in vec((0_u32..12, 0_u8..3), 0..100)) {
        let mut pools = Pools::new(2, 12);
        let mut model: BTreeMap<u32, u8> = BTreeMap::new();
        let mut order = [Vec::new(), Vec::new()];
        for (slot, which) in steps {
            let wanted = [Listed::No, Listed::Idle, Listed::HasCapacity][usize::from(which)];
            let endpoint = slot % 2;
            pools.list(slot, endpoint, wanted);
            if model.insert(slot, which) != Some(which) {
                order[endpoint as usize].retain(|&other| other != slot);
                order[endpoint as usize].push(slot);
            }
            for endpoint in 0..2 {
                let standing = |which: u8| {
                    let slots = order[endpoint as usize].iter().copied();
                    slots.filter(|slot| model[slot] == which).collect::<Vec<u32>>()
                };
                let (idle, busy) = (standing(1), standing(2));
                let is_idle = |slot| idle.contains(&slot);
                prop_assert!(pools.idle(endpoint).map_or(idle.is_empty(), is_idle));
                let is_listed = |slot| busy.contains(&slot);
                prop_assert!(pools.with_room(endpoint).map_or(busy.is_empty(), is_listed));
                // Rotation returns each of them.
                let mut turns: Vec<u32> =
                    (0..busy.len()).filter_map(|_| pools.with_room_in_rotation(endpoint)).collect();
                turns.sort_unstable();
                let mut all = busy.clone();
                all.sort_unstable();
                prop_assert_eq!(turns, all);
            }
        }
    }

    /// A queue stays sorted by intended start, in whatever order requests arrive.
    #[test]
    fn a_queue_is_sorted_by_intended_start(intended in vec(0_u32..50, 0..40)) {
        let mut pools = Pools::new(1, 1);
        for (i, &at) in (0..).zip(&intended) {
            pools.wait(0, id(i), Nanos(u64::from(at)));
        }
        prop_assert_eq!(pools.waiting(), intended.len());
        let taken: Vec<RequestId> = std::iter::from_fn(|| pools.take(0)).collect();
        let mut expected: Vec<u32> = (0..intended.len() as u32).collect();
        expected.sort_by_key(|&i| intended[i as usize]);
        prop_assert_eq!(taken.iter().map(|id| id.slot).collect::<Vec<_>>(), expected);
        prop_assert_eq!((pools.waiting(), pools.take(0)), (0, None));
    }

    /// The oldest waiting request of all endpoints is always known.
    #[test]
    fn finds_the_oldest_request_of_all_queues(
        steps in vec((any::<bool>(), 0_u32..5, 0_u64..50), 0..80),
    ) {
        let mut pools = Pools::new(5, 1);
        let mut model: Vec<Vec<u64>> = vec![Vec::new(); 5];
        for (number, (comes, endpoint, intended)) in (0..).zip(steps) {
            let queue = &mut model[endpoint as usize];
            if comes {
                pools.wait(endpoint, id(number), Nanos(intended));
                queue.push(intended);
                queue.sort_unstable();
            } else {
                prop_assert_eq!(pools.take(endpoint).is_some(), !queue.is_empty());
                queue.drain(..usize::from(!queue.is_empty()));
            }
            let fronts = (0..).zip(&model).filter_map(|(e, q)| q.first().map(|&at| (Nanos(at), e)));
            prop_assert_eq!(pools.oldest(), fronts.min());
        }
    }

    /// Sessions wait in the order of their numbers, each once.
    #[test]
    fn sessions_wait_in_the_order_of_their_numbers(
        waits in vec(0_u32..20, 0..40),
        leaver in 0_u32..20,
    ) {
        let mut conns = SessionConns::new(4, 1);
        for place in 0..20 {
            conns.enter(place, u64::from(place * 7 % 20));
        }
        for &place in &waits {
            conns.wait(place);
        }
        conns.leave(leaver);
        let mut expected = waits;
        expected.sort_unstable();
        expected.dedup();
        expected.retain(|&place| place != leaver);
        expected.sort_by_key(|place| place * 7 % 20);
        prop_assert_eq!(conns.waiting(), expected.len());
        let line: Vec<u32> = std::iter::from_fn(|| conns.next_waiting()).collect();
        prop_assert_eq!(line, expected);
    }
}

#[test]
fn a_group_has_one_connection_to_each_endpoint() {
    let mut plan = crate::engine::tests::closed(3, 10);
    plan.endpoints.push(plan.endpoints[0].clone());
    plan.pipeline = 2;
    let mut groups = UserGroups::new(&plan, 3);
    assert_eq!((groups.connections(), groups.group(5), groups.slot(2, 1)), (6, 2, None));
    groups.add(2, 1, 9);
    assert_eq!((groups.slot(2, 1), groups.slot(2, 0), groups.slot(1, 1)), (Some(9), None, None));
    assert_eq!(groups.batch_slot(2), None, "there are two endpoints");
    groups.remove(2, 1, 8);
    assert_eq!(groups.slot(2, 1), Some(9), "that was an earlier connection");
    groups.remove(2, 1, 9);
    assert_eq!(groups.slot(2, 1), None);
}

#[test]
fn sets_the_timer_of_a_session_to_the_earliest_deadline() {
    let mut conns = SessionConns::new(4, 1);
    conns.enter(0, 0);
    assert!(conns.arm(0, Nanos(50)) && !conns.arm(0, Nanos(60)) && conns.arm(0, Nanos(40)));
    assert!(!conns.disarm(0, Nanos(50)), "a stale timer");
    assert!(conns.disarm(0, Nanos(40)) && conns.arm(0, Nanos(90)));
}
