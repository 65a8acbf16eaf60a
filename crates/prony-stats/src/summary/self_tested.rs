//! The last self-test, as reports show it.

use serde::{Deserialize, Serialize};

/// The result of the last self-test on this host, as reports show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfTested {
    /// Its start, in seconds since 1970 (UTC).
    pub started_unix: f64,
    /// The host's name.
    pub host: String,
    /// The release of its kernel.
    pub kernel: String,
    /// Number of checks.
    pub checks: u64,
    /// Number of checks that passed.
    pub checks_passed: u64,
    /// Whether the self-test completed and all checks passed.
    pub passed: bool,
    /// What has changed since and makes it stale; empty if nothing has.
    pub changed: String,
    /// The share of the CPU time that other processes used during it, from 0 to 1, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
}
