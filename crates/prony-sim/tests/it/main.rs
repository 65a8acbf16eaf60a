//! The virtual world's tests: the world itself, then what prony says about it.

mod arrivals;
mod faults;
mod plans;
mod regress;
mod replay;
mod serve;
mod theory;
mod truth;
mod world;
