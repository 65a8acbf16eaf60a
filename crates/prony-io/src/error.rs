//! Why something cannot start, in whole sentences.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// Why a load (or a server) cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A name is unknown.
    #[error("host {host} does not resolve: {error}; check the name, or give an address")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's words.
        error: String,
    },
    /// A name has no address of the wanted family.
    #[error("host {host} has no {family} address; leave out -4 or -6, or give an address")]
    NoAddress {
        /// The name.
        host: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
    },
    /// The source addresses are of the other family.
    #[error("host {host} cannot be reached from the --source addresses: IPv4 and IPv6 do not mix")]
    SourceFamily {
        /// The name.
        host: String,
    },
    /// A source address is not this machine's.
    #[error(
        "source address {source_addr} cannot be used: {error}; it must be one of this machine's"
    )]
    Source {
        /// The address.
        source_addr: IpAddr,
        /// The kernel's words.
        error: io::Error,
    },
    /// The kernel takes paths of at most 107 bytes.
    #[error("unix socket path {} is too long; the kernel takes at most 107 bytes", path.display())]
    UnixPath {
        /// The path.
        path: PathBuf,
    },
    /// The kernel cannot make sockets of that kind.
    #[error(
        "this kernel has no SCTP ({error}): load its module (modprobe sctp, as root), or take the \
         SCTP that prony brings along: --sctp udp (the other side must have it over UDP, too) or \
         --sctp raw"
    )]
    NoSctp {
        /// The kernel's words.
        error: io::Error,
    },
    /// SCTP without the kernel's cannot do that, or not here.
    #[error(transparent)]
    Userspace(#[from] Refusal),
    /// More connections than descriptors.
    #[error(
        "{asked} connections need more than the limit of {limit} open files, under which {fit} \
         fit; raise it (ulimit -n) or ask for fewer"
    )]
    Descriptors {
        /// Connections asked for.
        asked: u64,
        /// Connections that fit.
        fit: u64,
        /// The limit in force.
        limit: u64,
    },
    /// More connections than local ports.
    #[error(
        "{asked} connections need more than the {fit} local ports there are towards the target; \
         give several --source addresses or widen net.ipv4.ip_local_port_range"
    )]
    Ports {
        /// Connections asked for.
        asked: u64,
        /// Connections that fit.
        fit: u64,
    },
    /// A core that may not be used.
    #[error("cannot keep a worker on core {core}: {error}; leave out --pin")]
    Pin {
        /// The core.
        core: usize,
        /// The kernel's words.
        error: io::Error,
    },
    /// The real-time scheduler is not permitted.
    #[error(
        "the real-time scheduler cannot be had: {0}; leave out --realtime, or get the right to it \
         (ulimit -r 1, or CAP_SYS_NICE)"
    )]
    Realtime(io::Error),
    /// The kernel has no sockets of that kind.
    #[error("this kernel cannot open the sockets for {to}: {error}; take another transport")]
    Lacks {
        /// Where they were to go.
        to: String,
        /// The kernel's words.
        error: io::Error,
    },
    /// The kernel does not do as its sockets are told.
    #[error("{option} cannot be had: {reason}")]
    SocketOption {
        /// The option, as it is typed.
        option: &'static str,
        /// What the kernel says, and what to do.
        reason: String,
    },
    /// There are no time stamps.
    #[error(transparent)]
    Unstamped(#[from] Unstamped),
    /// io_uring is asked for but cannot be had.
    #[error("io_uring cannot be used here: {reason}; take --driver epoll or auto")]
    Uring {
        /// What is missing.
        reason: String,
    },
    /// The kernel refused what every driver needs.
    #[error("the kernel refused to set up the event loop: {0}")]
    Driver(io::Error),
    /// The kernel refused a thread.
    #[error("the kernel refused a worker thread: {0}; ask for fewer with --threads")]
    Thread(io::Error),
    /// An address cannot be listened on.
    #[error("cannot listen on {addr}: {error}; {advice}")]
    Listen {
        /// The address.
        addr: String,
        /// The kernel's words.
        error: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// No worker came back.
    #[error("all workers died of a defect in prony itself; please report it")]
    Died,
}

/// Why SCTP without the kernel's cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The kernel has SCTP, too.
    #[error(
        "--sctp raw cannot be used where the kernel has SCTP, which answers the same packets: take \
         --sctp kernel, or unload its module (rmmod sctp, as root)"
    )]
    RawBesideKernel,
    /// No right to speak IP without the kernel.
    #[error(
        "--sctp raw needs a raw socket, which cannot be had: {0}; run it as root or with \
         CAP_NET_RAW, or take --sctp udp"
    )]
    Raw(io::Error),
    /// Retransmission timeouts that cannot be.
    #[error(
        "--rto-min of {min} ms is above --rto-max of {max} ms; without them they are 1s and 60s"
    )]
    RtoLimits {
        /// The lower limit, in ms.
        min: u32,
        /// The upper limit, in ms.
        max: u32,
    },
    /// A message that is too long.
    #[error(
        "a message of {size} bytes is too long: without the kernel, SCTP carries at most {max} \
         here; ask for less, or take --sctp kernel"
    )]
    TooLong {
        /// Bytes asked for.
        size: u32,
        /// The most.
        max: u32,
    },
    /// Several addresses where there can be one.
    #[error(
        "without the kernel, an association has one path: name one address of {what}, or take \
         --sctp kernel"
    )]
    OnePath {
        /// Whose addresses.
        what: &'static str,
    },
}

/// Why there are no time stamps.
#[derive(Debug, thiserror::Error)]
pub enum Unstamped {
    /// The kernel notes no times of such sockets.
    #[error(
        "the kernel notes no times of what goes to {to} over {over}; leave out --timestamps, or \
         take TCP or UDP"
    )]
    Socket {
        /// Where they were to go.
        to: String,
        /// Over what.
        over: &'static str,
    },
    /// The kernel notes no times at all.
    #[error("this kernel cannot note times (SO_TIMESTAMPING: {0}); leave out --timestamps")]
    Kernel(io::Error),
}
