//! The virtual world's tests: the world itself, then what prony says about it.

mod world;
