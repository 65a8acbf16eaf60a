//! How the fields of two tallies are added up.

use std::collections::BTreeMap;

use crate::units::Span;

/// Merge `$part` into `$all` field by field, each with the function after its name. The pattern
/// names all fields of the structure, so a forgotten field does not compile.
macro_rules! merge_fields {
    ($all:ident, $part:ident, { $($field:ident: $merge:expr),+ $(,)? }) => {
        let Self { $($field),+ } = $part;
        $($merge(&mut $all.$field, $field);)+
    };
}
pub(super) use merge_fields;

/// What is added up when tallies are merged. Sums stop at the greatest value: counts may come from
/// a file of unknown origin.
pub(super) trait Sum: Copy {
    fn plus(self, other: Self) -> Self;
}

impl Sum for u64 {
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Sum for Span {
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

pub(super) fn add<T: Sum>(all: &mut T, part: &T) {
    *all = all.plus(*part);
}

pub(super) fn add_each<const N: usize>(all: &mut [u64; N], part: &[u64; N]) {
    for (all, part) in all.iter_mut().zip(part) {
        add(all, part);
    }
}

pub(super) fn add_by_key<K: Clone + Ord>(all: &mut BTreeMap<K, u64>, part: &BTreeMap<K, u64>) {
    for (key, n) in part {
        add(all.entry(key.clone()).or_default(), n);
    }
}

/// Merge what has the same key.
pub(super) fn by_key<K: Copy + Ord, T: Clone>(
    merge: impl Fn(&mut T, &T),
) -> impl Fn(&mut BTreeMap<K, T>, &BTreeMap<K, T>) {
    move |all, part| {
        for (key, part) in part {
            match all.get_mut(key) {
                Some(all) => merge(all, part),
                None => drop(all.insert(*key, part.clone())),
            }
        }
    }
}

pub(super) fn least<T: Copy + Ord>(all: &mut T, part: &T) {
    *all = (*all).min(*part);
}

pub(super) fn greatest<T: Copy + Ord>(all: &mut T, part: &T) {
    *all = (*all).max(*part);
}

/// The sum is unknown if a part is unknown.
pub(super) fn add_if_both(all: &mut Option<Span>, part: &Option<Span>) {
    *all = all.zip(*part).map(|(all, part)| all + part);
}

/// Merge if both are present; otherwise take the one that is.
pub(super) fn optional<T: Clone>(
    merge: impl Fn(&mut T, &T),
) -> impl Fn(&mut Option<Box<T>>, &Option<Box<T>>) {
    move |all, part| match (all, part) {
        (Some(all), Some(part)) => merge(all, part),
        (all @ None, Some(part)) => *all = Some(part.clone()),
        (_, None) => {}
    }
}

/// Merge what has a place in the plan, in that order.
pub(super) fn by_place<T: Default>(merge: impl Fn(&mut T, &T)) -> impl Fn(&mut Vec<T>, &Vec<T>) {
    move |all, part| {
        if all.len() < part.len() {
            all.resize_with(part.len(), T::default);
        }
        for (all, part) in all.iter_mut().zip(part) {
            merge(all, part);
        }
    }
}

pub(super) fn append<T: Copy>(all: &mut Vec<T>, part: &[T]) {
    all.extend_from_slice(part);
}

pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}
