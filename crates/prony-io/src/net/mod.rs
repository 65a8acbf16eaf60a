//! Sockets and what they are connected to.

pub mod datagrams;
pub(crate) mod errno;
pub(crate) mod ports;
pub mod resolve;
pub mod socket;
pub(crate) mod timestamps;
