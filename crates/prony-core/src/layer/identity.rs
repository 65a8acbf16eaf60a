//! Who a server is to its clients: a certificate and its key, shared by all its connections.

use std::sync::Arc;

use rustls::server::ServerConfig;

use super::context::{certificates, private_key};
use super::crypto;
use super::reason::Reason;
use super::tls::TlsServer;

/// A server's certificate and key. TLS 1.2 and 1.3; clients need no certificate of their own.
#[derive(Clone, Debug)]
pub struct Identity(Arc<ServerConfig>);

impl Identity {
    /// From PEM texts; the certificate first, those up to its root behind it.
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
            .map_err(|e| format!("certificate and key do not go together: {e}"))
    }

    /// A connection that waits for its client to begin.
    ///
    /// # Errors
    /// rustls refuses to begin.
    pub fn accept(&self) -> Result<TlsServer, Reason> {
        TlsServer::accept(Arc::clone(&self.0))
    }
}
