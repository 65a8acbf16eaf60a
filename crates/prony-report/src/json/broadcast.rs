//! The figures of a broadcast.

use prony_tally::record::Tally;
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
