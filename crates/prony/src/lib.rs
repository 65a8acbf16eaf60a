//! What the `prony` binary, its tests and other front ends share.

pub mod report;
