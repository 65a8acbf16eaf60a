//! Calls of gRPC. Their messages are bytes here: front ends encode them.

use serde::{Deserialize, Serialize};

use prony_base::units::Span;

/// A call of gRPC. Its path is the method, its body the messages with their prefixes, its expected
/// statuses are those of gRPC (0 is `OK`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrpcCall {
    /// Whether the reply may have any number of messages; otherwise, a reply with the status `OK`
    /// has one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub streams: bool,
    /// Whether the request may have any number of messages, so that they can have a schedule.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes: bool,
    /// The numbers of the fields by which messages of the reply are matched with those of the
    /// request: that of the request, and that of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<(u32, u32)>,
    /// The timeout from the intended start, of which the server is given what is left at the send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Whether the messages of the request are compressed with gzip when they are sent, and those
    /// of the reply may be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gzip: bool,
    /// The messages, if they have variable parts; otherwise, the body has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Vec<MessagePart>>,
}

/// A part of a message of Protocol Buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessagePart {
    /// Encoded fields.
    Bytes(Vec<u8>),
    /// A field with a template for its value.
    Field {
        /// Its number.
        number: u32,
        /// The type of the value.
        kind: ScalarKind,
        /// The template.
        text: String,
    },
    /// A field that is a message with variable parts.
    Message {
        /// Its number.
        number: u32,
        /// The parts of the message.
        parts: Vec<Self>,
    },
}

/// The type of a field, and so the encoding of its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScalarKind {
    /// UTF-8 text.
    String,
    /// Bytes, in base64.
    Bytes,
    /// `true` or `false`.
    Bool,
    /// `int32`, `sfixed32` or `sint32`, by their wire format.
    Int32(Wire),
    /// `int64`, `sfixed64` or `sint64`.
    Int64(Wire),
    /// `uint32` or `fixed32`.
    Uint32(Wire),
    /// `uint64` or `fixed64`.
    Uint64(Wire),
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// An enumeration: the names of its values. A number is allowed, too.
    Enum(Vec<(String, i32)>),
}

/// The wire format of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// 7 bits per byte.
    Varint,
    /// The same, with the sign in the lowest bit.
    ZigZag,
    /// 4 or 8 bytes.
    Fixed,
}
