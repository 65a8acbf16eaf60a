//! Why a load or a server cannot start, as sentences for the user.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use prony_base::units::Span;

/// Why a load or a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The resolver does not know a host name.
    #[error("host {host} does not resolve: {error}; check the name, or use an IP address")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's error message.
        error: String,
    },
    /// A host has no address of the requested family.
    #[error("host {host} has no {family} address; remove -4 or -6, or use an IP address")]
    NoAddress {
        /// The name.
        host: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
    },
    /// The source addresses belong to the other address family.
    #[error(
        "host {host} cannot be reached from the --source addresses: IPv4 and IPv6 cannot be mixed"
    )]
    SourceFamily {
        /// The name.
        host: String,
    },
    /// A source address does not belong to this machine.
    #[error(
        "source address {source_addr} cannot be used: {error}; it must be an address of this machine"
    )]
    Source {
        /// The address.
        source_addr: IpAddr,
        /// The kernel's error.
        error: io::Error,
    },
    /// The path is too long for a unix socket address (107 bytes).
    #[error("unix socket path {} is too long; the maximum is 107 bytes", path.display())]
    UnixPath {
        /// The path.
        path: PathBuf,
    },
    /// The kernel has no SCTP.
    #[error(
        "this kernel has no SCTP ({error}): load its module (modprobe sctp, as root), or use \
         prony's own SCTP: --sctp udp (the other side must use SCTP over UDP, too) or --sctp raw"
    )]
    NoSctp {
        /// The kernel's error.
        error: io::Error,
    },
    /// Nothing decides the steps of a directed plan.
    #[error(
        "a program decided what the sessions of this plan do, and that is not part of the plan: run \
         it from Python, with its users"
    )]
    NoDirector,
    /// The plan's requests are those of a log, and nothing reads it.
    #[error("the requests of this plan are those of a log; run it with prony replay LOG --to URL")]
    NoFeed,
    /// Userspace SCTP cannot be used.
    #[error(transparent)]
    Userspace(#[from] Refusal),
    /// The limit of open files is too low for the connections.
    #[error(
        "{asked} connections exceed the limit of {limit} open files, which allows {fit}; raise the \
         limit (ulimit -n) or use fewer connections"
    )]
    Descriptors {
        /// Connections requested.
        asked: u64,
        /// Connections that fit.
        fit: u64,
        /// The current limit.
        limit: u64,
    },
    /// Too few local ports for the connections.
    #[error(
        "{asked} connections exceed the {fit} local ports available towards the target; use several \
         --source addresses or widen net.ipv4.ip_local_port_range"
    )]
    Ports {
        /// Connections requested.
        asked: u64,
        /// Connections that fit.
        fit: u64,
    },
    /// The agreed start is in the past.
    #[error(
        "the start instant passed {passed} before this shard was ready: nothing was sent; agree on \
         a later instant (--start-at)"
    )]
    StartPassed {
        /// How long ago it was.
        passed: Span,
    },
    /// The process may not use a core.
    #[error("cannot pin a worker to core {core}: {error}; remove --pin")]
    Pin {
        /// The core.
        core: usize,
        /// The kernel's error.
        error: io::Error,
    },
    /// The real-time scheduler is not permitted.
    #[error(
        "cannot use the real-time scheduler: {0}; remove --realtime, or get the permission (ulimit -r \
         1, or CAP_SYS_NICE)"
    )]
    Realtime(io::Error),
    /// The kernel does not support this kind of socket.
    #[error("this kernel cannot open the sockets for {to}: {error}; use another transport")]
    Lacks {
        /// The target.
        to: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// The kernel refuses a socket option, or sets another value.
    #[error("{option} cannot be used: {reason}")]
    SocketOption {
        /// The command-line option.
        option: &'static str,
        /// The kernel's error and advice for the user.
        reason: String,
    },
    /// The kernel cannot take timestamps.
    #[error(transparent)]
    Unstamped(#[from] Unstamped),
    /// io_uring was requested but is not available.
    #[error("io_uring cannot be used here: {reason}; use --driver epoll or auto")]
    Uring {
        /// What is missing.
        reason: String,
    },
    /// The kernel refused to create the event loop.
    #[error("the kernel refused to create the event loop: {0}")]
    Driver(io::Error),
    /// The kernel refused to start a thread.
    #[error("the kernel refused to start a worker thread: {0}; use fewer with --threads")]
    Thread(io::Error),
    /// The kernel refused to listen on an address.
    #[error("cannot listen on {addr}: {error}; {advice}")]
    Listen {
        /// The address.
        addr: String,
        /// The kernel's error.
        error: io::Error,
        /// Advice for the user.
        advice: &'static str,
    },
    /// All workers panicked.
    #[error("all workers panicked; this is a bug in prony, please report it")]
    Died,
}

/// Why userspace SCTP cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The kernel has SCTP, too, and would reply to the same packets.
    #[error(
        "--sctp raw cannot be used while the kernel has SCTP, because both would reply to the same \
         packets: use --sctp kernel, or unload its module (rmmod sctp, as root)"
    )]
    RawBesideKernel,
    /// The process may not open raw sockets.
    #[error(
        "--sctp raw needs a raw socket, but the kernel refuses it: {0}; run prony as root or with \
         CAP_NET_RAW, or use --sctp udp"
    )]
    Raw(io::Error),
    /// The minimum retransmission timeout exceeds the maximum.
    #[error("--rto-min of {min} ms is above --rto-max of {max} ms; the defaults are 1s and 60s")]
    RtoLimits {
        /// The lower limit, in ms.
        min: u32,
        /// The upper limit, in ms.
        max: u32,
    },
    /// A message is too long.
    #[error(
        "a message of {size} bytes is too long: prony's own SCTP carries at most {max} bytes; use \
         shorter messages, or --sctp kernel"
    )]
    TooLong {
        /// Bytes requested.
        size: u32,
        /// The longest message, in bytes.
        max: u32,
    },
    /// Several addresses were given for one side of an association.
    #[error(
        "an association of prony's own SCTP has one path: use one address of {what}, or --sctp \
         kernel"
    )]
    OnePath {
        /// The side with several addresses.
        what: &'static str,
    },
}

/// Why the kernel cannot take timestamps.
#[derive(Debug, thiserror::Error)]
pub enum Unstamped {
    /// The kernel takes no timestamps on this kind of socket.
    #[error(
        "the kernel takes no timestamps of packets to {to} over {over}; remove --timestamps, or use \
         TCP or UDP"
    )]
    Socket {
        /// The target.
        to: String,
        /// The transport.
        over: &'static str,
    },
    /// The kernel takes no timestamps at all.
    #[error("this kernel cannot take timestamps (SO_TIMESTAMPING: {0}); remove --timestamps")]
    Kernel(io::Error),
}
