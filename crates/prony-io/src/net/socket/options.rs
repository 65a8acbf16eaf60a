//! Socket options that the user requests, and the values that the kernel sets.
//!
//! The options are set on every socket without checking the result. Before the run, [`check`] tests
//! on one socket of the same kind whether the kernel sets them.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};

use super::sctp::Rto;
use super::{Mode, Remote, option, set_option};
use crate::error::SetupError;

/// Options of sockets for connections. The defaults change nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Whether every close resets the connection, which leaves no port in TIME_WAIT.
    pub reset: bool,
    /// The size of the kernel's send buffer, in bytes; `None` = kernel default.
    pub send_buffer: Option<u32>,
    /// The size of the kernel's receive buffer, in bytes; `None` = kernel default.
    pub recv_buffer: Option<u32>,
    /// Whether TCP may delay small segments (Nagle's algorithm).
    pub nagle: bool,
    /// The type-of-service byte of packets; `None` = kernel default.
    pub tos: Option<u8>,
    /// How long the kernel polls the device before it sleeps, in microseconds.
    pub busy_poll_us: Option<u32>,
    /// Whether to use the local ports from 1024 to 65535 in turn.
    pub all_ports: bool,
    /// The local port, for a load with a single connection; 0 = the kernel chooses.
    pub port: u16,
    /// SCTP's retransmission timeouts.
    pub rto: Rto,
    /// Settings of userspace SCTP; `None` = the kernel's SCTP. Other transports ignore it.
    pub userspace: Option<Settings>,
}

/// What carries the packets of userspace SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// UDP datagrams.
    Udp,
    /// IP, as for the kernel's SCTP.
    Raw,
}

/// Settings of userspace SCTP's associations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What carries the packets.
    pub via: Via,
    /// The peer's UDP port, or a listener's own, where 0 = a free one.
    pub udp_port: u16,
    /// This side's retransmission timeouts.
    pub rto: Rto,
}

/// The value that the kernel has set, or its error.
type SetValue = Result<libc::c_int, io::Error>;

/// Set the requested options on a new socket.
pub(crate) fn apply(fd: RawFd, options: &SocketOptions) {
    if options.nagle {
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 0);
    }
    if let Some(tos) = options.tos {
        set_option(fd, libc::IPPROTO_IP, libc::IP_TOS, libc::c_int::from(tos));
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::c_int::from(tos));
    }
    if let Some(us) = options.busy_poll_us {
        set_option(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, int(us));
    }
    for (name, size) in
        [(libc::SO_SNDBUF, options.send_buffer), (libc::SO_RCVBUF, options.recv_buffer)]
    {
        if let Some(size) = size {
            set_option(fd, libc::SOL_SOCKET, name, int(size));
        }
    }
}

/// Check that the kernel sets the options on sockets for this address. Returns sentences about
/// values that the kernel limits without an error.
///
/// # Errors
/// The kernel refuses an option, or sets a value that would invalidate the figures.
pub(crate) fn check(remote: &Remote, options: &SocketOptions) -> Result<Vec<String>, SetupError> {
    // If there is no such socket, connecting will report it.
    let Ok(fd) = remote.socket(None, Mode::NonBlocking) else { return Ok(Vec::new()) };
    check_on(fd.as_raw_fd(), remote, options)
}

fn check_on(
    fd: RawFd,
    remote: &Remote,
    options: &SocketOptions,
) -> Result<Vec<String>, SetupError> {
    if let (Some(tos), Some(to)) = (options.tos, remote.as_inet()) {
        let (level, name) = match to.is_ipv6() {
            true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            false => (libc::IPPROTO_IP, libc::IP_TOS),
        };
        check_tos(tos, set_and_read(fd, level, name, libc::c_int::from(tos)))?;
    }
    if let Some(us) = options.busy_poll_us {
        check_busy_poll(int(us), set_and_read(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, int(us)))?;
    }
    let buffers = [
        ("send", libc::SO_SNDBUF, "wmem_max", options.send_buffer),
        ("recv", libc::SO_RCVBUF, "rmem_max", options.recv_buffer),
    ];
    let mut remarks = Vec::new();
    for (which, name, limit, size) in buffers {
        if let Some(size) = size {
            remarks.extend(check_buffer(
                which,
                limit,
                size,
                set_and_read(fd, libc::SOL_SOCKET, name, int(size)),
            ));
        }
    }
    Ok(remarks)
}

fn check_tos(requested: u8, result: SetValue) -> Result<(), SetupError> {
    let reason = match result {
        Ok(set) if set == libc::c_int::from(requested) => return Ok(()),
        Ok(set) => format!(
            "the kernel sets {set} instead of {requested}, because TCP uses the two lowest bits; use \
             a multiple of 4"
        ),
        Err(e) => format!("{e}; remove the option, or use another transport"),
    };
    Err(SetupError::SocketOption { option: "--tos", reason })
}

fn check_busy_poll(requested: libc::c_int, result: SetValue) -> Result<(), SetupError> {
    let reason = match result {
        Ok(set) if set == requested => return Ok(()),
        Ok(set) => {
            format!("the kernel sets {set} us instead of {requested} us; use a shorter time")
        }
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => format!(
            "{e}: more than net.core.busy_read requires CAP_NET_ADMIN; run as root, raise that \
             limit, or remove the option"
        ),
        Err(e) => format!("{e}: this kernel does not support busy polling; remove the option"),
    };
    Err(SetupError::SocketOption { option: "--busy-poll", reason })
}

/// The kernel doubles the requested size to have room for its own data, and applies its limits
/// without an error.
fn check_buffer(which: &str, limit: &str, requested: u32, result: SetValue) -> Option<String> {
    let got = i64::from(result.ok()?) / 2;
    if got < i64::from(requested) {
        return Some(format!(
            "The kernel limits --{which}-buffer {requested} to {got} bytes (net.core.{limit})."
        ));
    }
    (got > i64::from(requested)).then(|| {
        format!("The kernel raises --{which}-buffer {requested} to its minimum of {got} bytes.")
    })
}

fn set_and_read(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> SetValue {
    set_option(fd, level, name, value).ok_or_else(io::Error::last_os_error)?;
    let mut set: libc::c_int = 0;
    option(fd, level, name, &mut set).ok_or_else(io::Error::last_os_error)?;
    Ok(set)
}

/// The kernel's values are signed 32-bit integers.
fn int(n: u32) -> libc::c_int {
    libc::c_int::try_from(n).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use prony_plan::target::Carrier;

    use super::*;

    fn remote(to: &str) -> Remote {
        Remote::inet(to.parse().unwrap())
    }

    fn get(fd: RawFd, level: libc::c_int, name: libc::c_int) -> libc::c_int {
        let mut value = 0;
        option(fd, level, name, &mut value).unwrap();
        value
    }

    #[test]
    fn refuses_values_that_the_kernel_does_not_set() {
        let message = |r: Result<(), SetupError>| r.unwrap_err().to_string();
        let all = remote("127.0.0.1:1");
        let not_settable = SocketOptions { tos: Some(17), ..SocketOptions::default() };
        assert!(message(check(&all, &not_settable).map(drop)).contains("sets 16 instead of 17"));
        assert!(check(&all.over(Carrier::Udp), &not_settable).is_ok(), "UDP uses all bits");
        let refused = check_busy_poll(50, Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert!(message(refused).contains("CAP_NET_ADMIN"));
        let none = check_busy_poll(50, Err(io::Error::from_raw_os_error(libc::ENOPROTOOPT)));
        assert!(message(none).contains("busy polling"));
    }

    #[test]
    fn reports_limited_buffer_sizes() {
        let huge = SocketOptions { recv_buffer: Some(1 << 30), ..SocketOptions::default() };
        let remarks = check(&remote("127.0.0.1:1"), &huge).unwrap();
        assert!(remarks[0].contains("net.core.rmem_max"), "{remarks:?}");
        let tiny = SocketOptions { send_buffer: Some(1), ..SocketOptions::default() };
        let remarks = check(&remote("127.0.0.1:1"), &tiny).unwrap();
        assert!(remarks[0].contains("to its minimum"), "{remarks:?}");
        let usual = SocketOptions { send_buffer: Some(65_536), ..SocketOptions::default() };
        assert!(check(&remote("[::1]:1"), &usual).unwrap().is_empty());
    }

    #[test]
    fn busy_poll_is_set_or_refused() {
        let all = remote("127.0.0.1:1");
        let options = SocketOptions { busy_poll_us: Some(50), ..SocketOptions::default() };
        if let Err(e) = check(&all, &options) {
            assert!(e.to_string().starts_with("--busy-poll cannot be used: "), "{e}");
            return;
        }
        let fd = all.socket(None, Mode::NonBlocking).unwrap();
        apply(fd.as_raw_fd(), &options);
        assert_eq!(get(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BUSY_POLL), 50);
    }

    #[test]
    fn sockets_get_the_requested_options() {
        let options = SocketOptions {
            nagle: true,
            tos: Some(184),
            send_buffer: Some(40_000),
            recv_buffer: Some(50_000),
            ..SocketOptions::default()
        };
        for (to, level, name) in [
            ("127.0.0.1:1", libc::IPPROTO_IP, libc::IP_TOS),
            ("[::1]:1", libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        ] {
            let stream = remote(to);
            for remote in [stream.clone(), stream.over(Carrier::Udp)] {
                let socket = remote.socket(None, Mode::NonBlocking).unwrap();
                let fd = socket.as_raw_fd();
                apply(fd, &options);
                assert_eq!(get(fd, level, name), 184, "{to}");
                assert_eq!(get(fd, libc::SOL_SOCKET, libc::SO_SNDBUF), 80_000, "{to}");
                assert_eq!(get(fd, libc::SOL_SOCKET, libc::SO_RCVBUF), 100_000, "{to}");
                if remote.is_plain_stream() {
                    assert_eq!(get(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), 0, "{to}");
                }
            }
        }
    }
}
