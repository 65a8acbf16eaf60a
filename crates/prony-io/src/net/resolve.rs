//! Name resolution, before the run.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use prony_plan::target::{Carrier, Endpoint};

use crate::error::SetupError;
use crate::net::socket::{Mode, Remote};

/// Which addresses of a name to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// All, in the order of the resolver.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// The name of a host, or its address if it has no name. May query a name server, and block.
pub fn name_of(host: IpAddr) -> String {
    let addr = socket2::SockAddr::from(SocketAddr::new(host, 0));
    let mut name = [0_u8; 1025];
    // SAFETY: the address is readable for its length, and the name is writable for the given
    // length.
    let result = unsafe {
        libc::getnameinfo(
            addr.as_ptr().cast(),
            addr.len(),
            name.as_mut_ptr().cast(),
            name.len() as libc::socklen_t,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    let text = std::ffi::CStr::from_bytes_until_nul(&name).ok().filter(|_| result == 0);
    text.map_or_else(|| host.to_string(), |name| name.to_string_lossy().into_owned())
}

/// The address to connect to in place of the URL's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTo {
    /// A name or address, without brackets.
    pub host: String,
    /// A port; `None` = the URL's.
    pub port: Option<u16>,
}

/// `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`. A bare IPv6 address is one host.
impl FromStr for ConnectTo {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (host, port) = if let Some(rest) = s.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or("the closing ']' is missing")?;
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err("after ']' only ':PORT' is allowed".into()),
            }
        } else if s.parse::<IpAddr>().is_ok() {
            (s, None)
        } else {
            match s.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (s, None),
            }
        };
        if host.is_empty() || host.contains(['/', ' ']) {
            return Err("it must be HOST, HOST:PORT or [IPV6]:PORT".into());
        }
        let port = port
            .map(|p| p.parse::<u16>().ok().filter(|&p| p > 0))
            .map(|p| p.ok_or("the port must be a number from 1 to 65535"))
            .transpose()?;
        Ok(Self { host: host.into(), port })
    }
}

/// Resolves endpoints to addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resolver<'a> {
    pub(crate) family: Family,
    pub(crate) connect_to: Option<&'a ConnectTo>,
    pub(crate) unix_socket: Option<&'a PathBuf>,
    pub(crate) sources: &'a [IpAddr],
}

impl Resolver<'_> {
    /// The addresses of an endpoint, in the order in which they are tried; at least one.
    pub(crate) fn resolve(&self, endpoint: &Endpoint) -> Result<Vec<Remote>, SetupError> {
        if let Some(path) = self.unix_socket {
            return unix(path.clone());
        }
        let (host, port) = match endpoint {
            Endpoint::Unix { path } => return unix(path.into()),
            Endpoint::Tcp { host, port } => (host.as_str(), *port),
            Endpoint::Tls { over, .. } => return self.resolve(over),
            Endpoint::UnixSeqpacket { path } => {
                return unix(path.into())
                    .map(|all| all.into_iter().map(Remote::seqpacket).collect());
            }
            Endpoint::Inet {
                over: over @ (Carrier::Sctp | Carrier::SctpSeqpacket),
                host,
                port,
            } => {
                return self.paths(*over, host, *port);
            }
            Endpoint::Inet { over, host, port } => {
                let all = self.inet(host, *port)?;
                return Ok(all.into_iter().map(|to| to.over(*over)).collect());
            }
        };
        match self.connect_to {
            Some(to) => self.inet(&to.host, to.port.unwrap_or(port)),
            None => self.inet(host, port),
        }
    }

    /// All addresses of a host, or of several separated by commas: one association uses all those
    /// of the first one's family.
    fn paths(&self, over: Carrier, hosts: &str, port: u16) -> Result<Vec<Remote>, SetupError> {
        let mut all: Vec<Remote> = Vec::new();
        for host in hosts.split(',') {
            all.extend(self.inet(host, port)?.into_iter().map(|to| to.over(over)));
        }
        let family = |to: &Remote| to.as_inet().map(|a| a.is_ipv4());
        let first = all.first().and_then(family);
        all.retain(|to| family(to) == first);
        Ok(Remote::with_paths(all).into_iter().collect())
    }

    fn inet(&self, host: &str, port: u16) -> Result<Vec<Remote>, SetupError> {
        let all = (host, port)
            .to_socket_addrs()
            .map_err(|error| SetupError::Resolve { host: host.into(), error: plain(&error) })?;
        // The resolver may return an address once per socket type.
        let mut fit: Vec<SocketAddr> = Vec::new();
        for a in all {
            let family = match self.family {
                Family::Any => true,
                Family::V4 => a.is_ipv4(),
                Family::V6 => a.is_ipv6(),
            };
            if family && !fit.contains(&a) {
                fit.push(a);
            }
        }
        if fit.is_empty() {
            let family = if self.family == Family::V6 { "IPv6" } else { "IPv4" };
            return Err(SetupError::NoAddress { host: host.into(), family });
        }
        if !self.sources.is_empty() {
            fit.retain(|a| self.sources.iter().any(|s| s.is_ipv4() == a.is_ipv4()));
            if fit.is_empty() {
                return Err(SetupError::SourceFamily { host: host.into() });
            }
        }
        Ok(fit.into_iter().map(Remote::inet).collect())
    }
}

fn unix(path: PathBuf) -> Result<Vec<Remote>, SetupError> {
    let remote = Remote::unix(&path).map_err(|_| SetupError::UnixPath { path })?;
    Ok(vec![remote])
}

/// The resolver's message without the prefix that std adds.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).into()
}

/// Check that connections can use these source addresses.
pub(crate) fn check_sources(sources: &[IpAddr]) -> Result<(), SetupError> {
    for &source_addr in sources {
        let to = match source_addr {
            IpAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], 1)),
            IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::LOCALHOST, 1)),
        };
        Remote::inet(to).socket(Some(source_addr), Mode::NonBlocking).map_err(|e| {
            SetupError::Source { source_addr, error: io::Error::from_raw_os_error(e) }
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port: 80 }
    }

    fn names(r: &Resolver<'_>, e: &Endpoint) -> Vec<String> {
        r.resolve(e).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn connect_to_parses_hosts_ports_and_brackets() {
        let parse = |s: &str| s.parse::<ConnectTo>().map(|c| (c.host, c.port));
        assert_eq!(parse("a.example"), Ok(("a.example".into(), None)));
        assert_eq!(parse("a.example:81"), Ok(("a.example".into(), Some(81))));
        assert_eq!(parse("127.0.0.1:81"), Ok(("127.0.0.1".into(), Some(81))));
        assert_eq!(parse("::1"), Ok(("::1".into(), None)));
        assert_eq!(parse("[::1]:81"), Ok(("::1".into(), Some(81))));
        assert_eq!(parse("[::1]"), Ok(("::1".into(), None)));
        for bad in ["", ":80", "a:0", "a:65536", "a:b", "[::1", "[::1]x", "http://a"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn overrides_replace_the_urls_host() {
        let to: ConnectTo = "127.0.0.9".parse().unwrap();
        let r = Resolver { connect_to: Some(&to), ..Resolver::default() };
        assert_eq!(names(&r, &tcp("does-not-exist.invalid")), ["127.0.0.9:80"]);
        let path = PathBuf::from("/tmp/x.sock");
        let r = Resolver { unix_socket: Some(&path), ..Resolver::default() };
        assert_eq!(names(&r, &tcp("does-not-exist.invalid")), ["/tmp/x.sock"]);
    }

    #[test]
    fn family_and_sources_select_addresses() {
        let v6 = Resolver { family: Family::V6, ..Resolver::default() };
        assert!(matches!(
            v6.resolve(&tcp("127.0.0.1")),
            Err(SetupError::NoAddress { family: "IPv6", .. })
        ));
        let sources = ["127.0.0.2".parse().unwrap()];
        let r = Resolver { sources: &sources, ..Resolver::default() };
        assert_eq!(names(&r, &tcp("127.0.0.1")), ["127.0.0.1:80"]);
        assert!(matches!(r.resolve(&tcp("::1")), Err(SetupError::SourceFamily { .. })));
    }

    #[test]
    fn rejects_unknown_names_and_long_paths() {
        let r = Resolver::default();
        let e = r.resolve(&tcp("does-not-exist.invalid")).unwrap_err().to_string();
        assert!(e.starts_with("host does-not-exist.invalid does not resolve: "), "{e}");
        let long = Endpoint::Unix { path: "x".repeat(200) };
        assert!(matches!(r.resolve(&long), Err(SetupError::UnixPath { .. })));
    }
}
