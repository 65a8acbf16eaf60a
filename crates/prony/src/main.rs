//! prony.
fn main() {}
