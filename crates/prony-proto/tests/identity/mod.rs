//! A server's certificate and key, for the tests of several crates.

use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// A server with the name `h` and a self-signed certificate.
pub(crate) struct Identity {
    pub(crate) pem: String,
    pub(crate) config: ServerConfig,
}

/// Create one; `change` can make its certificate invalid.
pub(crate) fn identity(change: impl FnOnce(&mut CertificateParams)) -> Identity {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["h".into()]).expect("a name");
    change(&mut params);
    let cert = params.self_signed(&key).expect("a certificate");
    let der = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], der)
        .expect("certificate and key");
    Identity { pem: cert.pem(), config }
}
