//! The way in for a server: listeners bound with clear errors, then a machine run on them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use prony_core::machine::Machine;
use prony_core::summary::Meter;
use prony_core::units::{Nanos, Span};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::control::Control;
use super::crew::Crew;
use super::options::Options;
use crate::drivers::Driver;
use crate::drivers::config::{Config, DriverChoice, Watched};
use crate::drivers::desk::Desk;
use crate::drivers::userspace::{self, Userspace};
use crate::error::SetupError;
use crate::host::{cpu, limits};
use crate::net::errno;
use crate::net::socket::Mode;
use crate::net::socket::options::SocketOptions;
use crate::net::socket::sctp::{self, Rto, Style, Tuning};
use crate::time::clock::Clock;
use crate::time::sleep::Precision;

/// Connections that may wait to be accepted; the kernel lowers it to net.core.somaxconn.
const BACKLOG: i32 = 65_535;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address and a port; port 0 = a free one.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
    /// An address and a port of Multipath TCP.
    Mptcp(SocketAddr),
    /// Addresses of one host, all with one port, of SCTP.
    Sctp {
        /// What kind of socket.
        style: Style,
        /// The addresses; at least one.
        addrs: Vec<SocketAddr>,
        /// This side's retransmission timeouts.
        rto: Rto,
    },
    /// A unix socket that keeps the boundaries of messages.
    UnixSeqpacket(PathBuf),
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    local: Listen,
}

/// A server's machine after its run.
#[derive(Debug)]
pub struct Served<M> {
    /// The machine.
    pub machine: M,
    /// What its worker did.
    pub meter: Meter,
    /// The driver's name.
    pub driver: &'static str,
}

impl Listener {
    /// Where it listens, with the port that was free.
    pub fn local(&self) -> &Listen {
        &self.local
    }

    fn cuts_packets(&self) -> bool {
        matches!(self.local, Listen::UnixSeqpacket(_))
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(a) | Self::Mptcp(a) => write!(f, "{a}"),
            Self::Sctp { addrs, .. } => {
                let port = addrs.first().map_or(0, SocketAddr::port);
                let all: Vec<_> = addrs.iter().map(|a| a.ip().to_string()).collect();
                write!(f, "{}:{port}", all.join(","))
            }
            Self::Unix(p) | Self::UnixSeqpacket(p) => write!(f, "{}", p.display()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listen::Unix(path) | Listen::UnixSeqpacket(path) = &self.local {
            // It was made by `bind`; that it is gone already is fine.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Listen there.
pub fn bind(listen: &Listen) -> Result<Listener, SetupError> {
    open(listen).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another process has it; choose another, or port 0 for a free one"
            }
            io::ErrorKind::PermissionDenied => "ports below 1024 and foreign folders need rights",
            io::ErrorKind::AddrNotAvailable => "it must be an address of this machine",
            io::ErrorKind::NotFound => "the folder must exist",
            _ if errno::lacks(&error) && matches!(listen, Listen::Sctp { .. }) => {
                "this kernel has no SCTP; load its module (modprobe sctp, as root), or take prony's \
                 own: --sctp udp or --sctp raw"
            }
            _ if errno::lacks(&error) => "this kernel has no such sockets; take another transport",
            _ => "choose another address",
        };
        SetupError::Listen { addr: listen.to_string(), error, advice }
    })
}

fn open(listen: &Listen) -> io::Result<Listener> {
    if let Listen::Sctp { style, addrs, rto } = listen {
        return open_sctp(*style, addrs, *rto);
    }
    let (domain, addr) = match listen {
        Listen::Tcp(a) | Listen::Mptcp(a) => (Domain::for_address(*a), SockAddr::from(*a)),
        Listen::Unix(p) | Listen::UnixSeqpacket(p) => (Domain::UNIX, SockAddr::unix(p)?),
        Listen::Sctp { .. } => return Err(io::ErrorKind::Unsupported.into()),
    };
    let (ty, protocol) = match listen {
        Listen::Tcp(_) | Listen::Unix(_) | Listen::Sctp { .. } => (Type::STREAM, None),
        Listen::Mptcp(_) => (Type::STREAM, Some(Protocol::MPTCP)),
        Listen::UnixSeqpacket(_) => (Type::SEQPACKET, None),
    };
    let socket = Socket::new(domain, ty, protocol)?;
    if let Listen::Tcp(_) | Listen::Mptcp(_) = listen {
        socket.set_reuse_address(true)?;
        // Accepted sockets inherit it.
        socket.set_tcp_nodelay(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&addr)?;
    socket.listen(BACKLOG)?;
    let local = match (listen, socket.local_addr()?.as_socket()) {
        (Listen::Tcp(_), Some(a)) => Listen::Tcp(a),
        (Listen::Mptcp(_), Some(a)) => Listen::Mptcp(a),
        _ => listen.clone(),
    };
    Ok(Listener { socket: socket.into(), local })
}

fn open_sctp(style: Style, addrs: &[SocketAddr], rto: Rto) -> io::Result<Listener> {
    let tuning = Tuning { nagle: false, rto };
    let socket = sctp::listen(style, addrs, Mode::NonBlocking, &tuning)?;
    let addrs = sctp::local_addrs(socket.as_raw_fd(), 0)?;
    Ok(Listener { socket, local: Listen::Sctp { style, addrs, rto } })
}

/// Run the machines, one worker each, on the listeners, which they share, until each is finished.
/// Of the options, threads and what concerns outgoing connections mean nothing here. `show(machine,
/// now)` is called by each worker at most every 50 ms. A worker that panicked is missing from the
/// result.
pub fn serve<M: Machine + Send>(
    machines: Vec<M>,
    listeners: &[Listener],
    options: &Options,
    control: &Control,
    show: &(dyn Fn(&M, Nanos) + Sync),
) -> Result<Vec<Served<M>>, SetupError> {
    work(machines, None, listeners, options, control, show)
}

/// The same, where each of `attendants` has one client of a stream at a time for itself, in a
/// thread of its own, if no driver is asked for by name: its next message is awaited in the read
/// itself. What is left of the attendants' machines is the second part of the result.
pub fn serve_at_desks<M: Machine + Send, A: Machine + Send>(
    machines: Vec<M>,
    attendants: Vec<A>,
    listeners: &[Listener],
    options: &Options,
    control: &Control,
    show: &(dyn Fn(&M, Nanos) + Sync),
) -> Result<(Vec<Served<M>>, Vec<A>), SetupError> {
    let desk = Arc::new(Desk::default());
    let wanted = options.driver == DriverChoice::Auto;
    thread::scope(|scope| {
        let threads: Vec<_> = attendants
            .into_iter()
            .filter(|_| wanted)
            .map(|mut machine| {
                let desk = &desk;
                scope.spawn(move || {
                    desk.attend(&mut machine);
                    machine
                })
            })
            .collect();
        // The scope waits for them, whatever happens here.
        let _open = Open(&desk);
        let served = work(machines, wanted.then_some(&desk), listeners, options, control, show);
        desk.close();
        let attended = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        Ok((served?, attended))
    })
}

/// A desk that is closed in any case.
struct Open<'a>(&'a Desk);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn work<M: Machine + Send>(
    machines: Vec<M>,
    desk: Option<&Arc<Desk>>,
    listeners: &[Listener],
    options: &Options,
    control: &Control,
    show: &(dyn Fn(&M, Nanos) + Sync),
) -> Result<Vec<Served<M>>, SetupError> {
    limits::raise_descriptors();
    let mut configs = Vec::new();
    for _ in &machines {
        let shared = listeners.iter().map(|l| l.socket.try_clone()).collect::<io::Result<_>>();
        configs.push(Config {
            endpoints: Vec::new(),
            listeners: shared.map_err(SetupError::Driver)?,
            desk: desk.cloned(),
            sources: Vec::new(),
            sockets: SocketOptions::default(),
            worker: (0, 1),
            precision: options.precision,
            tcp_info: options.tcp_info,
            timestamps: false,
        });
    }
    let crew = Crew {
        control,
        driver: match options.driver {
            // Not measured to be faster for a server.
            DriverChoice::Auto => DriverChoice::Epoll,
            // The ring reads into buffers of its own, in which packets would be cut.
            _ if listeners.iter().any(Listener::cuts_packets) => DriverChoice::Epoll,
            chosen => chosen,
        },
        cores: if options.pin { cpu::allowed() } else { Vec::new() },
        realtime: options.realtime,
    };
    let machines: Vec<_> = machines.into_iter().map(|m| std::sync::Mutex::new(Some(m))).collect();
    let take = |i: usize| {
        let mut slot = machines[i].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slot.take().expect("each worker takes its machine once")
    };
    let done = crew.work(configs, &take, &|_, m, now, _| show(m, now), None)?;
    let served = done.into_iter().flatten();
    let served: Vec<_> =
        served.map(|d| Served { machine: d.machine, meter: d.meter, driver: d.driver }).collect();
    if served.is_empty() { Err(SetupError::Died) } else { Ok(served) }
}

/// Run a machine on a listener for SCTP without the kernel's, whose index is 0 to it, until it is
/// finished. `show` is called about every 50 ms.
pub fn serve_associations<M: Machine>(
    mut machine: M,
    listener: userspace::Listener,
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
    let settings = listener.settings();
    let mut driver = Userspace::new(config, settings).map_err(SetupError::Driver)?;
    driver.listen(listener, 0).map_err(SetupError::Driver)?;
    let mut pulse = |m: &mut M, now: Nanos, _spun: Span| show(m, now);
    let mut watched = Watched { machine: &mut machine, pulse: &mut pulse };
    let mut driver = Driver::Userspace(Box::new(driver));
    driver.run(&mut watched, Clock::starting_now(), control.stop_flag());
    Ok(machine)
}
