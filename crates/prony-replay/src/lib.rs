//! Access logs of servers, as streams of requests with their times.
//!
//! [`Log`] reads a log of any length in constant memory: `lines` finds its lines, the rooms
//! `pattern`, `json` and `w3c` read their `fields`, `escapes` undoes what servers have escaped in
//! them, `format` decides which of them, `times` and
//! `order` make a stream in the order of time. Lines that cannot be read are counted and shown, not
//! fatal. `source` reads several logs as one, `input` opens their files, `shape` makes arrivals of
//! them, and `replay` hands these to the engines of a load, which know them by the patterns of
//! `names`, with the `bodies` of a file. Nothing here opens a socket.

mod bodies;
pub mod dispersion;
mod escapes;
mod fields;
mod format;
mod format_error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod input;
mod json;
mod lines;
mod log;
mod names;
mod order;
mod path;
mod pattern;
mod record;
mod replay;
mod shape;
mod source;
mod times;
mod w3c;

pub use bodies::{Bodies, BodiesError, BodyKey, Missing};
pub use fields::Why;
pub use format::Format;
pub use format_error::FormatError;
pub use input::{Bytes, open};
pub use log::{BadLine, Error, Facts, Log, Options};
pub use names::{OTHER, Patterns};
pub use record::Record;
pub use replay::{By, Handed, Replay, Settings};
pub use shape::{SPEED, Sample, Shape};
pub use source::{FileFacts, Source, SourceError};

/// A time in any form that logs have, in nanoseconds since 1970; without a zone, in UTC.
pub fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim().trim_matches(['[', ']']).as_bytes();
    times::any(text).map(|stamp| stamp.at)
}
