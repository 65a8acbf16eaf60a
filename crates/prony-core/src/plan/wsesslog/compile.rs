//! Logged sessions as those of a plan.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash as _, Hasher as _};

use super::{LoggedRequest, LoggedSession};
use crate::plan::{Burst, CallSpec, SessionKind, Think};

/// The calls of a plan that is being made, each of them once however often it is wanted.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    calls: Vec<CallSpec>,
    /// The last call of each hash of what mostly tells calls apart.
    known: HashMap<u64, u32>,
    /// For each call, the one before it with the same hash; of itself, if there is none.
    alike: Vec<u32>,
}

impl Calls {
    /// The index of the call, which is added where it is new.
    pub fn intern(&mut self, call: CallSpec) -> u32 {
        let mut hasher = DefaultHasher::new();
        (&call.path, &call.method, &call.body, call.endpoint, call.name).hash(&mut hasher);
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
    /// without a think time of their own have this one; `lead` as in [`Burst`].
    ///
    /// # Errors
    /// The first that `call` returns.
    pub fn add_log<E>(
        &mut self,
        sessions: &[LoggedSession<'_>],
        think: Think,
        lead: bool,
        mut call: impl FnMut(&LoggedRequest<'_>) -> Result<CallSpec, E>,
    ) -> Result<Vec<SessionKind>, E> {
        let mut kinds = Vec::with_capacity(sessions.len());
        // Most files have few requests that are the same, and moving the others takes time.
        let bursts = sessions.iter().flatten();
        self.calls.reserve(bursts.map(|burst| burst.requests.len()).sum());
        for session in sessions {
            let mut bursts = Vec::with_capacity(session.len());
            for burst in session {
                let calls = burst.requests.iter().map(|r| Ok(self.intern(call(r)?)));
                let calls = calls.collect::<Result<Vec<_>, E>>()?;
                // Who is alone leads nobody.
                let lead = lead && calls.len() > 1;
                bursts.push(Burst { calls, lead, think: burst.think.unwrap_or(think), repeat: 1 });
            }
            kinds.push(SessionKind { name: String::new(), weight: 1, bursts });
        }
        Ok(kinds)
    }
}
