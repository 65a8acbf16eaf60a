//! The transports of messages, and the addresses at which responders listen.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use prony_plan::target::{Carrier, Endpoint};
use prony_run::error::Error;

/// Help heading of the socket options.
pub const SOCKETS: &str = "Sockets";

/// The responder's default port, which is that of the ACE tests.
pub const PORT: u16 = 45_453;

/// The transport of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Transport {
    /// TCP
    Tcp,
    /// TLS over TCP
    Tls,
    /// UDP
    Udp,
    /// Multipath TCP
    Mptcp,
    /// SCTP, one-to-one sockets
    Sctp,
    /// SCTP, one-to-many sockets
    SctpSeqpacket,
    /// a Unix domain socket
    Unix,
    /// a Unix domain socket that preserves message boundaries
    UnixSeqpacket,
}

/// The address of the responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host and a port.
    Inet(String, u16),
    /// A path.
    Unix(PathBuf),
}

impl Transport {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Udp => "udp",
            Self::Mptcp => "mptcp",
            Self::Sctp => "sctp",
            Self::SctpSeqpacket => "sctp-seqpacket",
            Self::Unix => "unix",
            Self::UnixSeqpacket => "unix-seqpacket",
        }
    }

    /// Whether it is a Unix domain socket.
    pub fn is_local(self) -> bool {
        matches!(self, Self::Unix | Self::UnixSeqpacket)
    }

    /// The endpoint of this transport at that address.
    pub fn endpoint(self, place: &Place) -> Result<Endpoint, Error> {
        let wrong = |why: &str| Error::Value {
            what: "--transport",
            value: self.name().into(),
            why: why.into(),
        };
        let over = |over, host: &str, port| Endpoint::Inet { over, host: host.to_owned(), port };
        match (self, place) {
            (Self::Unix | Self::UnixSeqpacket, Place::Unix(path)) => {
                let path = path.display().to_string();
                Ok(match self {
                    Self::Unix => Endpoint::Unix { path },
                    _ => Endpoint::UnixSeqpacket { path },
                })
            }
            (_, Place::Unix(_)) => {
                Err(wrong("needs HOST:PORT; for unix:PATH use unix or unix-seqpacket"))
            }
            (Self::Unix | Self::UnixSeqpacket, _) => {
                Err(wrong("needs a path; write unix:PATH as the target"))
            }
            (Self::Tcp | Self::Tls | Self::Mptcp | Self::Udp, Place::Inet(host, _))
                if host.contains(',') =>
            {
                Err(wrong("connects to one address; only SCTP accepts several addresses of a host"))
            }
            (Self::Udp, Place::Inet(host, port)) => Ok(over(Carrier::Udp, host, *port)),
            (Self::Mptcp, Place::Inet(host, port)) => Ok(over(Carrier::Mptcp, host, *port)),
            (Self::Sctp, Place::Inet(host, port)) => Ok(over(Carrier::Sctp, host, *port)),
            (Self::SctpSeqpacket, Place::Inet(host, port)) => {
                Ok(over(Carrier::SctpSeqpacket, host, *port))
            }
            (_, Place::Inet(host, port)) => {
                let tcp = Endpoint::Tcp { host: host.clone(), port: *port };
                Ok(if self == Self::Tls { tcp.secured(host) } else { tcp })
            }
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Place {
    /// Parses `HOST:PORT`, `HOST`, `PORT`, `[V6]:PORT` or `unix:PATH`.
    pub fn parse(what: &'static str, text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::Value { what, value: text.to_owned(), why };
        if text.is_empty() {
            let forms = "write HOST, HOST:PORT, [IPV6]:PORT or unix:PATH";
            return Err(Error::Argument(format!("{what}: the address is empty; {forms}")));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(wrong("has no path; write unix:PATH".into()));
            }
            return Ok(Self::Unix(path.into()));
        }
        if text.contains("://") {
            return Err(wrong("is a URL; write HOST:PORT or unix:PATH".into()));
        }
        let bare = text.strip_prefix(':').unwrap_or(text);
        if !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit()) {
            let port = bare.parse().map_err(|_| wrong("is not a port from 0 to 65535".into()))?;
            return Ok(Self::Inet("127.0.0.1".into(), port));
        }
        if let Some((host, "0")) = text.rsplit_once(':').filter(|(h, _)| !h.contains(':')) {
            return Ok(Self::Inet(host.into(), 0));
        }
        let to = prony_io::ConnectTo::from_str(text).map_err(wrong)?;
        Ok(Self::Inet(to.host, to.port.unwrap_or(PORT)))
    }
}
