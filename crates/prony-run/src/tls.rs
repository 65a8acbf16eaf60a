//! TLS from the environment: the system's CA certificates, the key log file, and self-signed
//! certificates for servers.

use std::env;
use std::sync::Arc;

use prony_plan::plan::Plan;
use prony_proto::layer::{Identity, KeyLog, KeyLogFile, TlsContext};

use crate::error::Error;

/// The TLS context of a plan; `None` without TLS endpoints.
///
/// # Errors
/// A certificate, key, cipher suite or name is invalid; or there are no CA certificates.
pub fn context(plan: &Plan) -> Result<Option<TlsContext>, Error> {
    if plan.endpoints.iter().all(|e| e.tls_name().is_none()) {
        return Ok(None);
    }
    // Unreadable certificates are an error only if no others remain.
    let roots = match TlsContext::needs_system_roots(plan) {
        true => rustls_native_certs::load_native_certs().certs,
        false => Vec::new(),
    };
    let key_log = env::var_os("SSLKEYLOGFILE")
        .filter(|file| !file.is_empty())
        .map(|_| Arc::new(KeyLogFile::new()) as Arc<dyn KeyLog>);
    Ok(Some(TlsContext::new(plan, roots, key_log)?))
}

/// A new self-signed certificate for this host and for localhost.
///
/// # Errors
/// No certificate is possible for this host.
pub fn own_identity(host: &str) -> Result<Identity, Error> {
    let wrong = |why| Error::Certificate { host: host.to_owned(), why };
    let names = ["localhost", "127.0.0.1", "::1", host].map(str::to_owned);
    let made =
        rcgen::generate_simple_self_signed(names.to_vec()).map_err(|e| wrong(e.to_string()))?;
    Identity::new(&made.cert.pem(), &made.signing_key.serialize_pem()).map_err(wrong)
}
