//! WebSocket, client side (RFC 6455), over a stream of bytes in both directions: a connection of
//! HTTP/1.1 after its upgrade ([`OverH1`]), or a stream of HTTP/2 ([`OverH2`], RFC 8441).
//!
//! `frames` has what both sides send on a socket, whatever carries it. `script` has what is done on
//! it. An exchange is either a socket from its handshake to its close (`talk`): its status is the
//! close code; or a step of a session on a socket that stays open between them (`steps`). A
//! handshake that is answered by anything but the status 101 (with HTTP/2, 200 to 299) is an
//! exchange of HTTP.

mod deflating;
mod frames;
pub(super) mod over_h1;
pub(super) mod over_h2;
mod pings;
mod script;
mod socket;
mod stamps;
mod steps;
mod talk;
#[cfg(test)]
mod tests;

pub use over_h1::OverH1;
pub use over_h2::OverH2;
