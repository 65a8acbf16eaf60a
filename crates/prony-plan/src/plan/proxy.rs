//! The proxy between prony and the servers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use super::{HttpVersion, Plan};
use crate::target::Endpoint;
use prony_base::secret::Secret;

/// An HTTP proxy, through which all connections of a plan go. Requests to servers with TLS, and all
/// requests if `tunnel` is set, go through tunnels (RFC 9110, 9.3.6); others are sent to the proxy
/// with the whole URL (RFC 9112, 3.2.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxySpec {
    /// Its name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The value of `Proxy-Authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization: Option<Secret>,
    /// Whether requests without TLS go through tunnels, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tunnel: bool,
}

impl ProxySpec {
    /// The port of a proxy whose address has none, as in curl.
    pub const PORT: u16 = 1080;

    /// A proxy whose address is `[http://][USER:PASSWORD@]HOST[:PORT][/]`.
    ///
    /// # Errors
    /// What is wrong with the text, as the end of a sentence that names it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = match text.split_once("://") {
            None => text,
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) => {
                return Err(format!("prony knows HTTP proxies (http://), not {scheme}://"));
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, address) = match rest.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, rest),
        };
        let shape = "it must be [http://][USER:PASSWORD@]HOST[:PORT]";
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or("the closing ']' is missing")?;
                match port.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if port.is_empty() => (host, None),
                    None => return Err("after ']' only ':PORT' is allowed".into()),
                }
            }
            None => match address.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return Err("an IPv6 address must be in brackets".into());
                }
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            },
        };
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/?#@".contains(c);
        if host.is_empty() || host.contains(is_odd) {
            return Err(shape.into());
        }
        let port = match port {
            None => Self::PORT,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port > 0)
                .ok_or("the port must be a number from 1 to 65535")?,
        };
        let authorization = user.map(Self::basic).transpose()?;
        Ok(Self { host: host.into(), port, authorization, tunnel: false })
    }

    /// The authorization of a user, given as `NAME:PASSWORD` (RFC 7617).
    ///
    /// # Errors
    /// There is no colon.
    pub fn basic(user: &str) -> Result<Secret, String> {
        if !user.contains(':') {
            return Err("the user of the proxy must be NAME:PASSWORD".into());
        }
        Ok(format!("Basic {}", BASE64.encode(user)).into())
    }

    /// The address of the proxy.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::Tcp { host: self.host.clone(), port: self.port }
    }

    /// Its address as text: `HOST:PORT`.
    pub fn address(&self) -> String {
        authority(&self.host, self.port)
    }
}

/// A host and a port as in a URL, with brackets around an IPv6 address.
fn authority(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

impl Plan {
    /// The server to which the proxy opens a tunnel, as `HOST:PORT`, if connections to this
    /// endpoint go through one.
    pub fn tunnel_to(&self, endpoint: u32) -> Option<String> {
        let proxy = self.proxy.as_deref()?;
        let endpoint = &self.endpoints[endpoint as usize];
        if !proxy.tunnel && endpoint.tls_name().is_none() {
            return None;
        }
        match endpoint.transport() {
            Endpoint::Tcp { host, port } => Some(authority(host, *port)),
            _ => None,
        }
    }

    /// The server as in URLs to which the proxy forwards the requests to this endpoint, if it gets
    /// them with their whole URL.
    pub fn forwarded_to(&self, endpoint: u32) -> Option<String> {
        self.proxy.as_deref().filter(|proxy| !proxy.tunnel)?;
        match &self.endpoints[endpoint as usize] {
            Endpoint::Tcp { host, port: 80 } if host.contains(':') => Some(format!("[{host}]")),
            Endpoint::Tcp { host, port: 80 } => Some(host.clone()),
            Endpoint::Tcp { host, port } => Some(authority(host, *port)),
            _ => None,
        }
    }

    /// Check what concerns the proxy.
    ///
    /// # Errors
    /// One sentence about the first defect.
    pub(crate) fn check_proxy(&self) -> Result<(), String> {
        let Some(proxy) = self.proxy.as_deref() else { return Ok(()) };
        if self.exchange.is_some() {
            return Err("round trips do not go through a proxy; leave out --proxy".into());
        }
        if proxy.host.is_empty() || proxy.port == 0 {
            return Err("the proxy needs a host and a port from 1 to 65535".into());
        }
        let is_tcp = |e: &Endpoint| matches!(e.transport(), Endpoint::Tcp { .. });
        if !self.endpoints.iter().all(is_tcp) {
            return Err("a proxy reaches servers over TCP alone; leave out --proxy ([proxy]) or \
                        the Unix domain socket"
                .into());
        }
        let is_forwarded = (0..self.endpoints.len() as u32).any(|e| self.forwarded_to(e).is_some());
        let is_websocket = self.websocket.is_some() || self.has_sockets();
        if is_forwarded && (self.http.is_http2() || is_websocket) {
            let what = if is_websocket { "WebSocket" } else { "HTTP/2" };
            debug_assert!(self.http != HttpVersion::Http10);
            return Err(format!(
                "{what} without TLS needs a tunnel through the proxy: add --proxytunnel \
                 (`tunnel = true` in [proxy])"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, u16, Option<String>) {
        let spec = ProxySpec::parse(text).expect(text);
        let authorization = spec.authorization.map(|secret| secret.expose().to_owned());
        (spec.host, spec.port, authorization)
    }

    #[test]
    fn reads_addresses_of_proxies() {
        assert_eq!(parsed("p"), ("p".into(), 1080, None));
        assert_eq!(parsed("http://p:3128/"), ("p".into(), 3128, None));
        assert_eq!(parsed("HTTP://[::1]:8"), ("::1".into(), 8, None));
        let secret = Some("Basic YTpiQGM6ZA==".to_owned());
        assert_eq!(parsed("a:b@c:d@10.0.0.1:1"), ("10.0.0.1".into(), 1, secret));
        assert_eq!(ProxySpec::parse("[::1]").unwrap().address(), "[::1]:1080");
    }

    #[test]
    fn refuses_what_is_no_address_of_a_proxy() {
        let refused = [
            ("socks5://p", "prony knows HTTP proxies (http://), not socks5://"),
            ("https://p", "prony knows HTTP proxies (http://), not https://"),
            ("p:0", "the port must be a number from 1 to 65535"),
            ("p:x", "the port must be a number from 1 to 65535"),
            ("::1", "an IPv6 address must be in brackets"),
            ("[::1", "the closing ']' is missing"),
            ("[::1]x", "after ']' only ':PORT' is allowed"),
            ("", "it must be [http://][USER:PASSWORD@]HOST[:PORT]"),
            ("p/path:1", "it must be [http://][USER:PASSWORD@]HOST[:PORT]"),
            ("a@p:1", "the user of the proxy must be NAME:PASSWORD"),
        ];
        for (text, why) in refused {
            assert_eq!(ProxySpec::parse(text).unwrap_err(), why, "{text}");
        }
    }
}
