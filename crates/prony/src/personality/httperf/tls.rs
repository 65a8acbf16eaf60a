//! What httperf's TLS options mean.

use std::fs;
use std::path::Path;

use prony_core::plan::{Resume, TlsSpec, TlsVersion};

use super::options::Opts;
use super::values::Refusal;

/// What TLS is asked for, where it is on.
pub(super) fn spec(o: &Opts) -> Result<Option<Box<TlsSpec>>, Refusal> {
    let ssl = &o.ssl;
    if !ssl.on {
        return Ok(None);
    }
    let version = match ssl.protocol {
        None | Some("auto") => None,
        Some("TLSv1.2") => Some(TlsVersion::Tls12),
        Some("TLSv1.3") => Some(TlsVersion::Tls13),
        Some(old) => {
            return Err(Refusal::new(format!(
                "--ssl-protocol {old}: no longer spoken; take TLSv1.2, TLSv1.3 or auto"
            )));
        }
    };
    let text = |file: &Option<_>, what| file.as_deref().map(|f| read(f, what)).transpose();
    let mut ca = text(&ssl.ca_file, "--ssl-ca-file")?;
    if let Some(folder) = &ssl.ca_path {
        ca.get_or_insert_default().push_str(&certificates(folder)?);
    }
    Ok(Some(Box::new(TlsSpec {
        verify: ssl.verify,
        ca,
        cert: text(&ssl.certificate, "--ssl-certificate")?,
        key: text(&ssl.key, "--ssl-key")?,
        version,
        suites: ssl.ciphers.as_deref().map(suites).transpose()?.unwrap_or_default(),
        alpn: Vec::new(),
        resume: if ssl.no_reuse { Resume::Off } else { Resume::Session },
    })))
}

fn read(file: &Path, option: &str) -> Result<String, Refusal> {
    let failed = |e| Refusal::new(format!("{option} {}: {e}", file.display()));
    fs::read_to_string(file).map_err(failed)
}

/// All certificates (PEM) in a folder.
fn certificates(folder: &Path) -> Result<String, Refusal> {
    let failed = |e| Refusal::new(format!("--ssl-ca-path {}: {e}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.sort();
    let texts = files.iter().filter(|f| f.is_file()).filter_map(|f| fs::read_to_string(f).ok());
    Ok(texts.filter(|text| text.contains("BEGIN CERTIFICATE")).collect())
}

/// The suites of OpenSSL's names that are still spoken, by the names of IANA.
fn suites(list: &str) -> Result<Vec<String>, Refusal> {
    const KNOWN: [(&str, &str); 9] = [
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ];
    if list.split([':', ',', ' ']).any(|name| ["DEFAULT", "ALL", "HIGH"].contains(&name)) {
        return Ok(Vec::new());
    }
    let known = |name: &str| KNOWN.iter().find(|k| k.0 == name || k.1 == name).map(|k| k.1);
    let found: Vec<String> =
        list.split([':', ',', ' ']).filter_map(known).map(Into::into).collect();
    if found.is_empty() {
        let names: Vec<&str> = KNOWN.iter().map(|k| k.0).collect();
        return Err(Refusal::new(format!(
            "--ssl-ciphers {list}: none of them is spoken here; write some of {}",
            names.join(":")
        )));
    }
    Ok(found)
}
