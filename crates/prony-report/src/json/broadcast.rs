//! The figures of a broadcast, and the times of pings.

use prony_core::record::Tally;
use prony_core::record::hist::Hist;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Broadcast {
    reach: Option<f64>,
    complete_share: Option<f64>,
}

impl Broadcast {
    pub(super) fn of(tally: &Tally) -> Option<Self> {
        let all = tally.broadcast.as_deref()?;
        let share = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
        Some(Self { reach: all.reach(), complete_share: share(all.complete, all.published) })
    }
}

/// The times of its messages, and of pings, under their names.
pub(super) fn times(tally: &Tally) -> impl Iterator<Item = (&'static str, &Hist)> {
    let of = tally.broadcast.as_deref();
    let of = of.map(|all| [("delivery", &all.delivery), ("spread", &all.spread)]);
    let pings = tally.pings.as_deref().map(|pings| ("ping", &pings.time));
    of.into_iter().flatten().chain(pings).filter(|(_, hist)| !hist.is_empty())
}
