//! Listening for associations.

use std::io;
use std::net::SocketAddr;

use super::link::{Link, Reserved};
use super::{Settings, Via, ready};
use crate::error::SetupError;

/// The port of SCTP where any will do.
const ANY_PORT: u16 = 49_151;

/// A socket that waits for associations.
#[derive(Debug)]
pub struct Listener {
    pub(super) link: Link,
    pub(super) settings: Settings,
    /// The port of SCTP.
    pub(super) port: u16,
    pub(super) reserved: Option<Reserved>,
    local: SocketAddr,
}

impl Listener {
    /// Its address, with the port of SCTP.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local.ip(), self.port)
    }

    /// How its associations are set up.
    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// What its packets come in: its port of UDP, or `None` over IP itself.
    pub fn udp_port(&self) -> Option<u16> {
        (self.settings.via == Via::Udp).then(|| self.local.port())
    }
}

/// Listen at that address and port of SCTP (0: any). `settings` say over what.
pub fn bind(at: SocketAddr, settings: Settings) -> Result<Listener, SetupError> {
    ready(&settings)?;
    open(at, settings).map_err(|error| SetupError::Listen {
        addr: match settings.via {
            Via::Udp => format!("{at} over UDP port {}", settings.udp_port),
            Via::Raw => format!("{at} over IP"),
        },
        advice: match error.kind() {
            io::ErrorKind::AddrInUse if settings.via == Via::Udp => {
                "another process has the UDP port; choose another with --sctp-udp-port, 0 for a \
                 free one"
            }
            io::ErrorKind::AddrInUse => "another process has it; choose another",
            io::ErrorKind::PermissionDenied => "ports below 1024 need rights",
            _ => "it must be an address of this machine",
        },
        error,
    })
}

fn open(at: SocketAddr, settings: Settings) -> io::Result<Listener> {
    let port = if at.port() == 0 { ANY_PORT } else { at.port() };
    let bound = Link::place(settings.via, at.ip(), settings.udp_port);
    let link = Link::open(settings.via, bound, None)?;
    let reserved = match settings.via {
        Via::Udp => None,
        Via::Raw => Some(Reserved::new(port)?),
    };
    let local = link.local()?;
    Ok(Listener { link, settings, port, reserved, local })
}
