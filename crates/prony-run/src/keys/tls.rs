//! The keys of TLS, but for files and names of servers.

use prony_plan::plan::{Resume, TlsSpec, TlsVersion};

use super::{Key, Keyed, Names};
use crate::values;

type Row = Key<TlsSpec>;

impl Keyed for TlsSpec {
    const KEYS: &'static [Row] = &[
        Row::word(
            "--tls",
            "VERSION",
            "Use only this TLS version: 1.2 or 1.3 [default: the highest both sides support]",
            &[
                ("1.2", |spec| spec.version = Some(TlsVersion::Tls12)),
                ("1.3", |spec| spec.version = Some(TlsVersion::Tls13)),
            ],
        )
        .key("version"),
        Row::names(
            "--ciphers",
            "Cipher suites, by their IANA or OpenSSL names [default: all]",
            Names {
                what: "cipher suites",
                none: "",
                parse: |text| Self::parse_suites(text).map_err(|e| e.to_string()),
                field: |spec| &mut spec.suites,
            },
        )
        .more("Separate several with commas or colons, in order of preference."),
        Row::names(
            "--groups",
            "Key exchange groups: x25519, P-256, X25519MLKEM768 and others [default: x25519 first]",
            Names {
                what: "key exchange groups",
                none: "",
                parse: |text| Self::parse_groups(text).map_err(|e| e.to_string()),
                field: |spec| &mut spec.groups,
            },
        )
        .alias("curves")
        .more(
            "Separate several with commas or colons. The client sends a key share for the first; \
             a server that chooses another one costs a round trip.",
        ),
        Row::names(
            "--alpn",
            "Application protocols to offer (ALPN), or `none` [default: http/1.1]",
            Names {
                what: "protocols",
                none: "none",
                parse: values::alpn,
                field: |spec| &mut spec.alpn,
            },
        ),
        Row::word(
            "--tls-resume",
            "HOW",
            "Resume TLS sessions: on, off, session [default: on]",
            &[
                ("on", |spec| spec.resume = Resume::On),
                ("off", |spec| spec.resume = Resume::Off),
                ("session", |spec| spec.resume = Resume::Session),
            ],
        )
        .key("resume")
        .more(
            "session: resume only within one session of the plan. In a plan without sessions: \
             only within one user of a closed loop, or one connection slot of an open loop.",
        ),
    ];
}
