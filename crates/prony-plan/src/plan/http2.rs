//! Options of HTTP/2.

use serde::{Deserialize, Serialize};

use prony_base::units::Span;

/// What the client announces to a server that speaks HTTP/2, and how it sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Spec {
    /// The flow-control window of each stream, and of the connection if it is larger than the
    /// 65,535 bytes that the protocol starts with: bytes that the server may send before the client
    /// has confirmed any.
    pub window: u32,
    /// The size of the table with the header fields of replies, in bytes; 0: none.
    pub table_size: u32,
    /// The largest payload of a frame from the server, in bytes: 2^14 to 2^24 - 1.
    pub frame_size: u32,
    /// Whether requests wait until the settings of the server have arrived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait_settings: bool,
    /// Whether header fields of requests are sent without the server's dynamic table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_static: bool,
    /// Whether a request is sent again whose stream the peer has refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry_refused: bool,
    /// How often each connection is checked with a ping; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<Span>,
}

impl Default for Http2Spec {
    fn default() -> Self {
        Self {
            window: 1 << 30,
            table_size: prony_base::http2::TABLE_SIZE,
            frame_size: prony_base::http2::FRAME_SIZE,
            wait_settings: false,
            is_static: false,
            retry_refused: false,
            keepalive: None,
        }
    }
}
