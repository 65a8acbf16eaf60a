//! The saved form of counters by fault: by name, without zeroes. A result saved before a fault was
//! added can still be read.

pub(super) mod by_fault {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::fault::Fault;

    pub(in super::super) fn serialize<S: Serializer>(
        counts: &[u64; Fault::COUNT],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(Fault::ALL.iter().zip(counts).filter(|&(_, &n)| n > 0))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<[u64; Fault::COUNT], D::Error> {
        let mut counts = [0; Fault::COUNT];
        for (fault, n) in BTreeMap::<Fault, u64>::deserialize(from)? {
            counts[fault as usize] = n;
        }
        Ok(counts)
    }
}
