//! Bytes to bytes: what lies between the protocol and the driver's socket. One match per batch, not
//! per request. QUIC is not a layer (HTTP/3 owns its datagrams).

mod certificate;
mod context;
mod crypto;
mod identity;
mod reason;
mod tickets;
mod tls;

pub use context::{ContextError, TlsContext, check_certificates, check_key};
pub use identity::Identity;
pub use reason::Reason;
pub use rustls::client::ClientConfig;
pub use rustls::{KeyLog, KeyLogFile};
pub use tls::{Handshake, Secured, Side, Tls, TlsServer};

/// The layer over which a connection speaks.
#[derive(Debug, Default)]
pub enum Layer {
    /// Bytes go through as they are.
    #[default]
    Plain,
    /// TLS.
    Tls(Box<Tls>),
}

impl Layer {
    /// The secured connection, where it is one.
    #[inline]
    pub fn tls(&mut self) -> Option<&mut Tls> {
        match self {
            Self::Plain => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    /// Whether it has bytes of its own to send: a handshake, an alert, a change of keys.
    #[inline]
    pub fn wants_send(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Tls(tls) => tls.wants_send(),
        }
    }
}
