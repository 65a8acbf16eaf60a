//! Schemas of gRPC: where they come from ([`Schema`]), and the messages that JSON makes of them
//! ([`Method::encode`]). Front ends use it before a load; the engine sees only bytes.

#![forbid(unsafe_code)]

mod encode;
mod fields;
mod reflection;
mod schema;

pub use encode::Encoded;
pub use reflection::{SERVICES, reflect};
pub use schema::{Method, Schema};
