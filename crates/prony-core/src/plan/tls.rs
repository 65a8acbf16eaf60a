//! How connections are secured.

use serde::{Deserialize, Serialize};

/// What the client asks of TLS, for all endpoints that are secured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsSpec {
    /// Whether the server's certificate and name are verified.
    pub verify: bool,
    /// Certificates (PEM) that are trusted instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The client's own certificate and those between it and its root (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// The key of that certificate (PEM). A secret: reports do not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The one version that is spoken; `None`: the higher that both sides know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<TlsVersion>,
    /// The cipher suites that may be used, by the names of IANA, in order of preference; empty: all
    /// that there are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<String>,
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

/// Whether a connection takes up the TLS session of one before it, which saves the server and the
/// client most of the handshake's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resume {
    /// Of any connection of the same worker to the same server.
    #[default]
    On,
    /// Never: every handshake is a full one.
    Off,
    /// Only of a connection of the same user session; where the plan has no sessions, only of the
    /// connection before it in the same place.
    Session,
}
