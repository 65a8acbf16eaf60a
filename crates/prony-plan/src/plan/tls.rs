//! The TLS options of a plan.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Secret;
use prony_base::units::ParseError;

/// The TLS options of the client, for all TLS endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsSpec {
    /// Whether the server's certificate and name are verified.
    pub verify: bool,
    /// Certificates (PEM) that are trusted instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The client's own certificate and the intermediate ones (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// The key of this certificate (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    /// The only version to use; `None`: the highest that both sides support.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<TlsVersion>,
    /// The cipher suites that may be used, by their IANA names, in order of preference; empty: all
    /// supported ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<String>,
    /// The groups of the key exchange that may be used, by their IANA names, in order of
    /// preference. The first message has a key share for the first one. Empty: x25519, then the
    /// others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The application protocols that are offered (ALPN), in order of preference; empty: none.
    pub alpn: Vec<String>,
    /// Whether sessions are resumed.
    pub resume: Resume,
}

impl Default for TlsSpec {
    fn default() -> Self {
        Self {
            verify: true,
            ca: None,
            cert: None,
            key: None,
            version: None,
            suites: Vec::new(),
            groups: Vec::new(),
            alpn: vec!["http/1.1".into()],
            resume: Resume::default(),
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    Tls13,
}

/// Whether a connection resumes the TLS session of an earlier one, which saves server and client
/// most of the work of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resume {
    /// From any connection of the same worker to the same server.
    #[default]
    On,
    /// Never: every handshake is a full handshake.
    Off,
    /// Only from a connection of the same user session; without sessions, only from the previous
    /// connection in the same slot.
    Session,
}

/// An entry of an IANA registry: its IANA name, another common name, its number.
type Registered = (&'static str, &'static str, u16);

/// The supported suites, which have forward secrecy and authenticated encryption, in the order in
/// which they are offered by default. As in browsers, AES-128 comes first: it costs both sides
/// less, and is what servers use most. The other name is that of OpenSSL.
const SUITES: [Registered; 9] = [
    ("TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256", 0x1301),
    ("TLS_AES_256_GCM_SHA384", "TLS13_AES_256_GCM_SHA384", 0x1302),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS13_CHACHA20_POLY1305_SHA256", 0x1303),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256", 0xc02b),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384", 0xc02c),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", 0xcca9),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", 0xc02f),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", 0xc030),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", 0xcca8),
];

/// The supported groups of the key exchange. The other name is that of NIST, if there is one.
const GROUPS: [Registered; 4] = [
    ("x25519", "x25519", 0x001d),
    ("secp256r1", "P-256", 0x0017),
    ("secp384r1", "P-384", 0x0018),
    ("X25519MLKEM768", "X25519MLKEM768", 0x11ec),
];

impl TlsSpec {
    /// Parse a list of cipher suites: IANA or OpenSSL names, separated by commas or colons. Returns
    /// IANA names, in the same order.
    ///
    /// # Errors
    /// The first unknown name, with the supported ones; or an empty list.
    pub fn parse_suites(text: &str) -> Result<Vec<String>, ParseError> {
        // For TLS 1.3, the IANA name is the common one.
        let shown = |s: &Registered| if s.2 < 0x2000 { s.0 } else { s.1 };
        listed(text, &SUITES, "cipher suite", shown)
    }

    /// Parse a list of key exchange groups in the same way; P-256 is secp256r1.
    ///
    /// # Errors
    /// The first unknown name, with the supported ones; or an empty list.
    pub fn parse_groups(text: &str) -> Result<Vec<String>, ParseError> {
        listed(text, &GROUPS, "key exchange group", |g| g.0)
    }
}

/// The IANA names of a list, without duplicates. For error messages, `what` is the kind of name,
/// and
/// `shown` returns the name to show.
fn listed(
    text: &str,
    all: &[Registered],
    what: &str,
    shown: fn(&Registered) -> &'static str,
) -> Result<Vec<String>, ParseError> {
    let mut names: Vec<String> = Vec::new();
    for name in text.split([',', ':']).map(str::trim).filter(|name| !name.is_empty()) {
        let is_it = |r: &&Registered| [r.0, r.1].iter().any(|n| n.eq_ignore_ascii_case(name));
        let Some(found) = all.iter().find(is_it) else {
            return Err(ParseError::new(format!(
                "'{}' is not a supported {what}; the supported ones are {}",
                name.escape_debug(),
                all.iter().map(shown).collect::<Vec<_>>().join(", ")
            )));
        };
        if !names.iter().any(|n| n == found.0) {
            names.push(found.0.into());
        }
    }
    if names.is_empty() {
        return Err(ParseError::new(format!("the list has no {what}")));
    }
    Ok(names)
}

/// The OpenSSL name of a cipher suite with this IANA name. The suites of TLS 1.3 have the same name
/// in both.
pub fn openssl_name(iana: &str) -> &str {
    SUITES.iter().find(|s| s.0 == iana && s.2 >= 0x2000).map_or(iana, |s| s.1)
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        })
    }
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Session => "session",
        })
    }
}

/// The number of the cipher suite with this IANA name.
pub fn suite_id(name: &str) -> Option<u16> {
    SUITES.iter().find(|s| s.0 == name).map(|s| s.2)
}

/// The numbers of all cipher suites, preferred ones first.
pub fn suite_ids() -> impl Iterator<Item = u16> {
    SUITES.iter().map(|s| s.2)
}

/// The IANA name of the cipher suite with this number.
pub fn suite_name(id: u16) -> Option<&'static str> {
    SUITES.iter().find(|s| s.2 == id).map(|s| s.0)
}

/// The number of the group with this IANA name.
pub fn group_id(name: &str) -> Option<u16> {
    GROUPS.iter().find(|g| g.0 == name).map(|g| g.2)
}
