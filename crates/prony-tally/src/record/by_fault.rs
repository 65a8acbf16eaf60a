//! Counters by fault. Saved by name, without zeroes: a result saved before a fault was added can
//! still be read.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use prony_base::fault::Fault;
use prony_base::merge::Merge;

/// A counter for each fault: the place of a fault in it is `fault as usize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByFault([u64; Fault::COUNT]);

impl Default for ByFault {
    fn default() -> Self {
        Self([0; Fault::COUNT])
    }
}

impl Deref for ByFault {
    type Target = [u64; Fault::COUNT];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for ByFault {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Merge for ByFault {
    fn merge(&mut self, other: &Self) {
        for (all, part) in self.0.iter_mut().zip(&other.0) {
            all.merge(part);
        }
    }
}

impl Serialize for ByFault {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(Fault::ALL.iter().zip(&self.0).filter(|&(_, &n)| n > 0))
    }
}

impl<'de> Deserialize<'de> for ByFault {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut counts = Self::default();
        for (fault, n) in BTreeMap::<Fault, u64>::deserialize(from)? {
            counts[fault as usize] = n;
        }
        Ok(counts)
    }
}
