//! The parts of HTTP/2 that a client and a server share.

pub mod control;
pub mod frame;
pub mod hpack;

/// What a client sends first on a connection (RFC 9113, 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The size of a flow-control window before any settings, in bytes.
pub const WINDOW: u32 = 65_535;

/// The largest flow-control window, in bytes.
pub const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The largest payload of a frame before any settings, in bytes.
pub const FRAME_SIZE: u32 = 1 << 14;

/// The largest payload that settings may allow, in bytes.
pub const FRAME_SIZE_MAX: u32 = (1 << 24) - 1;

/// The size of the dynamic table before any settings, in bytes (RFC 7541, 4.1).
pub const TABLE_SIZE: u32 = 4096;

/// The largest stream ID.
pub const STREAM_MAX: u32 = (1 << 31) - 1;
