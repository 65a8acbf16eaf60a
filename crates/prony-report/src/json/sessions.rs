//! The sessions, and those of each kind.

use prony_plan::plan::Plan;
use prony_tally::record::Tally;
use serde::Serialize;

use super::Times;
use crate::text::session_kinds;

#[derive(Serialize)]
pub(super) struct Sessions {
    rate: f64,
    lifetime: Times,
    failtime: Times,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<Times>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<Kind>,
}

#[derive(Serialize)]
struct Kind {
    name: String,
    started: u64,
    completed: u64,
    failed: u64,
    unfinished: u64,
    lifetime: Times,
}

impl Sessions {
    pub(super) fn of(plan: &Plan, tally: &Tally) -> Option<Self> {
        let sessions = tally.sessions.as_ref()?;
        let kinds = session_kinds(plan, tally).into_iter().map(|(name, kind)| Kind {
            name,
            started: kind.started,
            completed: kind.completed,
            failed: kind.failed,
            unfinished: kind.unfinished,
            lifetime: Times::of(&kind.lifetime),
        });
        let steps = sessions.steps.as_deref();
        Some(Self {
            rate: tally.session_rate().unwrap_or(0.0),
            lifetime: Times::of(&sessions.lifetime),
            failtime: Times::of(&sessions.failtime),
            recovered: steps.filter(|s| s.recovered.count() > 0).map(|s| Times::of(&s.recovered)),
            kinds: kinds.collect(),
        })
    }
}
