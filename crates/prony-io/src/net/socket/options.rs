//! What users ask of the kernel for their sockets, and what it makes of that.
//!
//! It is set on every socket without a look at the answer. Whether the kernel does as it is told is
//! found out once, on a socket of the same kind, before the run.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};

use super::sctp::Rto;
use super::{Mode, Remote, option, set_option};
use crate::error::SetupError;

/// How sockets for connections are made, beyond the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Whether every close resets the connection, which leaves no port in TIME_WAIT.
    pub reset: bool,
    /// The kernel's buffer for what is sent, in bytes; `None` = as it likes.
    pub send_buffer: Option<u32>,
    /// The kernel's buffer for what has arrived, in bytes.
    pub recv_buffer: Option<u32>,
    /// Whether TCP may hold small segments back (Nagle's algorithm).
    pub nagle: bool,
    /// The type-of-service byte of packets; `None` = as the kernel has it.
    pub tos: Option<u8>,
    /// For how long the kernel polls the device before it sleeps, in microseconds.
    pub busy_poll_us: Option<u32>,
    /// Whether local ports are taken from 1024 to 65535 one after another.
    pub all_ports: bool,
    /// The one local port of all connections, which is for a single one; 0 = the kernel's choice.
    pub port: u16,
    /// SCTP's retransmission timeouts.
    pub rto: Rto,
    /// Whose SCTP it is: `None` = the kernel's. Endpoints of other transports take no notice.
    pub userspace: Option<Settings>,
}

/// How the packets of userspace SCTP go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// In datagrams of UDP.
    Udp,
    /// Over IP itself, as the kernel's do.
    Raw,
}

/// How associations of userspace SCTP are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How packets go.
    pub via: Via,
    /// The peer's port of UDP; a listener's own, where 0 is a free one.
    pub udp_port: u16,
    /// This side's retransmission timeouts.
    pub rto: Rto,
}

/// The kernel's answer to a wish: whether it was taken, and what is set now.
type Answer = Result<libc::c_int, io::Error>;

/// Set what was asked for on a new socket.
pub(crate) fn apply(fd: RawFd, wish: &SocketOptions) {
    if wish.nagle {
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 0);
    }
    if let Some(tos) = wish.tos {
        set_option(fd, libc::IPPROTO_IP, libc::IP_TOS, libc::c_int::from(tos));
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::c_int::from(tos));
    }
    if let Some(us) = wish.busy_poll_us {
        set_option(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, int(us));
    }
    for (name, size) in [(libc::SO_SNDBUF, wish.send_buffer), (libc::SO_RCVBUF, wish.recv_buffer)] {
        if let Some(size) = size {
            set_option(fd, libc::SOL_SOCKET, name, int(size));
        }
    }
}

/// Whether the kernel does so on sockets for that address; what it does otherwise without refusing
/// it, in whole sentences.
///
/// # Errors
/// It refuses, or does something else that would make the figures another's.
pub(crate) fn check(remote: &Remote, wish: &SocketOptions) -> Result<Vec<String>, SetupError> {
    // That there is none is met, and told, where connections are made.
    let Ok(fd) = remote.socket(None, Mode::NonBlocking) else { return Ok(Vec::new()) };
    answers(fd.as_raw_fd(), remote, wish)
}

fn answers(fd: RawFd, remote: &Remote, wish: &SocketOptions) -> Result<Vec<String>, SetupError> {
    if let (Some(tos), Some(to)) = (wish.tos, remote.as_inet()) {
        let (level, name) = match to.is_ipv6() {
            true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            false => (libc::IPPROTO_IP, libc::IP_TOS),
        };
        tos_is(tos, ask(fd, level, name, libc::c_int::from(tos)))?;
    }
    if let Some(us) = wish.busy_poll_us {
        busy_poll_is(int(us), ask(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, int(us)))?;
    }
    let buffers = [
        ("send", libc::SO_SNDBUF, "wmem_max", wish.send_buffer),
        ("recv", libc::SO_RCVBUF, "rmem_max", wish.recv_buffer),
    ];
    let mut notes = Vec::new();
    for (which, name, limit, size) in buffers {
        if let Some(size) = size {
            notes.extend(buffer_is(which, limit, size, ask(fd, libc::SOL_SOCKET, name, int(size))));
        }
    }
    Ok(notes)
}

fn tos_is(asked: u8, answer: Answer) -> Result<(), SetupError> {
    let reason = match answer {
        Ok(set) if set == libc::c_int::from(asked) => return Ok(()),
        Ok(set) => format!(
            "the kernel makes {set} of {asked}, because TCP has the two lowest bits for itself; \
             take a multiple of 4"
        ),
        Err(e) => format!("{e}; leave it out, or take another transport"),
    };
    Err(SetupError::SocketOption { option: "--tos", reason })
}

fn busy_poll_is(asked: libc::c_int, answer: Answer) -> Result<(), SetupError> {
    let reason = match answer {
        Ok(set) if set == asked => return Ok(()),
        Ok(set) => format!("the kernel makes {set} us of {asked} us; ask for less"),
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => format!(
            "{e}: more than net.core.busy_read takes the right CAP_NET_ADMIN; run as root, raise \
             that limit, or leave it out"
        ),
        Err(e) => format!("{e}: this kernel does not poll; leave it out"),
    };
    Err(SetupError::SocketOption { option: "--busy-poll", reason })
}

/// The kernel doubles what is asked for, to have room for its own accounts, and keeps within its
/// limits without a word.
fn buffer_is(which: &str, limit: &str, asked: u32, answer: Answer) -> Option<String> {
    let got = i64::from(answer.ok()?) / 2;
    if got < i64::from(asked) {
        return Some(format!(
            "Of --{which}-buffer {asked} the kernel gives {got} bytes (net.core.{limit})."
        ));
    }
    (got > i64::from(asked)).then(|| {
        format!("The kernel has no buffer under {got} bytes for --{which}-buffer {asked}.")
    })
}

fn ask(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> Answer {
    set_option(fd, level, name, value).ok_or_else(io::Error::last_os_error)?;
    let mut set: libc::c_int = 0;
    option(fd, level, name, &mut set).ok_or_else(io::Error::last_os_error)?;
    Ok(set)
}

/// The kernel's numbers end at 2^31.
fn int(n: u32) -> libc::c_int {
    libc::c_int::try_from(n).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use prony_core::target::Carrier;

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
    fn what_cannot_be_is_refused_in_a_sentence() {
        let said = |r: Result<(), SetupError>| r.unwrap_err().to_string();
        let all = remote("127.0.0.1:1");
        let odd = SocketOptions { tos: Some(17), ..SocketOptions::default() };
        assert!(said(check(&all, &odd).map(drop)).contains("makes 16 of 17"));
        assert!(check(&all.over(Carrier::Udp), &odd).is_ok(), "UDP has no such business");
        let refused = busy_poll_is(50, Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert!(said(refused).contains("CAP_NET_ADMIN"));
        let none = busy_poll_is(50, Err(io::Error::from_raw_os_error(libc::ENOPROTOOPT)));
        assert!(said(none).contains("does not poll"));
    }

    #[test]
    fn buffers_beyond_the_limits_are_told() {
        let huge = SocketOptions { recv_buffer: Some(1 << 30), ..SocketOptions::default() };
        let notes = check(&remote("127.0.0.1:1"), &huge).unwrap();
        assert!(notes[0].contains("net.core.rmem_max"), "{notes:?}");
        let tiny = SocketOptions { send_buffer: Some(1), ..SocketOptions::default() };
        let notes = check(&remote("127.0.0.1:1"), &tiny).unwrap();
        assert!(notes[0].contains("no buffer under"), "{notes:?}");
        let usual = SocketOptions { send_buffer: Some(65_536), ..SocketOptions::default() };
        assert!(check(&remote("[::1]:1"), &usual).unwrap().is_empty());
    }

    #[test]
    fn polling_is_set_or_refused() {
        let all = remote("127.0.0.1:1");
        let wish = SocketOptions { busy_poll_us: Some(50), ..SocketOptions::default() };
        if let Err(e) = check(&all, &wish) {
            assert!(e.to_string().starts_with("--busy-poll cannot be had: "), "{e}");
            return;
        }
        let fd = all.socket(None, Mode::NonBlocking).unwrap();
        apply(fd.as_raw_fd(), &wish);
        assert_eq!(get(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BUSY_POLL), 50);
    }

    #[test]
    fn sockets_get_what_is_asked_for() {
        let wish = SocketOptions {
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
                apply(fd, &wish);
                assert_eq!(get(fd, level, name), 184, "{to}");
                assert_eq!(get(fd, libc::SOL_SOCKET, libc::SO_SNDBUF), 80_000, "{to}");
                assert_eq!(get(fd, libc::SOL_SOCKET, libc::SO_RCVBUF), 100_000, "{to}");
                if remote.is_usual() {
                    assert_eq!(get(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), 0, "{to}");
                }
            }
        }
    }
}
