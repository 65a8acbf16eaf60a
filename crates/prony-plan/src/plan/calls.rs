//! The calls of a plan that is being built.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{BuildHasherDefault, Hasher};

use super::CallSpec;

/// The calls of a plan that is being built, without duplicates.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    calls: Vec<CallSpec>,
    /// The last call with each hash. The hash covers the parts in which calls usually differ.
    known: HashMap<u64, u32, BuildHasherDefault<Identity>>,
    /// For each call, the previous call with the same hash, or its own index if there is none.
    previous: Vec<u32>,
}

impl Calls {
    /// The index of the call. It is added if it is new.
    pub fn intern(&mut self, call: CallSpec) -> u32 {
        let mut hasher = DefaultHasher::new();
        hasher.write(call.path.as_bytes());
        hasher.write(&call.body);
        let name = call.name.map_or(0, |name| u64::from(name) + 1);
        hasher.write_u64(u64::from(call.endpoint) << 32 ^ name);
        let index = self.calls.len() as u32;
        let last = match self.known.entry(hasher.finish()) {
            Entry::Vacant(entry) => *entry.insert(index),
            Entry::Occupied(mut entry) => {
                let mut at = *entry.get();
                loop {
                    if self.calls[at as usize] == call {
                        return at;
                    }
                    let before = self.previous[at as usize];
                    if before == at {
                        break entry.insert(index);
                    }
                    at = before;
                }
            }
        };
        self.previous.resize(self.calls.len(), 0);
        self.previous.push(last);
        self.calls.push(call);
        index
    }

    /// Add a call even if there is an equal one.
    pub fn push(&mut self, call: CallSpec) -> u32 {
        self.calls.push(call);
        self.calls.len() as u32 - 1
    }

    /// The number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The call with this index.
    pub fn get(&self, index: u32) -> Option<&CallSpec> {
        self.calls.get(index as usize)
    }

    /// Change every call. Indices stay valid, even if some calls become equal.
    pub fn for_each_mut(&mut self, change: impl FnMut(&mut CallSpec)) {
        self.known.clear();
        self.calls.iter_mut().for_each(change);
    }

    /// All calls, by index.
    pub fn into_vec(self) -> Vec<CallSpec> {
        self.calls
    }

    /// Make room for this many more calls: moving them later would cost.
    pub fn reserve(&mut self, more: usize) {
        self.calls.reserve(more);
        self.previous.reserve(more);
        self.known.reserve(more);
    }
}

/// Returns keys unchanged, because they are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers of 64 bits");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
