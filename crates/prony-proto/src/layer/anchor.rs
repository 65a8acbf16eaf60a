//! Servers that show a certificate which the user trusts itself.
//!
//! webpki refuses an authority's certificate (CA:TRUE, the default of `openssl req -x509`) as that
//! of a server. If it is one of the certificates that the user has named, byte for byte, nobody has
//! to vouch for it: its names, the time for which it is valid and its purpose remain to be checked.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::certificate::{self, Facts};

/// The verifier of webpki, and certificates that are trusted as they are.
#[derive(Debug)]
pub(super) struct Anchored {
    pub(super) others: Arc<WebPkiServerVerifier>,
    pub(super) named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Anchored {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.others.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        if verified.is_err() && self.named.iter().any(|named| named == end_entity) {
            return verify_named(end_entity, server_name, now);
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.others.supported_verify_schemes()
    }
}

/// Checks a certificate that is trusted itself.
fn verify_named(
    end_entity: &CertificateDer<'_>,
    server_name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, Error> {
    let wrong = |why: CertificateError| Err(Error::InvalidCertificate(why));
    let Some(Facts { from, until, is_for_servers }) = certificate::facts(end_entity) else {
        return wrong(CertificateError::BadEncoding);
    };
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < from {
        return wrong(CertificateError::NotValidYet);
    }
    if now > until {
        return wrong(CertificateError::Expired);
    }
    if !is_for_servers {
        return wrong(CertificateError::InvalidPurpose);
    }
    verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
    Ok(ServerCertVerified::assertion())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
    };
    use rustls::RootCertStore;

    use super::*;
    use crate::layer::crypto;

    /// 2026-06-01.
    const NOW: u64 = 1_780_272_000;

    fn made(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["h.test".into()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    /// What a client that trusts `named` says of a server named h.test with `shown`.
    fn verified(
        named: &CertificateDer<'static>,
        shown: &CertificateDer<'_>,
        name: &'static str,
        now: u64,
    ) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(named.clone()).expect("a certificate");
        let provider = Arc::new(crypto::provider());
        let others = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier =
            Anchored { others: others.build().expect("roots"), named: vec![named.clone()] };
        let name = ServerName::try_from(name).expect("a name");
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        verifier.verify_server_cert(shown, &[], &name, &[], now).map(|_| ())
    }

    #[test]
    fn an_authority_that_is_named_may_be_a_server() {
        let own = made(|_| {});
        assert_eq!(verified(&own, &own, "h.test", NOW), Ok(()));
        let for_servers =
            made(|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
        assert_eq!(verified(&for_servers, &for_servers, "h.test", NOW), Ok(()));
        let plain = made(|p| p.is_ca = IsCa::NoCa);
        assert_eq!(verified(&plain, &plain, "h.test", NOW), Ok(()));
        // Far in the future, times have another form.
        let long = made(|p| p.not_after = date_time_ymd(2090, 1, 1));
        assert_eq!(verified(&long, &long, "h.test", NOW + 1_000_000_000), Ok(()));
    }

    #[test]
    fn everything_else_is_still_checked() {
        let own = made(|_| {});
        let why = |result: Result<(), Error>| match result {
            Err(Error::InvalidCertificate(why)) => why,
            other => panic!("{other:?}"),
        };
        let name = why(verified(&own, &own, "other.test", NOW));
        assert!(matches!(name, CertificateError::NotValidForNameContext { .. }), "{name:?}");
        let year = 365 * 86_400;
        assert_eq!(why(verified(&own, &own, "h.test", NOW + year)), CertificateError::Expired);
        assert_eq!(why(verified(&own, &own, "h.test", NOW - year)), CertificateError::NotValidYet);
        let clients = made(|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
        let purpose = why(verified(&clients, &clients, "h.test", NOW));
        assert_eq!(purpose, CertificateError::InvalidPurpose);
        // Another one of the same name is not the one that is named.
        let other = made(|_| {});
        assert!(verified(&own, &other, "h.test", NOW).is_err());
        let mut changed = own.to_vec();
        *changed.last_mut().expect("a byte") ^= 1;
        assert!(verified(&own, &CertificateDer::from(changed), "h.test", NOW).is_err());
    }
}
