//! Access logs of servers, as streams of requests with their times.
//!
//! [`Log`] reads a log of any length in constant memory: `lines` finds its lines, the rooms
//! `pattern`, `json` and `w3c` read their `fields`, `format` decides which of them, `times` and
//! `order` make a stream in the order of time. Lines that cannot be read are counted and shown, not
//! fatal. Nothing here opens a socket or a file.

pub mod dispersion;
mod fields;
mod format;
mod format_error;
pub mod fuzzing;
mod json;
mod lines;
mod log;
mod order;
mod path;
mod pattern;
mod record;
mod times;
mod w3c;

pub use fields::Why;
pub use format::Format;
pub use format_error::FormatError;
pub use log::{BadLine, Error, Facts, Log, Options};
pub use record::Record;
