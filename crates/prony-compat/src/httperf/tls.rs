//! httperf's TLS options.

use std::fs;
use std::path::Path;

use prony_plan::plan::{Resume, TlsSpec, TlsVersion};
use prony_run::files;

use super::options::Opts;
use super::values::Refusal;
use crate::plan;

/// The TLS settings of the plan; `None` without `--ssl`.
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
                "--ssl-protocol {old} is not supported; use TLSv1.2, TLSv1.3 or auto"
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
        key: text(&ssl.key, "--ssl-key")?.map(Into::into),
        version,
        suites: ssl.ciphers.as_deref().map(suites).transpose()?.unwrap_or_default(),
        groups: Vec::new(),
        alpn: Vec::new(),
        resume: if ssl.no_reuse { Resume::Off } else { Resume::Session },
    })))
}

fn read(file: &Path, option: &str) -> Result<String, Refusal> {
    let failed = |e| Refusal::new(format!("{option} {}: {e}", file.display()));
    files::bounded_text(file).map_err(failed)
}

/// All certificates (PEM) in a directory.
fn certificates(folder: &Path) -> Result<String, Refusal> {
    let failed = |e| Refusal::new(format!("--ssl-ca-path {}: {e}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.sort();
    let texts = files.iter().filter(|f| f.is_file()).filter_map(|f| files::bounded_text(f).ok());
    Ok(texts.filter(|text| text.contains("BEGIN CERTIFICATE")).collect())
}

fn suites(list: &str) -> Result<Vec<String>, Refusal> {
    plan::suites(list).map_err(|why| Refusal::new(format!("--ssl-ciphers {list}: {why}")))
}
