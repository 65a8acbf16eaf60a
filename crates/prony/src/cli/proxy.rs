//! Options of a proxy.

use clap::Args;
use prony_base::secret;
use prony_plan::plan::{ProxySpec, Secret};
use prony_run::error::Error;

use super::{CONNECTION, values};

/// Options of a proxy.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct ProxyArgs {
    /// Send requests through this HTTP proxy: a URL, or a host and a port
    ///
    /// The proxy gets http:// requests with their whole URL, and opens a tunnel (CONNECT) for
    /// https://, for WebSocket and for HTTP/2. The URL may have a name and a password. Without a
    /// port, the port is 1080. prony uses no proxy from environment variables.
    #[arg(
        short = 'x', long, value_name = "URL", help_heading = CONNECTION,
        conflicts_with_all = ["connect_to", "unix_socket"],
    )]
    pub proxy: Option<String>,
    /// Name and password for the proxy, or @FILE
    ///
    /// The file contains one line, NAME:PASS. @- reads standard input.
    #[arg(
        short = 'U', long, value_name = "NAME:PASS", help_heading = CONNECTION,
        value_parser = values::user, requires = "proxy",
    )]
    pub proxy_user: Option<Secret>,
    /// Open a tunnel through the proxy for http:// requests, too
    #[arg(long, help_heading = CONNECTION, requires = "proxy")]
    pub proxytunnel: bool,
}

impl ProxyArgs {
    /// The proxy. `tunnel`: whether requests without TLS need a tunnel, too.
    pub(super) fn spec(&self, tunnel: bool) -> Result<Option<Box<ProxySpec>>, Error> {
        let Some(text) = &self.proxy else { return Ok(None) };
        let mut spec = ProxySpec::parse(text).map_err(|why| {
            let value = secret::shown_url(text);
            Error::Value { what: "--proxy", value, why }
        })?;
        if let Some(user) = values::user_of("--proxy-user", self.proxy_user.as_ref())? {
            spec.authorization = Some(ProxySpec::basic(user.expose()).map_err(Error::Argument)?);
        }
        spec.tunnel = self.proxytunnel || tunnel;
        Ok(Some(Box::new(spec)))
    }
}
