//! Listening sockets of userspace SCTP.

use std::io;
use std::net::SocketAddr;

use super::packet_socket::{PacketSocket, ReservedPort};
use super::{Settings, Via, ready};
use crate::error::SetupError;

/// The SCTP port for port 0, or over IP the highest that is free among this many.
const ANY_PORT: u16 = 49_151;
const ANY_PORTS: u16 = 100;

/// A socket that accepts associations.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: PacketSocket,
    pub(super) settings: Settings,
    /// The SCTP port.
    pub(super) port: u16,
    pub(super) reserved: Option<ReservedPort>,
    local: SocketAddr,
}

impl Listener {
    /// Its address, with the SCTP port.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local.ip(), self.port)
    }

    /// The settings of its associations.
    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// Its UDP port, or `None` over IP.
    pub fn udp_port(&self) -> Option<u16> {
        (self.settings.via == Via::Udp).then(|| self.local.port())
    }
}

/// Listen on this address and SCTP port (0: any), over UDP or IP as in `settings`.
pub fn bind(at: SocketAddr, settings: Settings) -> Result<Listener, SetupError> {
    ready(&settings)?;
    open(at, settings).map_err(|error| SetupError::Listen {
        addr: match settings.via {
            Via::Udp => format!("{at} over UDP port {}", settings.udp_port),
            Via::Raw => format!("{at} over IP"),
        },
        advice: match error.kind() {
            io::ErrorKind::AddrInUse if settings.via == Via::Udp => {
                "another process uses the UDP port; choose another with --sctp-udp-port, or 0 for a \
                 free one"
            }
            io::ErrorKind::AddrInUse => "another process uses it; choose another",
            io::ErrorKind::PermissionDenied => "ports below 1024 require root or CAP_NET_BIND_SERVICE",
            _ => "it must be an address of this machine",
        },
        error,
    })
}

fn open(at: SocketAddr, settings: Settings) -> io::Result<Listener> {
    let bound = PacketSocket::address(settings.via, at.ip(), settings.udp_port);
    let socket = PacketSocket::open(settings.via, bound, None)?;
    let ports = if at.port() == 0 { (ANY_PORT, ANY_PORTS) } else { (at.port(), 1) };
    let (port, reserved) = match settings.via {
        Via::Udp => (ports.0, None),
        Via::Raw => reserve(ports)?,
    };
    let local = socket.local()?;
    Ok(Listener { socket, settings, port, reserved, local })
}

/// Reserve the first free one of this many ports, in descending order.
fn reserve((first, many): (u16, u16)) -> io::Result<(u16, Option<ReservedPort>)> {
    let mut last = io::ErrorKind::AddrInUse.into();
    for port in (0..many).map_while(|below| first.checked_sub(below)) {
        match ReservedPort::new(port) {
            Ok(reserved) => return Ok((port, Some(reserved))),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => last = e,
            Err(e) => return Err(e),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_passed_over() {
        // The ports of other tests are higher.
        let first = 40_000 + std::process::id() as u16 % 5_000;
        let (port, one) = reserve((first, 100)).expect("one of a hundred is free");
        let (next, two) = reserve((port, 100)).expect("one of a hundred is free");
        assert!(next < port && next > port - 100, "{next} after {port}");
        let error = reserve((port, 1)).expect_err("in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop((one, two));
        assert_eq!(reserve((port, 1)).expect("free again").0, port);
    }
}
