//! Users whom a program plays that embeds prony: the plan that a director needs, and the report of
//! what the program took.

use std::sync::{Arc, Mutex, PoisonError};

use prony_base::director::METHODS;
use prony_io::Directors;
use prony_plan::plan::{Burst, CallSpec, OnFailure, Pick, Plan, SessionKind, Sessions, Think};
use prony_run::error::Error;
use prony_stats::summary::{DirectorCost, Summary};
use prony_tally::record::Tally;

/// The most names of requests.
pub const NAMES_MAX: usize = 31;

/// Users whom the program plays.
#[derive(Clone, Debug)]
pub struct Users {
    /// Each kind: its name, and how often it is picked, relative to the others.
    pub kinds: Vec<(String, u32)>,
    /// Create what decides their steps.
    pub directors: Directors,
    /// What the program and the run share.
    pub shared: Arc<Shared>,
}

/// What the program that plays the users and the run share.
#[derive(Debug, Default)]
pub struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: Vec<String>,
    cost: DirectorCost,
    seed: u64,
    notes: Vec<String>,
}

impl Shared {
    /// The index of the plan's call for this method and name; adds the name if it is new.
    ///
    /// # Errors
    /// There is no such method, or there are too many names; as a sentence.
    pub fn call(&self, method: &str, name: Option<&str>) -> Result<u32, String> {
        let method = METHODS.iter().position(|known| *known == method).ok_or_else(|| {
            format!("there is no method '{method}'; write one of {}", METHODS.join(", "))
        })?;
        let place = match name {
            None => 0,
            Some(name) => self.place(name)?,
        };
        Ok((place * METHODS.len() + method) as u32)
    }

    /// The place of a name, from 1.
    fn place(&self, name: &str) -> Result<usize, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.names.iter().position(|known| known == name) {
            return Ok(known + 1);
        }
        if state.names.len() >= NAMES_MAX {
            return Err(format!(
                "'{name}' is one name too many: requests of users have at most {NAMES_MAX} \
                 different names"
            ));
        }
        state.names.push(name.to_owned());
        Ok(state.names.len())
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).seed
    }

    /// Add what a director took.
    pub fn add_cost(&self, cost: &DirectorCost) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).cost.add(cost);
    }

    /// Add a fact about the run, as a complete sentence.
    pub fn note(&self, sentence: String) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).notes.push(sentence);
    }
}

impl Users {
    /// The plan of these users, from one with a single request to the target.
    ///
    /// # Errors
    /// The plan has something that users decide themselves.
    pub(crate) fn plan(&self, plan: Plan) -> Result<Plan, Error> {
        let refused = |what, why| Err(Error::Conflict(what, "users", why));
        let [base] = &plan.calls[..] else {
            return refused("several URLs", "users choose their paths; give one URL");
        };
        if plan.sessions.is_some() {
            return refused("sessions", "users decide what their sessions do");
        }
        if plan.exchange.is_some() {
            return refused("rtt", "users send HTTP requests");
        }
        if plan.pipeline > 1 {
            return refused("pipeline", "a user waits for the reply before the next request");
        }
        if base.has_body() || base.template || !base.extract.is_empty() {
            return refused("body", "users choose the bodies of their requests");
        }
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.seed = plan.seed;
        for threshold in &plan.thresholds {
            if let Some(name) = &threshold.request
                && !state.names.contains(name)
            {
                state.names.push(name.clone());
            }
        }
        let names: Vec<String> = (0..NAMES_MAX)
            .map(|i| state.names.get(i).cloned().unwrap_or_else(|| format!("unused {i}")))
            .collect();
        let calls: Vec<CallSpec> = (0..=NAMES_MAX)
            .flat_map(|place| METHODS.map(|method| (place, method)))
            .map(|(place, method)| CallSpec {
                method: method.into(),
                name: place.checked_sub(1).map(|index| index as u32),
                ..base.clone()
            })
            .collect();
        let kind = |(name, weight): &(String, u32)| SessionKind {
            name: name.clone(),
            weight: *weight,
            bursts: vec![Burst::of(vec![0], Think::None)],
        };
        let sessions = Sessions {
            pick: Pick::Random,
            on_failure: OnFailure::Continue,
            directed: true,
            ..Sessions::plain(self.kinds.iter().map(kind).collect())
        };
        Ok(Plan { calls: calls.into(), names, sessions: Some(sessions), ..plan })
    }

    /// Complete the report: the names that were used, and what the program took.
    pub(crate) fn finish(&self, summary: &mut Summary) {
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = &mut summary.plan;
        let base = plan.calls.first().cloned();
        plan.calls = base.into_iter().collect::<Vec<_>>().into();
        plan.names.clone_from(&state.names);
        let trim = |tally: &mut Tally| tally.names.truncate(state.names.len());
        trim(&mut summary.main);
        summary.warmup.iter_mut().for_each(trim);
        summary.run.director = Some(state.cost);
        summary.run.notes.extend(state.notes.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_method_and_name() {
        let shared = Shared::default();
        assert_eq!(shared.call("GET", None), Ok(0));
        assert_eq!(shared.call("POST", None), Ok(1));
        assert_eq!(shared.call("GET", Some("item")), Ok(7));
        assert_eq!(shared.call("POST", Some("cart")), Ok(15));
        assert_eq!(shared.call("PUT", Some("item")), Ok(9));
        assert!(shared.call("BREW", None).unwrap_err().starts_with("there is no method 'BREW'"));
        for i in 2..NAMES_MAX {
            shared.call("GET", Some(&i.to_string())).expect("room");
        }
        let why = shared.call("GET", Some("more")).unwrap_err();
        assert!(why.starts_with("'more' is one name too many"), "{why}");
        assert_eq!(shared.call("GET", Some("item")), Ok(7));
    }
}
