//! Listening for associations, and the way in for a server of them.

use std::io;
use std::net::SocketAddr;

use prony_core::machine::Machine;
use prony_core::units::Nanos;

use super::link::{Link, Reserved};
use super::{Settings, Userspace, Via, ready};
use crate::clock::Clock;
use crate::control::Control;
use crate::driver::Config;
use crate::error::SetupError;
use crate::sleep::Precision;
use crate::sock::options::SocketOptions;

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

/// Run a machine on the listener, whose index is 0 to it, until it is finished. `show` is called
/// about every 50 ms.
pub fn serve<M: Machine>(
    mut machine: M,
    listener: Listener,
    control: &Control,
    show: &dyn Fn(&M, Nanos),
) -> Result<M, SetupError> {
    let config = Config {
        endpoints: Vec::new(),
        listeners: Vec::new(),
        desk: None,
        sources: Vec::new(),
        sockets: SocketOptions::default(),
        worker: (0, 1),
        precision: Precision::Sleep,
        tcp_info: false,
        timestamps: false,
    };
    let settings = listener.settings;
    let mut driver = Userspace::new(config, settings).map_err(SetupError::Driver)?;
    driver.listen(listener, 0).map_err(SetupError::Driver)?;
    driver.run(&mut machine, Clock::starting_now(), control, &mut |m, now, _| show(m, now));
    Ok(machine)
}
