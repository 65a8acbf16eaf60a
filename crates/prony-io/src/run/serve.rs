//! Entry points of servers: bind listeners, then run a machine on them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use prony_base::machine::Machine;
use prony_base::meter::WorkerStats;
use prony_base::units::{Nanos, Span};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::control::Control;
use super::crew::Crew;
use super::options::Options;
use crate::drivers::Driver;
use crate::drivers::config::{Config, DriverChoice, Watched};
use crate::drivers::dedicated::DedicatedThreads;
use crate::drivers::userspace::{self, Userspace};
use crate::error::SetupError;
use crate::host::{cpu, limits};
use crate::net::errno;
use crate::net::socket::Mode;
use crate::net::socket::options::SocketOptions;
use crate::net::socket::sctp::{self, Rto, Style, Tuning};
use crate::time::clock::Clock;
use crate::time::sleep::Precision;

/// The listen backlog; the kernel limits it to net.core.somaxconn.
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
    /// SCTP addresses of one host, all with the same port.
    Sctp {
        /// The style of the socket.
        style: Style,
        /// The addresses; at least one.
        addrs: Vec<SocketAddr>,
        /// This side's retransmission timeouts.
        rto: Rto,
    },
    /// A unix socket with message boundaries.
    UnixSeqpacket(PathBuf),
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    local: Listen,
}

/// The result of a server's worker.
#[derive(Debug)]
pub struct Served<M> {
    /// The machine.
    pub machine: M,
    /// The worker's statistics.
    pub meter: WorkerStats,
    /// The driver's name.
    pub driver: &'static str,
}

impl Listener {
    /// The local address, with the chosen port.
    pub fn local(&self) -> &Listen {
        &self.local
    }

    fn needs_whole_packets(&self) -> bool {
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
            // `bind` created it; ignore if it is gone already.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Listen on this address.
pub fn bind(listen: &Listen) -> Result<Listener, SetupError> {
    open(listen).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another process uses it; choose another, or port 0 for a free one"
            }
            io::ErrorKind::PermissionDenied => {
                "ports below 1024 and directories of other users require permission"
            }
            io::ErrorKind::AddrNotAvailable => "it must be an address of this machine",
            io::ErrorKind::NotFound => "the directory must exist",
            _ if errno::is_unsupported(&error) && matches!(listen, Listen::Sctp { .. }) => {
                "this kernel has no SCTP; load its module (modprobe sctp, as root), or use prony's \
                 own: --sctp udp or --sctp raw"
            }
            _ if errno::is_unsupported(&error) => {
                "this kernel does not support such sockets; use another transport"
            }
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

/// Run the machines, one worker each, on the shared listeners, until each is finished. Ignores the
/// options for threads and outgoing connections. Each worker calls `show(machine, now)` at most
/// every 50 ms. Workers that panicked are missing from the result.
pub fn serve<M: Machine + Send>(
    machines: Vec<M>,
    listeners: &[Listener],
    options: &Options,
    control: &Control,
    show: &(dyn Fn(&M, Nanos) + Sync),
) -> Result<Vec<Served<M>>, SetupError> {
    work(machines, None, listeners, options, control, show)
}

/// Like [`serve`], but each of `dedicated_machines` serves one stream client at a time in its own
/// thread with blocking reads, unless the options select a driver. The second part of the result
/// are the machines of those threads.
pub fn serve_with_threads<M: Machine + Send, A: Machine + Send>(
    machines: Vec<M>,
    dedicated_machines: Vec<A>,
    listeners: &[Listener],
    options: &Options,
    control: &Control,
    show: &(dyn Fn(&M, Nanos) + Sync),
) -> Result<(Vec<Served<M>>, Vec<A>), SetupError> {
    let dedicated = Arc::new(DedicatedThreads::default());
    let wanted = options.driver == DriverChoice::Auto;
    thread::scope(|scope| {
        let threads: Vec<_> = dedicated_machines
            .into_iter()
            .filter(|_| wanted)
            .map(|mut machine| {
                let dedicated = &dedicated;
                scope.spawn(move || {
                    dedicated.serve(&mut machine);
                    machine
                })
            })
            .collect();
        // The scope waits for the threads, so close in every case.
        let _close = CloseOnDrop(&dedicated);
        let served =
            work(machines, wanted.then_some(&dedicated), listeners, options, control, show);
        dedicated.close();
        let finished = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        Ok((served?, finished))
    })
}

/// Closes the threads when dropped.
struct CloseOnDrop<'a>(&'a DedicatedThreads);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn work<M: Machine + Send>(
    machines: Vec<M>,
    dedicated: Option<&Arc<DedicatedThreads>>,
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
            dedicated: dedicated.cloned(),
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
            // Measurements show no advantage of io_uring for a server.
            DriverChoice::Auto => DriverChoice::Epoll,
            // The ring's buffers would truncate packets.
            _ if listeners.iter().any(Listener::needs_whole_packets) => DriverChoice::Epoll,
            chosen => chosen,
        },
        cores: if options.pin { cpu::allowed() } else { Vec::new() },
        realtime: options.realtime,
        start_at: None,
        timed: true,
    };
    let machines: Vec<_> = machines.into_iter().map(|m| std::sync::Mutex::new(Some(m))).collect();
    let take = |i: usize| {
        let mut slot = machines[i].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slot.take().expect("each worker takes its machine once")
    };
    let done = crew.work(configs, &take, |m| m, &|_, m, now, _| show(m, now), None)?;
    let served = done.into_iter().flatten();
    let served: Vec<_> =
        served.map(|d| Served { machine: d.machine, meter: d.meter, driver: d.driver }).collect();
    if served.is_empty() { Err(SetupError::Died) } else { Ok(served) }
}

/// Run a machine on a listener of userspace SCTP, with listener index 0, until it is finished.
/// Calls `show` about every 50 ms.
pub fn serve_associations<M: Machine>(
    mut machine: M,
    listener: userspace::Listener,
    control: &Control,
    show: &dyn Fn(&M, Nanos),
) -> Result<M, SetupError> {
    let config = Config {
        endpoints: Vec::new(),
        listeners: Vec::new(),
        dedicated: None,
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
    let mut watched = Watched { owner: &mut machine, machine: |m| m, pulse: &mut pulse };
    let mut driver = Driver::Userspace(Box::new(driver));
    driver.run(&mut watched, Clock::starting_now(), control.stop_flag());
    Ok(machine)
}
