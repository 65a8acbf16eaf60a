//! Schemas of gRPC: where they come from ([`Schema`]), and the messages that JSON makes of them
//! ([`Method::encode`]). Front ends use it before a load; the engine sees only bytes.

#![forbid(unsafe_code)]

mod any;
mod build;
mod compile;
mod encode;
mod features;
mod fields;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod model;
mod parts;
mod reflection;
mod scalar;
mod schema;
mod special;
mod wire;

pub use encode::{Encoded, types_in_any};
pub use reflection::{BYTES_MAX, FILES_MAX, SERVICES, TIME_MAX, reflect};
pub use schema::{Method, Schema};
