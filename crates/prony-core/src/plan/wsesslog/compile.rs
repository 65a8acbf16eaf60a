//! Logged sessions as those of a plan.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use super::{LoggedRequest, LoggedSession};
use crate::plan::{Burst, CallSpec, SessionKind, Think};

/// The calls of a plan that is being made, each of them once however often it is wanted.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    calls: Vec<CallSpec>,
    /// Calls by a hash of what mostly tells them apart.
    known: HashMap<u64, Vec<u32>>,
}

impl Calls {
    /// The index of the call, which is added where it is new.
    pub fn intern(&mut self, call: CallSpec) -> u32 {
        let mut hasher = DefaultHasher::new();
        (&call.path, &call.method, &call.body, call.endpoint, call.name).hash(&mut hasher);
        let alike = self.known.entry(hasher.finish()).or_default();
        if let Some(&index) = alike.iter().find(|&&i| self.calls[i as usize] == call) {
            return index;
        }
        let index = self.calls.len() as u32;
        alike.push(index);
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
