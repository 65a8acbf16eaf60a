//! A stateless responder for datagrams: one socket, one thread.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{RecvFlags, recvfrom};

use crate::error::SetupError;
use crate::net::socket::waits;

/// The maximum size of a datagram.
const LONGEST: usize = 65_536;

/// A bound socket.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    local: SocketAddr,
    ended: AtomicBool,
}

/// What a responder has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Datagrams with a reply.
    pub answered: u64,
    /// Datagrams without a reply, because they were invalid.
    pub refused: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
}

impl Datagrams {
    /// Listen on this address; port 0 = a free one.
    pub fn bind(at: SocketAddr) -> Result<Self, SetupError> {
        let open = || {
            let socket = UdpSocket::bind(at)?;
            let local = socket.local_addr()?;
            Ok(Self { socket, local, ended: AtomicBool::new(false) })
        };
        open().map_err(|error: io::Error| SetupError::Listen {
            addr: at.to_string(),
            advice: match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another process uses it; choose another, or port 0 for a free one"
                }
                io::ErrorKind::PermissionDenied => {
                    "ports below 1024 require root or CAP_NET_BIND_SERVICE"
                }
                _ => "it must be an address of this machine",
            },
            error,
        })
    }

    /// The local address, with the chosen port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Make [`respond`](Self::respond) return: soon if it is running, else as soon as it is called.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        waits::end_reads(&self.socket);
    }

    /// Reply to datagrams until [`end`](Self::end). `answer` appends a reply and returns true, or
    /// returns false for no reply. Waits without a timeout, which would cost a timer per datagram.
    pub fn respond(&self, answer: &mut dyn FnMut(&[u8], &mut Vec<u8>) -> bool) -> Answered {
        let mut done = Answered::default();
        let mut buffer = vec![0; LONGEST];
        let mut out = Vec::with_capacity(LONGEST);
        while !self.ended.load(Ordering::Relaxed) {
            // An error here (no sender, or the receiver of the last reply is gone) affects at most
            // one datagram. `end` causes a read without a sender.
            let received = recvfrom(&self.socket, &mut buffer, RecvFlags::empty());
            let Ok((n, _, Some(from))) = received else { continue };
            let Ok(from) = SocketAddr::try_from(from) else { continue };
            let data = &buffer[..n];
            done.bytes_in += n as u64;
            out.clear();
            if !answer(data, &mut out) {
                done.refused += 1;
            } else if let Ok(sent) = self.socket.send_to(&out, from) {
                done.answered += 1;
                done.bytes_out += sent as u64;
            }
        }
        done
    }
}
