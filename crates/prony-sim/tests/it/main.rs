//! The virtual world's tests: the world itself, then what prony says about it.

mod arrivals;
mod bounds;
mod closers;
mod confidence;
mod dynamic;
mod exchange;
mod faults;
mod freezes;
#[path = "../../../prony-core/tests/identity/mod.rs"]
mod identity;
mod pass_on;
mod plans;
mod regress;
mod replay;
mod secured;
mod serve;
mod sessions;
mod stamps;
mod steered;
mod streams;
mod theory;
mod truth;
mod until;
mod verdicts;
mod world;
