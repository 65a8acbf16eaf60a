//! What all TLS connections of a worker share: the plan's TLS settings in the form of rustls.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    DigitallySignedStruct, KeyLog, RootCertStore, SignatureScheme, SupportedProtocolVersion,
};

use super::anchor::Anchored;
use super::crypto;
use super::reason::TlsError;
use super::tickets::Tickets;
use super::tls::Tls;
use prony_plan::plan::{
    HttpVersion, Plan, Resume, TlsSpec, TlsVersion, group_id, suite_id, suite_ids,
};

/// How many TLS 1.3 tickets are kept for each server. Each can be used once, so there must be as
/// many as connections that are opened at a time.
const TICKETS: usize = 1_024;

/// The configuration for the connections of one worker, and the names of the plan's endpoints.
#[derive(Clone, Debug)]
pub struct TlsContext {
    config: Arc<ClientConfig>,
    names: Vec<Option<ServerName<'static>>>,
    resume: Resume,
}

/// What is wrong with the plan's TLS settings. Each text is a complete sentence; the caller adds
/// where the setting comes from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// No trusted certificate.
    #[error("{0}")]
    Roots(String),
    /// The client's certificate or key.
    #[error("{0}")]
    Client(String),
    /// The cipher suites, key exchange groups and versions.
    #[error("{0}")]
    Suites(String),
    /// An endpoint's name.
    #[error("'{0}' is not a name that a certificate can have")]
    Name(String),
}

/// The application protocols to offer.
fn protocols(http: HttpVersion, spec: &TlsSpec) -> Vec<Vec<u8>> {
    let names: &[&str] = match http {
        // The user's own list.
        _ if spec.alpn != TlsSpec::default().alpn => {
            return spec.alpn.iter().map(|p| p.clone().into_bytes()).collect();
        }
        HttpVersion::Http10 | HttpVersion::Http11 => &["http/1.1"],
        HttpVersion::Http2 => &["h2", "http/1.1"],
        HttpVersion::Http2Only => &["h2"],
    };
    names.iter().map(|p| p.as_bytes().to_vec()).collect()
}

impl TlsContext {
    /// The context of a plan. `system` are the certificates that the system trusts, which are used
    /// only if [`Self::needs_system_roots`]; `key_log` receives the keys of every connection.
    ///
    /// # Errors
    /// Which of the plan's TLS settings cannot be used.
    pub fn new(
        plan: &Plan,
        system: Vec<CertificateDer<'static>>,
        key_log: Option<Arc<dyn KeyLog>>,
    ) -> Result<Self, ContextError> {
        let default = TlsSpec::default();
        let spec = plan.tls.as_deref().unwrap_or(&default);
        let provider = Arc::new(provider(spec)?);
        let verifier = verifier(spec, system, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(spec))
            .map_err(|_| ContextError::Suites(no_suite(spec)))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match (&spec.cert, &spec.key) {
            (Some(cert), Some(key)) => {
                let chain = certificates(cert).map_err(ContextError::Client)?;
                let key = private_key(key.expose()).map_err(ContextError::Client)?;
                builder.with_client_auth_cert(chain, key).map_err(|e| {
                    ContextError::Client(format!("certificate and key do not match: {e}"))
                })?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols(plan.http, spec);
        // A server that selects another protocol is detected by its replies.
        config.check_selected_alpn = true;
        if let Some(key_log) = key_log {
            config.key_log = key_log;
        }
        config.resumption = Resumption::disabled();
        let names = plan.endpoints.iter().map(|e| match e.tls_name() {
            Some(name) => server_name(name).map(Some),
            None => Ok(None),
        });
        let names = names.collect::<Result<_, _>>()?;
        Ok(Self { config: Arc::new(config), names, resume: spec.resume }.for_worker())
    }

    /// Whether the plan's connections are verified against the certificates that the system trusts.
    pub fn needs_system_roots(plan: &Plan) -> bool {
        let is_default = |spec: &TlsSpec| spec.verify && spec.ca.is_none();
        plan.endpoints.iter().any(|e| e.tls_name().is_some())
            && plan.tls.as_deref().is_none_or(is_default)
    }

    /// The same context for another worker, without shared TLS sessions.
    pub fn for_worker(&self) -> Self {
        let mut worker = self.clone();
        if self.resume == Resume::On {
            worker.config = worker.with_tickets(TICKETS);
        }
        worker
    }

    /// Whether each scope has its own TLS sessions ([`Resume::Session`]).
    pub fn resumes_by_place(&self) -> bool {
        self.resume == Resume::Session
    }

    /// The configuration for a new scope, if TLS sessions are resumed only within one.
    pub fn place(&self) -> Arc<ClientConfig> {
        if self.resume == Resume::Session {
            // A scope has few connections at a time.
            self.with_tickets(8)
        } else {
            Arc::clone(&self.config)
        }
    }

    /// The configuration that all connections share, unless they have one of their scope.
    pub fn shared(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Whether endpoint `endpoint` of the plan uses TLS.
    pub fn secures(&self, endpoint: u32) -> bool {
        self.names.get(endpoint as usize).is_some_and(Option::is_some)
    }

    /// Start a connection to an endpoint with TLS.
    ///
    /// # Errors
    /// rustls refuses to start.
    pub fn begin(&self, endpoint: u32, config: Arc<ClientConfig>) -> Result<Tls, TlsError> {
        let name = self.names[endpoint as usize].clone().expect("a secured endpoint");
        Tls::new(config, name)
    }

    fn with_tickets(&self, most: usize) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::store(Arc::new(Tickets::new(most)));
        Arc::new(config)
    }
}

/// Check that the text (PEM) has usable certificates.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn check_certificates(pem: &str) -> Result<(), String> {
    certificates(pem).map(drop)
}

/// Check that the text (PEM) has a usable private key.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn check_key(pem: &str) -> Result<(), String> {
    let key = private_key(pem)?;
    crypto::provider()
        .key_provider
        .load_private_key(key)
        .map(drop)
        .map_err(|_| "its private key is of an unsupported kind; use RSA, ECDSA or Ed25519".into())
}

/// The certificates of a PEM text, at least one.
pub(super) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match all {
        Err(e) => Err(format!("the PEM text is damaged: {e}")),
        Ok(all) if all.is_empty() => {
            Err("there is no certificate in it; it must be PEM, with '-----BEGIN \
                 CERTIFICATE-----'"
                .into())
        }
        Ok(all) => Ok(all),
    }
}

pub(super) fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, String> {
    if pem.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
        || pem.contains("Proc-Type: 4,ENCRYPTED")
    {
        return Err(
            "the key is encrypted; decrypt it first, for example with `openssl pkey`".into()
        );
    }
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
        "the file has no private key; expected PEM with '-----BEGIN PRIVATE KEY-----'".into()
    })
}

fn server_name(name: &str) -> Result<ServerName<'static>, ContextError> {
    // A zone belongs to the address on this host, not to the certificate.
    let bare = name.split_once('%').map_or(name, |(address, _)| address);
    ServerName::try_from(bare.to_owned()).map_err(|_| ContextError::Name(name.to_owned()))
}

fn provider(spec: &TlsSpec) -> Result<CryptoProvider, ContextError> {
    let mut provider = crypto::provider();
    let by_id =
        |id: u16| provider.cipher_suites.iter().copied().find(|s| u16::from(s.suite()) == id);
    let suites: Option<Vec<_>> = if spec.suites.is_empty() {
        suite_ids().map(by_id).collect()
    } else {
        spec.suites.iter().map(|name| suite_id(name).and_then(by_id)).collect()
    };
    provider.cipher_suites = suites.ok_or_else(|| {
        ContextError::Suites(format!("one of the cipher suites is unknown: {:?}", spec.suites))
    })?;
    if !spec.groups.is_empty() {
        let by_id =
            |id: u16| provider.kx_groups.iter().copied().find(|g| u16::from(g.name()) == id);
        let groups = spec.groups.iter().map(|name| {
            group_id(name).and_then(by_id).ok_or_else(|| {
                ContextError::Suites(format!("the group {name} cannot be used on this processor"))
            })
        });
        provider.kx_groups = groups.collect::<Result<_, _>>()?;
    }
    Ok(provider)
}

fn versions(spec: &TlsSpec) -> Vec<&'static SupportedProtocolVersion> {
    match spec.version {
        None => vec![&TLS13, &TLS12],
        Some(TlsVersion::Tls12) => vec![&TLS12],
        Some(TlsVersion::Tls13) => vec![&TLS13],
    }
}

fn no_suite(spec: &TlsSpec) -> String {
    let version = match spec.version {
        Some(TlsVersion::Tls12) => "TLS 1.2",
        Some(TlsVersion::Tls13) => "TLS 1.3",
        None => "any version",
    };
    format!("none of the cipher suites {} is of {version}", spec.suites.join(", "))
}

fn verifier(
    spec: &TlsSpec,
    system: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ContextError> {
    if !spec.verify {
        let schemes = provider.signature_verification_algorithms.supported_schemes();
        return Ok(Arc::new(Unverified { schemes }));
    }
    let mut roots = RootCertStore::empty();
    let mut named = Vec::new();
    match &spec.ca {
        Some(pem) => {
            for cert in certificates(pem).map_err(ContextError::Roots)? {
                named.push(cert.clone());
                roots.add(cert).map_err(|e| {
                    ContextError::Roots(format!("a certificate in it cannot be used: {e}"))
                })?;
            }
        }
        // Systems trust some certificates that webpki cannot read; the others are enough.
        None => drop(roots.add_parsable_certificates(system)),
    }
    if roots.is_empty() {
        return Err(ContextError::Roots(
            "there is no certificate to trust; name one by --cacert FILE, or SSL_CERT_FILE, or \
             verify nothing (-k)"
                .into(),
        ));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map(|others| Arc::new(Anchored { others, named }) as Arc<dyn ServerCertVerifier>)
        .map_err(|e| ContextError::Roots(e.to_string()))
}

/// For use in `impl ServerCertVerifier`: signatures are not checked.
macro_rules! accepts_any {
    ($($method:ident)*) => {$(
        fn $method(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
    )*};
}

/// Accepts every certificate without checking it.
#[derive(Debug)]
struct Unverified {
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    accepts_any!(verify_tls12_signature verify_tls13_signature);

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first group costs the client a key for each handshake.
    #[test]
    fn finds_groups_by_name_and_offers_a_cheap_one_first() {
        let names = |text: &str| {
            let groups = TlsSpec::parse_groups(text).unwrap_or_default();
            let spec = TlsSpec { groups, ..TlsSpec::default() };
            let provider = provider(&spec).unwrap();
            provider.kx_groups.iter().map(|g| format!("{:?}", g.name())).collect::<Vec<_>>()
        };
        assert_eq!(names("")[0], "X25519");
        assert_eq!(names("P-384, X25519:p-384"), ["secp384r1", "X25519"]);
        let all = ["X25519", "secp256r1", "secp384r1", "X25519MLKEM768"];
        assert_eq!(names("x25519,P-256,P-384,X25519MLKEM768"), all);
        assert_eq!(names(""), all);
    }
}
