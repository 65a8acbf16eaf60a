//! The kinds of failure, used as indices of counters. Their texts for users are in the crate
//! `prony-report`.

use serde::{Deserialize, Serialize};

/// A kind of failure of a request or connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Fault {
    /// Connection refused: nothing listens at the address.
    ConnectRefused,
    /// Not connected within the connect timeout.
    ConnectTimeout,
    /// Network or host unreachable, or another error that the network reported.
    ConnectUnreachable,
    /// The connection was reset while connecting.
    ConnectReset,
    /// The proxy did not open a tunnel to the server; the tally of the proxy has the reasons.
    NoTunnel,
    /// The TLS handshake failed; the TLS tally has the reasons.
    TlsHandshake,
    /// No complete reply within the request timeout, counted from the intended start.
    RequestTimeout,
    /// A step on a WebSocket did not get the message that it waits for in the time of the step.
    WaitTimeout,
    /// No complete reply within the request timeout, at whose end the peer's flow-control window
    /// held back a part of the request.
    FlowTimeout,
    /// The peer reset an established connection.
    Reset,
    /// The peer closed before the first byte of the reply.
    ClosedEarly,
    /// The peer closed within the reply: within its head, or within a body that marks its own end.
    Truncated,
    /// The peer closed before it had sent the whole content length.
    ShortBody,
    /// The peer refused the stream of the request: it has not processed it.
    Refused,
    /// The peer reset the stream of the request.
    StreamReset,
    /// The peer did not answer a ping that keeps the connection alive.
    NoPong,
    /// A TLS alert or invalid TLS data on an open connection.
    TlsRecord,
    /// Status line and headers over the limit (64 KiB).
    HeaderTooLarge,
    /// A malformed status line.
    BadStatusLine,
    /// A status outside 100 to 599.
    BadStatus,
    /// A malformed header line.
    BadHeader,
    /// A malformed content length, or two different ones.
    BadLength,
    /// A malformed chunk size, one that is too large, or a missing line end after a chunk.
    BadChunk,
    /// A transfer coding other than chunked.
    BadCoding,
    /// A malformed reply of the echo protocol, or one with the wrong length.
    BadFrame,
    /// A frame that violates HTTP/2, or a stream error that the client reported to the peer.
    BadHttp2,
    /// A header block of HTTP/2 that cannot be decoded.
    BadHpack,
    /// More bytes than the flow-control window of HTTP/2 allows, or a window over 2^31 - 1.
    FlowControl,
    /// The peer does not speak HTTP/2.
    NotHttp2,
    /// The peer speaks HTTP/2, but opens no WebSocket over it: its settings do not allow extended
    /// CONNECT.
    NoExtendedConnect,
    /// A reply with the status 101 that does not open a WebSocket connection.
    BadUpgrade,
    /// A frame that violates WebSocket.
    #[serde(rename = "bad-websocket")]
    BadWebSocket,
    /// A text message of WebSocket, or the reason of a close, that is not UTF-8.
    BadText,
    /// Bytes after the end of the reply, or without a request.
    Surplus,
    /// A reply of gRPC without its status: it has no trailers, or they lack it.
    NoGrpcStatus,
    /// Messages of gRPC with a bad prefix, an incomplete message, or more or fewer messages than
    /// the method has.
    BadMessage,
    /// A status of gRPC that the plan does not count as success.
    GrpcStatus,
    /// A status that the plan does not count as success.
    UnexpectedStatus,
    /// A body without the text or length that the plan expects.
    BodyMismatch,
    /// One more redirect than the plan follows.
    TooManyRedirects,
    /// A successful reply whose content type is not that of the stream that the plan expects.
    NotAStream,
    /// A message over the limit: 1 MiB in the body of a reply of HTTP, 16 MiB of WebSocket.
    MessageTooLong,
    /// A message in the reply of a language model that reports an error.
    ErrorMessage,
    /// A stream that its server has ended without what marks its end: the end of a language model's
    /// reply, or the text of the plan.
    TruncatedStream,
    /// A reply without the value that the session extracts from it.
    ExtractMissing,
    /// A body over 1 MiB from which the session extracts a value.
    ExtractTooLong,
    /// Not sent: a variable of the request has no value.
    NoValue,
    /// Not sent: the value of a variable has a line break or another character that is not allowed
    /// at its place in the request.
    UnfitValue,
    /// Not sent: the session had no open WebSocket for the step.
    NoSocket,
    /// Given up because an earlier request of its session failed.
    GivenUp,
    /// In the client: no file descriptor was free.
    NoDescriptors,
    /// In the client: no local port was free.
    NoPorts,
    /// In the client: its host has no address of the target's family, or lacks the local address
    /// of the plan.
    NoAddress,
    /// In the client: the kernel had no buffer or memory.
    NoBuffers,
    /// In the client: never sent, because the backlog was full or the load ended before the client
    /// could start the request.
    Dropped,
    /// In the client: the file with the body of the request could not be read to its end, or has
    /// become shorter. The server got a part of the body.
    BodyFile,
    /// In the client: any other error of a system call.
    Internal,
}

/// The classes by which reports group faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultClass {
    /// A connection could not be opened.
    Connect,
    /// A timeout expired.
    Timeout,
    /// The connection broke.
    Connection,
    /// The peer violated the protocol.
    Protocol,
    /// A valid reply that the plan does not count as success.
    Unexpected,
    /// A request could not be built from the variables of its session.
    Script,
    /// The client ran out of a resource. Never caused by the target; makes the run invalid.
    Meter,
}

impl Fault {
    /// The number of faults; every `fault as usize` is below it.
    pub const COUNT: usize = 57;

    /// All faults in the order of their index.
    pub const ALL: [Self; Self::COUNT] = [
        Self::ConnectRefused,
        Self::ConnectTimeout,
        Self::ConnectUnreachable,
        Self::ConnectReset,
        Self::NoTunnel,
        Self::TlsHandshake,
        Self::RequestTimeout,
        Self::WaitTimeout,
        Self::FlowTimeout,
        Self::Reset,
        Self::ClosedEarly,
        Self::Truncated,
        Self::ShortBody,
        Self::Refused,
        Self::StreamReset,
        Self::NoPong,
        Self::TlsRecord,
        Self::HeaderTooLarge,
        Self::BadStatusLine,
        Self::BadStatus,
        Self::BadHeader,
        Self::BadLength,
        Self::BadChunk,
        Self::BadCoding,
        Self::BadFrame,
        Self::BadHttp2,
        Self::BadHpack,
        Self::FlowControl,
        Self::NotHttp2,
        Self::NoExtendedConnect,
        Self::BadUpgrade,
        Self::BadWebSocket,
        Self::BadText,
        Self::Surplus,
        Self::NoGrpcStatus,
        Self::BadMessage,
        Self::GrpcStatus,
        Self::UnexpectedStatus,
        Self::BodyMismatch,
        Self::TooManyRedirects,
        Self::NotAStream,
        Self::MessageTooLong,
        Self::ErrorMessage,
        Self::TruncatedStream,
        Self::ExtractMissing,
        Self::ExtractTooLong,
        Self::NoValue,
        Self::UnfitValue,
        Self::NoSocket,
        Self::GivenUp,
        Self::NoDescriptors,
        Self::NoPorts,
        Self::NoAddress,
        Self::NoBuffers,
        Self::Dropped,
        Self::BodyFile,
        Self::Internal,
    ];

    /// The class under which the fault is reported.
    #[inline]
    pub fn class(self) -> FaultClass {
        match self {
            Self::ConnectRefused
            | Self::ConnectUnreachable
            | Self::ConnectReset
            | Self::NoTunnel
            | Self::TlsHandshake => FaultClass::Connect,
            Self::ConnectTimeout | Self::RequestTimeout | Self::WaitTimeout | Self::FlowTimeout => {
                FaultClass::Timeout
            }
            Self::Reset
            | Self::ClosedEarly
            | Self::Truncated
            | Self::ShortBody
            | Self::Refused
            | Self::StreamReset
            | Self::NoPong
            | Self::GivenUp => FaultClass::Connection,
            Self::TlsRecord
            | Self::HeaderTooLarge
            | Self::BadStatusLine
            | Self::BadStatus
            | Self::BadHeader
            | Self::BadLength
            | Self::BadChunk
            | Self::BadCoding
            | Self::BadFrame
            | Self::BadHttp2
            | Self::BadHpack
            | Self::FlowControl
            | Self::NotHttp2
            | Self::NoExtendedConnect
            | Self::BadUpgrade
            | Self::BadWebSocket
            | Self::BadText
            | Self::Surplus
            | Self::NoGrpcStatus
            | Self::BadMessage => FaultClass::Protocol,
            Self::GrpcStatus
            | Self::UnexpectedStatus
            | Self::BodyMismatch
            | Self::TooManyRedirects
            | Self::NotAStream
            | Self::MessageTooLong
            | Self::ErrorMessage
            | Self::TruncatedStream
            | Self::ExtractMissing
            | Self::ExtractTooLong => FaultClass::Unexpected,
            Self::NoValue | Self::UnfitValue | Self::NoSocket => FaultClass::Script,
            Self::NoDescriptors
            | Self::NoPorts
            | Self::NoAddress
            | Self::NoBuffers
            | Self::Dropped
            | Self::BodyFile
            | Self::Internal => FaultClass::Meter,
        }
    }

    /// Whether the request was lost: the peer sent no reply to it, valid or not, and did not close
    /// the connection orderly.
    #[inline]
    pub fn is_lost(self) -> bool {
        let class = self.class();
        let lost = [FaultClass::Connect, FaultClass::Timeout, FaultClass::Meter];
        lost.contains(&class) || self == Self::Reset
    }

    /// Whether the meter itself, and not the target, caused the failure.
    pub fn is_meters_own(self) -> bool {
        self.class() == FaultClass::Meter
    }
}
