//! URLs, parsed but not normalized: the path is sent exactly as given.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::Endpoint;
use prony_base::secret::{Secret, quoted_url};
use prony_base::units::ParseError;

/// A URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether the connection uses TLS (`https`, `grpcs`, `wss`).
    pub tls: bool,
    /// Name or address, without brackets; an IPv6 address may have a zone (`fe80::1%eth0`).
    pub host: String,
    /// Port; 80 by default, or 443 with TLS.
    pub port: u16,
    /// Path and query, verbatim; `/` by default.
    pub path: String,
    /// User name and password (may be empty) before the host, percent-decoded.
    pub user: Option<(String, Secret)>,
    /// What its scheme says about the requests.
    pub kind: UrlKind,
}

/// What the scheme of a URL says about the requests to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UrlKind {
    /// They are requests of HTTP (`http`, `https`).
    #[default]
    Http,
    /// They are calls of gRPC (`grpc`, `grpcs`).
    Grpc,
    /// They open connections of WebSocket (`ws`, `wss`).
    WebSocket,
}

impl Url {
    /// Parse `http://[user[:password]@]host[:port][/path][?query]`, or the same with `https`, `grpc`,
    /// `grpcs`, `ws` or `wss`. The default scheme is `http`.
    ///
    /// # Errors
    /// Other schemes, no host, a bad port, spaces and control characters, and fragments, which are
    /// never sent.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse(text).map_err(|why| {
            ParseError::new(format!("'{}' is not a URL to load: {why}", quoted_url(text)))
        })
    }

    /// The same without the schemes of gRPC and WebSocket, for front ends that speak only HTTP.
    ///
    /// # Errors
    /// The same.
    pub fn parse_http(text: &str) -> Result<Self, ParseError> {
        let url = Self::parse(text)?;
        let why = match url.kind {
            UrlKind::Http => return Ok(url),
            UrlKind::Grpc => "it is for calls of gRPC; use http:// or https://",
            UrlKind::WebSocket => "it is for WebSocket; use http:// or https://",
        };
        Err(ParseError::new(format!("'{}' is not a URL to load: {why}", quoted_url(text))))
    }

    /// The endpoint to connect to.
    pub fn endpoint(&self) -> Endpoint {
        let tcp = Endpoint::Tcp { host: self.host.clone(), port: self.port };
        if self.tls { tcp.secured(&self.host) } else { tcp }
    }

    fn default_port(&self) -> u16 {
        default_port(self.tls)
    }

    /// The Host header's value: the host (IPv6 in brackets and without zone), and the port unless
    /// it is the scheme's own.
    pub fn authority(&self) -> String {
        let host = match self.host.split_once('%') {
            Some((address, _)) => address,
            None => &self.host,
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        if self.port == self.default_port() { host } else { format!("{host}:{}", self.port) }
    }
}

impl FromStr for Url {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

/// The URL without user and password, which reports must not show.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.kind, self.tls) {
            (UrlKind::Http, false) => "http",
            (UrlKind::Http, true) => "https",
            (UrlKind::Grpc, false) => "grpc",
            (UrlKind::Grpc, true) => "grpcs",
            (UrlKind::WebSocket, false) => "ws",
            (UrlKind::WebSocket, true) => "wss",
        };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]", self.host)?;
        } else {
            write!(f, "{scheme}://{}", self.host)?;
        }
        if self.port != self.default_port() {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path)
    }
}

fn parse(text: &str) -> Result<Url, String> {
    if text.is_empty() {
        return Err("it is empty; write http://host:port/path".into());
    }
    if let Some((at, c)) = text.char_indices().find(|&(_, c)| c.is_ascii_control() || c == ' ') {
        return Err(format!(
            "it contains {c:?} at character {}; write it as %{:02X}",
            text[..at].chars().count() + 1,
            c as u32
        ));
    }
    let (tls, kind, rest) = strip_scheme(text)?;
    if rest.contains('#') {
        return Err("a fragment ('#...') is never sent; omit it, or write '#' as %23".into());
    }
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let (user, host_port) = match authority.rsplit_once('@') {
        Some((user, host_port)) => (Some(parse_user(user)?), host_port),
        None => (None, authority),
    };
    let (host, port) = parse_host_port(host_port)?;
    let port = port.unwrap_or_else(|| default_port(tls));
    let path = match path {
        "" => "/".into(),
        query if query.starts_with('?') => format!("/{query}"),
        path => path.into(),
    };
    Ok(Url { tls, host, port, path, user, kind })
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// Whether the scheme has TLS, its kind, and the text after it.
fn strip_scheme(text: &str) -> Result<(bool, UrlKind, &str), String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok((false, UrlKind::Http, text));
    };
    if !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        // The '://' belongs to a path or query.
        return Ok((false, UrlKind::Http, text));
    }
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok((false, UrlKind::Http, rest)),
        "https" => Ok((true, UrlKind::Http, rest)),
        "grpc" => Ok((false, UrlKind::Grpc, rest)),
        "grpcs" => Ok((true, UrlKind::Grpc, rest)),
        "ws" => Ok((false, UrlKind::WebSocket, rest)),
        "wss" => Ok((true, UrlKind::WebSocket, rest)),
        _ => Err(format!("the scheme '{scheme}' is not supported; use http:// or https://")),
    }
}

fn parse_host_port(text: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((host, port)) = rest.split_once(']') else {
            return Err("the ']' after its IPv6 address is missing".into());
        };
        (parse_ipv6(host)?, port)
    } else {
        let at = text.find(':').unwrap_or(text.len());
        let (host, port) = text.split_at(at);
        if port.matches(':').count() > 1 {
            return Err("an IPv6 address needs brackets, as in http://[::1]:8080/".into());
        }
        check_host(host)?;
        (host.to_owned(), port)
    };
    let number = match port.strip_prefix(':') {
        None if port.is_empty() => return Ok((host, None)),
        None => return Err(format!("'{port}' stands between host and path")),
        Some("") => return Err("the port after ':' is missing".into()),
        Some(number) => number,
    };
    let is_number = number.bytes().all(|b| b.is_ascii_digit());
    match number.parse() {
        Ok(port) if is_number && port != 0 => Ok((host, Some(port))),
        // Anything else may be a password in front of an unescaped '/'.
        _ if is_number && number.len() <= 5 => {
            Err(format!("'{number}' is not a port; ports are numbers from 1 to 65535"))
        }
        _ => Err("the port after ':' is not a number from 1 to 65535".into()),
    }
}

/// An address, or address and zone. A zone's `%`, which a URL may encode as `%25`, becomes `%`.
fn parse_ipv6(text: &str) -> Result<String, String> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone.strip_prefix("25").unwrap_or(zone))),
        None => (text, None),
    };
    if address.parse::<Ipv6Addr>().is_err() {
        return Err(format!("'{address}' is not an IPv6 address"));
    }
    match zone {
        None => Ok(address.into()),
        Some(zone) if is_name(zone) => Ok(format!("{address}%{zone}")),
        Some(zone) => Err(format!("'{zone}' is not the name of a network interface")),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("its host is missing; write http://host:port/path".into());
    }
    if !host.is_ascii() {
        return Err("write its host in its ASCII form (xn--...)".into());
    }
    match host.chars().find(|&c| !is_name_char(c)) {
        Some(c) => Err(format!("its host contains '{c}'")),
        None => Ok(()),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_name_char)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~".contains(c)
}

fn parse_user(text: &str) -> Result<(String, Secret), String> {
    let (name, password) = text.split_once(':').unwrap_or((text, ""));
    Ok((percent_decode(name)?, percent_decode(password)?.into()))
}

fn percent_decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|d| u8::from_str_radix(d, 16).ok())
            .ok_or("a '%' in user or password needs two hex digits; write '%' itself as %25")?;
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| "user and password must be UTF-8".into())
}
