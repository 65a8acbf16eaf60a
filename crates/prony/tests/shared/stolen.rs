//! What the host takes away from this machine, by the kernel's own account.

use std::fs;

/// Ticks of stolen time (10 ms each) that a run of a few seconds can feel.
pub(crate) const STOLEN_MIN: u64 = 5;

/// How many ticks the host has taken from this machine since its start.
pub(crate) fn stolen() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("the kernel's counts");
    let all = stat.lines().next().expect("those of all processors");
    all.split_whitespace().nth(8).map_or(0, |ticks| ticks.parse().expect("a number"))
}
