//! How counters and histograms of several workers are added up. A field of a tally says it itself:
//! by its type, or by a function beside it (`#[merge(greatest)]`).

use std::collections::BTreeMap;

pub use prony_derive::Merge;

use crate::units::Span;

/// What several workers count, each its part of it.
pub trait Merge {
    /// Add the part of another worker. Exact: the result equals that of one worker that counted
    /// everything (P10). Sums stop at the greatest value: counts may come from a file of unknown
    /// origin.
    fn merge(&mut self, other: &Self);
}

impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

impl Merge for Span {
    fn merge(&mut self, other: &Self) {
        *self += *other;
    }
}

impl<T: Merge> Merge for Box<T> {
    fn merge(&mut self, other: &Self) {
        T::merge(self, other);
    }
}

/// What only some workers have.
impl<T: Merge + Clone> Merge for Option<T> {
    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Some(all), Some(part)) => all.merge(part),
            (all @ None, Some(part)) => *all = Some(part.clone()),
            (_, None) => {}
        }
    }
}

/// What belongs together has the same key.
impl<K: Clone + Ord, T: Merge + Clone> Merge for BTreeMap<K, T> {
    fn merge(&mut self, other: &Self) {
        for (key, part) in other {
            match self.get_mut(key) {
                Some(all) => all.merge(part),
                None => drop(self.insert(key.clone(), part.clone())),
            }
        }
    }
}

/// What belongs together has the same place in the plan.
impl<T: Merge + Default> Merge for Vec<T> {
    fn merge(&mut self, other: &Self) {
        if self.len() < other.len() {
            self.resize_with(other.len(), T::default);
        }
        for (all, part) in self.iter_mut().zip(other) {
            all.merge(part);
        }
    }
}

/// The lesser one.
pub fn least<T: Copy + Ord>(all: &mut T, part: &T) {
    *all = (*all).min(*part);
}

/// The greater one.
pub fn greatest<T: Copy + Ord>(all: &mut T, part: &T) {
    *all = (*all).max(*part);
}

/// The one that is there, or the lesser one.
pub fn least_known<T: Copy + Ord>(all: &mut Option<T>, part: &Option<T>) {
    *all = [*all, *part].into_iter().flatten().min();
}

/// The first that is there.
pub fn first<T: Clone>(all: &mut Option<T>, part: &Option<T>) {
    if all.is_none() {
        all.clone_from(part);
    }
}

/// The first of each key.
pub fn first_of_each<K: Clone + Ord, T: Clone>(all: &mut BTreeMap<K, T>, part: &BTreeMap<K, T>) {
    for (key, part) in part {
        all.entry(key.clone()).or_insert_with(|| part.clone());
    }
}

/// The sum, which is unknown if a part is unknown.
pub fn add_if_both(all: &mut Option<Span>, part: &Option<Span>) {
    *all = all.zip(*part).map(|(all, part)| all + part);
}

/// One after the other.
pub fn append<T: Copy>(all: &mut Vec<T>, part: &[T]) {
    all.extend_from_slice(part);
}
