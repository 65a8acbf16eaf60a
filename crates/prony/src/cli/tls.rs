//! TLS options, and the part of a plan that they produce.

use std::path::{Path, PathBuf};

use clap::Args;
use prony_plan::plan::TlsSpec;
use prony_plan::target::Endpoint;
use prony_proto::layer::{Identity, check_certificates, check_key};
use prony_run::error::Error;
use prony_run::files::read_text;
use prony_run::keys::Keyed as _;

use super::keyed::{Given, Headed};

pub(super) const TLS: &str = "TLS";

/// TLS options of a client.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArgs {
    /// Do not verify the server's certificate
    #[arg(short = 'k', long, help_heading = TLS, conflicts_with = "cacert")]
    pub insecure: bool,
    /// CA certificates (PEM) to trust instead of the system's
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub cacert: Option<PathBuf>,
    /// Client certificate (PEM), with its chain
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate (PEM) [default: from the file of the certificate]
    #[arg(long, value_name = "FILE", help_heading = TLS, requires = "cert")]
    pub key: Option<PathBuf>,
    /// Server name to send (SNI) and to verify [default: the target's host]
    #[arg(long, value_name = "NAME", help_heading = TLS)]
    pub sni: Option<String>,
    /// The others.
    #[command(flatten)]
    pub(crate) keys: Given<TlsSpec>,
}

impl Headed for TlsSpec {
    const HEADING: &'static str = TLS;
}

/// TLS options of a server.
#[derive(Clone, Debug, Default, Args)]
pub struct IdentityArgs {
    /// Server certificate (PEM), with its chain [default: a new self-signed certificate]
    ///
    /// Clients accept the self-signed certificate with --insecure.
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate (PEM) [default: from the file of the certificate]
    #[arg(long, value_name = "FILE", help_heading = TLS, requires = "cert")]
    pub key: Option<PathBuf>,
}

/// The TLS part of a plan; `None` if all options have their defaults.
pub(crate) fn spec(args: &TlsArgs) -> Result<Option<Box<TlsSpec>>, Error> {
    let ca = args.cacert.as_deref().map(|path| certificates("--cacert", path)).transpose()?;
    let (cert, key) = pair(args.cert.as_deref(), args.key.as_deref())?.unzip();
    let keys = args.keys.part.clone();
    let key = key.map(Into::into);
    Ok(TlsSpec { verify: !args.insecure, ca, cert, key, ..keys }.boxed())
}

/// The certificate and key of a server on this host.
pub(crate) fn identity(args: &IdentityArgs, host: &str) -> Result<Identity, Error> {
    let Some((cert, key)) = pair(args.cert.as_deref(), args.key.as_deref())? else {
        return prony_run::tls::own_identity(host);
    };
    let path = args.cert.as_deref().unwrap_or_else(|| Path::new(""));
    Identity::new(&cert, &key).map_err(|why| unusable("--cert", path, why))
}

/// Reads certificate and key, which may be in the same file.
fn pair(cert: Option<&Path>, key: Option<&Path>) -> Result<Option<(String, String)>, Error> {
    let Some(path) = cert else { return Ok(None) };
    let (what, file) = key.map_or(("--cert", path), |key| ("--key", key));
    let text = read_text(what, file)?;
    let cert = certificates("--cert", path)?;
    check_key(&text).map_err(|why| {
        let hint = if key.is_none() { "; name its file with --key" } else { "" };
        unusable(what, file, why + hint)
    })?;
    Ok(Some((cert, text)))
}

fn certificates(what: &'static str, path: &Path) -> Result<String, Error> {
    let text = read_text(what, path)?;
    check_certificates(&text).map_err(|why| unusable(what, path, why))?;
    Ok(text)
}

/// Returns whether any endpoint uses TLS. Refuses TLS options if none does, and names what is
/// `needed`. `--insecure` is harmless without TLS, and so allowed.
pub(crate) fn check(
    args: &TlsArgs,
    endpoints: &[Endpoint],
    needed: &'static str,
) -> Result<bool, Error> {
    let secured = endpoints.iter().any(|e| e.tls_name().is_some());
    let given = [
        (args.cacert.is_some(), "--cacert"),
        (args.cert.is_some(), "--cert"),
        (args.sni.is_some(), "--sni"),
    ];
    let first = given.into_iter().find_map(|(is_given, option)| is_given.then_some(option));
    match first.or_else(|| args.keys.options.first().copied()) {
        Some(option) if !secured => Err(Error::Needs(option, needed, "no target uses TLS")),
        _ => Ok(secured),
    }
}

fn unusable(what: &'static str, path: &Path, why: String) -> Error {
    Error::Value { what, value: path.display().to_string(), why }
}
