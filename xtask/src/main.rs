//! Automation for prony.
fn main() {}
