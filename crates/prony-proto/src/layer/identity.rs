//! The identity of a server: a certificate and its key, shared by all its connections.

use std::sync::Arc;

use rustls::server::ServerConfig;

use super::context::{certificates, private_key};
use super::crypto;
use super::reason::TlsError;
use super::tls::ServerTls;

/// A server's certificate and key. TLS 1.2 and 1.3; clients need no certificate.
#[derive(Clone, Debug)]
pub struct Identity(Arc<ServerConfig>);

impl Identity {
    /// Read an identity from PEM texts; the server's certificate first, then the chain up to its
    /// root.
    ///
    /// # Errors
    /// What cannot be used, as the end of a sentence.
    pub fn new(certificate: &str, key: &str) -> Result<Self, String> {
        let (chain, key) = (certificates(certificate)?, private_key(key)?);
        ServerConfig::builder_with_provider(Arc::new(crypto::provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map(|config| Self(Arc::new(config)))
            .map_err(|e| format!("certificate and key do not match: {e}"))
    }

    /// The identity of a server that speaks these application protocols (ALPN), in order of
    /// preference. A client that offers some, but none of them, is refused.
    #[must_use]
    pub fn speaking(self, protocols: &[&str]) -> Self {
        let mut config = (*self.0).clone();
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        Self(Arc::new(config))
    }

    /// A connection that waits for its client to start the handshake.
    ///
    /// # Errors
    /// rustls refuses to start.
    pub fn accept(&self) -> Result<ServerTls, TlsError> {
        ServerTls::accept(Arc::clone(&self.0))
    }
}
