use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn exchange(call: u32) -> New {
    New { intended: Nanos::ZERO, call, user: NOBODY, nth: 0 }
}

#[test]
fn reuses_a_slot_with_a_new_generation() {
    let mut all = Exchanges::new();
    let first = all.insert(exchange(1));
    all.remove(first);
    assert!(all.get(first).is_none());
    let second = all.insert(exchange(2));
    assert_eq!(second, RequestId { slot: first.slot, generation: first.generation + 1 });
    assert!(all.get(first).is_none() && all.get_mut(first).is_none());
    assert_eq!(all[second].call, 2);
    assert_eq!(all.all.len(), 1);
}

#[test]
fn a_generation_wraps() {
    let mut all = Exchanges::new();
    let mut id = all.insert(exchange(1));
    all.all[0].generation = u32::MAX;
    id.generation = u32::MAX;
    all.remove(id);
    assert_eq!(all.insert(exchange(2)).generation, 0);
}

proptest! {
    /// Two lists and the slab agree with vectors, through any inserts and removals.
    #[test]
    fn lists_keep_their_order(steps in vec((0_u8..4, any::<prop::sample::Index>()), 0..200)) {
        let mut all = Exchanges::new();
        let mut lists = [List::EMPTY; 2];
        let mut model: [Vec<(RequestId, u32)>; 2] = Default::default();
        let mut gone = Vec::new();
        for (number, (what, which)) in (0..).zip(steps) {
            let at = usize::from(what % 2);
            if what < 2 || model[at].is_empty() {
                let id = all.insert(exchange(number));
                all.push(&mut lists[at], id);
                model[at].push((id, number));
            } else {
                let (id, _) = model[at].remove(which.index(model[at].len()));
                all.leave(&mut lists[at], id);
                all.remove(id);
                gone.push(id);
            }
            for (list, model) in lists.iter().zip(&model) {
                let have: Vec<_> = all.of(list).map(|id| (id, all[id].call)).collect();
                prop_assert_eq!(&have, model);
                prop_assert_eq!(list.len() as usize, model.len());
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }
        for id in gone {
            prop_assert!(all.get(id).is_none());
        }
        prop_assert!(all.all.len() <= 200);
    }
}
