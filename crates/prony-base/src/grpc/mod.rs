//! The parts of gRPC that both of its sides share: messages with their prefix, compressed or not,
//! statuses, and the texts of two headers. Knows nothing of HTTP/2, and of Protocol Buffers only
//! how to find a field.

mod gzip;
mod messages;
mod status;
mod text;
mod token;

pub use gzip::{Gzip, Unpackable};
pub use messages::{Item, PREFIX, Prefix, Splitter, TooLong, length, prefix};
pub use status::Status;
pub use text::{
    TIMEOUT_TEXT, decode_message, encode_message, parse_timeout, shown_message, shown_text,
    timeout_text,
};
pub use token::token;
