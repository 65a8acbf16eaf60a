//! Any options of TLS.

use std::sync::OnceLock;

use prony_plan::plan::{Resume, TlsSpec, TlsVersion};
use proptest::prelude::*;
use proptest::sample::select;

/// A certificate and its key, created once.
fn pem() -> (String, String) {
    static PEM: OnceLock<(String, String)> = OnceLock::new();
    let make = || {
        let made = rcgen::generate_simple_self_signed(["h".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    };
    PEM.get_or_init(make).clone()
}

pub(super) fn tls() -> impl Strategy<Value = TlsSpec> {
    (
        any::<[bool; 4]>(),
        select(vec![None, Some(TlsVersion::Tls12), Some(TlsVersion::Tls13)]),
        select(vec![Resume::On, Resume::Off, Resume::Session]),
    )
        .prop_map(|([verify, ca, cert, more], version, resume)| TlsSpec {
            verify,
            ca: ca.then(|| pem().0),
            cert: cert.then(|| pem().0),
            key: cert.then(|| pem().1.into()),
            version,
            groups: if more { vec!["secp256r1".into(), "x25519".into()] } else { vec![] },
            suites: if more { vec!["TLS_AES_128_GCM_SHA256".into()] } else { vec![] },
            alpn: if more { vec!["a".into(), "b".into()] } else { vec![] },
            resume,
        })
        .prop_filter("the default needs no table", |spec| *spec != TlsSpec::default())
}
