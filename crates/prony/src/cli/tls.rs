//! TLS options, and the part of a plan that they produce.

use std::path::{Path, PathBuf};

use clap::Args;
use prony_core::layer::{Identity, check_certificates, check_key};
use prony_core::plan::{Resume, TlsSpec, TlsVersion};
use prony_core::target::Endpoint;

use prony_run::error::Error;
use prony_run::files::read_text;
use prony_run::values;

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
    /// Use only this TLS version: 1.2 or 1.3 [default: the highest both sides support]
    #[arg(long, value_name = "VERSION", help_heading = TLS, value_parser = version)]
    pub tls: Option<TlsVersion>,
    /// Cipher suites, by their IANA or OpenSSL names [default: all]
    ///
    /// Separate several with commas or colons, in order of preference.
    #[arg(long, value_name = "LIST", help_heading = TLS, value_parser = suites)]
    pub ciphers: Option<Names>,
    /// Key exchange groups: x25519, P-256, X25519MLKEM768 and others [default: x25519 first]
    ///
    /// Separate several with commas or colons. The client sends a key share for the first; a server
    /// that chooses another one costs a round trip.
    #[arg(long, visible_alias = "curves", value_name = "LIST", help_heading = TLS, value_parser = groups)]
    pub groups: Option<Names>,
    /// Application protocols to offer (ALPN), or `none` [default: http/1.1]
    #[arg(long, value_name = "LIST", help_heading = TLS, value_parser = alpn)]
    pub alpn: Option<Alpn>,
    /// Resume TLS sessions: on, off, session [default: on]
    ///
    /// session: resume only within one session of the plan. In a plan without sessions: only within
    /// one user of a closed loop, or one connection slot of an open loop.
    #[arg(long, value_name = "HOW", help_heading = TLS, value_parser = resume)]
    pub tls_resume: Option<Resume>,
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

/// Cipher suites or key exchange groups, by their IANA names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

/// Application protocols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alpn(pub Vec<String>);

/// The TLS part of a plan; `None` if all options have their defaults.
pub(crate) fn spec(args: &TlsArgs) -> Result<Option<Box<TlsSpec>>, Error> {
    let ca = args.cacert.as_deref().map(|path| certificates("--cacert", path)).transpose()?;
    let (cert, key) = pair(args.cert.as_deref(), args.key.as_deref())?.unzip();
    let default = TlsSpec::default();
    let spec = TlsSpec {
        verify: !args.insecure,
        ca,
        cert,
        key: key.map(Into::into),
        version: args.tls,
        suites: args.ciphers.clone().map(|s| s.0).unwrap_or_default(),
        groups: args.groups.clone().map(|g| g.0).unwrap_or_default(),
        alpn: args.alpn.clone().map_or_else(|| default.alpn.clone(), |a| a.0),
        resume: args.tls_resume.unwrap_or_default(),
    };
    Ok((spec != default).then(|| Box::new(spec)))
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
        (args.tls.is_some(), "--tls"),
        (args.ciphers.is_some(), "--ciphers"),
        (args.groups.is_some(), "--groups"),
        (args.alpn.is_some(), "--alpn"),
        (args.tls_resume.is_some(), "--tls-resume"),
    ];
    match given.into_iter().find(|(is_given, _)| *is_given && !secured) {
        Some((_, option)) => Err(Error::Needs(option, needed, "no target uses TLS")),
        None => Ok(secured),
    }
}

fn unusable(what: &'static str, path: &Path, why: String) -> Error {
    Error::Value { what, value: path.display().to_string(), why }
}

fn version(text: &str) -> Result<TlsVersion, String> {
    text.parse::<TlsVersion>().map_err(|e| e.to_string())
}

fn resume(text: &str) -> Result<Resume, String> {
    text.parse::<Resume>().map_err(|e| e.to_string())
}

fn suites(text: &str) -> Result<Names, String> {
    TlsSpec::parse_suites(text).map(Names).map_err(|e| e.to_string())
}

fn groups(text: &str) -> Result<Names, String> {
    TlsSpec::parse_groups(text).map(Names).map_err(|e| e.to_string())
}

fn alpn(text: &str) -> Result<Alpn, String> {
    values::alpn(text).map(Alpn)
}
