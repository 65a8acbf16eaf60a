//! The queues and lists alone.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::own::Own;
use super::*;
use crate::units::Nanos;

fn id(slot: u32) -> RequestId {
    RequestId { slot, generation: 0 }
}

proptest! {
    /// The lists of a pool against a model: a connection stands where it was put last.
    #[test]
    fn connections_stand_where_they_were_put(steps in vec((0_u32..12, 0_u8..3), 0..100)) {
        let mut pools = Pools::new(2, 12);
        let mut model: BTreeMap<u32, u8> = BTreeMap::new();
        let mut order = [Vec::new(), Vec::new()];
        for (slot, which) in steps {
            let wanted = [Listed::No, Listed::Idle, Listed::Roomy][usize::from(which)];
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
                let (idle, roomy) = (standing(1), standing(2));
                let is_idle = |slot| idle.contains(&slot);
                prop_assert!(pools.idle(endpoint).map_or(idle.is_empty(), is_idle));
                let is_roomy = |slot| roomy.contains(&slot);
                prop_assert!(pools.roomy(endpoint).map_or(roomy.is_empty(), is_roomy));
                // Each has its turn.
                let mut turns: Vec<u32> =
                    (0..roomy.len()).filter_map(|_| pools.roomy_in_turn(endpoint)).collect();
                turns.sort_unstable();
                let mut all = roomy.clone();
                all.sort_unstable();
                prop_assert_eq!(turns, all);
            }
        }
    }

    /// A queue stays in the order of the intended starts, whenever its requests come.
    #[test]
    fn a_queue_is_ordered_by_the_intended_starts(intended in vec(0_u32..50, 0..40)) {
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

    /// Whatever waits for which endpoint, the oldest of all is known.
    #[test]
    fn the_oldest_of_all_queues_is_known(
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

    /// Sessions stand in line in the order of their numbers, each once.
    #[test]
    fn sessions_stand_in_line_by_their_numbers(
        waits in vec(0_u32..20, 0..40),
        leaver in 0_u32..20,
    ) {
        let mut own = Own::new(4, 1);
        for place in 0..20 {
            own.enter(place, u64::from(place * 7 % 20));
        }
        for &place in &waits {
            own.wait(place);
        }
        own.leave(leaver);
        let mut expected = waits;
        expected.sort_unstable();
        expected.dedup();
        expected.retain(|&place| place != leaver);
        expected.sort_by_key(|place| place * 7 % 20);
        prop_assert_eq!(own.waiting(), expected.len());
        let line: Vec<u32> = std::iter::from_fn(|| own.next_waiting()).collect();
        prop_assert_eq!(line, expected);
    }
}

#[test]
fn a_lane_has_one_connection_to_each_endpoint() {
    let mut plan = crate::engine::tests::closed(3, 10);
    plan.endpoints.push(plan.endpoints[0].clone());
    plan.pipeline = 2;
    let mut lanes = Lanes::new(&plan, 3);
    assert_eq!((lanes.connections(), lanes.lane(5), lanes.slot(2, 1)), (6, 2, None));
    lanes.has(2, 1, 9);
    assert_eq!((lanes.slot(2, 1), lanes.slot(2, 0), lanes.slot(1, 1)), (Some(9), None, None));
    assert_eq!(lanes.crowd_slot(2), None, "there are two endpoints");
    lanes.has_no_more(2, 1, 8);
    assert_eq!(lanes.slot(2, 1), Some(9), "that was an earlier one");
    lanes.has_no_more(2, 1, 9);
    assert_eq!(lanes.slot(2, 1), None);
}

#[test]
fn the_timer_of_a_session_stands_at_the_earliest_deadline() {
    let mut own = Own::new(4, 1);
    own.enter(0, 0);
    assert!(own.arm(0, Nanos(50)) && !own.arm(0, Nanos(60)) && own.arm(0, Nanos(40)));
    assert!(!own.disarm(0, Nanos(50)), "it stands elsewhere");
    assert!(own.disarm(0, Nanos(40)) && own.arm(0, Nanos(90)));
}
