//! What the surroundings add to a plan's TLS: the certificates that the system trusts, and the file
//! to which keys are told. And a certificate for servers that were given none.

use std::env;
use std::sync::Arc;

use prony_core::layer::{Identity, KeyLog, KeyLogFile, TlsContext};
use prony_core::plan::Plan;

use crate::error::Error;

/// The context of the plan's secured connections; `None` where it has none.
///
/// # Errors
/// A certificate, key, suite or name that cannot be used; no certificate to trust.
pub fn context(plan: &Plan) -> Result<Option<TlsContext>, Error> {
    if plan.endpoints.iter().all(|e| e.tls_name().is_none()) {
        return Ok(None);
    }
    // What the system has and cannot be read is told only if nothing is left.
    let roots = match TlsContext::needs_system_roots(plan) {
        true => rustls_native_certs::load_native_certs().certs,
        false => Vec::new(),
    };
    let key_log = env::var_os("SSLKEYLOGFILE")
        .filter(|file| !file.is_empty())
        .map(|_| Arc::new(KeyLogFile::new()) as Arc<dyn KeyLog>);
    Ok(Some(TlsContext::new(plan, roots, key_log)?))
}

/// A certificate made for this process alone, for that host and the loopback's names.
///
/// # Errors
/// A host that no certificate can be for.
pub fn own_identity(host: &str) -> Result<Identity, Error> {
    let wrong = |why| Error::Certificate { host: host.to_owned(), why };
    let names = ["localhost", "127.0.0.1", "::1", host].map(str::to_owned);
    let made =
        rcgen::generate_simple_self_signed(names.to_vec()).map_err(|e| wrong(e.to_string()))?;
    Identity::new(&made.cert.pem(), &made.signing_key.serialize_pem()).map_err(wrong)
}
