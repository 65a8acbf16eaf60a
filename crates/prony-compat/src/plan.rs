//! The plan that the closed loops of the old tools share.

use prony_base::units::Span;
use prony_plan::plan::{CallSpec, Expect, Load, Plan, Resume, Stop, Think, TlsSpec, openssl_name};
use prony_plan::target::Endpoint;

/// The connect timeout.
const CONNECT_TIMEOUT: Span = Span::from_secs(5);
/// The timeout of a reply.
const TIMEOUT: Span = Span::from_secs(30);

/// A closed loop that repeats one request on `connections` keep-alive connections. It has no stop
/// rule yet, and every complete reply is a success.
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

/// The IANA names of the cipher suites in a list of OpenSSL names; empty means all. As in OpenSSL,
/// unsupported names are ignored.
///
/// # Errors
///
/// A sentence with the supported names, if the list has none of them.
pub(super) fn suites(list: &str) -> Result<Vec<String>, String> {
    let names = || list.split([':', ',', ' ']).filter(|name| !name.is_empty());
    if names().any(|name| ["DEFAULT", "ALL", "HIGH"].contains(&name)) {
        return Ok(Vec::new());
    }
    let found: Vec<String> =
        names().filter_map(|name| TlsSpec::parse_suites(name).ok()).flatten().collect();
    if found.is_empty() {
        let supported = SUITES.map(openssl_name).join(":");
        return Err(format!("none of these suites is supported; use some of {supported}"));
    }
    Ok(found)
}

/// The key of the key exchange, in the form of OpenSSL's programs.
pub(super) fn temporary_key(group: &str) -> String {
    match group.to_ascii_lowercase().as_str() {
        "x25519" => "X25519 253 bits".into(),
        "secp256r1" => "ECDH prime256v1 256 bits".into(),
        "secp384r1" => "ECDH secp384r1 384 bits".into(),
        "secp521r1" => "ECDH secp521r1 521 bits".into(),
        _ => group.into(),
    }
}

/// The TLS settings of ab, h2load and wrk: certificates are not verified, the strongest suite is
/// offered first, there is no ALPN, and every handshake is a full one.
pub(super) fn unverified() -> Box<TlsSpec> {
    Box::new(TlsSpec {
        verify: false,
        suites: SUITES.map(Into::into).to_vec(),
        alpn: Vec::new(),
        resume: Resume::Off,
        ..TlsSpec::default()
    })
}
