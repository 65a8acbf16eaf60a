//! What can go wrong, as an index into counters. Words for users live in the `prony` crate only.

use serde::{Deserialize, Serialize};

/// One way for a request (or a connection) to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Fault {
    /// Nobody listens there.
    ConnectRefused,
    /// No connection within the connect timeout.
    ConnectTimeout,
    /// Network or host unreachable, or any other refusal by the network on the way.
    ConnectUnreachable,
    /// The connection was reset while connecting.
    ConnectReset,
    /// The TLS handshake failed; the tally of TLS says for what reasons.
    TlsHandshake,
    /// No whole reply within the request timeout, counted from the intended start.
    RequestTimeout,
    /// The peer reset an established connection.
    Reset,
    /// The peer closed before the first byte of the reply.
    ClosedEarly,
    /// The peer closed inside the reply: its head cut off, or a body that says where it ends.
    Truncated,
    /// The peer closed before all of the body was there that its content length announced.
    ShortBody,
    /// What came over an open connection is not what TLS allows, or an alert.
    TlsRecord,
    /// Status line and headers over the limit (64 KiB).
    HeaderTooLarge,
    /// Bytes where a status line should be that are none.
    BadStatusLine,
    /// A status outside 100 to 599.
    BadStatus,
    /// A header line that is none.
    BadHeader,
    /// Two different content lengths, or one that is no number.
    BadLength,
    /// A chunk size that is no number, too large, or not ended as it must.
    BadChunk,
    /// A transfer coding that this client did not ask for.
    BadCoding,
    /// What should be a reply of the echo protocol is none, or not of the length asked for.
    BadFrame,
    /// More bytes than the reply was to have, or bytes that nobody asked for.
    Surplus,
    /// A status that the plan does not count as success.
    UnexpectedStatus,
    /// A body that is not as the plan expects (text or length).
    BodyMismatch,
    /// A reply that lacks what the session takes out of it.
    ExtractMissing,
    /// A body over 1 MiB, out of which the session takes something.
    ExtractTooLong,
    /// Not sent: a variable that the request names has no value.
    NoValue,
    /// Not sent: a filled-in value has a line break or another character that cannot stand there.
    UnfitValue,
    /// Given up because an earlier request of its session has failed.
    GivenUp,
    /// The meter's own: no file descriptor was free.
    NoDescriptors,
    /// The meter's own: no local port was free.
    NoPorts,
    /// The meter's own: its host has no address of the target's family, or not the one asked for.
    NoAddress,
    /// The meter's own: the kernel had no buffer or memory.
    NoBuffers,
    /// The meter's own: never sent, as there was no connection and no room to wait for one, or as
    /// the meter had not come to it when the run ended.
    Dropped,
    /// The meter's own: the kernel refused for a reason that has no class here.
    Internal,
}

/// The classes under which reports count faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultClass {
    /// No connection could be made.
    Connect,
    /// Too slow.
    Timeout,
    /// The connection broke.
    Connection,
    /// The peer does not speak the protocol as it should.
    Protocol,
    /// A valid reply that the plan does not count as success.
    Unexpected,
    /// A request that could not be made from what its session knew.
    Script,
    /// The meter ran out of something: never the server's fault, voids the verdict.
    Meter,
}

impl Fault {
    /// How many faults there are; `fault as usize` is below it.
    pub const COUNT: usize = 33;

    /// All faults in the order of their index.
    pub const ALL: [Self; Self::COUNT] = [
        Self::ConnectRefused,
        Self::ConnectTimeout,
        Self::ConnectUnreachable,
        Self::ConnectReset,
        Self::TlsHandshake,
        Self::RequestTimeout,
        Self::Reset,
        Self::ClosedEarly,
        Self::Truncated,
        Self::ShortBody,
        Self::TlsRecord,
        Self::HeaderTooLarge,
        Self::BadStatusLine,
        Self::BadStatus,
        Self::BadHeader,
        Self::BadLength,
        Self::BadChunk,
        Self::BadCoding,
        Self::BadFrame,
        Self::Surplus,
        Self::UnexpectedStatus,
        Self::BodyMismatch,
        Self::ExtractMissing,
        Self::ExtractTooLong,
        Self::NoValue,
        Self::UnfitValue,
        Self::GivenUp,
        Self::NoDescriptors,
        Self::NoPorts,
        Self::NoAddress,
        Self::NoBuffers,
        Self::Dropped,
        Self::Internal,
    ];

    /// The class under which the fault is reported.
    pub fn class(self) -> FaultClass {
        match self {
            Self::ConnectRefused
            | Self::ConnectUnreachable
            | Self::ConnectReset
            | Self::TlsHandshake => FaultClass::Connect,
            Self::ConnectTimeout | Self::RequestTimeout => FaultClass::Timeout,
            Self::Reset | Self::ClosedEarly | Self::Truncated | Self::ShortBody | Self::GivenUp => {
                FaultClass::Connection
            }
            Self::TlsRecord
            | Self::HeaderTooLarge
            | Self::BadStatusLine
            | Self::BadStatus
            | Self::BadHeader
            | Self::BadLength
            | Self::BadChunk
            | Self::BadCoding
            | Self::BadFrame
            | Self::Surplus => FaultClass::Protocol,
            Self::UnexpectedStatus
            | Self::BodyMismatch
            | Self::ExtractMissing
            | Self::ExtractTooLong => FaultClass::Unexpected,
            Self::NoValue | Self::UnfitValue => FaultClass::Script,
            Self::NoDescriptors
            | Self::NoPorts
            | Self::NoAddress
            | Self::NoBuffers
            | Self::Dropped
            | Self::Internal => FaultClass::Meter,
        }
    }

    /// Whether the request was lost: the peer has neither answered it, rightly or wrongly, nor
    /// ended the connection in good order.
    pub fn is_lost(self) -> bool {
        let class = self.class();
        let lost = [FaultClass::Connect, FaultClass::Timeout, FaultClass::Meter];
        lost.contains(&class) || self == Self::Reset
    }

    /// Whether the meter itself, and not the target, is to blame.
    pub fn is_meters_own(self) -> bool {
        self.class() == FaultClass::Meter
    }
}
