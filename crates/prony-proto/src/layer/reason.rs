//! Why TLS failed on a connection: a sentence for the report. The same cause gives the same
//! sentence, so that they can be counted.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// The maximum length of a sentence, in bytes: names in certificates come from the peer.
const LENGTH_MAX: usize = 160;

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    text: String,
    is_alert: bool,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TlsError {
    /// The reason as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the peer has reported it by an alert.
    pub fn is_alert(&self) -> bool {
        self.is_alert
    }

    fn plain(text: &str) -> Self {
        Self { text: text.into(), is_alert: false }
    }

    /// The peer closed its side during the handshake.
    pub fn cut_off() -> Self {
        Self::plain("the server closed the connection during the handshake")
    }

    /// The connection was reset during the handshake.
    pub fn broken() -> Self {
        Self::plain("the connection was reset during the handshake")
    }

    /// The handshake took too long.
    pub fn timed_out() -> Self {
        Self::plain("the handshake was not complete within the timeout")
    }

    pub(super) fn endless() -> Self {
        Self::plain("the server sent a message that does not end")
    }

    pub(super) fn closed() -> Self {
        Self::plain("the connection is closed")
    }

    pub(super) fn keys_used_up() -> Self {
        Self::plain("the keys of the connection are used up")
    }

    pub(super) fn of(error: &Error) -> Self {
        let mut text = sentence(error);
        if text.len() > LENGTH_MAX {
            let end = (0..=LENGTH_MAX - 3).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            text.truncate(end);
            text.push_str("...");
        }
        Self { text, is_alert: matches!(error, Error::AlertReceived(_)) }
    }
}

fn sentence(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(e) => certificate(e),
        Error::AlertReceived(alert) => self::alert(*alert),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the server does not speak TLS on this port".into(),
        Error::PeerIncompatible(e) => incompatible(e),
        Error::PeerSentOversizedRecord | Error::InvalidMessage(InvalidMessage::MessageTooLarge) => {
            "the server sent a record that is longer than TLS allows".into()
        }
        Error::DecryptError => "the server sent a record that cannot be decrypted".into(),
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerMisbehaved(_) => format!("the server broke the rules of TLS: {error}"),
        Error::NoCertificatesPresented => "the server presented no certificate".into(),
        other => format!("TLS failed: {other}"),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "the server's certificate has an unknown issuer; trust the issuer with --cacert \
             FILE, or use -k"
                .into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet".into()
        }
        CertificateError::NotValidForName => "the server's certificate is for another name".into(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            if presented.is_empty() {
                return format!("the server's certificate has no name at all, expected {expected}");
            }
            let names: Vec<String> = presented.iter().take(3).map(|n| bare(n)).collect();
            let more = if presented.len() > 3 { " and more" } else { "" };
            format!("the server's certificate is for {}{more}, not {expected}", names.join(", "))
        }
        CertificateError::BadSignature => {
            "the server's certificate or its handshake has an invalid signature".into()
        }
        CertificateError::Revoked => "the server's certificate is revoked".into(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the server's certificate is not issued for servers".into()
        }
        // The default of openssl: a self-signed certificate with CA:TRUE.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server shows an authority's certificate (CA:TRUE) as its own; trust it with \
             --cacert FILE, make one with CA:FALSE, or use -k"
                .into()
        }
        other => format!("the server's certificate is refused: {other}"),
    }
}

/// The name in `DnsName("h")` or `IpAddress(1.2.3.4)`.
fn bare(presented: &str) -> String {
    let inner = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(presented).trim_matches('"').escape_debug().to_string()
}

fn alert(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::HandshakeFailure => {
            "handshake_failure: it accepts none of the suites, curves or signatures offered"
        }
        AlertDescription::ProtocolVersion => "protocol_version: it does not support this version",
        AlertDescription::CertificateRequired => {
            "certificate_required: it requires a client certificate (--cert and --key)"
        }
        AlertDescription::UnknownCA => "unknown_ca: it does not trust the client's certificate",
        AlertDescription::BadCertificate => "bad_certificate: it refuses the client's certificate",
        AlertDescription::CertificateExpired => {
            "certificate_expired: the client's certificate has expired"
        }
        AlertDescription::UnrecognisedName => "unrecognized_name: it has no such name (--sni)",
        AlertDescription::NoApplicationProtocol => {
            "no_application_protocol: it supports none of those offered (--alpn)"
        }
        AlertDescription::InternalError => "internal_error",
        other => return format!("the server sent an alert: {other:?}"),
    };
    format!("the server sent the alert {why}")
}

fn incompatible(error: &PeerIncompatible) -> String {
    match error {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired => {
            "the server does not speak the requested version of TLS".into()
        }
        PeerIncompatible::NoCipherSuitesInCommon => {
            "the server accepts none of the cipher suites".into()
        }
        other => format!("the server's TLS is incompatible: {other:?}"),
    }
}
