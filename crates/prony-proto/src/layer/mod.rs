//! The layer between the protocol and the driver's socket: bytes to bytes. One match per batch, not
//! per request. QUIC is not a layer (HTTP/3 owns its datagrams).

mod anchor;
mod certificate;
mod context;
mod crypto;
mod identity;
mod reason;
mod tickets;
mod tls;
mod tunnel;

pub use context::{ContextError, TlsContext, check_certificates, check_key};
pub use identity::Identity;
pub use reason::TlsError;
pub use rustls::client::ClientConfig;
pub use rustls::{KeyLog, KeyLogFile};
pub use tls::{Handshake, Secured, ServerTls, Side, Tls};
pub use tunnel::{NoTunnel, Tunnel};

/// The layer of a connection.
#[derive(Debug, Default)]
pub enum Layer {
    /// Bytes pass through unchanged.
    #[default]
    Plain,
    /// TLS.
    Tls(Box<Tls>),
    /// A tunnel through a proxy, which is not open yet. Once it is, there is another layer.
    Tunnel(Box<Tunnel>),
}

impl Layer {
    /// The TLS connection, if there is one.
    #[inline]
    pub fn tls(&mut self) -> Option<&mut Tls> {
        match self {
            Self::Plain | Self::Tunnel(_) => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    /// Whether it has its own bytes to send: a handshake, an alert, a key update.
    #[inline]
    pub fn wants_send(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Tls(tls) => tls.wants_send(),
            Self::Tunnel(tunnel) => tunnel.wants_send(),
        }
    }
}
