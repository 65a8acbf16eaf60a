//! The targets of requests: scheme, host, port, path; verbatim, never normalized.

mod file;
mod header;
mod redirect;
mod url;

use serde::{Deserialize, Serialize};

pub use file::{UrlEntry, parse_url_file};
pub use header::{check_header, check_method, parse_header};
pub use redirect::{Origin, RedirectTo, resolve_redirect};
pub use url::{Url, UrlKind};

/// The remote end of a connection. Names are resolved outside this crate, before the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endpoint {
    /// A host (name or address, without brackets) and a TCP port.
    Tcp {
        /// Name or literal address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix domain stream socket.
    Unix {
        /// Its path.
        path: String,
    },
    /// A host and a port, over a transport other than TCP.
    Inet {
        /// The transport.
        over: Carrier,
        /// Name or literal address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix domain socket that preserves message boundaries (`SOCK_SEQPACKET`).
    UnixSeqpacket {
        /// Its path.
        path: String,
    },
    /// TLS over one of the others.
    Tls {
        /// The name (or address, without brackets) that the server's certificate must have. A name
        /// is also sent as SNI.
        name: String,
        /// The endpoint of the socket; not TLS again.
        over: Box<Self>,
    },
}

/// A transport between two hosts, other than TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// UDP: messages may be lost, duplicated and reordered.
    Udp,
    /// Multipath TCP.
    Mptcp,
    /// SCTP on a one-to-one socket.
    Sctp,
    /// SCTP on a one-to-many socket.
    SctpSeqpacket,
}

impl Endpoint {
    /// Whether message boundaries are preserved.
    pub fn keeps_boundaries(&self) -> bool {
        match self {
            Self::Inet { over, .. } => *over != Carrier::Mptcp,
            Self::UnixSeqpacket { .. } => true,
            Self::Tcp { .. } | Self::Unix { .. } | Self::Tls { .. } => false,
        }
    }

    /// Whether messages may be lost.
    pub fn is_lossy(&self) -> bool {
        matches!(self, Self::Inet { over: Carrier::Udp, .. })
    }

    /// The endpoint of the socket, without TLS.
    pub fn transport(&self) -> &Self {
        match self {
            Self::Tls { over, .. } => over,
            _ => self,
        }
    }

    /// The name that the certificate of a TLS endpoint must have; `None` without TLS.
    pub fn tls_name(&self) -> Option<&str> {
        match self {
            Self::Tls { name, .. } => Some(name),
            _ => None,
        }
    }

    /// This endpoint with TLS, with this server name.
    pub fn secured(self, name: &str) -> Self {
        Self::Tls { name: name.to_owned(), over: Box::new(self) }
    }
}

#[cfg(test)]
mod tests;
