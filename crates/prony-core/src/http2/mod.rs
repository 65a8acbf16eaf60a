//! The parts of HTTP/2 that a client and a server share.

pub mod hpack;
