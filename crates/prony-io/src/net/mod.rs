//! Sockets, addresses and the kernel's timestamps.

pub mod datagrams;
pub(crate) mod errno;
pub(crate) mod ports;
pub mod resolve;
pub mod socket;
pub(crate) mod timestamps;
