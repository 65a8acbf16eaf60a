//! The plan that the closed loops of the old tools have in common.

use prony_core::plan::{CallSpec, Expect, Load, Plan, Resume, Stop, Think, TlsSpec, openssl_name};
use prony_core::target::Endpoint;
use prony_core::units::Span;

/// How long a connect may take.
const CONNECT_TIMEOUT: Span = Span::from_secs(5);
/// How long a reply may take.
const TIMEOUT: Span = Span::from_secs(30);

/// One request, sent again and again over so many connections that are kept open; nothing ends it
/// yet, and every whole reply counts as a success.
pub(super) fn closed(endpoint: Endpoint, call: CallSpec, connections: u32) -> Plan {
    Plan {
        timeout: TIMEOUT,
        connect_timeout: CONNECT_TIMEOUT,
        expect: Expect { statuses: vec![(100, 599)], body: None, length: None },
        seed: 0,
        ..Plan::new(
            vec![endpoint],
            vec![call],
            Load::Closed { connections, think: Think::None },
            Stop::default(),
        )
    }
}

/// The suites in OpenSSL's order.
const SUITES: [&str; 9] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
];

/// The suites of a list of OpenSSL's names that are still spoken, by the names of IANA; empty: all.
/// Names that are not spoken any more are passed over, as OpenSSL passes over what it does not
/// know.
pub(super) fn suites(list: &str) -> Result<Vec<String>, String> {
    let names = || list.split([':', ',', ' ']).filter(|name| !name.is_empty());
    if names().any(|name| ["DEFAULT", "ALL", "HIGH"].contains(&name)) {
        return Ok(Vec::new());
    }
    let found: Vec<String> =
        names().filter_map(|name| TlsSpec::parse_suites(name).ok()).flatten().collect();
    if found.is_empty() {
        let spoken = SUITES.map(openssl_name).join(":");
        return Err(format!("none of them is spoken here; write some of {spoken}"));
    }
    Ok(found)
}

/// TLS as ab and wrk ask for it: with whoever answers, whatever the certificate says, in the
/// strongest suite first, without a word on the application protocol, and each handshake in full.
pub(super) fn unverified() -> Box<TlsSpec> {
    Box::new(TlsSpec {
        verify: false,
        suites: SUITES.map(Into::into).to_vec(),
        alpn: Vec::new(),
        resume: Resume::Off,
        ..TlsSpec::default()
    })
}
