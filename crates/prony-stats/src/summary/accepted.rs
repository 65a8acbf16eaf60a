//! What the user of a run accepts.

use serde::{Deserialize, Serialize};

/// Results that the user accepts: the exit code is 0, and reports for build servers call them no
/// failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Invalid runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invalid: bool,
    /// Undecided thresholds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
}

impl Accepted {
    /// Whether nothing is accepted.
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
