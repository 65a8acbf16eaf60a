//! The parts of gRPC that both of its sides share: messages with their prefix, statuses, and the
//! texts of two headers. Knows nothing of HTTP/2 and of Protocol Buffers.

mod messages;
mod status;
mod text;

pub use messages::{Item, PREFIX, Prefix, Splitter, TooLong, prefix};
pub use status::Status;
pub use text::{TIMEOUT_TEXT, decode_message, encode_message, parse_timeout, timeout_text};
