//! Logged sessions as those of a plan.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{BuildHasherDefault, Hasher};

use super::{Dialect, LogError, LoggedRequest, read};
use crate::plan::{Burst, CallSpec, SessionKind, Think};

/// The calls of a plan that is being made, each of them once however often it is wanted.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    calls: Vec<CallSpec>,
    /// The last call of each hash of what mostly tells calls apart.
    known: HashMap<u64, u32, BuildHasherDefault<AsItIs>>,
    /// For each call, the one before it with the same hash; of itself, if there is none.
    alike: Vec<u32>,
}

impl Calls {
    /// The index of the call, which is added where it is new.
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
                    let before = self.alike[at as usize];
                    if before == at {
                        break entry.insert(index);
                    }
                    at = before;
                }
            }
        };
        self.alike.resize(self.calls.len(), 0);
        self.alike.push(last);
        self.calls.push(call);
        index
    }

    /// Add a call even where there is one like it.
    pub fn push(&mut self, call: CallSpec) -> u32 {
        self.calls.push(call);
        self.calls.len() as u32 - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// One of them.
    pub fn get(&self, index: u32) -> Option<&CallSpec> {
        self.calls.get(index as usize)
    }

    /// Change every one of them. They keep their numbers, even where some become alike.
    pub fn for_each_mut(&mut self, change: impl FnMut(&mut CallSpec)) {
        self.known.clear();
        self.calls.iter_mut().for_each(change);
    }

    /// All of them, by index.
    pub fn into_vec(self) -> Vec<CallSpec> {
        self.calls
    }

    /// The kinds of sessions that a session file tells of. `call` makes a request's call; bursts
    /// without a think time of their own have this one; of each burst the first request leads.
    ///
    /// # Errors
    /// Everything that is wrong with the file, in order.
    pub fn add_log(
        &mut self,
        text: &[u8],
        dialect: Dialect,
        think: Think,
        mut call: impl FnMut(&LoggedRequest<'_>) -> CallSpec,
    ) -> Result<Vec<SessionKind>, Vec<LogError>> {
        // A line is a request at most, and most of them are unlike each other. What is reserved
        // and not used costs nothing; moving the calls would.
        let lines = memchr::memchr_iter(b'\n', text).count() + 1;
        self.calls.reserve(lines);
        self.alike.reserve(lines);
        self.known.reserve(lines);
        let mut kinds = Vec::new();
        read(text, dialect, |session| {
            let bursts = session.iter().map(|burst| {
                let calls: Vec<_> =
                    burst.requests.iter().map(|request| self.intern(call(request))).collect();
                // Who is alone leads nobody.
                let lead = calls.len() > 1;
                Burst { calls, lead, think: burst.think.unwrap_or(think), repeat: 1 }
            });
            let bursts = bursts.collect();
            kinds.push(SessionKind { name: String::new(), weight: 1, bursts });
        })?;
        Ok(kinds)
    }
}

/// A hash that is none: the key is one already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
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
